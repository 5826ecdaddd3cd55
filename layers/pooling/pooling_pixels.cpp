// Pooling where a pixel's channels are neighbours: vectorized over the channels.
#include "backend/cpu/simd.hpp"
#include "backend/cpu/vec.hpp"
#include "layers/pooling/pooling_kernels.hpp"

namespace crema {
namespace {

/// One window, or for backward the windows that hold one input: `rows` x `columns` pixels.
struct Patch {
  int64_t rows, columns, row_step, column_step;
};

template <class Choice, bool Keep>
struct MaxPool {
  Patch patch;
  const float* in;  // the first pixel
  int32_t first_cell, kernel_w;
  float* out;
  Choice* choice;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t c) const {
    Vec<float, Lanes> best = lanes<Lanes>(in + c);
    Vec<int32_t, Lanes> chosen = Vec<int32_t, Lanes>{} + first_cell;
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = in + y * patch.row_step + c;
      Vec<int32_t, Lanes> cell =
          Vec<int32_t, Lanes>{} + (first_cell + static_cast<int32_t>(y) * kernel_w);
      for (int64_t x = 0; x < patch.columns; ++x, v += patch.column_step) {
        const auto& value = lanes<Lanes>(v);
        const auto wins = (value > best) | (value != value);  // NaN wins and stays
        best = wins ? value : best;
        if constexpr (Keep) {
          chosen = wins ? cell : chosen;
          cell += 1;
        }
      }
    }
    lanes<Lanes>(out + c) = best;
    if constexpr (Keep) {
      lanes<Lanes>(choice + c) = __builtin_convertvector(chosen, Vec<Choice, Lanes>);
    }
  }
};

template <class Choice, bool Keep>
struct MaxPoolRow {
  template <int Width>
  [[gnu::always_inline]] static void run(const PoolingPlan* plan, int64_t oy, const float* in,
                                         float* out, Choice* choice) {
    const PoolingAxis &y = plan->y, &x = plan->x;
    const int64_t iy = y.begin(oy), channels = plan->channels, row_step = x.size * channels;
    for (int64_t ox = 0; ox < x.out; ++ox) {
      const int64_t ix = x.begin(ox), to = (oy * x.out + ox) * channels;
      const int64_t first_cell = (iy - y.start(oy)) * x.kernel + ix - x.start(ox);
      cover<Width>(channels,
                   MaxPool<Choice, Keep>{{y.end(oy) - iy, x.end(ox) - ix, row_step, channels},
                                         in + iy * row_step + ix * channels,
                                         static_cast<int32_t>(first_cell),
                                         static_cast<int32_t>(x.kernel),
                                         out + to,
                                         Keep ? choice + to : nullptr});
    }
  }
};

struct AveragePool {
  Patch patch;
  const float* in;
  float share;
  float* out;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t c) const {
    Vec<float, Lanes> sum = {};
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = in + y * patch.row_step + c;
      for (int64_t x = 0; x < patch.columns; ++x, v += patch.column_step) sum += lanes<Lanes>(v);
    }
    lanes<Lanes>(out + c) = sum * share;
  }
};

struct AveragePoolRow {
  template <int Width>
  [[gnu::always_inline]] static void run(const PoolingPlan* plan, int64_t oy, const float* in,
                                         float* out) {
    const PoolingAxis &y = plan->y, &x = plan->x;
    const int64_t iy = y.begin(oy), channels = plan->channels, row_step = x.size * channels;
    for (int64_t ox = 0; ox < x.out; ++ox) {
      const int64_t ix = x.begin(ox);
      cover<Width>(channels, AveragePool{{y.end(oy) - iy, x.end(ox) - ix, row_step, channels},
                                         in + iy * row_step + ix * channels,
                                         plan->share_y[oy] * plan->share_x[ox],
                                         out + (oy * x.out + ox) * channels});
    }
  }
};

