#include "backend/cpu/thin_product.hpp"

#include <algorithm>

#include "backend/cpu/vec.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// Rows of a tile, which is two vectors wide: its sums, or values, are 12 of 16 registers.
constexpr int64_t kTileRows = 6;
/// Floats of a cache line, and lanes of the widest vector.
constexpr int64_t kLine = 16;
/// Columns that are dealt out to threads together: whole tiles of two vectors.
constexpr int64_t kBlockColumns = 2 * kLine;
/// Columns of the rows that stay in cache while they meet all rows of the matrix. Longer runs along
/// its rows are no faster.
constexpr int64_t kChunk = 1024;
/// Floats of what stays in cache while all rows of the matrix pass by: the second level's size.
constexpr int64_t kCachedFloats = 65536;

/// Values to pack that are worth a thread.
constexpr int64_t kPackGrain = 65536;

int64_t pack_grain(int64_t values) { return kPackGrain / std::max<int64_t>(values, 1) + 1; }

int64_t blocks_of(int64_t count, int64_t block) { return (count + block - 1) / block; }

template <int64_t Unit>
[[gnu::always_inline]] inline int64_t round_up(int64_t count) {
  return (count + Unit - 1) / Unit * Unit;
}

/// Columns of a chunk that makes `batch` rows of them fill the cache.
int64_t cached_columns(int64_t batch) {
  return round_up<kBlockColumns>(std::max<int64_t>(kCachedFloats / std::max<int64_t>(batch, 1), 1));
}

// --- out = a * transposed matrix: lanes are rows of a, values of the matrix are broadcast ---

struct TransposedProduct {
  int64_t batch, rows, columns;
  const float* a;
  const float* matrix;
  float* out;
  float* packed;  // for each chunk of columns, for each panel: (column, lane)
  float* sums;    // (rows and those that fill the last tile, padded batch)
};

/// Calls op.panel<Vectors>(first lane) for panels of two vectors, the last one of one where the
/// number of vectors is odd, that cover the batch.
template <int Width, class Op>
[[gnu::always_inline]] inline void each_panel(int64_t padded_batch, const Op& op) {
  int64_t lane = 0;
  for (; lane + 2 * Width <= padded_batch; lane += 2 * Width) op.template panel<2>(lane);
  if (lane < padded_batch) op.template panel<1>(lane);
}

/// Packs chunks [first, last).
struct PackLanes {
  template <int Width>
  struct Chunk {
    const TransposedProduct* p;
    int64_t begin, length;
    float* packed;

    template <int Vectors>
    [[gnu::always_inline]] inline void panel(int64_t lane) const {
      constexpr int64_t kLanes = int64_t{Vectors} * Width;
      const int64_t filled = std::min(kLanes, p->batch - lane);
      float* const to = packed + lane * length;
      if (filled < kLanes) std::fill_n(to, length * kLanes, 0.0F);
      // A line of each row at a time: rows may lie at distances that share a set of the cache.
      for (int64_t k = 0; k < length; k += kLine) {
        const int64_t end = std::min(k + kLine, length);
        for (int64_t n = 0; n < filled; ++n) {
          const float* const from = p->a + (lane + n) * p->columns + begin;
          for (int64_t i = k; i < end; ++i) to[i * kLanes + n] = from[i];
        }
      }
    }
  };

  template <int Width>
  [[gnu::always_inline]] static inline void run(const TransposedProduct* p, int64_t first,
                                                int64_t last) {
    const int64_t padded = round_up<Width>(p->batch);
    for (int64_t begin = first * kChunk; begin < std::min(last * kChunk, p->columns);
         begin += kChunk) {
      const int64_t length = std::min(kChunk, p->columns - begin);
      each_panel<Width>(padded, Chunk<Width>{p, begin, length, p->packed + begin * padded});
    }
  }
};

