// Pooling where a pixel's channels are neighbours: vectorized over the channels.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/pooling/pooling_pixels.cpp"
#include <type_traits>

#include "backend/cpu/highway.hpp"
#include "layers/pooling/pooling_choice-inl.hpp"
#include "layers/pooling/pooling_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema {
namespace HWY_NAMESPACE {
namespace {

/// Pixels that a kernel computes at once, in registers, so that a pixel of one vector is not lost
/// in what surrounds it.
constexpr int64_t kTogether = 4;
/// Pixels of more channels are computed one by one, which is faster: they lie far apart.
constexpr int64_t kFewChannels = 32;

/// One window, or for backward the windows that hold one input: `rows` x `columns` pixels. Those of
/// the next pixel that is computed together with it are `next` further on.
struct Patch {
  int64_t rows, columns, row_step, column_step, next;
};

/// `Count` neighbouring outputs.
template <int64_t Count, class Choice, bool Keep>
struct MaxPool {
  Patch patch;
  const float* in;  // the first pixel
  int32_t first_cell, kernel_w;
  float* out;
  Choice* choice;

  template <class D>
  HWY_INLINE void strip(D d, int64_t c) const {
    const hn::RebindToSigned<D> cells;
    hn::Vec<D> best[Count];
    hn::Vec<decltype(cells)> chosen[Count];
    for (int64_t i = 0; i < Count; ++i) {
      best[i] = hn::LoadU(d, in + i * patch.next + c);
      chosen[i] = hn::Set(cells, first_cell);
    }
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = in + y * patch.row_step + c;
      auto cell = hn::Set(cells, first_cell + static_cast<int32_t>(y) * kernel_w);
      for (int64_t x = 0; x < patch.columns; ++x, v += patch.column_step) {
        for (int64_t i = 0; i < Count; ++i) {
          const auto value = hn::LoadU(d, v + i * patch.next);
          const auto wins = wins_over(value, best[i]);
          best[i] = hn::IfThenElse(wins, value, best[i]);
          if constexpr (Keep) {
            chosen[i] = hn::IfThenElse(hn::RebindMask(cells, wins), cell, chosen[i]);
          }
        }
        if constexpr (Keep) cell = hn::Add(cell, hn::Set(cells, 1));
      }
    }
    for (int64_t i = 0; i < Count; ++i) {
      const int64_t to = i * patch.column_step + c;
      hn::StoreU(best[i], d, out + to);
      if constexpr (Keep) store_choice(cells, chosen[i], choice + to);
    }
  }
};

/// Calls body(std::integral_constant, ox) for outputs ox, ... of a row until all are covered:
/// kTogether at once where their windows are whole.
template <class Body>
HWY_INLINE void each_output(const PoolingPlan& plan, const Body& body) {
  const PoolingAxis& x = plan.x;
  const bool few = plan.channels <= kFewChannels;
  const int64_t inner = x.first_inner(), inner_end = x.last_inner();
  for (int64_t ox = 0; ox < x.out;) {
    if (few && ox >= inner && ox + kTogether <= inner_end) {
      body(std::integral_constant<int64_t, kTogether>(), ox);
      ox += kTogether;
    } else {
      body(std::integral_constant<int64_t, 1>(), ox);
      ++ox;
    }
  }
}

template <class Choice, bool Keep>
void max_pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
                  Choice* choice) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const int64_t iy = y.begin(oy), channels = plan.channels, row_step = x.size * channels;
  each_output(plan, [&](auto count, int64_t ox) HWY_ATTR {
    const int64_t ix = x.begin(ox), to = (oy * x.out + ox) * channels;
    const int64_t first_cell = (iy - y.start(oy)) * x.kernel + ix - x.start(ox);
    cover(hn::ScalableTag<float>(), channels,
          MaxPool<count(), Choice, Keep>{
              {y.end(oy) - iy, x.end(ox) - ix, row_step, channels, x.stride * channels},
              in + iy * row_step + ix * channels,
              static_cast<int32_t>(first_cell),
              static_cast<int32_t>(x.kernel),
              out + to,
              Keep ? choice + to : nullptr});
  });
}

