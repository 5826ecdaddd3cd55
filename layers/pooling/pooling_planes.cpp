// Pooling of one contiguous channel. Windows are first combined down their columns, then along the
// row, each vectorized along the row. For a stride s above 1 the row is taken apart in between:
// phase p holds its columns p, p + s, p + 2 s, ..., so that one cell of neighbouring windows is
// again a run of neighbours.
#include <vector>

#include "backend/cpu/simd.hpp"
#include "backend/cpu/vec.hpp"
#include "layers/pooling/pooling_kernels.hpp"

namespace crema {
namespace {

/// Room for the rows between input and output; each thread keeps its own.
struct Rows {
  std::vector<float> values, phase_values;
  std::vector<int32_t> cells, phase_cells;
};

Rows& rows_of_thread(const PoolingPlan& plan) {
  thread_local Rows rows;
  const PoolingAxis& x = plan.x;
  // Also as wide as the padded input, and as the phases, each rounded up.
  const auto width =
      static_cast<size_t>(std::max(x.size, (x.out - 1) * x.stride + x.kernel) + x.stride);
  if (rows.values.size() < width) {
    for (auto* row : {&rows.values, &rows.phase_values}) row->resize(width);
    for (auto* row : {&rows.cells, &rows.phase_cells}) row->resize(width);
  }
  return rows;
}

/// The runs that inner windows are made of: cell kx of window o, counted from the first inner one,
/// is at row[kx % stride * length + kx / stride + o].
template <class T>
struct Phases {
  const T* row;
  int64_t stride, length;

  [[gnu::always_inline]] const T* run(int64_t kx) const {
    return row + kx % stride * length + kx / stride;
  }
};

/// `from` has `width` elements; `room` is for the phases.
template <class T>
[[gnu::always_inline]] inline Phases<T> phases_of(const T* from, int64_t width, int64_t stride,
                                                  T* room) {
  if (stride == 1) return {from, 1, width};
  const int64_t length = (width + stride - 1) / stride;
  if (stride == 2) {
    const int64_t pairs = width / 2;
#pragma omp simd
    for (int64_t i = 0; i < pairs; ++i) {
      room[i] = from[2 * i];
      room[length + i] = from[2 * i + 1];
    }
    if (width % 2 != 0) room[pairs] = from[width - 1];
  } else {
    for (int64_t i = 0; i < width; ++i) room[i % stride * length + i / stride] = from[i];
  }
  return {room, stride, length};
}

/// Down the columns of one row of windows.
template <bool Keep>
struct MaxDown {
  const float* in;  // the first row
  int64_t rows, row_step;
  int32_t first_cell, kernel_w;
  float* values;
  int32_t* cells;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t i) const {
    Vec<float, Lanes> best = lanes<Lanes>(in + i);
    Vec<int32_t, Lanes> cell = Vec<int32_t, Lanes>{} + first_cell, chosen = cell;
    for (int64_t y = 1; y < rows; ++y) {
      const float* v = in + y * row_step + i;
      cell += kernel_w;
      const auto& value = lanes<Lanes>(v);
      const auto wins = (value > best) | (value != value);  // NaN wins and stays
      best = wins ? value : best;
      if constexpr (Keep) chosen = wins ? cell : chosen;
    }
    lanes<Lanes>(values + i) = best;
    if constexpr (Keep) lanes<Lanes>(cells + i) = chosen;
  }
};

/// Along the row, for inner windows.
template <class Choice, bool Keep>
struct MaxAlong {
  Phases<float> values;
  Phases<int32_t> cells;
  int64_t kernel;
  float* out;
  Choice* choice;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t o) const {
    Vec<float, Lanes> best = lanes<Lanes>(values.run(0) + o);
    Vec<int32_t, Lanes> chosen = {};
    if constexpr (Keep) chosen = lanes<Lanes>(cells.run(0) + o);
    for (int64_t kx = 1; kx < kernel; ++kx) {
      const float* v = values.run(kx) + o;
      const auto& value = lanes<Lanes>(v);
      const auto wins = (value > best) | (value != value);  // NaN wins and stays
      best = wins ? value : best;
      if constexpr (Keep) {
        const auto cell = lanes<Lanes>(cells.run(kx) + o) + static_cast<int32_t>(kx);
        chosen = wins ? cell : chosen;
      }
    }
    lanes<Lanes>(out + o) = best;
    if constexpr (Keep) {
      lanes<Lanes>(choice + o) = __builtin_convertvector(chosen, Vec<Choice, Lanes>);
    }
  }
};

