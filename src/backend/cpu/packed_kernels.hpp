// The inner loops of PackedProduct (packed_product.hpp), in f32 by Highway.
#pragma once

#include <cstdint>

#include "backend/product_end.hpp"

namespace crema {

/// c[m][n] = first[n] + added[m][n] + sum over k of a[m * a_row + k] * b[k][n]
struct PackedTile {
  /// While it sums up, a tile fetches one cache line in so many steps.
  static constexpr int64_t kStepsOfLine = 4;

  const float* a = nullptr;
  int64_t a_row = 0;
  const float* b = nullptr;  // (steps, vectors, width)
  int64_t steps = 0;
  float* c = nullptr;
  int64_t c_row = 0;
  int rows = 0;                  // of the kernel's rows so many are there
  int last_lanes = 0;            // of a row's last vector so many floats are there
  const float* first = nullptr;  // whole vectors; null: 0
  const float* added = nullptr;  // may be c; null: 0
  int64_t added_row = 0;
  /// Memory that is read soon: it is brought into the second level of cache, as far as the steps
  /// allow.
  const float* next = nullptr;
  int64_t next_lines = 0;
};

/// The end of some rows and columns of c. Its pointers are those of the part.
struct PackedEnd {
  int64_t rows, columns;
  float* c;
  int64_t c_row;
  ProductEnd end;
  int64_t summand_row;
};

struct PackedKernels {
  static constexpr int kMostVectors = 3;

  int64_t width;    // floats of a vector
  int64_t vectors;  // of a panel
  int64_t rows;     // of a tile; half_tile has half as many
  /// By the number of vectors.
  void (*tile[kMostVectors + 1])(const PackedTile& tile);
  void (*half_tile[kMostVectors + 1])(const PackedTile& tile);
  void (*finish)(const PackedEnd& end);

  int64_t panel() const { return vectors * width; }
};

/// For the instructions that this processor has.
const PackedKernels& packed_kernels();

}  // namespace crema
