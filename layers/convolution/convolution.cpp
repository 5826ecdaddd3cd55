#include "layers/convolution/convolution.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <type_traits>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/convolutions.hpp"
#include "backend/relu.hpp"
#include "core/dispatch.hpp"
#include "kit/options.hpp"
#include "kit/passes.hpp"
#include "kit/summand.hpp"
#include "kit/two_sided.hpp"
#include "kit/unused_settings.hpp"
#include "layers/convolution/engine.hpp"
#include "layers/convolution/unfold.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Blocked memory of a view as rows: row r is the pixels of block r % blocks() of the channels.
struct BlockRows {
  ChannelView view;
  int64_t block;

  int64_t blocks() const { return (view.channels + block - 1) / block; }
  int64_t count() const { return view.outer * blocks(); }
  int64_t first_channel(int64_t row) const { return row % blocks() * block; }
  int64_t channels(int64_t row) const {
    return std::min(block, view.channels - first_channel(row));
  }

  /// Calls body(row) on the threads.
  template <class Body>
  void each(const Body& body) const {
    parallel_for(count(), kElementGrain / std::max<int64_t>(view.inner * block, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) body(row);
                 });
  }
};

/// Calls body(place, channel) on the host; padding is left out.
template <class Body>
void for_each(const BlockRows& rows, const Body& body) {
  rows.each([&](int64_t row) {
    const Body run = body;  // on the stack: its stores cannot change its pointers
    const int64_t first = rows.first_channel(row), count = rows.channels(row);
    for (int64_t i = row * rows.view.inner; i < (row + 1) * rows.view.inner; ++i) {
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) run(i * rows.block + k, first + k);
    }
  });
}

/// Calls store(channel, sums) with the sum of the values of each channel, in an order that does not
/// depend on the threads. `partial` is scratch memory.
template <class T, class Store>
void channel_sums(const BlockRows& rows, const T* values, std::vector<double>& partial,
                  const Store& store) {
  constexpr int64_t kMostLanes = 16;
  partial.resize(static_cast<size_t>(rows.count() * rows.block));
  rows.each([&](int64_t row) {
    std::array<double, kMostLanes> sums{};
    const T* from = values + row * rows.view.inner * rows.block;
    const auto add_pixels = [&]<int64_t kLanes>(std::integral_constant<int64_t, kLanes>) {
      for (int64_t i = 0; i < rows.view.inner; ++i, from += kLanes) {
#pragma omp simd
        for (int64_t k = 0; k < kLanes; ++k) sums[static_cast<size_t>(k)] += double(from[k]);
      }
    };
    rows.block == kMostLanes ? add_pixels(std::integral_constant<int64_t, kMostLanes>())
                             : add_pixels(std::integral_constant<int64_t, kMostLanes / 2>());
    std::copy_n(sums.begin(), rows.block, partial.begin() + row * rows.block);
  });
  for (int64_t c = 0; c < rows.view.channels; ++c) {
    SumPair sum;
    for (int64_t n = 0; n < rows.view.outer; ++n) {
      const int64_t row = n * rows.blocks() + c / rows.block;
      sum.first += partial[static_cast<size_t>(row * rows.block + c % rows.block)];
    }
    store(c, sum);
  }
}

/// The matrix products of the reference, one for each group of each image:
/// (outputs, taps) * (taps, positions) = (outputs, positions).
struct Products {
  int64_t outputs, taps, positions;  // of a group
  int64_t images, groups, inputs;    // inputs: elements of a group's image

  explicit Products(const ConvolutionGeometry& g)
      : outputs(g.outputs / g.groups),
        taps(g.kernel_count()),
        positions(g.positions()),
        images(g.batch),
        groups(g.groups),
        inputs(g.channels / g.groups * g.elements()) {}

  /// Calls body(image, offsets of the group's weights, input and output).
  template <class Body>
  void each(const Body& body) const {
    for (int64_t i = 0; i < images * groups; ++i) {
      body(i / groups, i % groups * outputs * taps, i * inputs, i * outputs * positions);
    }
  }
};

}  // namespace

ConvolutionLayer::ConvolutionLayer(const LayerInit& init, const ConvolutionParameter& settings,
                                   ConvolutionGeometry::Kind kind)
    : Layer(init),
      geometry_(settings, kind),
      weight_filler_(settings.weight_filler()),
      bias_filler_(settings.bias_filler()) {
  if (settings.relu()) {
    if (!(settings.negative_slope() >= 0))
      throw Error("relu with negative_slope ", settings.negative_slope(),
                  " cannot be undone from its result; use a ReLU layer");
    own_relu_ = settings.negative_slope();
  } else {
    warn_without_effect(init, settings, {"negative_slope"}, "without relu: true");
  }
  if (settings.fusion_type() != ConvolutionParameter::NONE_FUSION)
    throw Error("fusion_type SUM_FUSION is not offered; use an Eltwise layer");
  if (settings.coeff_size() > 0)
    throw Error("coeff is of fusion_type SUM_FUSION, which is not offered; use an Eltwise layer");
}

