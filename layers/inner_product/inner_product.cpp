#include "layers/inner_product/inner_product.hpp"

#include <algorithm>

#include "backend/cpu/blas.hpp"
#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "kit/options.hpp"
#include "kit/pointwise.hpp"
#include "layers/relu/relu.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kColumns = 128;  // outputs whose bias gradients are summed together

/// y = act(y + bias) for one row; bias may be null.
template <class T>
[[gnu::always_inline]] inline void finish_row(const T* bias, ReLUMath relu, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = relu.forward(y[i] + (bias ? bias[i] : T{0}));
}

/// For columns [0, n) of rows `stride` long: masked = dy through the ReLU where y is given, and
/// bias_diff = beta * bias_diff + the sum over rows.
template <class T>
[[gnu::always_inline]] inline void gather_columns(const T* dy, const T* y, ReLUMath relu,
                                                  int64_t rows, int64_t n, int64_t stride,
                                                  T* masked, T* bias_diff, T beta) {
  double sums[kColumns] = {};
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * stride;
    if (y) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        masked[at + i] = relu.backward(dy[at + i], T{0}, y[at + i]);
      }
    }
    const T* g = y ? masked + at : dy + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(g[i]);
  }
  if (!bias_diff) return;
  for (int64_t i = 0; i < n; ++i) {
    bias_diff[i] = static_cast<T>(sums[i]) + (beta == T{0} ? T{0} : beta * bias_diff[i]);
  }
}

}  // namespace

InnerProductLayer::InnerProductLayer(const LayerInit& init) : Layer(init) {
  const InnerProductParameter& settings = init.param.inner_product_param();
  axis_ = settings.axis();
  outputs_ = settings.num_output();
  transposed_ = settings.transpose();
  has_bias_ = settings.bias_term();
  if (outputs_ <= 0)
    throw Error("num_output is missing or 0; say inner_product_param { num_output: N } with N > 0");
  if (settings.relu()) {
    own_relu_ = settings.negative_slope();
    if (!(*own_relu_ >= 0))
      throw Error("negative_slope ", *own_relu_,
                  " is below 0, which only a ReLU layer of its own can do");
  }
}

void InnerProductLayer::setup(Blobs bottom, Blobs) {
  const Shape& shape = bottom[0]->shape();
  inputs_ = shape.count(shape.canonical_axis(axis_));
  if (inputs_ <= 0)
    throw Error("the bottom '", bottom[0]->name, "' (", shape.str(), ") has no values behind axis ",
                axis_, "; there is nothing to multiply");
  const InnerProductParameter& settings = param().inner_product_param();
  add_param(transposed_ ? Shape{inputs_, outputs_} : Shape{outputs_, inputs_},
            Filler(settings.weight_filler()));
  if (has_bias_) add_param(Shape{outputs_}, Filler(settings.bias_filler()));
}

bool InnerProductLayer::adopt(std::vector<Tensor>& published) const {
  if (published.size() != params().size()) return false;
  const Shape& weights = published[0].shape();
  const int64_t rows = params()[0]->shape()[0];
  // The first axis that is not 1 counts the rows, as the last bottom of files of four dimensions.
  int axis = 0;
  while (axis + 1 < weights.rank() && weights[axis] == 1 && rows != 1) ++axis;
  if (transposed_ && weights.rank() - axis > 2) return false;
  if (weights.rank() == 0 || weights[axis] != rows) return false;
  if (weights.count() != params()[0]->shape().count()) return false;
  published[0].reshape(params()[0]->shape());
  return !has_bias_ || squeeze(published[1], params()[1]->shape());
}

void InnerProductLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  const int axis = shape.canonical_axis(axis_);
  if (shape.count(axis) != inputs_)
    throw Error("the bottom '", bottom[0]->name, "' (", shape.str(), ") has ", shape.count(axis),
                " values behind axis ", axis_, ", but the weights were made for ", inputs_,
                "; keep the size of the input, or pool to a fixed size before");
  rows_ = shape.count(0, axis);
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + axis);
  dims.push_back(outputs_);
  top[0]->reshape(Shape(std::move(dims)));
}

Flops InnerProductLayer::flops(Blobs bottom, Blobs) const {
  const double product =
      2.0 * static_cast<double>(bottom[0]->count()) * static_cast<double>(outputs_);
  return {product, 2 * product};
}

bool InnerProductLayer::accepts(const Tail& tail) const {
  return !own_relu_ && relu_slope_of(tail).has_value();
}

