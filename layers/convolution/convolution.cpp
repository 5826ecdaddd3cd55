#include "layers/convolution/convolution.hpp"

#include <algorithm>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/convolutions.hpp"
#include "core/dispatch.hpp"
#include "layer_support/options.hpp"
#include "layer_support/summand.hpp"
#include "layer_support/unused_settings.hpp"
#include "layers/convolution/ends.hpp"
#include "layers/convolution/engine.hpp"
#include "layers/convolution/unfold.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

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

ConvolutionLayer::~ConvolutionLayer() = default;

Arity ConvolutionLayer::arity() const { return {.max_bottoms = -1, .max_tops = -1}; }

void ConvolutionLayer::setup(Blobs bottom, Blobs top) {
  if (bottom.size() != top.size())
    throw Error("has ", bottom.size(), " bottoms and ", top.size(),
                " tops; give each bottom a top");
  geometry_.set_up(bottom[0]->shape());
  add_param(geometry_.weights(), weight_filler_);
  if (geometry_.bias) add_param(Shape{geometry_.top_channels()}, bias_filler_);
}

bool ConvolutionLayer::convert_weights(std::vector<Tensor>& published) const {
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
  if (folded > 0 && (trains() || geometry_.axis != 1)) return false;
  const Tail rest(tail.begin() + static_cast<std::ptrdiff_t>(folded), tail.end());
  if (rest.empty()) return true;
  if (rest[0].kind != TailStep::Kind::add) return relu_slope_of(rest).has_value();
  // Bottoms without tops of their own are the tail's: several of both leave that open.
  if (geometry_.transposed() || param().bottom_size() != 1) return false;
  return rest.size() == 1 || relu_slope_of({rest.begin() + 1, rest.end()}).has_value();
}

bool ConvolutionLayer::has_bias() const { return geometry_.bias || foldable_steps(tail()) > 0; }

std::optional<float> ConvolutionLayer::relu() const {
  if (own_relu_ || tail().empty()) return own_relu_;
  return relu_slope_of({tail().back()});
}

Blob* ConvolutionLayer::summand(Blobs bottom) const { return summand_of(tail(), bottom); }

size_t ConvolutionLayer::in_place_bottom() const { return added_bottom(tail()); }

InPlace ConvolutionLayer::reference_in_place() const {
  return in_place_bottom() > 0 ? InPlace::overwrite : InPlace::never;
}

BackwardReads ConvolutionLayer::reference_backward_reads() const {
  IndexSet bottoms = params()[0]->needs_gradient;
  if (bottoms && in_place_bottom() > 0) bottoms = {0};
  return {.bottom_data = bottoms, .top_data = relu().has_value()};
}

size_t ConvolutionLayer::kept_bytes() const {
  return columns_.bytes() + (ends_ ? ends_->bytes() : 0);
}

void ConvolutionLayer::prepare_reference(Blobs, Blobs top) {
  if (!ends_) ends_ = std::make_unique<ConvolutionEnds>(*this);
  ends_->fit(top);
  if (!geometry_.is_pointwise()) {
    columns_.set_layout(dtype(), Format::contiguous);
    columns_.reshape(Shape{geometry_.kernel_count(), geometry_.positions()});
  }
}

template <class T>
const T* ConvolutionLayer::columns_of(const T* image) {
  if (geometry_.is_pointwise()) return image;
  T* const columns = columns_.overwrite<T>();
  unfold(geometry_, image, columns);
  return columns;
}

template <class T>
void ConvolutionLayer::multiply(const T* x, T beta, T* y) {
  const Products p(geometry_);
  const T* const w = ends_->weights().data.read<T>();
  p.each([&](int64_t, int64_t of_w, int64_t of_x, int64_t of_y) {
    gemm<T>(false, false, p.outputs, p.positions, p.taps, T{1}, w + of_w, columns_of(x + of_x),
            beta, y + of_y);
  });
}

