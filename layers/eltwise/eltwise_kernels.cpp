#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/eltwise/eltwise_kernels.cpp"
#include "layers/eltwise/eltwise_kernels.hpp"

#include <cstring>
#include <type_traits>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/value-inl.hpp"
#include "core/functor.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::eltwise_room {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = crema::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Words = hn::Rebind<int32_t, Floats>;
using Bytes = hn::Rebind<uint8_t, Floats>;

#include "layers/eltwise/eltwise_math.hpp"

/// Elements from i on, as many as `lanes` are.
template <class Lanes>
struct Vector {
  using V = simd::Value<Floats>;
  int64_t i;
  Lanes lanes;

  HWY_INLINE V load(const void* from) const {
    return V(simd::load(Floats(), lanes, static_cast<const float*>(from) + i));
  }
  HWY_INLINE void store(V value, void* to) const {
    simd::store(Floats(), lanes, value.raw, static_cast<float*>(to) + i);
  }
  HWY_INLINE V load_byte(const uint8_t* from) const {
    HWY_ALIGN uint8_t some[hn::MaxLanes(Floats())] = {};
    const bool all = std::is_same_v<Lanes, simd::AllLanes>;
    if (!all) std::memcpy(some, from + i, count());
    const auto bytes = hn::LoadU(Bytes(), all ? from + i : some);
    return V(hn::ConvertTo(Floats(), hn::PromoteTo(Words(), bytes)));
  }
  HWY_INLINE void store_byte(V value, uint8_t* to) const {
    HWY_ALIGN uint8_t bytes[hn::MaxLanes(Floats())];
    hn::StoreU(hn::DemoteTo(Bytes(), hn::ConvertTo(Words(), value.raw)), Bytes(), bytes);
    std::memcpy(to + i, bytes, count());
  }
  HWY_INLINE size_t count() const {
    if constexpr (std::is_same_v<Lanes, simd::FirstLanes>) return static_cast<size_t>(lanes.n);
    return hn::MaxLanes(Floats());
  }
};

/// Calls body(place) for all elements, several at a time.
template <class Body>
HWY_INLINE void each_place(int64_t begin, int64_t end, const Body& body) {
  if constexpr (HWY_TARGET != HWY_SCALAR) {
    simd::each_vector(Floats(), end - begin, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      body(Vector<decltype(lanes)>{begin + i, lanes});
    });
  } else {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) body(Number<float>{i});
  }
}

template <class Of, class In>
HWY_INLINE void run_on(Of of, In in, EltwiseForward w, int64_t begin, int64_t end) {
  each_place(begin, end, [&](auto at) CREMA_LANES_LAMBDA { of.run(at, in, w); });
}

/// A gradient after the other for a block, which stays in the cache. That of bottom 0 last: it may
/// lie where dy does.
template <class Of, class In>
HWY_INLINE void run_on(Of of, In in, EltwiseBackward w, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 512;
  for (; begin < end; begin += kBlock) {
    for (int k = in.count; k-- > 0;) {
      if (!in.dx[k]) continue;
      each_place(begin, std::min(begin + kBlock, end),
                 [&](auto at) CREMA_LANES_LAMBDA { of.run(at, in, w, k); });
    }
  }
}

template <class W>
HWY_INLINE void run(EltwiseOperation operation, const EltwiseOperands& in, const W& w,
                    int64_t begin, int64_t end) {
  with_operation(operation, [&](auto of) CREMA_LANES_LAMBDA {
    if (in.count == 2) return run_on(of, FewOperands<2>(in), w, begin, end);
    if (in.count == 3) return run_on(of, FewOperands<3>(in), w, begin, end);
    run_on(of, in, w, begin, end);
  });
}

void forward(EltwiseOperation operation, const EltwiseOperands& in, const EltwiseForward& w,
             int64_t begin, int64_t end) {
  run(operation, in, w, begin, end);
}
void backward(EltwiseOperation operation, const EltwiseOperands& in, const EltwiseBackward& w,
              int64_t begin, int64_t end) {
  run(operation, in, w, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema::eltwise_room
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace eltwise_room {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);

// Here, and not below: where one set alone is compiled, its name would be that of crema's as well.
void dispatch(EltwiseOperation operation, const EltwiseOperands& in, const EltwiseForward& w,
              int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(forward)(operation, in, w, begin, end);
}
void dispatch(EltwiseOperation operation, const EltwiseOperands& in, const EltwiseBackward& w,
              int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(backward)(operation, in, w, begin, end);
}
}  // namespace
}  // namespace eltwise_room

void eltwise_elements(EltwiseOperation operation, const EltwiseOperands& in,
                      const EltwiseForward& w, int64_t begin, int64_t end) {
  eltwise_room::dispatch(operation, in, w, begin, end);
}
void eltwise_elements(EltwiseOperation operation, const EltwiseOperands& in,
                      const EltwiseBackward& w, int64_t begin, int64_t end) {
  eltwise_room::dispatch(operation, in, w, begin, end);
}

}  // namespace crema
#endif
