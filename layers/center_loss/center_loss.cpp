// CenterLoss: half the squared distance of each sample to the learned centre of its class. See
// README.md.
#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/rows.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The squared distance of each sample to its centre.
template <class T>
struct MeasureSamples {
  AxisSplit split;  // (samples, values of one)
  const int64_t* label;
  const T *x, *centre;
  double* squared;

  CREMA_FUNCTOR double term(int64_t i, int64_t k) const {
    const double difference = static_cast<double>(x[i * split.size + k]) -
                              static_cast<double>(centre[label[i] * split.size + k]);
    return difference * difference;
  }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i)
      squared[i] = sum_of_piece(0, split.size, [this, i](int64_t k) { return term(i, k); });
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    double sum = 0;
    for (int64_t k = lanes.first; k < split.size; k += lanes.count) sum += term(i, k);
    sum = lanes.sum(sum);
    if (lanes.first == 0) squared[i] = sum;
  }
};

struct Stored {
  const double* value;
  CREMA_FUNCTOR double operator()(int64_t i) const { return value[i]; }
};

/// dx = scale * (x - centre).
template <class T>
struct SampleGradient {
  AxisSplit split;
  SeedFactor<T> scale;
  const int64_t* label;
  const T *x, *centre;
  T* dx;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const T *from = x + i * split.size, *own = centre + label[i] * split.size;
      T* const to = dx + i * split.size;
      const T factor = scale;
#pragma omp simd
      for (int64_t k = 0; k < split.size; ++k) to[k] = factor * (from[k] - own[k]);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const T factor = scale;
    for (int64_t k = lanes.first; k < split.size; k += lanes.count) {
      const int64_t at = i * split.size + k;
      dx[at] = factor * (x[at] - centre[label[i] * split.size + k]);
    }
  }
};

/// Adds to the gradient of each centre that has samples: the sum of (centre - sample), divided by 1
/// plus the number of samples. A position is a group of samples of one label.
template <class T>
struct CentreGradient {
  RowGroups groups;
  int64_t width;
  const T *x, *centre;
  T* gradient;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t g = begin; g < end; ++g) {
      const T* own = centre + groups.row[g] * width;
      T* const to = gradient + groups.row[g] * width;
      const T scale = scale_of(g);
      for (int64_t at = groups.begins[g]; at < groups.begins[g + 1]; ++at) {
        const T* const from = x + groups.order[at] * width;
#pragma omp simd
        for (int64_t k = 0; k < width; ++k) to[k] += scale * (own[k] - from[k]);
      }
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t g, const Lanes& lanes = {}) const {
    if (!groups.is_group(g)) return;
    const int64_t row = groups.row[g] * width, first = groups.first(g);
    const T scale = scale_of(g);
    for (int64_t k = lanes.first; k < width; k += lanes.count) {
      T sum = gradient[row + k];
      for (int64_t at = first; groups.has(g, at); ++at)
        sum += scale * (centre[row + k] - x[groups.order[at] * width + k]);
      gradient[row + k] = sum;
    }
  }
  CREMA_FUNCTOR T scale_of(int64_t g) const {
    int64_t size = 0;
    while (groups.has(g, groups.first(g) + size)) ++size;
    return T{1} / static_cast<T>(1 + size);
  }
};

class CenterLossLayer : public TwoSidedLayer {
 public:
  explicit CenterLossLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        classes_(init.param.center_loss_param().num_output()),
        axis_(init.param.center_loss_param().axis()) {
    if (classes_ == 0)
      throw Error(
          "num_output is missing or 0; say center_loss_param { num_output: N }, the number "
          "of classes");
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  float default_loss_weight(int) const override { return 1; }
  bool can_propagate(int bottom) const override { return bottom == 0; }

  void setup(Blobs bottom, Blobs) override {
    const Shape& shape = bottom[0]->shape();
    width_ = shape.count(shape.canonical_axis(axis_));
    centres_ =
        &add_param(Shape{classes_, width_}, Filler(param().center_loss_param().center_filler()));
  }
  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    const int axis = shape.canonical_axis(axis_);
    if (shape.count(axis) != width_)
      throw Error("the bottom '", bottom[0]->name, "' (", shape.str(), ") has ", shape.count(axis),
                  " values behind axis ", axis, ", but the centres were made for ", width_,
                  "; keep the size of the input");
    split_.outer = shape.count(0, axis);
    split_.size = width_;
    if (bottom[1]->count() != split_.outer)
      throw Error("'", bottom[0]->name, "' (", shape.str(), ") has ", split_.outer,
                  " samples, but '", bottom[1]->name, "' (", bottom[1]->shape().str(), ") has ",
                  bottom[1]->count(), " labels; give one label for each sample");
    const Shape samples(std::vector(shape.dims().begin(), shape.dims().begin() + axis));
    check_in_step(*bottom[0], samples, *bottom[1]);
    top[0]->reshape(Shape{});
    squared_.reshape(Shape{split_.outer});
  }
  size_t kept_bytes() const override { return squared_.bytes() + labels_.bytes(); }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {3 * n, 4 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    labels_.read(device, *this, *bottom[1], classes_, "raise num_output or fix the labels");
    dispatch_float(dtype(), [&]<class T>(T) {
      double* const squared = device.overwrite<double>(squared_);
      for_each_position(
          device, positions(), kElementGrain,
          MeasureSamples<T>{split_, labels_.indices(device), device.read<T>(bottom[0]->data),
                            device.read<T>(centres_->data), squared});
      sum(device, split_.outer, kElementGrain, Stored{squared}, 0.5 / items(),
          device.overwrite<T>(top[0]->data));
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T *x = device.read<T>(bottom[0]->data), *centre = device.read<T>(centres_->data);
      if (T* const gradient = gradient_of<T>(device, centres_)) {
        const RowGroups groups = labels_.groups(device);
        AxisSplit each = positions();
        each.outer = groups.count;
        for_each_position(device, each, kElementGrain,
                          CentreGradient<T>{groups, width_, x, centre, gradient});
      }
      if (!propagate[0]) return;
      const LossSeed<T> seed(device, *top[0]);
      for_each_position(device, positions(), kElementGrain,
                        SampleGradient<T>{split_, seed.over(items()), labels_.indices(device), x,
                                          centre, device.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0}, false}; }

 private:
  double items() const { return static_cast<double>(std::max<int64_t>(split_.outer, 1)); }
  AxisSplit positions() const {
    AxisSplit split = split_;
    split.size = std::max<int64_t>(split.size, 1);
    return split;
  }

  int64_t classes_;
  int axis_;
  int64_t width_ = 0;
  Parameter* centres_ = nullptr;
  AxisSplit split_;  // (samples, values of one)
  RowIndices labels_;
  Tensor squared_{Shape{0}, DType::f64};  // distances, one a sample
};

}  // namespace

void register_center_loss(Registry& registry) {
  add_two_sided<CenterLossLayer>(registry, "CenterLoss");
}

}  // namespace crema
