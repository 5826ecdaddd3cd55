// InnerProduct: y = act(W x + b). See README.md.
#include <algorithm>
#include <optional>
#include <vector>

#include "backend/relu.hpp"
#include "core/dispatch.hpp"
#include "core/published_engine.hpp"
#include "core/simd.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/gemm.hpp"
#include "layer_support/matrix_products.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/summand.hpp"
#include "layer_support/two_sided.hpp"
#include "layer_support/unused_settings.hpp"
#include "layers/inner_product/products.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

#include "backend/gelu_math.hpp"

/// y = gelu(y)
template <class T>
struct ApplyGELU {
  GELUMath math;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const { y[i] = math.forward(y[i]); }
};

/// y += x
template <class T>
struct AddValues {
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const { y[i] += x[i]; }
};

/// The activation that ends a tail, beside a ReLU; none without one.
ProductEnd::Activation activation_of(const Tail& tail) {
  if (tail.empty()) return ProductEnd::Activation::none;
  if (tail[0].kind == TailStep::Kind::gelu) return ProductEnd::Activation::gelu;
  if (tail[0].kind == TailStep::Kind::gelu_by_tanh) return ProductEnd::Activation::gelu_by_tanh;
  return ProductEnd::Activation::none;
}

class InnerProductLayer : public TwoSidedLayer {
 public:
  explicit InnerProductLayer(const LayerInit& init) : TwoSidedLayer(init) {
    const InnerProductParameter& settings = init.param.inner_product_param();
    axis_ = settings.axis();
    outputs_ = settings.num_output();
    transposed_ = settings.transpose();
    has_bias_ = settings.bias_term();
    if (outputs_ <= 0)
      throw Error(
          "num_output is missing or 0; say inner_product_param { num_output: N } with N > 0");
    if (settings.relu()) {
      own_relu_ = settings.negative_slope();
      if (!(*own_relu_ >= 0))
        throw Error("negative_slope ", *own_relu_,
                    " is below 0, which only a ReLU layer of its own can do");
    } else {
      warn_without_effect(init, settings, {"negative_slope"}, "without relu: true");
    }
  }

  void setup(Blobs bottom, Blobs) override {
    const Shape& shape = bottom[0]->shape();
    inputs_ = shape.count(shape.canonical_axis(axis_));
    if (inputs_ <= 0)
      throw Error("the bottom '", bottom[0]->name, "' (", shape.str(),
                  ") has no values behind axis ", axis_, "; there is nothing to multiply");
    const InnerProductParameter& settings = param().inner_product_param();
    add_param(transposed_ ? Shape{inputs_, outputs_} : Shape{outputs_, inputs_},
              Filler(settings.weight_filler()));
    if (has_bias_) add_param(Shape{outputs_}, Filler(settings.bias_filler()));
  }

