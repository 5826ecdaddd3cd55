// A pointwise room's layer and its loops on the CPU. Included by the file that CMake writes for
// rooms with NAME_math.hpp and no NAME.cpp (scripts/cmake/CremaRooms.cmake), for each room and each
// set of vector instructions, with
//
//   CREMA_ROOM                  a namespace of the room's own
//   CREMA_MATH                  the path of its NAME_math.hpp
//   CREMA_POINTWISE_DECLARED    from the second set on
//
// f32 runs on vectors; f64, which gradients are checked in, on the numbers of the standard library.
#include <bit>
#include <memory>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/value-inl.hpp"
#include "crema/registry.hpp"
#include "layer_support/pointwise.hpp"
#include "proto/layer.pb.h"

#ifndef CREMA_POINTWISE_DECLARED
namespace crema::CREMA_ROOM {
#include CREMA_MATH
}  // namespace crema::CREMA_ROOM
#endif

HWY_BEFORE_NAMESPACE();
namespace crema::CREMA_ROOM {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using V = crema::HWY_NAMESPACE::Value<Tag>;

#include CREMA_MATH

/// Calls body(i) for whole vectors, then last(n) for the n elements that are left at i.
template <class Body, class Last>
HWY_INLINE void each_vector(int64_t n, const Body& body, const Last& last) {
  constexpr int64_t kLanes = hn::MaxLanes(Tag());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i);
  if (i < n) last(i, static_cast<size_t>(n - i));
}

HWY_INLINE V load(const float* from) { return V(hn::LoadU(Tag(), from)); }

/// The n values at `from`, less than a vector, and zeros.
HWY_INLINE V load_some(const float* from, size_t n) {
  HWY_ALIGN float values[hn::MaxLanes(Tag())] = {};
  std::copy_n(from, n, values);
  return V(hn::Load(Tag(), values));
}
HWY_INLINE void store_some(V value, float* to, size_t n) {
  HWY_ALIGN float values[hn::MaxLanes(Tag())];
  hn::Store(value.raw, Tag(), values);
  std::copy_n(values, n, to);
}

HWY_FLATTEN void forward_f32(const CREMA_ROOM::Math& of_numbers, const float* x, float* y,
                             int64_t n) {
  const auto math = std::bit_cast<Math>(of_numbers);
  each_vector(
      n,
      [&](int64_t i)
          HWY_ATTR { hn::StoreU(math.template forward<V>(load(x + i)).raw, Tag(), y + i); },
      [&](int64_t i, size_t some)
          HWY_ATTR { store_some(math.template forward<V>(load_some(x + i, some)), y + i, some); });
}

HWY_FLATTEN void backward_f32(const CREMA_ROOM::Math& of_numbers, const float* dy, const float* x,
                              const float* y, float* dx, int64_t n) {
  const auto math = std::bit_cast<Math>(of_numbers);
  each_vector(
      n,
      [&](int64_t i) HWY_ATTR {
        const V result = math.template backward<V>(load(dy + i), load(x + i), load(y + i));
        hn::StoreU(result.raw, Tag(), dx + i);
      },
      [&](int64_t i, size_t some) HWY_ATTR {
        const V result = math.template backward<V>(load_some(dy + i, some), load_some(x + i, some),
                                                   load_some(y + i, some));
        store_some(result, dx + i, some);
      });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema::CREMA_ROOM
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema::CREMA_ROOM {
namespace {

HWY_EXPORT(forward_f32);
HWY_EXPORT(backward_f32);

class Room : public PointwiseLayer<Math> {
 public:
  explicit Room(const LayerInit& init) : PointwiseLayer(init, math_of<Math>(init.param)) {}

 protected:
  void run_forward(const float* x, float* y, int64_t n) const override {
    HWY_DYNAMIC_DISPATCH(forward_f32)(math(), x, y, n);
  }
  void run_backward(const float* dy, const float* x, const float* y, float* dx,
                    int64_t n) const override {
    HWY_DYNAMIC_DISPATCH(backward_f32)(math(), dy, x, y, dx, n);
  }
};

}  // namespace
}  // namespace crema::CREMA_ROOM
#endif