Arity ConvolutionLayer::arity() const { return {.max_bottoms = -1, .max_tops = -1}; }

void ConvolutionLayer::setup(Blobs bottom, Blobs top) {
  if (bottom.size() != top.size())
    throw Error("has ", bottom.size(), " bottoms and ", top.size(),
                " tops; give each bottom a top");
  geometry_.set_up(bottom[0]->shape());
  add_param(geometry_.weights(), weight_filler_);
  if (geometry_.bias) add_param(Shape{geometry_.top_channels()}, bias_filler_);
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
  const double products = 2 * static_cast<double>(top.size()) *
                          static_cast<double>(geometry_.batch * geometry_.positions()) *
                          static_cast<double>(geometry_.weights().count());
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
  const size_t folded = foldable_steps(tail);
  if (folded > 0 && (trains() || context().on_gpu() || geometry_.axis != 1)) return false;
  const Tail rest(tail.begin() + static_cast<std::ptrdiff_t>(folded), tail.end());
  if (rest.empty()) return true;
  if (rest[0].kind != TailStep::Kind::add) return relu_slope_of(rest).has_value();
  // Bottoms without tops of their own are the tail's: several of both leave that open.
  if (context().on_gpu() || geometry_.transposed() || param().bottom_size() != 1) return false;
  return rest.size() == 1 || relu_slope_of({rest.begin() + 1, rest.end()}).has_value();
}

FoldedParameters* ConvolutionLayer::folded() {
  const std::span<const TailStep> steps = std::span(tail()).first(foldable_steps(tail()));
  if (steps.empty()) return nullptr;
  if (!folded_ || !std::ranges::equal(folded_->steps(), steps)) {
    folded_ = std::make_unique<FoldedParameters>(geometry_, *params()[0], own_bias(),
                                                 Tail(steps.begin(), steps.end()));
  }
  return folded_.get();
}

std::optional<float> ConvolutionLayer::relu() const {
  if (own_relu_ || tail().empty()) return own_relu_;
  return relu_slope_of({tail().back()});
}

Blob* ConvolutionLayer::summand(Blobs bottom) const { return summand_of(tail(), bottom); }

size_t ConvolutionLayer::in_place_bottom() const { return added_bottom(tail()); }

InPlace ConvolutionLayer::reference_in_place() const {
  return in_place_bottom() > 0 ? InPlace::overwrite : InPlace::never;
}

void ConvolutionLayer::begin_forward(Blobs bottom, Blobs top) {
  if (FoldedParameters* const parameters = folded()) parameters->update();
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

void ConvolutionLayer::prepare_sums_diffs(Blobs top) {
  masked_.clear();
  if (!relu() || !trains() || !wanted().top_diffs_stay) return;
  for (const Blob* blob : top) masked_.emplace_back(blob->shape(), dtype(), blob->data.format());
}

void ConvolutionLayer::prepare_engine(Blobs top) {
  columns_ = Tensor(Shape{0}, dtype());
  prepare_sums_diffs(top);
}

size_t ConvolutionLayer::kept_bytes() const {
  size_t bytes = columns_.bytes();
  if (foldable_steps(tail()) > 0) {
    bytes += static_cast<size_t>(geometry_.weights().count() + geometry_.top_channels()) *
             size_of(dtype());
  }
  for (const Tensor& tensor : masked_) bytes += tensor.bytes();
  return bytes;
}

void ConvolutionLayer::prepare_reference(Blobs, Blobs top) {
  prepare_sums_diffs(top);
  if (!geometry_.is_pointwise()) {
    columns_.set_layout(dtype(), Format::contiguous);
    columns_.reshape(Shape{geometry_.kernel_count(), geometry_.positions()});
  }
}

ChannelView ConvolutionLayer::top_view(Format format) const {
  const ChannelView view{geometry_.batch, geometry_.top_channels(), geometry_.top_positions()};
  return format == Format::channels_last ? ChannelView{view.each(), view.channels, 1} : view;
}

void ConvolutionLayer::finish(const Side& side, Tensor& y) {
  if (!bias() && !relu()) return;
  dispatch_float(dtype(), [&]<class T>(T) {
    const AddBias<T> body{read_parameter<T>(side, bias()), {relu().value_or(1)}, side.change<T>(y)};
    if (block_of(y.format()) > 1) {
      for_each(BlockRows{top_view(y.format()), block_of(y.format())}, body);
    } else {
      for_each(side, top_view(y.format()), kElementGrain, body);
    }
  });
}

void ConvolutionLayer::undo_relu(const Side& side, Blobs top) {
  if (!relu()) return;
  dispatch_float(dtype(), [&]<class T>(T) {
    for (size_t i = 0; i < top.size(); ++i) {
      const T *dy = side.read<T>(top[i]->diff), *y = side.read<T>(top[i]->data);
      for_each(side, top[i]->data.storage(), kElementGrain,
               UndoReLU<T>{{*relu()}, dy, y, side.overwrite<T>(sums_diff(top, i))});
    }
  });
}

void ConvolutionLayer::backward_bias(const Side& side, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    for (size_t i = 0; i < top.size(); ++i) {
      const Tensor& diff = sums_diff(top, i);
      const ChannelView view = top_view(diff.format());
      const T* dy = side.read<T>(diff);
      const T beta = static_cast<T>(bias()->begin_gradient());
      const AccumulateSum<T> store{beta, side.change<T>(bias()->diff)};
      if (block_of(diff.format()) > 1) {
        channel_sums(BlockRows{view, block_of(diff.format())}, dy, block_sums_, store);
      } else {
        channel_sums(side, view, kElementGrain, ValueTerm<T>{dy}, store);
      }
    }
  });
}

