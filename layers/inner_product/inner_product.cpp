// InnerProduct: y = act(W x + b). See README.md.
#include <optional>
#include <vector>

#include "backend/cpu/thin_product.hpp"
#include "backend/relu.hpp"
#include "core/dispatch.hpp"
#include "core/simd.hpp"
#include "kit/gemm.hpp"
#include "kit/native_engine.hpp"
#include "kit/options.hpp"
#include "kit/passes.hpp"
#include "kit/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The products of ThinProduct (backend/cpu/thin_product.hpp) by the library of the side.
template <class T>
struct LibraryProduct {
  const Side& side;
  int64_t batch, rows, columns;

  void times_transposed(const T* a, const T* matrix, T* out) const {
    gemm<T>(side, false, true, batch, rows, columns, a, matrix, 0, out);
  }
  void times(const T* a, const T* matrix, T* out) const {
    gemm<T>(side, false, false, batch, columns, rows, a, matrix, 0, out);
  }
  void outer(const T* a, const T* b, T beta, T* matrix) const {
    gemm<T>(side, true, false, rows, columns, batch, a, b, beta, matrix);
  }
};

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
  bool adopt(std::vector<Tensor>& published) const override {
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
    return {product, 2 * product};
  }

  /// A ReLU with a slope that is not negative: it is applied in the pass that adds the bias.
  bool accepts(const Tail& tail) const override {
    return !own_relu_ && relu_slope_of(tail).has_value();
  }

  // x is (batch, inputs), y is (batch, outputs), W (outputs, inputs), or (inputs, outputs) if
  // transposed.
  int64_t batch() const { return batch_; }
  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  int64_t weight_rows() const { return transposed_ ? inputs_ : outputs_; }
  int64_t weight_columns() const { return transposed_ ? outputs_ : inputs_; }

  void prepare_reference(Blobs, Blobs top) override {
    masked_.set_layout(dtype(), Format::contiguous);
    masked_.reshape(relu_slope() && trains() ? top[0]->shape() : Shape{0});
  }
  size_t kept_bytes() const override { return masked_.bytes(); }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&](auto zero) {
      LibraryProduct<decltype(zero)> product{side, batch_, weight_rows(), weight_columns()};
      forward_by<decltype(zero)>(side, product, bottom, top);
    });
  }
  void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&](auto zero) {
      LibraryProduct<decltype(zero)> product{side, batch_, weight_rows(), weight_columns()};
      backward_by<decltype(zero)>(side, product, top, propagate, bottom);
    });
  }

  // The passes by a LibraryProduct or a ThinProduct.
  template <class T, class Product>
  void forward_by(const Side& side, Product& product, Blobs bottom, Blobs top) {
    const T *x = side.read<T>(bottom[0]->data), *w = side.read<T>(params()[0]->data);
    T* y = side.overwrite<T>(top[0]->data);
    transposed_ ? product.times(x, w, y) : product.times_transposed(x, w, y);
    if (!has_bias_ && !relu_slope()) return;
    const T* bias = has_bias_ ? side.read<T>(params()[1]->data) : nullptr;
    for_each(side, view(), kElementGrain, AddBias<T>{bias, relu(), y});
  }

  template <class T, class Product>
  void backward_by(const Side& side, Product& product, Blobs top,
                   const std::vector<bool>& propagate, Blobs bottom) {
    const T* dy = side.read<T>(top[0]->diff);
    if (relu_slope()) {
      T* masked = side.overwrite<T>(masked_);
      const T* y = side.read<T>(top[0]->data);
      for_each(side, view().count(), kElementGrain, UndoReLU<T>{relu(), dy, y, masked});
      dy = masked;
    }
    if (has_bias_ && params()[1]->needs_gradient) {
      const T beta = static_cast<T>(params()[1]->begin_gradient());
      channel_sums(side, view(), kElementGrain, ValueTerm<T>{dy},
                   AccumulateSum<T>{beta, side.change<T>(params()[1]->diff)});
    }
    Parameter& weight = *params()[0];
    if (weight.needs_gradient) {
      const T* x = side.read<T>(bottom[0]->data);
      const T beta = static_cast<T>(weight.begin_gradient());
      T* dw = side.change<T>(weight.diff);
      transposed_ ? product.outer(x, dy, beta, dw) : product.outer(dy, x, beta, dw);
    }
    if (!propagate[0]) return;
    const T* w = side.read<T>(weight.data);
    T* dx = side.overwrite<T>(bottom[0]->diff);
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
  std::optional<float> own_relu_;  // the slope, if the message sets relu
  Tensor
      masked_;  // (batch, outputs): dy through the ReLU; the top's own diff is not ours to change
};

// Where it is faster than the GEMM of libraries, by measurement (README.md): one row is a GEMV;
// many rows, or weights that a cache holds, make up for what packing costs. Threads share the rows
// of the stored weights, or for one of the products blocks of 32 columns, so both sides have to be
// long. How many threads there are does not count: two were measured, and with kMinSide columns
// more than 8 find nothing to do in that product.
constexpr int64_t kMinRows = 2, kMaxRows = 64;
constexpr int64_t kMinWeights = 1'000'000;
constexpr int64_t kMinSide = 256;

/// The engine for small batches and big weights: f32, contiguous. Each product reads or writes the
/// weights once, where they lie.
class InnerProductNative : public NativeEngine<InnerProductLayer> {
 public:
  void resume(Layer& layer, Blobs bottom, Blobs top) override {
    of(layer).prepare_reference(bottom, top);
  }
  size_t extra_bytes() const override { return product_.bytes(); }

 protected:
  std::vector<Option> layouts(const InnerProductLayer& layer, Blobs bottom, Blobs top,
                              std::string& why) override {
    const int64_t batch = layer.batch(), inputs = layer.inputs(), outputs = layer.outputs();
    const bool pays = simd_level() >= SimdLevel::avx2 && batch >= kMinRows && batch <= kMaxRows &&
                      inputs * outputs >= kMinWeights && std::min(inputs, outputs) >= kMinSide;
    // If the engine is selected by name, it runs every shape.
    const std::string& asked =
        layer.param().engine().empty() ? layer.context().engine() : layer.param().engine();
    if (asked == "native" || pays) return {uniform_option(bottom, top, DType::f32)};
    why = "a library's matrix product is faster for this shape";
    return {};
  }
  void plan(InnerProductLayer& layer, Blobs bottom, Blobs top) override {
    layer.prepare_reference(bottom, top);
    product_ = ThinProduct(layer.batch(), layer.weight_rows(), layer.weight_columns(),
                           layer.context().threads());
  }
  void run_forward(InnerProductLayer& layer, Blobs bottom, Blobs top) override {
    layer.forward_by<float>(Side(), product_, bottom, top);
  }
  void run_backward(InnerProductLayer& layer, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    layer.backward_by<float>(Side(), product_, top, propagate, bottom);
  }

 private:
  ThinProduct product_;  // of the batch and the weights, as they are stored
};

}  // namespace

void register_inner_product(Registry& registry) {
  add_two_sided<InnerProductLayer>(registry, "InnerProduct");
  registry.add_engine<InnerProductNative>("InnerProduct", "native", DeviceType::cpu);
}

}  // namespace crema