  /// Weights of more axes, as a convolution over all of the bottom has them, and (1, 1, O, K); a
  /// bias with axes of extent 1.
  bool convert_weights(std::vector<Tensor>& published) const override {
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

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    const int axis = shape.canonical_axis(axis_);
    if (shape.count(axis) != inputs_)
      throw Error("the bottom '", bottom[0]->name, "' (", shape.str(), ") has ", shape.count(axis),
                  " values behind axis ", axis_, ", but the weights were made for ", inputs_,
                  "; keep the size of the input, or pool to a fixed size before");
    batch_ = shape.count(0, axis);
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + axis);
    dims.push_back(outputs_);
    top[0]->reshape(Shape(std::move(dims)));
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double product =
        2.0 * static_cast<double>(bottom[0]->count()) * static_cast<double>(outputs_);
    const int gradients =
        static_cast<int>(propagates(0)) + static_cast<int>(params()[0]->needs_gradient);
    return {product, gradients * product};
  }

  /// A ReLU with a slope that is not negative: it is applied in the pass that adds the bias. Where
  /// nothing trains, also a GELU, or a sum with another bottom.
  bool accepts(const Tail& tail) const override {
    if (own_relu_) return false;
    if (relu_slope_of(tail)) return true;
    if (trains() || tail.size() != 1) return false;
    return activation_of(tail) != ProductEnd::Activation::none ||
           tail[0].kind == TailStep::Kind::add;
  }

  // x is (batch, inputs), y is (batch, outputs), W (outputs, inputs), or (inputs, outputs) if
  // transposed.
  int64_t batch() const { return batch_; }
  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  bool transposed() const { return transposed_; }
  /// For the engine of devices.
  InnerProductProblem problem() const {
    return {.batch = batch_,
            .inputs = inputs_,
            .outputs = outputs_,
            .transposed = transposed_,
            .has_bias = has_bias_,
            .relu = relu_slope()};
  }
  ProductSizes product_sizes() const {
    return {batch_, transposed_ ? inputs_ : outputs_, transposed_ ? outputs_ : inputs_};
  }

  void prepare_reference(Blobs, Blobs top) override { masked_ = masked_diff(*top[0]); }
  void prepare_device(Blobs bottom, Blobs top) override {
    prepare_reference(bottom, top);
    scratch_bytes_ = has_bias_ && trains() ? channels::sums_scratch_bytes(context(), {view()}) : 0;
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  /// Memory for the diff of a top through the ReLU, which backward_by() writes: the diff itself is
  /// not the layer's to change. (batch, outputs), or empty where backward needs none.
  Tensor masked_diff(const Blob& top) const {
    return Tensor(relu_slope() && trains() ? top.shape() : Shape{0}, dtype());
  }
  size_t kept_bytes() const override { return masked_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&](auto zero) {
      LibraryProducts<decltype(zero)> product{{device, arithmetic().math}, product_sizes()};
      forward_by<decltype(zero)>(device, product, bottom, top);
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&](auto zero) {
      LibraryProducts<decltype(zero)> product{{device, arithmetic().math}, product_sizes()};
      backward_by<decltype(zero)>(device, product, top, propagate, bottom, masked_);
    });
  }

  // The passes by LibraryProducts or FasterProducts.
  template <class T, class Product>
  void forward_by(const ComputeDevice& device, Product& product, Blobs bottom, Blobs top) {
    const T *x = device.read<T>(bottom[0]->data), *w = device.read<T>(params()[0]->data);
    T* y = device.overwrite<T>(top[0]->data);
    const T* bias = has_bias_ ? device.read<T>(params()[1]->data) : nullptr;
    const Blob* const other = summand_of(tail(), bottom);
    const T* summand = other != nullptr ? device.read<T>(other->data) : nullptr;
    const ProductEnd::Activation activation = activation_of(tail());
    if constexpr (std::is_same_v<T, float>) {
      const ProductEnd end{bias, relu_slope() ? ProductEnd::Activation::relu : activation,
                           relu_slope().value_or(0), summand};
      if constexpr (std::is_same_v<Product, FasterProducts>) {
        if (!trains()) product.keep_in(&params()[0]->values());
        transposed_ ? product.times(x, w, y, end) : product.times_transposed(x, w, y, end);
        return;
      }
      if (device.on_host()) {
        transposed_ ? product.times(x, w, y) : product.times_transposed(x, w, y);
        return finish_product(batch_, outputs_, y, end);
      }
    }
    transposed_ ? product.times(x, w, y) : product.times_transposed(x, w, y);
    if (has_bias_ || relu_slope())
      for_each(device, view(), kElementGrain, AddBias<T>{bias, relu(), y});
    if (activation != ProductEnd::Activation::none) {
      const GELUMath math{activation == ProductEnd::Activation::gelu_by_tanh};
      for_each(device, view().count(), kElementGrain, ApplyGELU<T>{math, y});
    }
    if (summand != nullptr)
      for_each(device, view().count(), kElementGrain, AddValues<T>{summand, y});
  }

  template <class T, class Product>
  void backward_by(const ComputeDevice& device, Product& product, Blobs top,
                   const std::vector<bool>& propagate, Blobs bottom, Tensor& masked_diff) {
    const T* dy = device.read<T>(top[0]->diff);
    if (relu_slope()) {
      T* masked = device.overwrite<T>(masked_diff);
      const T* y = device.read<T>(top[0]->data);
      for_each(device, view().count(), kElementGrain, UndoReLU<T>{relu(), dy, y, masked});
      dy = masked;
    }
    if (has_bias_ && params()[1]->needs_gradient) {
      const bool overwrites = params()[1]->begin_gradient() == 0;
      channels::add_channel_sums(device, view(), kElementGrain, dy, overwrites,
                                 device.change<T>(params()[1]->diff));
    }
    Parameter& weight = *params()[0];
    if (weight.needs_gradient) {
      const T* x = device.read<T>(bottom[0]->data);
      const T beta = static_cast<T>(weight.begin_gradient());
      T* dw = device.change<T>(weight.diff);
      transposed_ ? product.outer(x, dy, beta, dw) : product.outer(dy, x, beta, dw);
    }
    if (!propagate[0]) return;
    const T* w = device.read<T>(weight.data);
    T* dx = device.overwrite<T>(bottom[0]->diff);
    transposed_ ? product.times_transposed(dy, w, dx) : product.times(dy, w, dx);
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    return {.bottom_data = params().empty() || params()[0]->needs_gradient,
            .top_data = relu_slope().has_value()};
  }

 private:
  /// Slope of the ReLU that ends the layer, if one does.
  std::optional<float> relu_slope() const { return own_relu_ ? own_relu_ : relu_slope_of(tail()); }
  ReLUMath relu() const { return {relu_slope().value_or(1)}; }
  /// The top.
  ChannelView view() const { return {batch_, outputs_, 1}; }

  int axis_ = 1;
  int64_t outputs_ = 0, inputs_ = 0, batch_ = 0;
  bool transposed_ = false, has_bias_ = true;
  size_t scratch_bytes_ = 0;       // on a device
  std::optional<float> own_relu_;  // the slope, if the message sets relu
  Tensor masked_{Shape{0}};        // of the reference
};

