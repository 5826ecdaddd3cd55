#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/multibox_loss/score_gradients.cpp"
#include "layers/multibox_loss/score_gradients.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/math_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

void gradients(const int64_t* positions, int64_t count, int64_t classes, float scale,
               const float* x, const double* log_sum, const int32_t* labels, float* dx) {
  const hn::ScalableTag<float> d;
  using Wide = WideLanes<decltype(d)>;
  const auto factor = hn::Set(d, scale);
  for (int64_t i = 0; i < count; ++i) {
    constexpr int64_t kAhead = 8;  // these positions are far apart
    if (i + kAhead < count) {
      const float* const next = x + positions[i + kAhead] * classes;
      for (int64_t c = 0; c < classes; c += 16) __builtin_prefetch(next + c);
    }
    const int64_t p = positions[i];
    Wide log;
    log.low = log.high = hn::Set(typename Wide::DD(), log_sum[p]);
    each_vector(d, classes, [&](int64_t c, auto lanes) CREMA_LANES_LAMBDA {
      Wide below(load(d, lanes, x + p * classes + c));
      below.subtract(log);
      store(d, lanes, hn::Mul(factor, exp_of(d, below.narrow())), dx + p * classes + c);
    });
    dx[p * classes + labels[p]] -= scale;
  }
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(gradients);

}  // namespace

void score_gradients(const int64_t* positions, int64_t count, int64_t classes, float scale,
                     const float* x, const double* log_sum, const int32_t* labels, float* dx) {
  HWY_DYNAMIC_DISPATCH(gradients)
  (positions, count, classes, scale, x, log_sum, labels, dx);
}

}  // namespace crema
#endif
