// MarginInnerProduct: an inner product with a margin in the angle to the own class. See README.md.
#include <algorithm>
#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/gemm.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/position_sums.hpp"
#include "layer_support/rows.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The product with the own class is |x| * value(cos of the angle): the product without margin,
/// weighed by lambda, and the one with it.
struct Margin {
  int m;
  double lambda;

  struct Slope {
    double value, slope;  // and the derivative by the cosine
  };
  /// psi(theta) = (-1)^k cos(m theta) - 2 k for theta in [k pi / m, (k + 1) pi / m].
  CREMA_FUNCTOR Slope psi(double c) const {
    const double square = c * c;
    if (m == 1) return {c, 1};
    if (m == 2) {
      const double sign = c >= 0 ? 1 : -1;
      return {sign * (2 * square - 1) - (c >= 0 ? 0 : 2), sign * 4 * c};
    }
    if (m == 3) {
      const int k = c >= 0.5 ? 0 : c >= -0.5 ? 1 : 2;
      const double sign = k == 1 ? -1 : 1;
      return {sign * c * (4 * square - 3) - 2 * k, sign * (12 * square - 3)};
    }
    const bool outer = square >= 0.5;  // |cos| >= cos(pi / 4)
    const int k = c >= 0 ? (outer ? 0 : 1) : (outer ? 3 : 2);
    const double sign = k % 2 == 0 ? 1 : -1;
    return {sign * (8 * square * (square - 1) + 1) - 2 * k, sign * c * (32 * square - 16)};
  }
  CREMA_FUNCTOR Slope operator()(double c) const {
    const Slope with = psi(c);
    return {(lambda * c + with.value) / (1 + lambda), (lambda + with.slope) / (1 + lambda)};
  }
};

template <class T>
struct Square {
  const T* x;
  CREMA_FUNCTOR double operator()(int64_t at) const {
    return static_cast<double>(x[at]) * static_cast<double>(x[at]);
  }
};
/// The length of a row, from the sum of its squares.
struct StoreLength {
  double* length;
  CREMA_FUNCTOR void operator()(int64_t i, double sum) const { length[i] = std::sqrt(sum); }
};

/// unit = x / length for each row; a row of zeros stays.
template <class T>
struct UnitRows {
  const T* x;
  const double* length;
  T* unit;
  CREMA_FUNCTOR void operator()(int64_t at, int64_t row) const {
    unit[at] = length[row] > 0 ? static_cast<T>(static_cast<double>(x[at]) / length[row]) : T{0};
  }
};

/// Puts the margin into the product with the own class, and keeps its cosine.
template <class T>
struct ApplyMargin {
  Margin margin;
  int64_t classes;
  const int64_t* label;
  const double* length;  // of x
  double* cosine;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    T& own = y[i * classes + label[i]];
    // Rounding must not take it beyond 1; NaN stays.
    double c = length[i] > 0 ? static_cast<double>(own) / length[i] : 0;
    c = c > 1 ? 1 : c < -1 ? -1 : c;
    cosine[i] = c;
    own = static_cast<T>(length[i] * margin(c).value);
  }
};

/// With y = |x| g(c): dy is multiplied by g'(c) where it goes to x through the product, and
/// (g - c g') / |x| times x is added to dx. Writes the first into `dy`, the second's factor into
/// `along`.
template <class T>
struct MarginGradient {
  Margin margin;
  int64_t classes;
  const int64_t* label;
  const double *length, *cosine;
  T* dy;
  double* along;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    T& own = dy[i * classes + label[i]];
    const Margin::Slope g = margin(cosine[i]);
    const double gradient = static_cast<double>(own);
    along[i] = length[i] > 0 ? gradient * (g.value - cosine[i] * g.slope) / length[i] : 0;
    own = static_cast<T>(gradient * g.slope);
  }
};

template <class T>
struct AddAlong {
  const double* along;
  const T* x;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t at, int64_t row) const {
    dx[at] += static_cast<T>(along[row]) * x[at];
  }
};

/// The gradient of the weights from that of their unit vectors u: (du - (du . u) u) / |w|.
template <class T>
struct WeightGradient {
  AxisSplit split;  // (classes, width)
  const T *unit, *d_unit;
  const double* length;
  T* gradient;

