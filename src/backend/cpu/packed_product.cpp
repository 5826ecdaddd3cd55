#include "backend/cpu/packed_product.hpp"

#include <algorithm>
#include <cstring>

#include "backend/cpu/convolution_scratch.hpp"
#include "backend/cpu/packed_kernels.hpp"
#include "core/cache_size.hpp"
#include "core/parallel.hpp"
#include "core/transpose.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// Steps for which a tile stays in registers: a panel of so many is in the second level of cache,
/// and reading and writing the sums between is a small part of the work.
constexpr int64_t kSteps = 320;
/// Multiply-adds, and values to pack or to finish, that are worth a thread.
constexpr int64_t kGrain = 65536, kPackGrain = 16384;
/// Floats of a cache line.
constexpr int64_t kLine = 16;

int64_t blocks_of(int64_t count, int64_t block) { return (count + block - 1) / block; }
int64_t round_up(int64_t count, int64_t unit) { return blocks_of(count, unit) * unit; }

/// The steps of a block, as equal as can be.
int64_t steps_of(int64_t all) {
  return blocks_of(all, std::max<int64_t>(blocks_of(all, kSteps), 1));
}

/// Rows of tiles whose factors stay in the second level of cache beside a panel.
int64_t rows_of(const PackedKernels& kernels, int64_t steps) {
  const int64_t floats = second_level_cache_bytes() / 2 / static_cast<int64_t>(sizeof(float));
  return std::max(floats / std::max<int64_t>(steps, 1) / kernels.rows, int64_t{4}) * kernels.rows;
}

/// How many ways the tiles of a product are split by rows, and each of these by panels.
struct Split {
  int64_t rows = 1, panels = 1;
};

/// The split for the threads that gives the most loaded of them the least work; among equals, the
/// one whose threads read the least.
Split split_of(int64_t rows, int64_t panels, const PackedKernels& kernels, int64_t threads) {
  Split best;
  double least = 0;
  for (int64_t by_rows = 1; by_rows <= threads; ++by_rows) {
    if (threads % by_rows != 0) continue;
    const int64_t by_panels = threads / by_rows;
    const auto tiles = static_cast<double>(blocks_of(rows, by_rows));
    const auto columns = static_cast<double>(blocks_of(panels, by_panels));
    const double read =
        tiles * static_cast<double>(kernels.rows) + columns * static_cast<double>(kernels.panel());
    const double cost = tiles * columns + 1e-4 * read;
    if (by_rows == 1 || cost < least) {
      best = {by_rows, by_panels};
      least = cost;
    }
  }
  return best;
}

/// Runs body(first tile of rows, last, first panel, last) on the threads.
template <class Body>
void each_part(int64_t rows, int64_t panels, int64_t work, const PackedKernels& kernels,
               const Body& body) {
  const int64_t team = omp_in_parallel() ? 1 : omp_get_max_threads();
  const int64_t threads = std::clamp<int64_t>(work / kGrain, 1, team);
  const Split split = split_of(rows, panels, kernels, threads);
  parallel_for(split.rows * split.panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t r = part / split.panels, p = part % split.panels;
      const int64_t first = rows * r / split.rows, last = rows * (r + 1) / split.rows;
      const int64_t from = panels * p / split.panels, to = panels * (p + 1) / split.panels;
      if (first < last && from < to) body(first, last, from, to);
    }
  });
}

/// A panel of the right factor for some steps, and its columns of the product.
struct Panel {
  const float* values;
  int64_t steps, first_column, columns;
  const float* next;  // the panel behind it, of as many values; null: none
};

/// What is added to the first sums of a tile, and what is computed with the last ones. An
/// activation comes before the summand; without one, all of the end can be added first.
struct PanelEnd {
  const float* first = nullptr;    // of the columns of the panel, whole vectors
  const float* summand = nullptr;  // with the rows of c
  const ProductEnd* last = nullptr;
};

