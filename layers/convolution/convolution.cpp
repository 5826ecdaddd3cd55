#include "layers/convolution/convolution.hpp"

#include <algorithm>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/convolutions.hpp"
#include "backend/relu.hpp"
#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/registry.hpp"
#include "kit/options.hpp"
#include "layers/convolution/engine.hpp"
#include "proto/layer.pb.h"

namespace crema {

ConvolutionLayer::ConvolutionLayer(const LayerInit& init)
    : Layer(init), geometry_(init.param.convolution_param()) {
  const ConvolutionParameter& settings = init.param.convolution_param();
  if (settings.relu()) {
    if (!(settings.negative_slope() >= 0))
      throw Error("relu with negative_slope ", settings.negative_slope(),
                  " cannot be undone from its result; use a ReLU layer");
    own_relu_ = settings.negative_slope();
  }
  if (settings.fusion_type() != ConvolutionParameter::NONE_FUSION)
    throw Error("fusion_type SUM_FUSION is not offered; use an Eltwise layer");
}

Arity ConvolutionLayer::arity() const { return {.max_bottoms = -1, .max_tops = -1}; }

void ConvolutionLayer::setup(Blobs bottom, Blobs top) {
  if (bottom.size() != top.size())
    throw Error("has ", bottom.size(), " bottoms and ", top.size(),
                " tops; give each bottom a top");
  geometry_.set_up(bottom[0]->shape());
  const ConvolutionParameter& settings = param().convolution_param();
  add_param(geometry_.weights(), Filler(settings.weight_filler()));
  if (geometry_.bias) add_param(Shape{geometry_.outputs}, Filler(settings.bias_filler()));
}

bool ConvolutionLayer::adopt(std::vector<Tensor>& published) const {
  if (published.size() != params().size()) return false;
  const Shape &own = params()[0]->shape(), &weights = published[0].shape();
  const Shape rows{geometry_.outputs, geometry_.kernel_count()};
  if (weights != own && weights != rows && weights != Shape{1, 1, rows[0], rows[1]}) return false;
  published[0].reshape(own);
  return !geometry_.bias || squeeze(published[1], params()[1]->shape());
}

void ConvolutionLayer::reshape(Blobs bottom, Blobs top) {
  geometry_.fit(bottom[0]->shape());
  for (size_t i = 0; i < top.size(); ++i) {
    if (bottom[i]->shape() != bottom[0]->shape())
      throw Error("bottoms differ in shape: '", bottom[0]->name, "' is ", bottom[0]->shape().str(),
                  ", '", bottom[i]->name, "' is ", bottom[i]->shape().str());
    top[i]->reshape(geometry_.top(bottom[i]->shape()));
  }
}

Flops ConvolutionLayer::flops(Blobs, Blobs top) const {
  double sums = 0;
  for (const Blob* blob : top) sums += static_cast<double>(blob->count());
  const double products = 2 * sums * static_cast<double>(geometry_.kernel_count());
  Flops flops{.forward = products + (geometry_.bias ? sums : 0)};
  for (size_t i = 0; i < top.size(); ++i) {
    if (propagates(static_cast<int>(i)))
      flops.backward += products / static_cast<double>(top.size());
  }
  if (params()[0]->needs_gradient) flops.backward += products;
  if (geometry_.bias && params()[1]->needs_gradient) flops.backward += sums;
  return flops;
}

bool ConvolutionLayer::accepts(const Tail& tail) const {
  if (own_relu_ || tail.empty()) return false;
  if (tail[0].kind != TailStep::Kind::add) return relu_slope_of(tail).has_value();
  // Bottoms without tops of their own are the tail's: several of both leave that open.
  if (context().on_gpu() || param().bottom_size() != 1) return false;
  return tail.size() == 1 || relu_slope_of({tail.begin() + 1, tail.end()}).has_value();
}

std::optional<float> ConvolutionLayer::relu() const {
  if (own_relu_ || tail().empty()) return own_relu_;
  return relu_slope_of({tail().back()});
}

Blob* ConvolutionLayer::summand(Blobs bottom) const {
  if (tail().empty() || tail()[0].kind != TailStep::Kind::add) return nullptr;
  return bottom[static_cast<size_t>(tail()[0].bottom)];
}

size_t ConvolutionLayer::in_place_bottom() const {
  const bool adds = !tail().empty() && tail()[0].kind == TailStep::Kind::add;
  return adds ? static_cast<size_t>(tail()[0].bottom) : 0;
}

InPlace ConvolutionLayer::reference_in_place() const {
  return in_place_bottom() > 0 ? InPlace::overwrite : InPlace::never;
}

void ConvolutionLayer::place_summand(Blobs bottom, Blobs top) const {
  const Blob* const other = summand(bottom);
  if (other != nullptr && !top[0]->data.same_memory(other->data))
    top[0]->data.copy_from(other->data);
}

void ConvolutionLayer::pass_to_summand(Blobs top, const std::vector<bool>& propagate,
                                       Blobs bottom) {
  Blob* const other = summand(bottom);
  if (other == nullptr || !propagate[in_place_bottom()]) return;
  const Tensor& diff = sums_diff(top, 0);
  if (!other->diff.same_memory(diff)) other->diff.copy_from(diff);
}

BackwardReads ConvolutionLayer::reference_backward_reads() const {
  Which bottoms = params()[0]->needs_gradient;
  if (bottoms && in_place_bottom() > 0) bottoms = {0};
  return {.bottom_data = bottoms, .top_data = relu().has_value()};
}

size_t ConvolutionLayer::prepare_sums_diffs(Blobs top) {
  masked_.clear();
  if (!relu() || !trains() || !wanted().top_diffs_stay) return 0;
  size_t bytes = 0;
  for (const Blob* blob : top) {
    bytes += masked_.emplace_back(blob->shape(), dtype(), blob->data.format()).bytes();
  }
  return bytes;
}

size_t ConvolutionLayer::kept_bytes() const {
  if (engine() != nullptr) return 0;
  size_t bytes = pointwise_ ? 0 : columns_.bytes();
  for (const Tensor& tensor : masked_) bytes += tensor.bytes();
  return bytes;
}

void ConvolutionLayer::prepare_reference(Blobs, Blobs top) {
  prepare_sums_diffs(top);
  group_columns_ = {.channels = geometry_.channels / geometry_.groups,
                    .input = geometry_.input,
                    .output = geometry_.output,
                    .kernel = geometry_.kernel,
                    .stride = geometry_.stride,
                    .pad = geometry_.pad,
                    .dilation = geometry_.dilation};
  taps_ = group_columns_.rows();
  positions_ = group_columns_.columns();
  group_input_ = group_columns_.channels * Shape(geometry_.input).count();
  pointwise_ = geometry_.is_pointwise();
  if (pointwise_) return;
  if (columns_.dtype() != dtype()) columns_.set_layout(dtype(), Format::contiguous);
  columns_.reshape(Shape{taps_, positions_});
}

template <class T>
void ConvolutionLayer::forward_image(const T* x, T beta, T* y) {
  const int64_t outputs = geometry_.outputs / geometry_.groups;
  const int64_t taps = taps_, positions = positions_;
  const T* const w = weights().data.host<T>();
  for (int64_t g = 0; g < geometry_.groups; ++g) {
    const T* columns = x + g * group_input_;
    if (!pointwise_) {
      T* const gathered = columns_.host_overwrite<T>();
      im2col(group_columns_, columns, gathered);
      columns = gathered;
    }
    gemm<T>(false, false, outputs, positions, taps, T{1}, w + g * outputs * taps, columns, beta,
            y + g * outputs * positions);
  }
}

template <class T>
void ConvolutionLayer::backward_weights(const T* x, const T* dy, T beta, T* dweights) {
  const int64_t outputs = geometry_.outputs / geometry_.groups;
  const int64_t taps = taps_, positions = positions_;
  for (int64_t g = 0; g < geometry_.groups; ++g) {
    const T* columns = x + g * group_input_;
    if (!pointwise_) {
      T* const gathered = columns_.host_overwrite<T>();
      im2col(group_columns_, columns, gathered);
      columns = gathered;
    }
    gemm<T>(false, true, outputs, taps, positions, T{1}, dy + g * outputs * positions, columns,
            beta, dweights + g * outputs * taps);
  }
}

template <class T>
void ConvolutionLayer::backward_data(const T* dy, T* dx) {
  const int64_t outputs = geometry_.outputs / geometry_.groups;
  const int64_t taps = taps_, positions = positions_;
  const T* const w = weights().data.host<T>();
  for (int64_t g = 0; g < geometry_.groups; ++g) {
    T* const image = dx + g * group_input_;
    T* const columns = pointwise_ ? image : columns_.host_overwrite<T>();
    gemm<T>(true, false, taps, positions, outputs, T{1}, w + g * outputs * taps,
            dy + g * outputs * positions, T{0}, columns);
    if (!pointwise_) col2im(group_columns_, columns, image);
  }
}

void ConvolutionLayer::backward_bias(Blobs top) {
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const bool first = bias()->begin_gradient() == 0;
    const Format format = top[0]->diff.format();
    const int64_t positions = top[0]->shape().count(geometry_.axis + 1);
    const int64_t outputs = geometry_.outputs;
    // The number of adjacent channels, and the number of channels of an image with padding.
    const int64_t unit = format == Format::channels_last ? outputs : block_of(format);
    const int64_t padded = (outputs + unit - 1) / unit * unit;
    T* const dbias = bias()->diff.host_mut<T>();
    // The first access may copy from a device, so it must not be in the threads.
    for (size_t i = 0; i < top.size(); ++i) static_cast<void>(sums_diff(top, i).template host<T>());
    // One thread sums the outputs of a cache line, each in double and in the order of memory.
    constexpr int64_t kMostTogether = 16;
    const int64_t together = std::min(unit, kMostTogether);
    parallel_for((outputs + together - 1) / together, 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin * together; o < std::min(end * together, outputs); o += together) {
        const int64_t count = std::min(together, outputs - o);
        double sums[kMostTogether] = {};
        for (size_t i = 0; i < top.size(); ++i) {
          const T* const dy = sums_diff(top, i).template host<T>();
          for (int64_t n = 0; n < geometry_.batch; ++n) {
            const T* values = dy + (n * padded + o / unit * unit) * positions + o % unit;
            for (int64_t p = 0; p < positions; ++p, values += unit) {
              for (int64_t k = 0; k < count; ++k) sums[k] += static_cast<double>(values[k]);
            }
          }
        }
        for (int64_t k = 0; k < count; ++k) {
          if (!first) sums[k] += static_cast<double>(dbias[o + k]);
          dbias[o + k] = static_cast<T>(sums[k]);
        }
      }
    });
  });
}