template <class T>
const T* ConvolutionLayer::columns_of(const T* image) {
  if (geometry_.is_pointwise()) return image;
  T* const columns = columns_.host_overwrite<T>();
  unfold(geometry_, image, columns);
  return columns;
}

template <class T>
void ConvolutionLayer::multiply(const T* x, T beta, T* y) {
  const Products p(geometry_);
  const T* const w = weights().data.host<T>();
  p.each([&](int64_t, int64_t of_w, int64_t of_x, int64_t of_y) {
    gemm<T>(false, false, p.outputs, p.positions, p.taps, T{1}, w + of_w, columns_of(x + of_x),
            beta, y + of_y);
  });
}

template <class T>
void ConvolutionLayer::multiply_transposed(const T* y, T* x) {
  const Products p(geometry_);
  const T* const w = weights().data.host<T>();
  const bool direct = geometry_.is_pointwise();
  p.each([&](int64_t, int64_t of_w, int64_t of_x, int64_t of_y) {
    T* const columns = direct ? x + of_x : columns_.host_overwrite<T>();
    gemm<T>(true, false, p.taps, p.positions, p.outputs, T{1}, w + of_w, y + of_y, T{0}, columns);
    if (!direct) fold(geometry_, columns, x + of_x);
  });
}

template <class T>
void ConvolutionLayer::add_weights_gradient(const T* x, const T* dy) {
  const Products p(geometry_);
  const T beta = static_cast<T>(weights().begin_gradient());
  T* const dw = weights().diff.host_mut<T>();
  if (beta == T{0} && geometry_.batch == 0) weights().diff.fill(0);
  p.each([&](int64_t image, int64_t of_w, int64_t of_x, int64_t of_y) {
    gemm<T>(false, true, p.outputs, p.taps, p.positions, T{1}, dy + of_y, columns_of(x + of_x),
            image == 0 ? beta : T{1}, dw + of_w);
  });
}

void ConvolutionLayer::forward_cpu(Blobs bottom, Blobs top) {
  begin_forward(bottom, top);
  dispatch_float(dtype(), [&]<class T>(T) {
    const T beta{summand(bottom) != nullptr ? T{1} : T{0}};
    for (size_t i = 0; i < top.size(); ++i) {
      const T* const of_bottom = bottom[i]->data.template host<T>();
      if (geometry_.transposed()) {
        multiply_transposed(of_bottom, top[i]->data.template host_overwrite<T>());
      } else {
        multiply(of_bottom, beta, top[i]->data.template host_mut<T>());
      }
      finish(Side(), top[i]->data);
    }
  });
}

void ConvolutionLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  undo_relu(Side(), top);
  if (bias() && bias()->needs_gradient) backward_bias(Side(), top);
  dispatch_float(dtype(), [&]<class T>(T) {
    const bool transposed = geometry_.transposed();
    for (size_t i = 0; i < top.size(); ++i) {
      const T* const of_top = sums_diff(top, i).template host<T>();
      if (weights().needs_gradient) {
        const T* const of_bottom = bottom[i]->data.template host<T>();
        add_weights_gradient(transposed ? of_top : of_bottom, transposed ? of_bottom : of_top);
      }
      if (!propagate[i]) continue;
      T* const wanted = bottom[i]->diff.template host_overwrite<T>();
      transposed ? multiply(of_top, T{0}, wanted) : multiply_transposed(of_top, wanted);
    }
  });
  pass_to_summand(top, propagate, bottom);
}

void add_convolution_type(Registry& registry, const std::string& type,
                          ConvolutionGeometry::Kind kind) {
  registry.add(type, [kind](const LayerInit& init) {
    return std::make_unique<ConvolutionLayer>(init, init.param.convolution_param(), kind);
  });
}

void register_convolution(Registry& registry) {
  add_convolution_type(registry, "Convolution", ConvolutionGeometry::Kind::convolution);
  register_convolution_engines(registry);
  add_convolution_library(registry, direct_convolutions());
  add_convolution_library(registry, winograd_convolutions());
  add_convolution_library(registry, im2col_convolutions());
  add_convolution_library(registry, depthwise_convolutions());
}

}  // namespace crema
