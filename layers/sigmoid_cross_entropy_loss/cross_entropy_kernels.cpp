#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/sigmoid_cross_entropy_loss/cross_entropy_kernels.cpp"
#include "layers/sigmoid_cross_entropy_loss/cross_entropy_kernels.hpp"

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/value-inl.hpp"
#include "core/functor.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

#include "layers/sigmoid_cross_entropy_loss/cross_entropy-inl.hpp"

using D = hn::ScalableTag<float>;
constexpr D kFloats;
using V = Value<D>;

double sum(int64_t n, const float* x, const float* t, float ignored) {
  WideLanes<D> sums;
  const V none(ignored), zero(0);
  each_vector(kFloats, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    const V target(load(kFloats, lanes, t + i));
    const V loss = select(target == none, zero, loss_of(V(load(kFloats, lanes, x + i)), target));
    sums.add(WideLanes<D>(keep(kFloats, lanes, loss.raw, zero.raw)));
  });
  return sums.total();
}

void gradient(int64_t n, float scale, const float* x, const float* t, float ignored, float* dx) {
  const V none(ignored), zero(0), factor(scale);
  each_vector(kFloats, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
    const V target(load(kFloats, lanes, t + i));
    const V slope = factor * slope_of(V(load(kFloats, lanes, x + i)), target);
    store(kFloats, lanes, select(target == none, zero, slope).raw, dx + i);
  });
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(sum);
HWY_EXPORT(gradient);

}  // namespace

double cross_entropy(int64_t n, const float* x, const float* t, float ignored) {
  return HWY_DYNAMIC_DISPATCH(sum)(n, x, t, ignored);
}

void cross_entropy_gradient(int64_t n, float scale, const float* x, const float* t, float ignored,
                            float* dx) {
  HWY_DYNAMIC_DISPATCH(gradient)(n, scale, x, t, ignored, dx);
}

}  // namespace crema
#endif