template <class T>
void ConvolutionLayer::multiply_transposed(const T* y, T* x) {
  const Products p(geometry_);
  const T* const w = ends_->weights().data.read<T>();
  const bool direct = geometry_.is_pointwise();
  p.each([&](int64_t, int64_t of_w, int64_t of_x, int64_t of_y) {
    T* const columns = direct ? x + of_x : columns_.overwrite<T>();
    gemm<T>(true, false, p.taps, p.positions, p.outputs, T{1}, w + of_w, y + of_y, T{0}, columns);
    if (!direct) fold(geometry_, columns, x + of_x);
  });
}

template <class T>
void ConvolutionLayer::add_weights_gradient(const T* x, const T* dy) {
  const Products p(geometry_);
  const T beta = static_cast<T>(ends_->weights().begin_gradient());
  T* const dw = ends_->weights().diff.change<T>();
  if (beta == T{0} && geometry_.batch == 0) ends_->weights().diff.fill(0);
  p.each([&](int64_t image, int64_t of_w, int64_t of_x, int64_t of_y) {
    gemm<T>(false, true, p.outputs, p.taps, p.positions, T{1}, dy + of_y, columns_of(x + of_x),
            image == 0 ? beta : T{1}, dw + of_w);
  });
}

void ConvolutionLayer::forward_cpu(Blobs bottom, Blobs top) {
  ends_->fold(ComputeDevice());
  ends_->take_summand(ComputeDevice(), bottom, top);
  dispatch_float(dtype(), [&]<class T>(T) {
    const T beta{summand(bottom) != nullptr ? T{1} : T{0}};
    for (size_t i = 0; i < top.size(); ++i) {
      const T* const of_bottom = bottom[i]->data.template read<T>();
      if (geometry_.transposed()) {
        multiply_transposed(of_bottom, top[i]->data.template overwrite<T>());
      } else {
        multiply(of_bottom, beta, top[i]->data.template change<T>());
      }
      ends_->finish(ComputeDevice(), top[i]->data);
    }
  });
}

void ConvolutionLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  ends_->undo_relu(ComputeDevice(), top);
  if (ends_->bias() && ends_->bias()->needs_gradient) ends_->backward_bias(ComputeDevice(), top);
  dispatch_float(dtype(), [&]<class T>(T) {
    const bool transposed = geometry_.transposed();
    for (size_t i = 0; i < top.size(); ++i) {
      const T* const of_top = ends_->sums_diff(top, i).template read<T>();
      if (ends_->weights().needs_gradient) {
        const T* const of_bottom = bottom[i]->data.template read<T>();
        add_weights_gradient(transposed ? of_top : of_bottom, transposed ? of_bottom : of_top);
      }
      if (!propagate[i]) continue;
      T* const wanted = bottom[i]->diff.template overwrite<T>();
      transposed ? multiply(of_top, T{0}, wanted) : multiply_transposed(of_top, wanted);
    }
  });
  ends_->pass_to_summand(ComputeDevice(), top, propagate, bottom);
}

void ConvolutionLayer::log_once(const std::string& what) const {
  if (what == logged_) return;
  logged_ = what;
  context().log(Severity::info, text("layer '", name(), "' (", type(), ") ", what));
}

void add_convolution_type(Registry& registry, const std::string& type,
                          ConvolutionGeometry::Kind kind) {
  registry.add(type, [kind](const LayerInit& init) {
    return std::make_unique<ConvolutionLayer>(init, init.param.convolution_param(), kind);
  });
}

void register_convolution(Registry& registry) {
  add_convolution_type(registry, "Convolution", ConvolutionGeometry::Kind::convolution);
  add_tuned_convolution(registry);
  add_convolution_library(registry, direct_convolutions());
  add_convolution_library(registry, winograd_convolutions());
  add_convolution_library(registry, im2col_convolutions());
  add_convolution_library(registry, depthwise_convolutions());
}

}  // namespace crema
