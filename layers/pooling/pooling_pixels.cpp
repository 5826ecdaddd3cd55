// Pooling where a pixel's channels are neighbours: vectorized over the channels.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/pooling/pooling_pixels.cpp"
#include "backend/cpu/highway.hpp"
#include "layers/pooling/pooling_choice-inl.hpp"
#include "layers/pooling/pooling_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema {
namespace HWY_NAMESPACE {
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

  template <class D>
  HWY_INLINE void strip(D d, int64_t c) const {
    const hn::RebindToSigned<D> cells;
    auto best = hn::LoadU(d, in + c);
    auto chosen = hn::Set(cells, first_cell);
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = in + y * patch.row_step + c;
      auto cell = hn::Set(cells, first_cell + static_cast<int32_t>(y) * kernel_w);
      for (int64_t x = 0; x < patch.columns; ++x, v += patch.column_step) {
        const auto value = hn::LoadU(d, v);
        const auto wins = wins_over(value, best);
        best = hn::IfThenElse(wins, value, best);
        if constexpr (Keep) {
          chosen = hn::IfThenElse(hn::RebindMask(cells, wins), cell, chosen);
          cell = hn::Add(cell, hn::Set(cells, 1));
        }
      }
    }
    hn::StoreU(best, d, out + c);
    if constexpr (Keep) store_choice(cells, chosen, choice + c);
  }
};

template <class Choice, bool Keep>
void pool_row_of(const PoolingPlan& plan, int64_t oy, const float* in, float* out, Choice* choice) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const int64_t iy = y.begin(oy), channels = plan.channels, row_step = x.size * channels;
  for (int64_t ox = 0; ox < x.out; ++ox) {
    const int64_t ix = x.begin(ox), to = (oy * x.out + ox) * channels;
    const int64_t first_cell = (iy - y.start(oy)) * x.kernel + ix - x.start(ox);
    cover(hn::ScalableTag<float>(), channels,
          MaxPool<Choice, Keep>{{y.end(oy) - iy, x.end(ox) - ix, row_step, channels},
                                in + iy * row_step + ix * channels,
                                static_cast<int32_t>(first_cell),
                                static_cast<int32_t>(x.kernel),
                                out + to,
                                Keep ? choice + to : nullptr});
  }
}

template <class Choice>
HWY_INLINE void pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
                         Choice* choice) {
  if (choice) {
    pool_row_of<Choice, true>(plan, oy, in, out, choice);
  } else {
    pool_row_of<Choice, false>(plan, oy, in, out, choice);
  }
}
void max_pool_row_u8(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
                     uint8_t* choice) {
  pool_row(plan, oy, in, out, choice);
}
void max_pool_row_i32(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
                      int32_t* choice) {
  pool_row(plan, oy, in, out, choice);
}

struct AveragePool {
  Patch patch;
  const float* in;
  float share;
  float* out;

  template <class D>
  HWY_INLINE void strip(D d, int64_t c) const {
    auto sum = hn::Zero(d);
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = in + y * patch.row_step + c;
      for (int64_t x = 0; x < patch.columns; ++x, v += patch.column_step) {
        sum = hn::Add(sum, hn::LoadU(d, v));
      }
    }
    hn::StoreU(hn::Mul(sum, hn::Set(d, share)), d, out + c);
  }
};

void average_pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const int64_t iy = y.begin(oy), channels = plan.channels, row_step = x.size * channels;
  for (int64_t ox = 0; ox < x.out; ++ox) {
    const int64_t ix = x.begin(ox);
    cover(hn::ScalableTag<float>(), channels,
          AveragePool{{y.end(oy) - iy, x.end(ox) - ix, row_step, channels},
                      in + iy * row_step + ix * channels,
                      plan.share_y[oy] * plan.share_x[ox],
                      out + (oy * x.out + ox) * channels});
  }
}

template <class Choice>
struct MaxUnpool {
  Patch patch;           // of windows
  const float* dy;       // of the first window
  const Choice* choice;  // likewise
  // The input's cell in the first window, and how much lower it is one window down and right.
  int32_t first_cell, cell_down, cell_right;
  float* dx;