/// A window at the border, cell by cell. Returns the choice.
[[gnu::always_inline]] inline int64_t max_of_window(const PoolingAxis& y, const PoolingAxis& x,
                                                    int64_t oy, int64_t ox, const float* in,
                                                    float& best) {
  int64_t cell = -1;
  for (int64_t iy = y.begin(oy); iy < y.end(oy); ++iy) {
    for (int64_t ix = x.begin(ox); ix < x.end(ox); ++ix) {
      const float v = in[iy * x.size + ix];
      if (cell >= 0 && !(v > best || v != v)) continue;
      best = v;
      cell = (iy - y.start(oy)) * x.kernel + ix - x.start(ox);
    }
  }
  return cell;
}

template <class Choice, bool Keep>
struct MaxPoolPlane {
  template <int Width>
  [[gnu::always_inline]] static void run(const PoolingPlan* plan, Rows* rows, const float* in,
                                         float* out, Choice* choice) {
    const PoolingAxis &y = plan->y, &x = plan->x;
    const int64_t inner = x.first_inner(), inner_end = x.last_inner();
    const int64_t width = (inner_end - inner - 1) * x.stride + x.kernel;
    float* values = rows->values.data();
    int32_t* cells = rows->cells.data();
    for (int64_t oy = 0; oy < y.out; ++oy) {
      float* to = out + oy * x.out;
      Choice* kept = Keep ? choice + oy * x.out : nullptr;
      if (inner < inner_end) {
        const int64_t iy = y.begin(oy);
        const auto first_cell = static_cast<int32_t>((iy - y.start(oy)) * x.kernel);
        const float* from = in + iy * x.size + x.start(inner);
        cover<Width>(width, MaxDown<Keep>{from, y.end(oy) - iy, x.size, first_cell,
                                          static_cast<int32_t>(x.kernel), values, cells});
        const auto value_runs = phases_of(values, width, x.stride, rows->phase_values.data());
        const auto cell_runs =
            Keep ? phases_of(cells, width, x.stride, rows->phase_cells.data()) : Phases<int32_t>{};
        cover<Width>(inner_end - inner,
                     MaxAlong<Choice, Keep>{value_runs, cell_runs, x.kernel, to + inner,
                                            Keep ? kept + inner : nullptr});
      }
      for (int64_t ox = 0; ox < x.out; ++ox) {
        if (ox >= inner && ox < inner_end) continue;
        const int64_t cell = max_of_window(y, x, oy, ox, in, to[ox]);
        if constexpr (Keep) kept[ox] = static_cast<Choice>(cell);
      }
    }
  }
};

struct SumDown {
  const float* in;
  int64_t rows, row_step;
  float* sums;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t i) const {
    Vec<float, Lanes> sum = lanes<Lanes>(in + i);
    for (int64_t y = 1; y < rows; ++y) sum += lanes<Lanes>(in + y * row_step + i);
    lanes<Lanes>(sums + i) = sum;
  }
};

struct SumAlong {
  Phases<float> sums;
  int64_t kernel;
  float share_y;
  const float* share_x;
  float* out;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t o) const {
    Vec<float, Lanes> sum = lanes<Lanes>(sums.run(0) + o);
    for (int64_t kx = 1; kx < kernel; ++kx) sum += lanes<Lanes>(sums.run(kx) + o);
    lanes<Lanes>(out + o) = sum * (lanes<Lanes>(share_x + o) * share_y);
  }
};

struct AveragePoolPlane {
  template <int Width>
  [[gnu::always_inline]] static void run(const PoolingPlan* plan, Rows* rows, const float* in,
                                         float* out) {
    const PoolingAxis &y = plan->y, &x = plan->x;
    // Sums of the padded row; those in the padding stay 0.
    float* sums = rows->values.data();
    const int64_t width = (x.out - 1) * x.stride + x.kernel;
    const int64_t columns = std::min(x.size, width - x.pad);
    std::fill_n(sums, width, 0.0F);
    for (int64_t oy = 0; oy < y.out; ++oy) {
      const int64_t iy = y.begin(oy);
      cover<Width>(columns, SumDown{in + iy * x.size, y.end(oy) - iy, x.size, sums + x.pad});
      const auto runs = phases_of(sums, width, x.stride, rows->phase_values.data());
      cover<Width>(x.out, SumAlong{runs, x.kernel, plan->share_y[static_cast<size_t>(oy)],
                                   plan->share_x.data(), out + oy * x.out});
    }
  }
};

