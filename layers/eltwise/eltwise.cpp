#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/eltwise/eltwise.cpp"
#include "layers/eltwise/eltwise.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/value-inl.hpp"
#include "crema/registry.hpp"
#include "kit/options.hpp"
#include "kit/pointwise.hpp"
#include "layers/relu/relu.hpp"
#include "proto/layer.pb.h"

#ifndef CREMA_LAYERS_ELTWISE
#define CREMA_LAYERS_ELTWISE
namespace crema::eltwise_room {
namespace {

struct Operands {
  const void* const* x;
  void* const* dx;
  const float* coefficient;
  int count;
};

/// Operands whose number and pointers the compiler keeps in registers.
template <int N>
struct FewOperands {
  static constexpr int count = N;
  const void* x[N];
  void* dx[N];
  float coefficient[N];

  explicit FewOperands(const Operands& all) {
    std::copy_n(all.x, N, x);
    std::copy_n(all.dx, N, dx);
    std::copy_n(all.coefficient, N, coefficient);
  }
};

}  // namespace
}  // namespace crema::eltwise_room
#endif

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
template <class T, class Body>
HWY_INLINE void each_place(int64_t begin, int64_t end, const Body& body) {
  if constexpr (std::is_same_v<T, float> && HWY_TARGET != HWY_SCALAR) {
    simd::each_vector(Floats(), end - begin, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      body(Vector<decltype(lanes)>{begin + i, lanes});
    });
  } else {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) body(Number<T>{i});
  }
}

template <class T, class Of, class In>
HWY_INLINE void run_on(Of of, In in, EltwiseForward w, int64_t begin, int64_t end) {
  each_place<T>(begin, end, [&](auto at) CREMA_LANES_LAMBDA { of.run(at, in, w); });
}

/// A gradient after the other for a block, which stays in the cache. That of bottom 0 last: it may
/// lie where dy does.
template <class T, class Of, class In>
HWY_INLINE void run_on(Of of, In in, EltwiseBackward w, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 512;
  for (; begin < end; begin += kBlock) {
    for (int k = in.count; k-- > 0;) {
      if (!in.dx[k]) continue;
      each_place<T>(begin, std::min(begin + kBlock, end),
                    [&](auto at) CREMA_LANES_LAMBDA { of.run(at, in, w, k); });
    }
  }
}

template <class T, class W>
HWY_INLINE void run(EltwiseLayer::Operation operation, const Operands& in, const W& w,
                    int64_t begin, int64_t end) {
  with_operation(operation, [&](auto of) CREMA_LANES_LAMBDA {
    // In f64, one loop for any number is enough: it serves gradient checks.
    constexpr bool kFew = std::is_same_v<T, float>;
    if (kFew && in.count == 2) return run_on<T>(of, FewOperands<2>(in), w, begin, end);
    if (kFew && in.count == 3) return run_on<T>(of, FewOperands<3>(in), w, begin, end);
    run_on<T>(of, in, w, begin, end);
  });
}

void forward_f32(EltwiseLayer::Operation operation, const Operands& in, const EltwiseForward& w,
                 int64_t begin, int64_t end) {
  run<float>(operation, in, w, begin, end);
}
void forward_f64(EltwiseLayer::Operation operation, const Operands& in, const EltwiseForward& w,
                 int64_t begin, int64_t end) {
  run<double>(operation, in, w, begin, end);
}
void backward_f32(EltwiseLayer::Operation operation, const Operands& in, const EltwiseBackward& w,
                  int64_t begin, int64_t end) {
  run<float>(operation, in, w, begin, end);
}
void backward_f64(EltwiseLayer::Operation operation, const Operands& in, const EltwiseBackward& w,
                  int64_t begin, int64_t end) {
  run<double>(operation, in, w, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema::eltwise_room
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace eltwise_room {
namespace {

HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_f64);
HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_f64);

template <class T>
void forward(EltwiseLayer::Operation operation, const Operands& in, const EltwiseForward& w,
             int64_t begin, int64_t end, T) {
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(forward_f32)(operation, in, w, begin, end);
  } else {
    HWY_DYNAMIC_DISPATCH(forward_f64)(operation, in, w, begin, end);
  }
}
template <class T>
void backward(EltwiseLayer::Operation operation, const Operands& in, const EltwiseBackward& w,
              int64_t begin, int64_t end, T) {
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(backward_f32)(operation, in, w, begin, end);
  } else {
    HWY_DYNAMIC_DISPATCH(backward_f64)(operation, in, w, begin, end);
  }
}

}  // namespace
}  // namespace eltwise_room

namespace {

constexpr size_t kMaximumBottoms = 255;

}  // namespace

EltwiseLayer::EltwiseLayer(const LayerInit& init) : Layer(init) {
  const EltwiseParameter& settings = init.param.eltwise_param();
  switch (settings.operation()) {
    case EltwiseParameter::PROD:
      operation_ = Operation::product;
      break;
    case EltwiseParameter::SUM:
      operation_ = Operation::sum;
      break;
    case EltwiseParameter::MAX:
      operation_ = Operation::maximum;
      break;
  }
  stable_product_ = settings.stable_prod_grad();
  if (settings.coeff_size() != 0 && operation_ == Operation::product)
    throw Error("coeff is for operation SUM, not for PROD; remove it or the operation");
  coefficients_.assign(settings.coeff().begin(), settings.coeff().end());
}