// --- The engines: each of the three products by one of several ways ---

constexpr const char* kPassNames[] = {"forward", "backward-data", "backward-weights"};

/// Multiply-adds of a product that is worth measuring: a library computes it in about 10 us.
constexpr int64_t kLeastMeasured = 1 << 20;

/// Rows for which PackedProduct is no candidate.
constexpr int64_t kFewRows = 8;

/// The passes that the net runs, by their indices in kPassNames.
std::vector<size_t> passes_of(const InnerProductLayer& layer) {
  std::vector<size_t> passes = {0};
  if (layer.propagates(0)) passes.push_back(1);
  if (layer.trains() && layer.params()[0]->needs_gradient) passes.push_back(2);
  return passes;
}

/// The product of a pass.
Product product_of(const InnerProductLayer& layer, size_t pass) {
  if (pass == 2) return Product::outer;
  return (pass == 0) == layer.transposed() ? Product::times : Product::times_transposed;
}

/// The way that is taken without tuning, then the others. A packed matrix meets all rows of the
/// batch, and is not worth its packing for a few.
std::vector<ProductKernel> ways_of(const InnerProductLayer& layer, size_t pass,
                                   bool probably_thin) {
  using enum ProductKernel;
  std::vector<ProductKernel> ways = {library, thin};
  if (pass == 0 && layer.batch() > kFewRows) ways.insert(ways.begin(), packed);
  if (simd_level() < SimdLevel::avx2 && ways.size() > 2) std::swap(ways[0], ways[1]);
  if (probably_thin)
    std::stable_partition(ways.begin(), ways.end(), [](ProductKernel way) { return way == thin; });
  return ways;
}

/// Without tuning: the GEMM of a library packs the matrix, which pays for many rows of the batch,
/// and for a matrix that a cache holds. For one row the library has a GEMV.
bool probably_thin(const InnerProductLayer& layer, Product product) {
  const int64_t inputs = layer.inputs(), outputs = layer.outputs();
  const int64_t least = product == Product::times_transposed ? 1 : 2;
  return simd_level() >= SimdLevel::avx2 && layer.batch() >= least && layer.batch() <= 64 &&
         inputs * outputs >= 1'000'000 && std::min(inputs, outputs) >= 256;
}