/// sum (row, vector) += column k of the tile times row k of the panel.
template <int Width, int Vectors>
[[gnu::always_inline]] inline void add_column(const float* const (&rows)[kTileRows],
                                              const float* panel, int64_t k, int first,
                                              Vec<float, Width> (&sum)[kTileRows][2]) {
  Vec<float, Width> factors[Vectors];
#pragma GCC unroll 2
  for (int v = 0; v < Vectors; ++v) factors[v] = lanes<Width>(panel + (k * Vectors + v) * Width);
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) {
    const Vec<float, Width> one = rows[r][k] - Vec<float, Width>{};
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) sum[r][first + v] += one * factors[v];
  }
}

/// sums (row, vectors) = tile (row, length) * panel (length, lane), or += with `add`. Fetches
/// `ahead`, unless it is null, for later.
template <int Width, int Vectors>
[[gnu::always_inline]] inline void dot_tile(const float* tile, int64_t stride, const float* panel,
                                            int64_t length, bool add, float* sums,
                                            int64_t sums_stride, const float* ahead) {
  // A single vector has two sums, of even and of odd columns: more additions are on their way.
  constexpr int kOdd = 2 - Vectors;
  Vec<float, Width> sum[kTileRows][2] = {};
  const float* rows[kTileRows];
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) rows[r] = tile + r * stride;
  int64_t k = 0;
  for (; k + kLine <= length; k += kLine) {
    if (ahead) {
#pragma GCC unroll 6
      for (int r = 0; r < kTileRows; ++r) __builtin_prefetch(ahead + r * stride + k);
    }
#pragma GCC unroll 2
    for (int64_t i = k; i < k + kLine; i += 2) {
      add_column<Width, Vectors>(rows, panel, i, 0, sum);
      add_column<Width, Vectors>(rows, panel, i + 1, kOdd, sum);
    }
  }
  for (; k < length; ++k) add_column<Width, Vectors>(rows, panel, k, 0, sum);
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) {
    if constexpr (Vectors == 1) sum[r][0] += sum[r][1];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      Vec<float, Width>& to = lanes<Width>(sums + r * sums_stride + v * Width);
      to = add ? to + sum[r][v] : sum[r][v];
    }
  }
}

/// Computes rows [first, last) of the matrix; `first` is a multiple of the tile's.
struct DotRows {
  template <int Width>
  struct Tile {
    const float* tile;
    int64_t stride, length;
    const float* ahead;
    const float* packed;
    bool add;
    float* sums;
    int64_t padded;

    template <int Vectors>
    [[gnu::always_inline]] inline void panel(int64_t lane) const {
      dot_tile<Width, Vectors>(tile, stride, packed + lane * length, length, add, sums + lane,
                               padded, lane == 0 ? ahead : nullptr);
    }
  };

  template <int Width>
  [[gnu::always_inline]] static inline void run(const TransposedProduct* p, int64_t first,
                                                int64_t last) {
    const int64_t padded = round_up<Width>(p->batch);
    float rest[kTileRows * kChunk];  // a tile of which the matrix has only a part, and zeros
    for (int64_t begin = 0; begin < p->columns; begin += kChunk) {
      const int64_t length = std::min(kChunk, p->columns - begin);
      for (int64_t row = first; row < last; row += kTileRows) {
        const float* tile = p->matrix + row * p->columns + begin;
        int64_t stride = p->columns;
        const float* ahead = row + 2 * kTileRows <= last ? tile + kTileRows * stride : nullptr;
        const int64_t rows = std::min(kTileRows, last - row);
        if (rows < kTileRows) {
          std::fill_n(rest, kTileRows * length, 0.0F);
          for (int64_t r = 0; r < rows; ++r) {
            std::copy_n(tile + r * stride, length, rest + r * length);
          }
          tile = rest;
          stride = length;
        }
        each_panel<Width>(
            padded, Tile<Width>{tile, stride, length, ahead, p->packed + begin * padded, begin > 0,
                                p->sums + row * padded, padded});
      }
    }
    transpose(*p, padded, first, last);
  }