template <int64_t Count>
struct AveragePool {
  Patch patch;
  const float* in;
  float share_y;
  const float* share_x;  // of the first output
  float* out;

  template <class D>
  HWY_INLINE void strip(D d, int64_t c) const {
    hn::Vec<D> sum[Count];
    for (auto& one : sum) one = hn::Zero(d);
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = in + y * patch.row_step + c;
      for (int64_t x = 0; x < patch.columns; ++x, v += patch.column_step) {
        for (int64_t i = 0; i < Count; ++i) {
          sum[i] = hn::Add(sum[i], hn::LoadU(d, v + i * patch.next));
        }
      }
    }
    for (int64_t i = 0; i < Count; ++i) {
      const auto share = hn::Set(d, share_y * share_x[i]);
      hn::StoreU(hn::Mul(sum[i], share), d, out + i * patch.column_step + c);
    }
  }
};

void average_pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const int64_t iy = y.begin(oy), channels = plan.channels, row_step = x.size * channels;
  each_output(plan, [&](auto count, int64_t ox) HWY_ATTR {
    const int64_t ix = x.begin(ox);
    cover(hn::ScalableTag<float>(), channels,
          AveragePool<count()>{
              {y.end(oy) - iy, x.end(ox) - ix, row_step, channels, x.stride * channels},
              in + iy * row_step + ix * channels,
              plan.share_y[oy],
              plan.share_x.data() + ox,
              out + (oy * x.out + ox) * channels});
  });
}

void pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
              PoolingChoices choices) {
  if (choices.words) return max_pool_row<int32_t, true>(plan, oy, in, out, choices.words);
  if (choices.bytes) return max_pool_row<uint8_t, true>(plan, oy, in, out, choices.bytes);
  if (plan.maximum) return max_pool_row<uint8_t, false>(plan, oy, in, out, nullptr);
  average_pool_row(plan, oy, in, out);
}

/// `Count` inputs that lie a stride apart: the windows of each are those of the one before it,
/// moved on by one.
template <int64_t Count, class Choice>
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
    hn::Vec<D> sum[Count];
    for (auto& one : sum) one = hn::Zero(d);
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = dy + y * patch.row_step + c;
      const Choice* k = choice + y * patch.row_step + c;
      int32_t cell = first_cell - static_cast<int32_t>(y) * cell_down;
      for (int64_t x = 0; x < patch.columns; ++x) {
        for (int64_t i = 0; i < Count; ++i) {
          const int64_t at = i * patch.column_step;
          const auto chosen = hn::Eq(load_choice(cells, k + at), hn::Set(cells, cell));
          const auto share = hn::IfThenElseZero(hn::RebindMask(d, chosen), hn::LoadU(d, v + at));
          sum[i] = hn::Add(sum[i], share);
        }
        v += patch.column_step;
        k += patch.column_step;
        cell -= cell_right;
      }
    }
    for (int64_t i = 0; i < Count; ++i) hn::StoreU(sum[i], d, dx + i * patch.next + c);
  }
};

/// Calls body(std::integral_constant, ix) for inputs ix, ix + stride, ... of a row until all are
/// covered: kTogether at once where they have equally many windows.
template <class Body>
HWY_INLINE void each_input(const PoolingPlan& plan, const Body& body) {
  const PoolingAxis& x = plan.x;
  constexpr int64_t kMore = kTogether - 1;
  const bool few = plan.channels <= kFewChannels;
  const int64_t step = few ? x.stride : 1;
  for (int64_t phase = 0; phase < step; ++phase) {
    for (int64_t ix = phase; ix < x.size;) {
      const int64_t last = ix + kMore * step;
      if (few && last < x.size && plan.first_cover[last] == plan.first_cover[ix] + kMore &&
          plan.last_cover[last] == plan.last_cover[ix] + kMore) {
        body(std::integral_constant<int64_t, kTogether>(), ix);
        ix += kTogether * step;
      } else {
        body(std::integral_constant<int64_t, 1>(), ix);
        ix += step;
      }
    }
  }
}