class InnerProductKernel : public Kernel {
 public:
  InnerProductKernel(InnerProductLayer& layer, bool tuned, const Option& option, Blobs top)
      : Kernel(layer),
        layer_(layer),
        products_(layer.product_sizes(), layer.context().threads()),
        keeps_(!layer.trains()),
        masked_(layer.masked_diff(*top[0])) {
    for (const size_t pass : {0, 1, 2}) products_.choose(product_of(layer, pass), !tuned);
    const std::vector<size_t> passes = passes_of(layer);
    for (size_t i = 0; i < std::min(passes.size(), option.choice.size()); ++i) {
      detail_ +=
          text(i > 0 ? ", " : "", kPassNames[passes[i]], " ",
               take_choice(layer.context(), layer.product_sizes(), product_of(layer, passes[i]),
                           without_mark(option.choice[i]), products_, keeps_));
    }
  }
  void forward(Blobs bottom, Blobs top) override {
    layer_.forward_by<float>(ComputeDevice(), products_, bottom, top);
  }
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    layer_.backward_by<float>(ComputeDevice(), products_, top, propagate, bottom, masked_);
  }
  size_t bytes() const override { return products_.bytes(keeps_) + masked_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const override { products_.plan_scratch(plan, keeps_); }
  std::string detail() const override { return detail_; }

 private:
  InnerProductLayer& layer_;
  FasterProducts products_;
  bool keeps_;  // the packed weights
  Tensor masked_;
  std::string detail_;
};

/// f32, contiguous. "tuned" takes the fastest way for each product, "native" ThinProduct.
class InnerProductEngine : public Engine {
 public:
  explicit InnerProductEngine(bool tuned) : tuned_(tuned) {}

  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string& why) const override {
    if (layer.dtype() != DType::f32) {
      why = text("it computes in f32, not in ", to_string(layer.dtype()));
      return {};
    }
    const std::string forced = forced_engine(layer);
    if (!tuned_ && forced != name()) {
      why = "it serves only where engine 'native' is asked for";
      return {};
    }
    const auto& ip = static_cast<const InnerProductLayer&>(layer);
    if (forced != name() && ip.batch() * ip.inputs() * ip.outputs() < kLeastMeasured) {
      why = "the product is too small to measure";
      return {};
    }
    Option option = uniform_option(bottom, top, DType::f32);
    if (tuned_ && ip.batch() > 0) {
      Parameter& weights = *ip.params()[0];
      ProductTrial trial(ip.context(), ip.batch(), weights.data,
                         ip.trains() ? nullptr : &weights.values());
      for (const size_t pass : passes_of(ip)) {
        const Product product = product_of(ip, pass);
        const ProductChoice choice =
            trial.choose(product, ways_of(ip, pass, probably_thin(ip, product)));
        option.choice.push_back(marked_choice(choice.tuned, choice.key));
        option.seconds += choice.tuned.seconds;
      }
    }
    return {option};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option& option, Blobs /*bottom*/,
                               Blobs top) const override {
    return std::make_unique<InnerProductKernel>(static_cast<InnerProductLayer&>(layer), tuned_,
                                                option, top);
  }

 private:
  const char* name() const { return tuned_ ? "tuned" : "native"; }

  const bool tuned_;
};

}  // namespace

void register_inner_product(Registry& registry) {
  registry.add<InnerProductLayer>("InnerProduct");
  add_inner_product_engine(registry, "InnerProduct", [](const Layer& layer) {
    return static_cast<const InnerProductLayer&>(layer).problem();
  });
  for (const bool tuned : {true, false}) {
    registry.add_engine<InnerProductEngine>("InnerProduct", tuned ? "tuned" : "native",
                                            DeviceType::cpu, tuned);
  }
}

}  // namespace crema