/// Rows [first, last) of the product with a panel. `adds`: to what c holds.
void multiply_panel(const PackedKernels& kernels, const float* left, int64_t left_row,
                    int64_t first, int64_t last, const Panel& panel, float* c, int64_t c_row,
                    bool adds, const PanelEnd& end) {
  const int64_t vectors = blocks_of(panel.columns, kernels.width), half = kernels.rows / 2;
  PackedTile tile;
  tile.a_row = left_row;
  tile.b = panel.values;
  tile.steps = panel.steps;
  tile.c_row = tile.added_row = c_row;
  tile.last_lanes = static_cast<int>(panel.columns - (vectors - 1) * kernels.width);
  tile.first = end.first;
  tile.next = panel.next;
  int64_t lines =
      panel.next != nullptr ? blocks_of(panel.steps * vectors * kernels.width, kLine) : 0;
  for (int64_t row = first; row < last; row += kernels.rows) {
    const int64_t rows = std::min(kernels.rows, last - row);
    const int64_t at = row * c_row + panel.first_column;
    tile.a = left + (row - first) * left_row;
    tile.c = c + at;
    tile.added = adds ? tile.c : end.summand != nullptr ? end.summand + at : nullptr;
    tile.rows = static_cast<int>(rows);
    tile.next_lines = lines;
    (rows <= half ? kernels.half_tile : kernels.tile)[vectors](tile);
    const int64_t fetched = std::min(lines, panel.steps / PackedTile::kStepsOfLine);
    if (lines > 0) tile.next += fetched * kLine;
    lines -= fetched;
    if (end.last == nullptr) continue;
    PackedEnd ends{rows, panel.columns, tile.c, c_row, *end.last, c_row};
    if (ends.end.bias != nullptr) ends.end.bias += panel.first_column;
    if (ends.end.summand != nullptr) ends.end.summand += at;
    kernels.finish(ends);
  }
}

}  // namespace

PackedProduct::PackedProduct(int64_t batch, int64_t rows, int64_t columns)
    : kernels_(&packed_kernels()), batch_(batch), rows_(rows), columns_(columns) {
  if (rows <= 0 || columns <= 0)
    throw Error("a matrix of ", rows, " rows and ", columns,
                " columns cannot be packed; give it rows and columns");
  const auto form = [&](const char* how, const Right& right) {
    return DerivedWeights(
        text("panels of ", kernels_->panel(), " columns, ", steps_of(right.steps), " steps, ", how),
        static_cast<size_t>(packed_count(right)) * sizeof(float));
  };
  transposed_ = form("transposed", {true, columns, rows});
  plain_ = form("plain", {false, rows, columns});
}

int64_t PackedProduct::packed_count(const Right& right) const {
  return right.steps * round_up(right.columns, kernels_->width);
}

// (block of steps, panel, step, column): each block has all panels, of which the last one may have
// fewer vectors.
void PackedProduct::pack(const Right& right, const float* from, float* to) const {
  const int64_t panel = kernels_->panel(), panels = blocks_of(right.columns, panel);
  const int64_t block = steps_of(right.steps), blocks = blocks_of(right.steps, block);
  const int64_t padded = round_up(right.columns, kernels_->width);
  parallel_for(panels * blocks, kPackGrain / (panel * block) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t step = item / panels * block, column = item % panels * panel;
      const int64_t steps = std::min(block, right.steps - step);
      const int64_t width = std::min(panel, padded - column);
      const int64_t there = std::min(panel, right.columns - column);
      float* const at = to + step * padded + column * steps;
      if (right.transposed) {
        if (there < width) std::fill_n(at, steps * width, 0.0F);
        transpose(reinterpret_cast<const uint32_t*>(from + column * right.steps + step),
                  right.steps, reinterpret_cast<uint32_t*>(at), width, there, steps);
        continue;
      }
      const float* row = from + step * right.columns + column;
      for (int64_t k = 0; k < steps; ++k, row += right.columns) {
        std::memcpy(at + k * width, row, static_cast<size_t>(there) * sizeof(float));
        std::fill(at + k * width + there, at + (k + 1) * width, 0.0F);
      }
    }
  });
}