  CREMA_FUNCTOR double product(int64_t at) const {
    return static_cast<double>(unit[at]) * static_cast<double>(d_unit[at]);
  }
  CREMA_FUNCTOR void add(int64_t at, double along, double inverse) const {
    const double across = static_cast<double>(d_unit[at]) - along * static_cast<double>(unit[at]);
    gradient[at] += static_cast<T>(across * inverse);
  }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      if (length[i] == 0) continue;
      const int64_t first = i * split.size, last = first + split.size;
      const double along = sum_of_piece(first, last, [this](int64_t at) { return product(at); });
      const double inverse = 1 / length[i];
#pragma omp simd
      for (int64_t at = first; at < last; ++at) add(at, along, inverse);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    if (length[i] == 0) return;
    double along = 0;
    for (int64_t k = lanes.first; k < split.size; k += lanes.count)
      along += product(i * split.size + k);
    along = lanes.sum(along);
    for (int64_t k = lanes.first; k < split.size; k += lanes.count)
      add(i * split.size + k, along, 1 / length[i]);
  }
};

class MarginInnerProductLayer : public TwoSidedLayer {
 public:
  explicit MarginInnerProductLayer(const LayerInit& init)
      : TwoSidedLayer(init), outputs_(settings().num_output()), axis_(settings().axis()) {
    if (outputs_ == 0)
      throw Error("num_output is missing or 0; say margin_inner_product_param { num_output: N }, ",
                  "the number of classes");
    const auto check = [](const char* name, double value) {
      if (!(value >= 0 && std::isfinite(value)))
        throw Error(name, " ", value, " would make lambda no weight; give a number from 0 on");
    };
    check("base", settings().base());
    check("gamma", settings().gamma());
    check("lambda_min", settings().lambda_min());
    check("power", settings().power());
    if (settings().iteration() < 0)
      throw Error("iteration ", settings().iteration(), " is negative; the first is 0");
  }

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = 2, .min_tops = 1, .max_tops = 2};
  }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  bool has_gradient(int top) const override { return top == 0; }

  void setup(Blobs bottom, Blobs) override {
    const Shape& shape = bottom[0]->shape();
    inputs_ = shape.count(shape.canonical_axis(axis_));
    if (inputs_ == 0)
      throw Error("the bottom '", bottom[0]->name, "' (", shape.str(),
                  ") has no values behind axis ", axis_, "; there is nothing to multiply");
    weights_ = &add_param(Shape{outputs_, inputs_}, Filler(settings().weight_filler()));
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    const int axis = shape.canonical_axis(axis_);
    if (shape.count(axis) != inputs_)
      throw Error("the bottom '", bottom[0]->name, "' (", shape.str(), ") has ", shape.count(axis),
                  " values behind axis ", axis, ", but the weights were made for ", inputs_,
                  "; keep the size of the input");
    batch_ = shape.count(0, axis);
    if (bottom[1]->count() != batch_)
      throw Error("'", bottom[0]->name, "' (", shape.str(), ") has ", batch_, " samples, but '",
                  bottom[1]->name, "' (", bottom[1]->shape().str(), ") has ", bottom[1]->count(),
                  " labels; give one label for each sample");
    const Shape samples(std::vector(shape.dims().begin(), shape.dims().begin() + axis));
    check_in_step(*bottom[0], samples, *bottom[1]);
    top[0]->reshape(Shape{batch_, outputs_});
    if (top.size() > 1) top[1]->reshape(Shape{});
  }
  void prepare_reference(Blobs, Blobs) override {
    for (Tensor* values : {&length_, &cosine_, &along_}) values->reshape(Shape{batch_});
    weight_length_.reshape(Shape{outputs_});
    const auto scratch = [this](Tensor& values, const Shape& shape) {
      values.reshape(shape);
      values.set_layout(dtype(), Format::contiguous);
    };
    scratch(unit_, {outputs_, inputs_});
    scratch(d_unit_, {trains() ? outputs_ : 0, inputs_});
    scratch(d_product_, {trains() ? batch_ : 0, outputs_});
  }
  size_t kept_bytes() const override {
    size_t bytes = labels_.bytes();
    for (const Tensor* values :
         {&length_, &cosine_, &along_, &weight_length_, &unit_, &d_unit_, &d_product_})
      bytes += values->bytes();
    return bytes;
  }
  Flops flops(Blobs bottom, Blobs) const override {
    const double product =
        2.0 * static_cast<double>(bottom[0]->count()) * static_cast<double>(outputs_);
    return {product, 2 * product};
  }

  /// Lambda follows the iteration.
  bool capturable() const override { return false; }
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    labels_.read(device, *this, *bottom[1], outputs_, "raise num_output or fix the labels");
    lambda_ = lambda();
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *x = device.read<T>(bottom[0]->data), *w = device.read<T>(weights_->data);
      T *unit = device.overwrite<T>(unit_), *y = device.overwrite<T>(top[0]->data);
      double *length = device.overwrite<double>(length_),
             *of_weight = device.overwrite<double>(weight_length_);
      position_sums(device, samples(), Square<T>{x}, StoreLength{length});
      position_sums(device, classes(), Square<T>{w}, StoreLength{of_weight});
      for_each(device, ChannelView{1, outputs_, inputs_}, kElementGrain,
               UnitRows<T>{w, of_weight, unit});
      if (batch_ > 0)
        gemm<T>(device, arithmetic().math, false, true, batch_, outputs_, inputs_, x, unit, T{0},
                y);
      for_each(device, batch_, kPassGrain,
               ApplyMargin<T>{margin(), outputs_, labels_.indices(device), length,
                              device.overwrite<double>(cosine_), y});
      if (top.size() > 1) top[1]->data.template overwrite<T>()[0] = static_cast<T>(lambda_);
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (batch_ == 0) return;
    copy(device, top[0]->diff, d_product_);
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *x = device.read<T>(bottom[0]->data), *unit = device.read<T>(unit_);
      T* dy = device.change<T>(d_product_);
      double* along = device.overwrite<double>(along_);
      for_each(
          device, batch_, kPassGrain,
          MarginGradient<T>{margin(), outputs_, labels_.indices(device),
                            device.read<double>(length_), device.read<double>(cosine_), dy, along});
      if (T* const gradient = gradient_of<T>(device, weights_)) {
        T* d_unit = device.overwrite<T>(d_unit_);
        gemm<T>(device, arithmetic().math, true, false, outputs_, inputs_, batch_, dy, x, T{0},
                d_unit);
        for_each_position(device, classes(), kElementGrain,
                          WeightGradient<T>{classes(), unit, d_unit,
                                            device.read<double>(weight_length_), gradient});
      }
      if (!propagate[0]) return;
      T* dx = device.overwrite<T>(bottom[0]->diff);
      gemm<T>(device, arithmetic().math, false, false, batch_, inputs_, outputs_, dy, unit, T{0},
              dx);
      for_each(device, ChannelView{1, batch_, inputs_}, kElementGrain, AddAlong<T>{along, x, dx});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0}, false}; }

 private:
  const MarginInnerProductParameter& settings() const {
    return param().margin_inner_product_param();
  }
  /// Of this pass. The published layer counts its passes from 1.
  double lambda() const {
    const double passes =
        1 + static_cast<double>(settings().iteration()) + static_cast<double>(run().iteration);
    const double falling =
        settings().base() * std::pow(1 + settings().gamma() * passes, -settings().power());
    return std::max<double>(settings().lambda_min(), falling);
  }
  Margin margin() const { return {static_cast<int>(settings().type()) + 1, lambda_}; }
  AxisSplit samples() const { return rows(batch_); }
  AxisSplit classes() const { return rows(outputs_); }
  AxisSplit rows(int64_t count) const {
    AxisSplit split;
    split.outer = count;
    split.size = inputs_;
    return split;
  }

  int64_t outputs_;
  int axis_;
  int64_t inputs_ = 0, batch_ = 0;
  double lambda_ = 0;  // of the last forward
  Parameter* weights_ = nullptr;
  RowIndices labels_;
  Tensor length_{Shape{0}, DType::f64}, cosine_{Shape{0}, DType::f64};  // one a sample
  Tensor along_{Shape{0}, DType::f64};                                  // see MarginGradient
  Tensor weight_length_{Shape{0}, DType::f64};                          // one a class
  Tensor unit_, d_unit_;  // (classes, inputs): weights of length 1, and their gradient
  Tensor d_product_;      // (samples, classes): the gradient of the products
};

}  // namespace

void register_margin_inner_product(Registry& registry) {
  add_two_sided<MarginInnerProductLayer>(registry, "MarginInnerProduct");
}

}  // namespace crema