template <class Choice>
HWY_INLINE void max_unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy,
                               const Choice* choice, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const int64_t channels = plan.channels;
  const int64_t oy = y.first_cover(iy), rows = y.last_cover(iy) - oy;
  each_input(plan, [&](auto count, int64_t ix) HWY_ATTR {
    const int64_t ox = plan.first_cover[ix], from = (oy * x.out + ox) * channels;
    const int64_t first_cell = (iy - y.start(oy)) * x.kernel + ix - x.start(ox);
    cover(hn::ScalableTag<float>(), channels,
          MaxUnpool<count(), Choice>{
              {rows, plan.last_cover[ix] - ox, x.out * channels, channels, x.stride * channels},
              dy + from,
              choice + from,
              static_cast<int32_t>(first_cell),
              static_cast<int32_t>(y.stride * x.kernel),
              static_cast<int32_t>(x.stride),
              dx + (iy * x.size + ix) * channels});
  });
}

template <int64_t Count>
struct AverageUnpool {
  Patch patch;  // of windows
  const float* dy;
  const float *share_y, *share_x;  // of the first window
  float* dx;

  template <class D>
  HWY_INLINE void strip(D d, int64_t c) const {
    hn::Vec<D> sum[Count];
    for (auto& one : sum) one = hn::Zero(d);
    for (int64_t y = 0; y < patch.rows; ++y) {
      const float* v = dy + y * patch.row_step + c;
      for (int64_t x = 0; x < patch.columns; ++x, v += patch.column_step) {
        for (int64_t i = 0; i < Count; ++i) {
          const auto share = hn::Set(d, share_y[y] * share_x[x + i]);
          sum[i] = hn::MulAdd(hn::LoadU(d, v + i * patch.column_step), share, sum[i]);
        }
      }
    }
    for (int64_t i = 0; i < Count; ++i) hn::StoreU(sum[i], d, dx + i * patch.next + c);
  }
};

void average_unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const int64_t channels = plan.channels;
  const int64_t oy = y.first_cover(iy), rows = y.last_cover(iy) - oy;
  each_input(plan, [&](auto count, int64_t ix) HWY_ATTR {
    const int64_t ox = plan.first_cover[ix];
    cover(hn::ScalableTag<float>(), channels,
          AverageUnpool<count()>{
              {rows, plan.last_cover[ix] - ox, x.out * channels, channels, x.stride * channels},
              dy + (oy * x.out + ox) * channels,
              plan.share_y.data() + oy,
              plan.share_x.data() + ox,
              dx + (iy * x.size + ix) * channels});
  });
}

void unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, PoolingChoices choices,
                float* dx) {
  if (choices.words) return max_unpool_row(plan, iy, dy, choices.words, dx);
  if (choices.bytes) return max_unpool_row(plan, iy, dy, choices.bytes, dx);
  average_unpool_row(plan, iy, dy, dx);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {

HWY_EXPORT(pool_row);
HWY_EXPORT(unpool_row);

void pool_row(const PoolingPlan& plan, int64_t oy, const float* in, float* out,
              PoolingChoices choices) {
  HWY_DYNAMIC_DISPATCH(pool_row)(plan, oy, in, out, choices);
}
void unpool_row(const PoolingPlan& plan, int64_t iy, const float* dy, PoolingChoices choices,
                float* dx) {
  HWY_DYNAMIC_DISPATCH(unpool_row)(plan, iy, dy, choices, dx);
}

}  // namespace crema
#endif