void ConvolutionLayer::forward_cpu(Blobs bottom, Blobs top) {
  place_summand(bottom, top);
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t image = bottom[0]->shape().count(geometry_.axis);
    const int64_t positions = positions_, outputs = geometry_.outputs;
    const T* const b = geometry_.bias ? bias()->data.template host<T>() : nullptr;
    const bool rectify = relu().has_value();
    const ReLUMath math{relu().value_or(0)};
    const T beta{summand(bottom) != nullptr ? T{1} : T{0}};
    for (size_t i = 0; i < top.size(); ++i) {
      const T* const x = bottom[i]->data.template host<T>();
      T* const y = top[i]->data.template host_mut<T>();
      for (int64_t n = 0; n < geometry_.batch; ++n) {
        forward_image(x + n * image, beta, y + n * outputs * positions);
      }
      if (b == nullptr && !rectify) continue;
      parallel_for(geometry_.batch * outputs, kElementGrain / positions + 1,
                   [=](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row) {
                       const T shift = b == nullptr ? T{0} : b[row % outputs];
                       T* const values = y + row * positions;
                       for (int64_t p = 0; p < positions; ++p) {
                         const T sum = values[p] + shift;
                         values[p] = rectify ? math.forward(sum) : sum;
                       }
                     }
                   });
    }
  });
}