  /// Rows [first, last) of the sums become columns of the result.
  [[gnu::always_inline]] static inline void transpose(const TransposedProduct& p, int64_t padded,
                                                      int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row += kLine) {
      const int64_t end = std::min(row + kLine, last);
      for (int64_t n = 0; n < p.batch; ++n) {
        float* const to = p.out + n * p.rows;
        for (int64_t i = row; i < end; ++i) to[i] = p.sums[i * padded + n];
      }
    }
  }
};

// --- The two others: lanes are columns of the matrix, values of a are broadcast ---

/// packed (tile, batch, row of the tile) = a (batch, rows), for tiles [first, last); 0 for rows
/// that only fill the last tile.
void pack_rows(const float* a, int64_t batch, int64_t rows, int64_t first, int64_t last,
               float* packed) {
  for (int64_t row = first * kTileRows; row < last * kTileRows; row += kTileRows) {
    float* to = packed + row * batch;
    const int64_t count = std::min(kTileRows, rows - row);
    for (int64_t n = 0; n < batch; ++n, to += kTileRows) {
      std::copy_n(a + n * rows + row, count, to);
      std::fill_n(to + count, kTileRows - count, 0.0F);
    }
  }
}

/// Fetches the tile below this one.
template <int Width>
[[gnu::always_inline]] inline void fetch_next_tile(const float* tile, int64_t stride) {
#pragma GCC unroll 6
  for (int64_t r = kTileRows; r < 2 * kTileRows; ++r) {
    __builtin_prefetch(tile + r * stride);
    if constexpr (2 * Width > kLine) __builtin_prefetch(tile + r * stride + kLine);
  }
}

struct PlainProduct {
  int64_t batch, rows, columns;
  int64_t chunk;
  const float* packed;  // a, by pack_rows
  const float* matrix;
  float* out;
};

/// sums (batch, two vectors) += packed (batch, row) * tile (row, two vectors)
template <int Width>
[[gnu::always_inline]] inline void add_tile(const float* tile, int64_t stride, const float* packed,
                                            int64_t batch, float* sums) {
  Vec<float, Width> values[kTileRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) {
    values[r][0] = lanes<Width>(tile + r * stride);
    values[r][1] = lanes<Width>(tile + r * stride + Width);
  }
  for (int64_t n = 0; n < batch; ++n, packed += kTileRows, sums += 2 * Width) {
    Vec<float, Width> left = lanes<Width>(sums), right = lanes<Width>(sums + Width);
#pragma GCC unroll 6
    for (int r = 0; r < kTileRows; ++r) {
      const Vec<float, Width> one = packed[r] - Vec<float, Width>{};
      left += one * values[r][0];
      right += one * values[r][1];
    }
    lanes<Width>(sums) = left;
    lanes<Width>(sums + Width) = right;
  }
}

/// Computes columns [first, last), with `sums` for a chunk of them: (tile, batch, lane).
struct AddRows {
  template <int Width>
  [[gnu::always_inline]] static inline void run(const PlainProduct* p, float* sums, int64_t first,
                                                int64_t last) {
    constexpr int64_t kColumns = 2 * Width;
    float rest[kTileRows * kColumns];  // a tile of which the matrix has only a part, and zeros
    for (int64_t begin = first; begin < last; begin += p->chunk) {
      const int64_t end = std::min(begin + p->chunk, last);
      std::fill_n(sums, round_up<kColumns>(end - begin) * p->batch, 0.0F);
      for (int64_t row = 0; row < p->rows; row += kTileRows) {
        const float* packed = p->packed + row * p->batch;
        const int64_t rows = std::min(kTileRows, p->rows - row);
        const bool more = row + 2 * kTileRows <= p->rows;
        for (int64_t column = begin; column < end; column += kColumns) {
          const float* tile = p->matrix + row * p->columns + column;
          int64_t stride = p->columns;
          if (rows < kTileRows || column + kColumns > end) {
            const int64_t count = std::min(kColumns, end - column);
            std::fill_n(rest, kTileRows * kColumns, 0.0F);
            for (int64_t r = 0; r < rows; ++r) {
              std::copy_n(tile + r * stride, count, rest + r * kColumns);
            }
            tile = rest;
            stride = kColumns;
          } else if (more) {
            fetch_next_tile<Width>(tile, stride);
          }
          add_tile<Width>(tile, stride, packed, p->batch, sums + (column - begin) * p->batch);
        }
      }
      for (int64_t column = begin; column < end; column += kColumns) {
        const float* from = sums + (column - begin) * p->batch;
        const int64_t count = std::min(kColumns, end - column);
        for (int64_t n = 0; n < p->batch; ++n, from += kColumns) {
          std::copy_n(from, count, p->out + n * p->columns + column);
        }
      }
    }
  }
};

