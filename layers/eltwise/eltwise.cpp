#include "layers/eltwise/eltwise.hpp"

#include <algorithm>

#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "kit/pointwise.hpp"
#include "layers/eltwise/eltwise_maximum.hpp"
#include "layers/relu/relu.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

// Bottoms are combined block by block in a buffer on the stack, and a top's block is written when
// the same block of all bottoms has been read: so the top may lie in any bottom's memory.
constexpr int64_t kBlock = 512;
constexpr size_t kMaximumBottoms = 255;

template <class T>
struct Operands {
  const void* const* data;    // one a bottom
  const float* coefficients;  // likewise
  size_t count;

  const T* x(size_t k) const { return static_cast<const T*>(data[k]); }
  T coefficient(size_t k) const { return T(coefficients[k]); }
};

template <class T>
[[gnu::always_inline]] inline void sum_blocks(Operands<T> in, ReLUMath relu, T* y, int64_t begin,
                                              int64_t end) {
  T sum[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    const T *a = in.x(0) + at, *b = in.x(1) + at;
    const T ca = in.coefficient(0), cb = in.coefficient(1);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] = ca * a[i] + cb * b[i];
    for (size_t k = 2; k < in.count; ++k) {
      const T* x = in.x(k) + at;
      const T c = in.coefficient(k);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) sum[i] += c * x[i];
    }
    T* out = y + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = relu.forward(sum[i]);
  }
}

template <class T>
[[gnu::always_inline]] inline void product_blocks(Operands<T> in, T* y, int64_t begin,
                                                  int64_t end) {
  T product[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t n = std::min(kBlock, end - at);
    std::copy_n(in.x(0) + at, n, product);
    for (size_t k = 1; k < in.count; ++k) {
      const T* x = in.x(k) + at;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) product[i] *= x[i];
    }
    std::copy_n(product, n, y + at);
  }
}

/// dx = coefficient * dy, dy through the ReLU if y is given.
template <class T>
[[gnu::always_inline]] inline void sum_gradient(const T* dy, const T* y, ReLUMath relu,
                                                T coefficient, T* dx, int64_t n) {
  if (y) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = coefficient * relu.backward(dy[i], T{0}, y[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = coefficient * dy[i];
  }
}

/// dx = dy * product of all bottoms but `self`, or dy * y / x where y is given.
template <class T>
[[gnu::always_inline]] inline void product_gradient(Operands<T> in, size_t self, const T* dy,
                                                    const T* y, T* dx, int64_t at, int64_t n) {
  T factor[kBlock];
  const T* own = in.x(self) + at;
  if (y) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) factor[i] = y[at + i] / own[i];
  } else {
    std::fill_n(factor, n, T{1});
    for (size_t k = 0; k < in.count; ++k) {
      if (k == self) continue;
      const T* x = in.x(k) + at;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) factor[i] *= x[i];
    }
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[at + i] = dy[at + i] * factor[i];
}

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
  require(settings.coeff_size() == 0 || operation_ != Operation::product,
          "coeff is for operation SUM, not for PROD; remove it or the operation");
  coefficients_.assign(settings.coeff().begin(), settings.coeff().end());
}

void EltwiseLayer::setup(Blobs bottom, Blobs) {
  require(coefficients_.empty() || coefficients_.size() == bottom.size(), "there are ",
          coefficients_.size(), " coeff for ", bottom.size(),
          " bottoms; give one for each, or none");
  require(operation_ != Operation::maximum || bottom.size() <= kMaximumBottoms,
          "operation MAX takes at most ", kMaximumBottoms, " bottoms, not ", bottom.size(),
          "; join them in two layers");
  coefficients_.resize(bottom.size(), 1.0F);
  inputs_.resize(bottom.size());
  outputs_.resize(bottom.size());
}

void EltwiseLayer::reshape(Blobs bottom, Blobs top) {
  for (const Blob* other : bottom.subspan(1)) {
    require(other->shape() == bottom[0]->shape(), "bottoms have different shapes: '",
            bottom[0]->name, "' is ", bottom[0]->shape().str(), ", '", other->name, "' is ",
            other->shape().str(), "; make the layers before give one shape");
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
  dispatch_float(dtype(), [&](auto zero) { forward_as<decltype(zero)>(bottom, top); });
}

template <class T>
void EltwiseLayer::forward_as(Blobs bottom, Blobs top) {
  for (size_t k = 0; k < bottom.size(); ++k) inputs_[k] = bottom[k]->data.host<T>();
  const Operands<T> in{inputs_.data(), coefficients_.data(), inputs_.size()};
  T* y = top[0]->data.host_overwrite<T>();
  uint8_t* which = operation_ == Operation::maximum && trains()
                       ? maximum_of_.host_overwrite<uint8_t>()
                       : nullptr;
  const ReLUMath relu{relu_slope().value_or(1)};
  parallel_for(top[0]->data.storage(), kPointwiseGrain, [&](int64_t begin, int64_t end) {
    switch (operation_) {
      case Operation::sum:
        vectorized<sum_blocks<T>>(in, relu, y, begin, end);
        break;
      case Operation::product:
        vectorized<product_blocks<T>>(in, y, begin, end);
        break;
      case Operation::maximum:
        eltwise_maximum(in.data, in.count, begin, end, y, which);
        break;
    }
  });
}

void EltwiseLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&](auto zero) { backward_as<decltype(zero)>(top, propagate, bottom); });
}

template <class T>
void EltwiseLayer::backward_as(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  const BackwardReads reads = reference_backward_reads();
  const T* dy = top[0]->diff.host<T>();
  const T* y = reads.top_data ? top[0]->data.host<T>() : nullptr;
  const uint8_t* which = operation_ == Operation::maximum ? maximum_of_.host<uint8_t>() : nullptr;
  for (size_t k = 0; k < bottom.size(); ++k) {
    inputs_[k] = reads.bottom_data ? bottom[k]->data.host<T>() : nullptr;
    outputs_[k] = propagate[k] ? bottom[k]->diff.host_overwrite<T>() : nullptr;
  }
  const Operands<T> in{inputs_.data(), coefficients_.data(), inputs_.size()};
  const ReLUMath relu{relu_slope().value_or(1)};
  parallel_for(top[0]->diff.storage(), kPointwiseGrain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      // Bottom 0 last: its diff may lie where dy does.
      for (size_t k = bottom.size(); k-- > 0;) {
        T* dx = static_cast<T*>(outputs_[k]);
        if (!dx) continue;
        switch (operation_) {
          case Operation::sum:
            vectorized<sum_gradient<T>>(dy + at, y ? y + at : nullptr, relu, in.coefficient(k),
                                        dx + at, n);
            break;
          case Operation::product:
            vectorized<product_gradient<T>>(in, k, dy, y, dx, at, n);
            break;
          case Operation::maximum:
            eltwise_maximum_gradient(which + at, static_cast<uint8_t>(k), dy + at, dx + at, n);
            break;
        }
      }
    }
  });
}

void register_eltwise(Registry& registry);

void register_eltwise(Registry& registry) { registry.add<EltwiseLayer>("Eltwise"); }

}  // namespace crema