void ConvolutionLayer::undo_relu(Blobs top) {
  if (!relu()) return;
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const ReLUMath math{*relu()};
    for (size_t i = 0; i < top.size(); ++i) {
      const T* const y = top[i]->data.template host<T>();
      const T* const dy = top[i]->diff.template host<T>();
      T* const sums = sums_diff(top, i).template host_overwrite<T>();
      parallel_for(top[i]->data.storage(), kElementGrain, [=](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) sums[k] = math.backward(dy[k], T{0}, y[k]);
      });
    }
  });
}

void ConvolutionLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  undo_relu(top);
  dispatch_float(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t image = bottom[0]->shape().count(geometry_.axis);
    const int64_t result = positions_ * geometry_.outputs;
    if (geometry_.bias && bias()->needs_gradient) backward_bias(top);
    T beta{0};
    T* dweights = nullptr;
    if (weights().needs_gradient) {
      beta = static_cast<T>(weights().begin_gradient());
      dweights = weights().diff.template host_mut<T>();
      if (beta == T{0} && geometry_.batch == 0) weights().diff.fill(0);
    }
    for (size_t i = 0; i < top.size(); ++i) {
      const T* const dy = sums_diff(top, i).template host<T>();
      const T* const x = dweights != nullptr ? bottom[i]->data.template host<T>() : nullptr;
      for (int64_t n = 0; n < geometry_.batch && dweights != nullptr; ++n) {
        backward_weights<T>(x + n * image, dy + n * result, beta, dweights);
        beta = T{1};
      }
      if (!propagate[i]) continue;
      T* const dx = bottom[i]->diff.template host_overwrite<T>();
      for (int64_t n = 0; n < geometry_.batch; ++n) {
        backward_data(dy + n * result, dx + n * image);
      }
    }
  });
  pass_to_summand(top, propagate, bottom);
}

void register_convolution(Registry& registry);

void register_convolution(Registry& registry) {
  registry.add<ConvolutionLayer>("Convolution");
  register_convolution_engines(registry);
  add_convolution_library(registry, direct_convolutions());
  add_convolution_library(registry, winograd_convolutions());
  add_convolution_library(registry, im2col_convolutions());
}

}  // namespace crema