struct OuterProduct {
  int64_t batch, rows, columns;
  int64_t chunk;
  const float* packed_a;  // by pack_rows
  const float* b;
  float* packed_b;  // (tile, batch, lane)
  float beta;
  float* matrix;
};

/// Packs columns [first, last) of b.
struct PackColumns {
  template <int Width>
  [[gnu::always_inline]] static inline void run(const OuterProduct* p, int64_t first,
                                                int64_t last) {
    constexpr int64_t kColumns = 2 * Width;
    for (int64_t column = first; column < last; column += kColumns) {
      const int64_t count = std::min(kColumns, last - column);
      float* to = p->packed_b + column * p->batch;
      for (int64_t n = 0; n < p->batch; ++n, to += kColumns) {
        std::copy_n(p->b + n * p->columns + column, count, to);
        std::fill_n(to + count, kColumns - count, 0.0F);
      }
    }
  }
};

/// tile (row, two vectors) = beta * tile + transposed a (batch, row) * b (batch, two vectors).
/// Stores are ordinary ones: those that bypass the cache took half as long again.
template <int Width>
[[gnu::always_inline]] inline void outer_tile(const float* a, const float* b, int64_t batch,
                                              float beta, float* tile, int64_t stride) {
  Vec<float, Width> sum[kTileRows][2] = {};
  for (int64_t n = 0; n < batch; ++n, a += kTileRows, b += 2 * Width) {
    const Vec<float, Width> left = lanes<Width>(b), right = lanes<Width>(b + Width);
#pragma GCC unroll 6
    for (int r = 0; r < kTileRows; ++r) {
      const Vec<float, Width> one = a[r] - Vec<float, Width>{};
      sum[r][0] += one * left;
      sum[r][1] += one * right;
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      Vec<float, Width>& to = lanes<Width>(tile + r * stride + v * Width);
      to = beta == 0 ? sum[r][v] : sum[r][v] + beta * to;
    }
  }
}

/// Computes rows [first, last) of the matrix; `first` is a multiple of the tile's.
struct OuterRows {
  template <int Width>
  [[gnu::always_inline]] static inline void run(const OuterProduct* p, int64_t first,
                                                int64_t last) {
    constexpr int64_t kColumns = 2 * Width;
    float rest[kTileRows * kColumns];  // a tile of which the matrix has only a part
    for (int64_t begin = 0; begin < p->columns; begin += p->chunk) {
      const int64_t end = std::min(begin + p->chunk, p->columns);
      for (int64_t row = first; row < last; row += kTileRows) {
        const float* a = p->packed_a + row * p->batch;
        const int64_t rows = std::min(kTileRows, last - row);
        const bool more = row + 2 * kTileRows <= last;
        for (int64_t column = begin; column < end; column += kColumns) {
          const float* b = p->packed_b + column * p->batch;
          float* tile = p->matrix + row * p->columns + column;
          const int64_t count = std::min(kColumns, end - column);
          if (rows == kTileRows && count == kColumns) {
            if (more) fetch_next_tile<Width>(tile, p->columns);
            outer_tile<Width>(a, b, p->batch, p->beta, tile, p->columns);
            continue;
          }
          outer_tile<Width>(a, b, p->batch, 0, rest, kColumns);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t i = 0; i < count; ++i) {
              float& to = tile[r * p->columns + i];
              to = rest[r * kColumns + i] + (p->beta == 0 ? 0 : p->beta * to);
            }
          }
        }
      }
    }
  }
};

}  // namespace