BackwardReads InnerProductLayer::reference_backward_reads() const {
  return {.bottom_data = params().empty() || params()[0]->needs_gradient,
          .top_data = relu_slope().has_value()};
}

size_t InnerProductLayer::prepare_cpu(Blobs top) {
  if (!relu_slope() || !trains()) return 0;
  masked_.reshape(top[0]->shape());
  masked_.set_layout(dtype(), Format::contiguous);
  return masked_.bytes();
}

void InnerProductLayer::forward_cpu(Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    forward_as(bottom[0]->data.host<T>(), top[0]->data.host_overwrite<T>());
  });
}

template <class T>
void InnerProductLayer::forward_as(const T* x, T* y) {
  const T* weight = params()[0]->data.host<T>();
  if (rows_ == 1) {
    gemv<T>(transposed_, transposed_ ? inputs_ : outputs_, transposed_ ? outputs_ : inputs_, 1,
            weight, x, 0, y);
  } else {
    gemm<T>(false, !transposed_, rows_, outputs_, inputs_, 1, x, weight, 0, y);
  }
  finish_forward(y);
}

template <class T>
void InnerProductLayer::finish_forward(T* y) {
  if (!has_bias_ && !relu_slope()) return;
  const T* bias = has_bias_ ? params()[1]->data.host<T>() : nullptr;
  const ReLUMath relu{relu_slope().value_or(1)};
  parallel_for(rows_, kElementGrain / outputs_ + 1, [=, this](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      vectorized<finish_row<T>>(bias, relu, y + row * outputs_, outputs_);
    }
  });
}

void InnerProductLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(),
                 [&](auto zero) { backward_as<decltype(zero)>(top, propagate[0], bottom); });
}

template <class T>
const T* InnerProductLayer::enter_backward(Blobs top) {
  const T* dy = top[0]->diff.host<T>();
  const bool bias_wanted = has_bias_ && params()[1]->needs_gradient;
  if (!bias_wanted && !relu_slope()) return dy;
  const T* y = relu_slope() ? top[0]->data.host<T>() : nullptr;
  T* masked = relu_slope() ? masked_.host_overwrite<T>() : nullptr;
  T beta = 0;
  T* bias_diff = nullptr;
  if (bias_wanted) {
    beta = static_cast<T>(params()[1]->begin_gradient());
    bias_diff = params()[1]->diff.host_mut<T>();
  }
  const ReLUMath relu{relu_slope().value_or(1)};
  const int64_t groups = (outputs_ + kColumns - 1) / kColumns;
  parallel_for(groups, kElementGrain / (kColumns * std::max<int64_t>(rows_, 1)) + 1,
               [=, this](int64_t first, int64_t last) {
                 for (int64_t group = first; group < last; ++group) {
                   const int64_t at = group * kColumns;
                   vectorized<gather_columns<T>>(dy + at, y ? y + at : nullptr, relu, rows_,
                                                 std::min(kColumns, outputs_ - at), outputs_,
                                                 masked ? masked + at : nullptr,
                                                 bias_diff ? bias_diff + at : nullptr, beta);
                 }
               });
  return masked ? masked : dy;
}

template <class T>
void InnerProductLayer::backward_as(Blobs top, bool propagate, Blobs bottom) {
  const T* dy = enter_backward<T>(top);
  Parameter& weight = *params()[0];
  if (weight.needs_gradient) {
    const T* x = bottom[0]->data.host<T>();
    const T beta = static_cast<T>(weight.begin_gradient());
    T* dw = weight.diff.host_mut<T>();
    if (transposed_) {
      gemm<T>(true, false, inputs_, outputs_, rows_, 1, x, dy, beta, dw);
    } else {
      gemm<T>(true, false, outputs_, inputs_, rows_, 1, dy, x, beta, dw);
    }
  }
  if (!propagate) return;
  const T* w = weight.data.host<T>();
  T* dx = bottom[0]->diff.host_overwrite<T>();
  if (rows_ == 1) {
    gemv<T>(!transposed_, transposed_ ? inputs_ : outputs_, transposed_ ? outputs_ : inputs_, 1, w,
            dy, 0, dx);
  } else {
    gemm<T>(false, transposed_, rows_, inputs_, outputs_, 1, dy, w, 0, dx);
  }
}

template void InnerProductLayer::finish_forward<float>(float*);
template const float* InnerProductLayer::enter_backward<float>(Blobs);

void register_inner_product(Registry& registry);

void register_inner_product(Registry& registry) { registry.add<InnerProductLayer>("InnerProduct"); }

}  // namespace crema