template <class Choice>
struct MaxUnpool {
  Patch patch;           // of windows
  const float* dy;       // of the first window
  const Choice* choice;  // likewise
  // The input's cell in the first window, and how much lower it is one window down and right.
  int32_t first_cell, cell_down, cell_right;
  float* dx;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t c) const {
    Vec<float, Lanes> sum = {};
    const Vec<float, Lanes> zero = {};
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* d = dy + y * patch.row_step + c;
      const Choice* k = choice + y * patch.row_step + c;
      int32_t cell = first_cell - static_cast<int32_t>(y) * cell_down;
      for (int64_t x = 0; x < patch.columns; ++x) {
        Vec<int32_t, Lanes> chosen;
        compare_equal<Lanes>(k, cell, chosen);
        sum += chosen ? lanes<Lanes>(d) : zero;
        d += patch.column_step;
        k += patch.column_step;
        cell -= cell_right;
      }
    }
    lanes<Lanes>(dx + c) = sum;
  }
};

template <class Choice>
struct MaxUnpoolRow {
  template <int Width>
  [[gnu::always_inline]] static void run(const PoolingPlan* plan, int64_t iy, const float* dy,
                                         const Choice* choice, float* dx) {
    const PoolingAxis &y = plan->y, &x = plan->x;
    const int64_t channels = plan->channels;
    const int64_t oy = y.first_cover(iy), rows = y.last_cover(iy) - oy;
    for (int64_t ix = 0; ix < x.size; ++ix) {
      const int64_t ox = plan->first_cover[ix], from = (oy * x.out + ox) * channels;
      const int64_t first_cell = (iy - y.start(oy)) * x.kernel + ix - x.start(ox);
      cover<Width>(channels,
                   MaxUnpool<Choice>{{rows, plan->last_cover[ix] - ox, x.out * channels, channels},
                                     dy + from,
                                     choice + from,
                                     static_cast<int32_t>(first_cell),
                                     static_cast<int32_t>(y.stride * x.kernel),
                                     static_cast<int32_t>(x.stride),
                                     dx + (iy * x.size + ix) * channels});
    }
  }
};

struct AverageUnpool {
  Patch patch;  // of windows
  const float* dy;
  const float *share_y, *share_x;  // of the first window
  float* dx;

  template <int Lanes>
  [[gnu::always_inline]] void strip(int64_t c) const {
    Vec<float, Lanes> sum = {};
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* d = dy + y * patch.row_step + c;
      for (int64_t x = 0; x < patch.columns; ++x, d += patch.column_step) {
        sum += lanes<Lanes>(d) * (share_y[y] * share_x[x]);
      }
    }
    lanes<Lanes>(dx + c) = sum;
  }
};

struct AverageUnpoolRow {
  template <int Width>
  [[gnu::always_inline]] static void run(const PoolingPlan* plan, int64_t iy, const float* dy,
                                         float* dx) {
    const PoolingAxis &y = plan->y, &x = plan->x;
    const int64_t channels = plan->channels;
    const int64_t oy = y.first_cover(iy), rows = y.last_cover(iy) - oy;
    for (int64_t ix = 0; ix < x.size; ++ix) {
      const int64_t ox = plan->first_cover[ix];
      cover<Width>(channels,
                   AverageUnpool{{rows, plan->last_cover[ix] - ox, x.out * channels, channels},
                                 dy + (oy * x.out + ox) * channels,
                                 plan->share_y.data() + oy,
                                 plan->share_x.data() + ox,
                                 dx + (iy * x.size + ix) * channels});
    }
  }
};

}  // namespace

template <class Choice>
void max_pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
                  Choice* choice) {
  if (choice) {
    vectorized_by_width<MaxPoolRow<Choice, true>>(&plan, oy, in, out, choice);
  } else {
    vectorized_by_width<MaxPoolRow<Choice, false>>(&plan, oy, in, out, choice);
  }
}

template <class Choice>
void max_unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, const Choice* choice,
                    float* dx) {
  vectorized_by_width<MaxUnpoolRow<Choice>>(&plan, iy, dy, choice, dx);
}

void average_pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out) {
  vectorized_by_width<AveragePoolRow>(&plan, oy, in, out);
}

void average_unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, float* dx) {
  vectorized_by_width<AverageUnpoolRow>(&plan, iy, dy, dx);
}

template void max_pool_row(const PoolingPlan&, int64_t, const float*, float*, uint8_t*);
template void max_pool_row(const PoolingPlan&, int64_t, const float*, float*, int32_t*);
template void max_unpool_row(const PoolingPlan&, int64_t, const float*, const uint8_t*, float*);
template void max_unpool_row(const PoolingPlan&, int64_t, const float*, const int32_t*, float*);

}  // namespace crema