  template <class D>
  HWY_INLINE void strip(D d, int64_t c) const {
    const hn::RebindToSigned<D> cells;
    auto sum = hn::Zero(d);
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = dy + y * patch.row_step + c;
      const Choice* k = choice + y * patch.row_step + c;
      int32_t cell = first_cell - static_cast<int32_t>(y) * cell_down;
      for (int64_t x = 0; x < patch.columns; ++x) {
        const auto chosen = hn::Eq(load_choice(cells, k), hn::Set(cells, cell));
        sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(d, chosen), hn::LoadU(d, v)));
        v += patch.column_step;
        k += patch.column_step;
        cell -= cell_right;
      }
    }
    hn::StoreU(sum, d, dx + c);
  }
};

template <class Choice>
HWY_INLINE void unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy,
                           const Choice* choice, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const int64_t channels = plan.channels;
  const int64_t oy = y.first_cover(iy), rows = y.last_cover(iy) - oy;
  for (int64_t ix = 0; ix < x.size; ++ix) {
    const int64_t ox = plan.first_cover[ix], from = (oy * x.out + ox) * channels;
    const int64_t first_cell = (iy - y.start(oy)) * x.kernel + ix - x.start(ox);
    cover(hn::ScalableTag<float>(), channels,
          MaxUnpool<Choice>{{rows, plan.last_cover[ix] - ox, x.out * channels, channels},
                            dy + from,
                            choice + from,
                            static_cast<int32_t>(first_cell),
                            static_cast<int32_t>(y.stride * x.kernel),
                            static_cast<int32_t>(x.stride),
                            dx + (iy * x.size + ix) * channels});
  }
}
void max_unpool_row_u8(const PoolingPlan& plan, int64_t iy, const float* dy, const uint8_t* choice,
                       float* dx) {
  unpool_row(plan, iy, dy, choice, dx);
}
void max_unpool_row_i32(const PoolingPlan& plan, int64_t iy, const float* dy, const int32_t* choice,
                        float* dx) {
  unpool_row(plan, iy, dy, choice, dx);
}

struct AverageUnpool {
  Patch patch;  // of windows
  const float* dy;
  const float *share_y, *share_x;  // of the first window
  float* dx;

  template <class D>
  HWY_INLINE void strip(D d, int64_t c) const {
    auto sum = hn::Zero(d);
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = dy + y * patch.row_step + c;
      for (int64_t x = 0; x < patch.columns; ++x, v += patch.column_step) {
        sum = hn::MulAdd(hn::LoadU(d, v), hn::Set(d, share_y[y] * share_x[x]), sum);
      }
    }
    hn::StoreU(sum, d, dx + c);
  }
};

void average_unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const int64_t channels = plan.channels;
  const int64_t oy = y.first_cover(iy), rows = y.last_cover(iy) - oy;
  for (int64_t ix = 0; ix < x.size; ++ix) {
    const int64_t ox = plan.first_cover[ix];
    cover(hn::ScalableTag<float>(), channels,
          AverageUnpool{{rows, plan.last_cover[ix] - ox, x.out * channels, channels},
                        dy + (oy * x.out + ox) * channels,
                        plan.share_y.data() + oy,
                        plan.share_x.data() + ox,
                        dx + (iy * x.size + ix) * channels});
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {

HWY_EXPORT(max_pool_row_u8);
HWY_EXPORT(max_pool_row_i32);
HWY_EXPORT(max_unpool_row_u8);
HWY_EXPORT(max_unpool_row_i32);
HWY_EXPORT(average_pool_row);
HWY_EXPORT(average_unpool_row);

void max_pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
                  uint8_t* choice) {
  HWY_DYNAMIC_DISPATCH(max_pool_row_u8)(plan, oy, in, out, choice);
}
void max_pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
                  int32_t* choice) {
  HWY_DYNAMIC_DISPATCH(max_pool_row_i32)(plan, oy, in, out, choice);
}
void max_unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, const uint8_t* choice,
                    float* dx) {
  HWY_DYNAMIC_DISPATCH(max_unpool_row_u8)(plan, iy, dy, choice, dx);
}
void max_unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, const int32_t* choice,
                    float* dx) {
  HWY_DYNAMIC_DISPATCH(max_unpool_row_i32)(plan, iy, dy, choice, dx);
}
void average_pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(average_pool_row)(plan, oy, in, out);
}
void average_unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(average_unpool_row)(plan, iy, dy, dx);
}

}  // namespace crema
#endif