[[gnu::always_inline]] inline void average_unpool(const PoolingPlan* plan, Rows* rows,
                                                  const float* dy, float* dx) {
  const PoolingAxis &y = plan->y, &x = plan->x;
  const float *share_y = plan->share_y.data(), *share_x = plan->share_x.data();
  float *spread = rows->values.data(), *shares = rows->phase_values.data();
  const int64_t width = (x.out - 1) * x.stride + x.kernel;
  const int64_t columns = std::min(x.size, width - x.pad);
  for (int64_t iy = 0; iy < y.size; ++iy) {
    std::fill_n(shares, x.out, 0.0F);
    for (int64_t oy = y.first_cover(iy); oy < y.last_cover(iy); ++oy) {
      const float* d = dy + oy * x.out;
#pragma omp simd
      for (int64_t o = 0; o < x.out; ++o) shares[o] += d[o] * (share_y[oy] * share_x[o]);
    }
    std::fill_n(spread, width, 0.0F);
    for (int64_t kx = 0; kx < x.kernel; ++kx) {
      float* to = spread + kx;
      if (x.stride == 1) {
#pragma omp simd
        for (int64_t o = 0; o < x.out; ++o) to[o] += shares[o];
      } else {
        for (int64_t o = 0; o < x.out; ++o) to[o * x.stride] += shares[o];
      }
    }
    float* to = dx + iy * x.size;
    std::copy_n(spread + x.pad, columns, to);
    std::fill(to + columns, to + x.size, 0.0F);
  }
}

}  // namespace

PoolingPlan::PoolingPlan(const PoolingAxis& of_y, const PoolingAxis& of_x, int64_t of_pixel,
                         bool counts_padding)
    : y(of_y), x(of_x), channels(of_pixel) {
  auto fill = [&](const PoolingAxis& axis, std::vector<float>& shares) {
    for (int64_t o = 0; o < axis.out; ++o) {
      const int64_t cells = counts_padding ? axis.padded_extent(o) : axis.extent(o);
      shares.push_back(1.0F / static_cast<float>(cells));
    }
  };
  fill(y, share_y);
  fill(x, share_x);
  for (int64_t i = 0; i < x.size; ++i) {
    first_cover.push_back(static_cast<int32_t>(x.first_cover(i)));
    last_cover.push_back(static_cast<int32_t>(x.last_cover(i)));
  }
}

template <class Choice>
void max_pool_plane(const PoolingPlan& plan, const float* in, float* out, Choice* choice) {
  Rows* rows = &rows_of_thread(plan);
  if (choice) {
    vectorized_by_width<MaxPoolPlane<Choice, true>>(&plan, rows, in, out, choice);
  } else {
    vectorized_by_width<MaxPoolPlane<Choice, false>>(&plan, rows, in, out, choice);
  }
}

template <class Choice>
void max_unpool_plane(const PoolingPlan& plan, const float* dy, const Choice* choice, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  auto place = [&](int64_t cell) { return cell / x.kernel * x.size + cell % x.kernel; };
  int64_t places[256];
  constexpr bool kByte = sizeof(Choice) == 1;
  for (int64_t cell = 0; kByte && cell < y.kernel * x.kernel; ++cell) places[cell] = place(cell);
  std::fill_n(dx, y.size * x.size, 0.0F);
  for (int64_t oy = 0; oy < y.out; ++oy) {
    for (int64_t ox = 0; ox < x.out; ++ox) {
      const int64_t o = oy * x.out + ox;
      if (choice[o] == kNone<Choice>) continue;
      const int64_t cell = kByte ? places[choice[o]] : place(choice[o]);
      dx[y.start(oy) * x.size + x.start(ox) + cell] += dy[o];
    }
  }
}

void average_pool_plane(const PoolingPlan& plan, const float* in, float* out) {
  vectorized_by_width<AveragePoolPlane>(&plan, &rows_of_thread(plan), in, out);
}

void average_unpool_plane(const PoolingPlan& plan, const float* dy, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  if (plan.outputs() == 1 && y.extent(0) == y.size && x.extent(0) == x.size) {
    std::fill_n(dx, plan.inputs(), dy[0] * (plan.share_y[0] * plan.share_x[0]));
    return;
  }
  vectorized<average_unpool>(&plan, &rows_of_thread(plan), dy, dx);
}

template void max_pool_plane(const PoolingPlan&, const float*, float*, uint8_t*);
template void max_pool_plane(const PoolingPlan&, const float*, float*, int32_t*);
template void max_unpool_plane(const PoolingPlan&, const float*, const uint8_t*, float*);
template void max_unpool_plane(const PoolingPlan&, const float*, const int32_t*, float*);

}  // namespace crema