void EltwiseLayer::setup(Blobs bottom, Blobs) {
  if (!coefficients_.empty() && coefficients_.size() != bottom.size())
    throw Error("there are ", coefficients_.size(), " coeff for ", bottom.size(),
                " bottoms; give one for each, or none");
  if (operation_ == Operation::maximum && bottom.size() > kMaximumBottoms)
    throw Error("operation MAX takes at most ", kMaximumBottoms, " bottoms, not ", bottom.size(),
                "; join them in two layers");
  coefficients_.resize(bottom.size(), 1.0F);
  inputs_.resize(bottom.size());
  outputs_.resize(bottom.size());
}

void EltwiseLayer::reshape(Blobs bottom, Blobs top) {
  for (const Blob* other : bottom.subspan(1)) {
    if (other->shape() != bottom[0]->shape())
      throw Error("bottoms have different shapes: '", bottom[0]->name, "' is ",
                  bottom[0]->shape().str(), ", '", other->name, "' is ", other->shape().str(),
                  "; make the layers before give one shape");
  }
  top[0]->reshape(bottom[0]->shape());
}

Flops EltwiseLayer::flops(Blobs bottom, Blobs top) const {
  const double n = static_cast<double>(top[0]->count()) * static_cast<double>(bottom.size());
  return {n, n};
}

bool EltwiseLayer::accepts(const Tail& tail) const {
  return operation_ == Operation::sum && relu_slope_of(tail).has_value();
}

std::optional<TailStep> EltwiseLayer::as_tail_step() const {
  const bool plain = std::all_of(coefficients_.begin(), coefficients_.end(),
                                 [](float coefficient) { return coefficient == 1; });
  if (operation_ != Operation::sum || coefficients_.size() != 2 || !plain) return std::nullopt;
  return TailStep{.kind = TailStep::Kind::add, .bottom = 1};
}

BackwardReads EltwiseLayer::reference_backward_reads() const {
  if (operation_ != Operation::product) return {false, relu_slope().has_value()};
  // A gradient reads its own factor, by which it divides the product, or else all the others.
  Which factors = true;
  if (inputs_.size() == 2 && propagates(0) != propagates(1)) {
    factors = propagates(0) != stable_product_ ? Which{0} : Which{1};
  }
  return {factors, !stable_product_};
}

std::vector<Option> EltwiseLayer::reference_options(Blobs bottom, Blobs top) const {
  // Where it divides, padding becomes 0 / 0.
  const bool divides = trains() && operation_ == Operation::product && !stable_product_;
  return same_format_options(bottom, top, dtype(), !divides);
}

void EltwiseLayer::prepare_reference(Blobs, Blobs top) {
  if (operation_ != Operation::maximum || !trains()) return;
  maximum_of_.reshape(top[0]->shape());
  maximum_of_.set_layout(DType::u8, top[0]->data.format());
}

void EltwiseLayer::forward_cpu(Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (size_t k = 0; k < bottom.size(); ++k) inputs_[k] = bottom[k]->data.template host<T>();
    const bool marks = operation_ == Operation::maximum && trains();
    const eltwise_room::Operands in{inputs_.data(), outputs_.data(), coefficients_.data(),
                                    static_cast<int>(bottom.size())};
    const EltwiseForward work{relu_slope().value_or(1), top[0]->data.template host_overwrite<T>(),
                              marks ? maximum_of_.host_overwrite<uint8_t>() : nullptr};
    parallel_for(top[0]->data.storage(), kElementGrain, [&](int64_t begin, int64_t end) {
      eltwise_room::forward(operation_, in, work, begin, end, zero);
    });
  });
}

void EltwiseLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const BackwardReads reads = reference_backward_reads();
    for (size_t k = 0; k < bottom.size(); ++k) {
      inputs_[k] = reads.bottom_data ? bottom[k]->data.template host<T>() : nullptr;
      outputs_[k] = propagate[k] ? bottom[k]->diff.template host_overwrite<T>() : nullptr;
    }
    const eltwise_room::Operands in{inputs_.data(), outputs_.data(), coefficients_.data(),
                                    static_cast<int>(bottom.size())};
    const EltwiseBackward work{
        relu_slope().value_or(1), top[0]->diff.template host<T>(),
        reads.top_data ? top[0]->data.template host<T>() : nullptr,
        operation_ == Operation::maximum ? maximum_of_.host<uint8_t>() : nullptr};
    parallel_for(top[0]->diff.storage(), kElementGrain, [&](int64_t begin, int64_t end) {
      eltwise_room::backward(operation_, in, work, begin, end, zero);
    });
  });
}

void register_eltwise(Registry& registry);

void register_eltwise(Registry& registry) { registry.add<EltwiseLayer>("Eltwise"); }

}  // namespace crema
#endif