const float* PackedProduct::packed(const Right& right, const PackedMatrix& matrix,
                                   DerivedWeights& kept) {
  if (matrix.storage == nullptr) {
    float* const to = convolution_scratch(ConvolutionScratch::packed, packed_count(right));
    pack(right, matrix.values, to);
    return to;
  }
  return static_cast<const float*>(kept.get(
      *matrix.storage, [&](void* to) { pack(right, matrix.values, static_cast<float*>(to)); }));
}

void PackedProduct::multiply(const Right& right, const float* a, const float* packed, float* out,
                             const ProductEnd& end) const {
  const PackedKernels& kernels = *kernels_;
  const int64_t panel = kernels.panel(), panels = blocks_of(right.columns, panel);
  const int64_t block = steps_of(right.steps);
  const int64_t padded = round_up(right.columns, kernels.width);
  const int64_t some_rows = rows_of(kernels, block);
  const bool activates = end.activation != ProductEnd::Activation::none;
  // Tiles read whole vectors.
  const float* biases = end.bias;
  if (biases != nullptr && !activates && padded > right.columns) {
    float* const whole = convolution_scratch(ConvolutionScratch::sums, padded);
    std::copy_n(end.bias, right.columns, whole);
    std::fill(whole + right.columns, whole + padded, 0.0F);
    biases = whole;
  }
  each_part(blocks_of(batch_, kernels.rows), panels, batch_ * right.steps * right.columns, kernels,
            [&](int64_t first_tile, int64_t last_tile, int64_t first_panel, int64_t last_panel) {
              const int64_t stop = std::min(last_tile * kernels.rows, batch_);
              for (int64_t row = first_tile * kernels.rows; row < stop; row += some_rows) {
                const int64_t last = std::min(row + some_rows, stop);
                for (int64_t step = 0; step < right.steps; step += block) {
                  const int64_t steps = std::min(block, right.steps - step);
                  for (int64_t p = first_panel; p < last_panel; ++p) {
                    const float* const values = packed + step * padded + p * panel * steps;
                    // The next panel may be narrower; what lies behind it is then fetched too.
                    const float* const next = p + 1 < last_panel ? values + panel * steps : nullptr;
                    const Panel part{values, steps, p * panel,
                                     std::min(panel, right.columns - p * panel), next};
                    PanelEnd ending;
                    if (activates) {
                      if (step + steps == right.steps) ending.last = &end;
                    } else if (step == 0) {
                      if (biases != nullptr) ending.first = biases + p * panel;
                      ending.summand = end.summand;
                    }
                    multiply_panel(kernels, a + row * right.steps + step, right.steps, row, last,
                                   part, out, right.columns, step > 0, ending);
                  }
                }
              }
            });
}

void PackedProduct::times_transposed(const float* a, const PackedMatrix& matrix, float* out,
                                     const ProductEnd& end) {
  const Right right{true, columns_, rows_};
  multiply(right, a, packed(right, matrix, transposed_), out, end);
}

void PackedProduct::times(const float* a, const PackedMatrix& matrix, float* out,
                          const ProductEnd& end) {
  const Right right{false, rows_, columns_};
  multiply(right, a, packed(right, matrix, plain_), out, end);
}

size_t PackedProduct::packed_bytes(bool transposed) const {
  return (transposed ? transposed_ : plain_).bytes();
}

void PackedProduct::plan_scratch(ScratchPlan& plan, bool transposed, bool packs) const {
  const Right right = transposed ? Right{true, columns_, rows_} : Right{false, rows_, columns_};
  need_scratch(plan, ConvolutionScratch::sums, round_up(right.columns, kernels_->width), 1);
  if (packs) need_scratch(plan, ConvolutionScratch::packed, packed_count(right), 1);
}

void finish_product(int64_t rows, int64_t columns, float* c, const ProductEnd& end) {
  if (!end.any()) return;
  parallel_for(rows, kPackGrain / std::max<int64_t>(columns, 1) + 1,
               [&](int64_t begin, int64_t last) {
                 PackedEnd part{last - begin, columns, c + begin * columns, columns, end, columns};
                 if (end.summand != nullptr) part.end.summand += begin * columns;
                 packed_kernels().finish(part);
               });
}

}  // namespace crema