ThinProduct::ThinProduct(int64_t batch, int64_t rows, int64_t columns, int threads)
    : batch_(batch), rows_(rows), columns_(columns), threads_(threads) {
  if (columns <= 0)
    throw Error("a product with a matrix of ", rows, " rows and ", columns,
                " columns has nothing to sum; give it columns");
  const int64_t padded_rows = round_up<kTileRows>(rows);
  const int64_t transposed = (columns + padded_rows) * round_up<kLine>(batch);
  const int64_t plain = (padded_rows + threads * cached_columns(batch)) * batch;
  const int64_t outer = (padded_rows + round_up<kBlockColumns>(columns)) * batch;
  scratch_.reshape({std::max({transposed, plain, outer})});
}

void ThinProduct::times_transposed(const float* a, const float* matrix, float* out) {
  float* const packed = scratch_.host_overwrite<float>();
  const TransposedProduct p{batch_, rows_, columns_, a,
                            matrix, out,   packed,   packed + columns_ * round_up<kLine>(batch_)};
  parallel_for(
      blocks_of(columns_, kChunk), pack_grain(kChunk * batch_),
      [&](int64_t first, int64_t last) { vectorized_by_width<PackLanes>(&p, first, last); });
  parallel_for(blocks_of(rows_, kTileRows), 1, [&](int64_t first, int64_t last) {
    vectorized_by_width<DotRows>(&p, first * kTileRows, std::min(last * kTileRows, rows_));
  });
}

void ThinProduct::times(const float* a, const float* matrix, float* out) {
  const int64_t tiles = blocks_of(rows_, kTileRows), chunk = cached_columns(batch_);
  float* const packed = scratch_.host_overwrite<float>();
  float* const sums = packed + tiles * kTileRows * batch_;
  const PlainProduct p{batch_, rows_, columns_, chunk, packed, matrix, out};
  parallel_for(tiles, pack_grain(kTileRows * batch_), [&](int64_t first, int64_t last) {
    pack_rows(a, batch_, rows_, first, last, packed);
  });
  // As many pieces as there is memory for sums.
  const int64_t blocks = blocks_of(columns_, kBlockColumns);
  const int64_t pieces = std::min<int64_t>(threads_, blocks);
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      vectorized_by_width<AddRows>(&p, sums + i * chunk * batch_,
                                   blocks * i / pieces * kBlockColumns,
                                   std::min(blocks * (i + 1) / pieces * kBlockColumns, columns_));
    }
  });
}

void ThinProduct::outer(const float* a, const float* b, float beta, float* matrix) {
  const int64_t tiles = blocks_of(rows_, kTileRows);
  float* const packed = scratch_.host_overwrite<float>();
  const OuterProduct p{batch_,
                       rows_,
                       columns_,
                       cached_columns(batch_),
                       packed,
                       b,
                       packed + tiles * kTileRows * batch_,
                       beta,
                       matrix};
  parallel_for(tiles, pack_grain(kTileRows * batch_), [&](int64_t first, int64_t last) {
    pack_rows(a, batch_, rows_, first, last, packed);
  });
  parallel_for(blocks_of(columns_, kBlockColumns), pack_grain(kBlockColumns * batch_),
               [&](int64_t first, int64_t last) {
                 vectorized_by_width<PackColumns>(&p, first * kBlockColumns,
                                                  std::min(last * kBlockColumns, columns_));
               });
  parallel_for(tiles, 1, [&](int64_t first, int64_t last) {
    vectorized_by_width<OuterRows>(&p, first * kTileRows, std::min(last * kTileRows, rows_));
  });
}

}  // namespace crema
