#include "backend/cpu/thin_product.hpp"

#include <algorithm>

#include "backend/cpu/thin_kernels.hpp"
#include "core/parallel.hpp"
#include "core/transpose.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// Columns of the rows that stay in cache while they meet all rows of the matrix. Longer runs along
/// its rows are no faster.
constexpr int64_t kChunk = 1024;
/// Floats of what stays in cache while all rows of the matrix pass by: a part of the second level.
constexpr int64_t kCachedFloats = 65536;
/// Columns that are dealt out to threads together for packing: a part of a chunk.
constexpr int64_t kPackedColumns = 64;
/// Values to pack, and multiply-adds, that are worth a thread.
constexpr int64_t kPackGrain = 8192, kGrain = 65536;

int64_t blocks_of(int64_t count, int64_t block) { return (count + block - 1) / block; }
int64_t round_up(int64_t count, int64_t unit) { return blocks_of(count, unit) * unit; }

/// As transpose(), which moves bits.
void transpose_floats(const float* from, int64_t from_stride, float* to, int64_t to_stride,
                      int64_t rows, int64_t columns) {
  transpose(reinterpret_cast<const uint32_t*>(from), from_stride, reinterpret_cast<uint32_t*>(to),
            to_stride, rows, columns);
}

/// Runs body(begin, end) for ranges of [0, count) that are multiples of `unit` but for the last.
/// An index takes `work` operations, of which `grain` are worth a thread.
template <class Body>
void deal_out(int64_t count, int64_t unit, int64_t work, int64_t grain, const Body& body) {
  parallel_for(
      blocks_of(count, unit), grain / std::max<int64_t>(unit * work, 1) + 1,
      [&](int64_t first, int64_t last) { body(first * unit, std::min(last * unit, count)); });
}

}  // namespace

ThinProduct::ThinProduct(int64_t batch, int64_t rows, int64_t columns, int threads)
    : kernels_(&thin_kernels()), batch_(batch), rows_(rows), columns_(columns), threads_(threads) {
  if (columns <= 0)
    throw Error("a product with a matrix of ", rows, " rows and ", columns,
                " columns has nothing to sum; give it columns");
  chunk_ = round_up(std::clamp<int64_t>(kCachedFloats / std::max<int64_t>(batch, 1), 1, columns),
                    2 * kThinLine);
  packed_rows_ = round_up(rows, kernels_->rows);
  const int64_t transposed =
      batch <= ThinKernels::kFew ? 0 : (columns + packed_rows_) * round_up(batch, kThinLine);
  const int64_t plain = (packed_rows_ + threads * chunk_) * batch;
  const int64_t outer = (packed_rows_ + round_up(columns, kThinLine)) * batch;
  scratch_.reshape({std::max({transposed, plain, outer})});
}

void ThinProduct::times_transposed(const float* a, const float* matrix, float* out) {
  const ThinKernels& kernels = *kernels_;
  if (batch_ > 0 && batch_ <= ThinKernels::kFew) {
    deal_out(rows_, ThinKernels::kFewRows, batch_ * columns_, kGrain,
             [&](int64_t first, int64_t last) {
               kernels.few_dots[batch_]({batch_, last - first, columns_, columns_}, a,
                                        matrix + first * columns_, out + first, rows_);
             });
    return;
  }
  const int64_t lanes = round_up(batch_, kernels.width);
  float* const packed = scratch_.overwrite<float>();  // for each chunk: (panel, column, lane)
  float* const sums = packed + columns_ * lanes;      // (row, lane)
  deal_out(columns_, kPackedColumns, batch_, kPackGrain, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; c += kPackedColumns) {
      const int64_t chunk = c / kChunk * kChunk, length = std::min(kChunk, columns_ - chunk);
      const int64_t columns = std::min(kPackedColumns, last - c);
      for (int64_t lane = 0; lane < batch_; lane += 2 * kernels.width) {
        const int64_t panel = std::min(2 * kernels.width, lanes - lane);
        const int64_t there = std::min(panel, batch_ - lane);
        float* const to = packed + chunk * lanes + lane * length + (c - chunk) * panel;
        if (there < panel) std::fill_n(to, columns * panel, 0.0F);
        transpose_floats(a + lane * columns_ + c, columns_, to, panel, there, columns);
      }
    }
  });
  deal_out(rows_, kernels.rows, batch_ * columns_, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t begin = 0; begin < columns_; begin += kChunk) {
      kernels.dots({batch_, last - first, std::min(kChunk, columns_ - begin), columns_},
                   packed + begin * lanes, matrix + first * columns_ + begin, begin > 0,
                   sums + first * lanes);
    }
    transpose_floats(sums + first * lanes, lanes, out + first, rows_, last - first, batch_);
  });
}

void ThinProduct::times(const float* a, const float* matrix, float* out) {
  const ThinKernels& kernels = *kernels_;
  float* const packed = scratch_.overwrite<float>();
  float* const all_sums = packed + packed_rows_ * batch_;
  deal_out(rows_, kernels.rows, batch_, kPackGrain, [&](int64_t first, int64_t last) {
    kernels.pack_rows(a + first, rows_, batch_, last - first, packed + first * batch_);
  });
  // As many pieces as there is memory for sums.
  const int64_t lines = blocks_of(columns_, kThinLine);
  const int64_t pieces = std::min<int64_t>(threads_, lines);
  const auto begin_of = [&](int64_t piece) {
    return std::min(lines * piece / pieces * kThinLine, columns_);
  };
  deal_out(pieces, 1, batch_ * rows_ * columns_ / pieces, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      float* const sums = all_sums + piece * chunk_ * batch_;
      const int64_t stop = begin_of(piece + 1);
      for (int64_t begin = begin_of(piece); begin < stop; begin += chunk_) {
        const int64_t columns = std::min(chunk_, stop - begin);
        std::fill_n(sums, round_up(columns, kernels.width) * batch_, 0.0F);
        kernels.add_rows({batch_, rows_, columns, columns_}, packed, matrix + begin, sums);
        for (int64_t c = 0; c < columns; c += 2 * kernels.width) {
          const int64_t count = std::min(2 * kernels.width, columns - c);
          const int64_t strip = round_up(count, kernels.width);
          for (int64_t n = 0; n < batch_; ++n) {
            std::copy_n(sums + c * batch_ + n * strip, count, out + n * columns_ + begin + c);
          }
        }
      }
    }
  });
}

void ThinProduct::outer(const float* a, const float* b, float beta, float* matrix) {
  const ThinKernels& kernels = *kernels_;
  float* const packed_a = scratch_.overwrite<float>();
  float* const packed_b = packed_a + packed_rows_ * batch_;
  deal_out(columns_, kPackedColumns, batch_, kPackGrain, [&](int64_t first, int64_t last) {
    kernels.pack_columns(b + first, columns_, batch_, last - first, packed_b + first * batch_);
  });
  deal_out(rows_, kernels.rows, batch_ * columns_, kGrain, [&](int64_t first, int64_t last) {
    kernels.pack_rows(a + first, rows_, batch_, last - first, packed_a + first * batch_);
    for (int64_t begin = 0; begin < columns_; begin += chunk_) {
      kernels.outer({batch_, last - first, std::min(chunk_, columns_ - begin), columns_},
                    packed_a + first * batch_, packed_b + begin * batch_, beta,
                    matrix + first * columns_ + begin);
    }
  });
}

}  // namespace crema
