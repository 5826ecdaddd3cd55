// SoftmaxWithLoss: the mean of -log(softmax(x)[label]). See README.md.
#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "core/move.hpp"
#include "layer_support/class_weights.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "layers/softmax_loss/label_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // elements that a thread should have at least

/// Of a label that is a probability for each class: the target is (1 - smoothing) times it, and
/// smoothing spread over all classes evenly, times the weight of the class.
template <class T>
struct Target {
  AxisSplit split;
  double smoothing;
  const T* weight;  // one a class; null: 1
  const T* probability;

  CREMA_FUNCTOR double at(int64_t element, int64_t c) const {
    const double share = (1 - smoothing) * static_cast<double>(probability[element]) +
                         smoothing / static_cast<double>(split.size);
    return weight ? static_cast<double>(weight[c]) * share : share;
  }
};

/// The loss of one position: the sum of -log(softmax) by the target.
template <class T>
struct TargetLoss {
  Target<T> target;
  ValuesIn<T> x;
  const double* log_sum;

  CREMA_FUNCTOR double operator()(int64_t i) const {
    const AxisSplit& split = target.split;
    double loss = 0;
    for (int64_t c = 0; c < split.size; ++c) {
      const int64_t at = split.at(i) + c * split.inner;
      const auto share = target.at(at, c);
      // A class that cannot be has a score of -inf.
      if (share != 0) loss += share * (log_sum[i] - static_cast<double>(x[at]));
    }
    return loss;
  }
};

/// dx = scale * (sum of the target * softmax - target).
template <class T, class Out>
struct TargetGradient {
  Target<T> target;
  SeedFactor<T, double> scale;
  const T* softmax;
  Out dx;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) (*this)(i);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const AxisSplit& split = target.split;
    double sum = 0;
    for (int64_t c = lanes.first; c < split.size; c += lanes.count)
      sum += target.at(split.at(i) + c * split.inner, c);
    sum = lanes.sum(sum);
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = split.at(i) + c * split.inner;
      dx[at] = static_cast<T>(scale * (sum * static_cast<double>(softmax[at]) - target.at(at, c)));
    }
  }
};

/// The loss of each position.
template <class T, class Term>
struct StoreLosses {
  Term term;
  T* loss;
  CREMA_FUNCTOR void operator()(int64_t i) const { loss[i] = static_cast<T>(term(i)); }
};

/// The loss from the sum of its terms, which a device divides by what it has counted.
template <class T>
struct DivideLoss {
  const double* sum;
  LossDivisor divisor;
  T* loss;
  CREMA_FUNCTOR void operator()(int64_t) const {
    *loss = static_cast<T>(*sum * (1 / divisor.value()));
  }
};

/// Top 2, if it is there, is that of SoftmaxWithLossOHEM.
class SoftmaxLossLayer : public LabelLoss {
 public:
  std::string host_part() const override {
    return weights_.by_frequency() ? "weights of classes" : soft_ ? "check of probabilities" : "";
  }
  bool host_reads(int b) const override { return b == 1; }
  bool host_writes() const override { return false; }
  explicit SoftmaxLossLayer(const LayerInit& init)
      : LabelLoss(init, init.param.softmax_param().axis(),
                  {.class_weights = true, .label_smoothing = true}),
        smoothing_(label_smoothing(init.param)),
        weights_(init, smoothing_) {}

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = 2, .min_tops = 1, .max_tops = 3};
  }

  void reshape(Blobs bottom, Blobs top) override {
    soft_ = reshape_probabilities(bottom);
    if (!soft_) reshape_scores(bottom);
    if (soft_ && param().loss_param().has_ignore_label())
      throw Error(
          "'", bottom[1]->name, "' (", bottom[1]->shape().str(),
          ") holds probabilities, and ignore_label is for labels that are numbers; remove it");
    if (soft_) weights_.refuse_frequency(*bottom[1]);
    weights_.reshape(*bottom[0], scores().size, dtype());
    top[0]->reshape(Shape{});
    if (top.size() > 1) top[1]->reshape(bottom[0]->shape());
    if (top.size() < 3) return;
    Shape positions = bottom[1]->shape();
    if (soft_) positions.set(positions.canonical_axis(param().softmax_param().axis()), 1);
    top[2]->reshape(positions);
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    log_sum_.reshape(Shape{scores().positions()});
    if (!trains()) return;
    if (soft_) {
      target_.reshape(bottom[0]->shape());
      target_.set_layout(dtype(), Format::contiguous);
    }
    probability_.reshape(bottom[0]->shape());
    probability_.set_layout(dtype(), Format::contiguous);
  }
  size_t kept_bytes() const override {
    return log_sum_.bytes() + probability_.bytes() + target_.bytes() + weights_.bytes();
  }

  /// The scores alone may have 16 bits; what is shown beside the loss has its type.
  bool stores_16_bits() const override { return true; }
  bool is_exact_top(int /*i*/) const override { return true; }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override {
    std::vector<Option> options = reference_options(bottom, top);
    const Shape& shape = bottom[0]->shape();
    const bool by_channels = shape.canonical_axis(param().softmax_param().axis()) == 1;
    if (shape.rank() >= 3 && by_channels && !soft_ && top.size() == 1) {
      Option last = options[0];
      last.bottoms[0].format = Format::channels_last;
      options.push_back(std::move(last));
    }
    return in_activations(*this, std::move(options));
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 2 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const int32_t* labels = soft_ ? nullptr : read_labels(device, bottom);
    if (weights_.by_frequency())
      weights_.count(LabelLoss::labels(ComputeDevice()), scores().positions());
    Tensor* shown = top.size() > 1 ? &top[1]->data : nullptr;
    Tensor* kept = trains() ? &probability_ : shown;
    double* log_sum = device.overwrite<double>(log_sum_);
    const Tensor& scores_in = bottom[0]->data;
    const AxisSplit split = split_of(scores_in);
    dispatch_float(dtype(), [&]<class T>(T) {
      T* const probability = kept ? device.overwrite<T>(*kept) : nullptr;
      T* const loss = device.overwrite<T>(top[0]->data);
      const auto run = [&]<class Side, class In>(Side side, In x) {
        for_each_position(side, split, kGrain,
                          SoftmaxForward<T, In>{split, x, probability, log_sum});
      };
      const auto x = values_in<T>(device, scores_in);
      device.on_host() ? run(HostSide(), device.read<T>(scores_in)) : run(DeviceSide(device), x);
      if (soft_) {
        check_probabilities(scores(), bottom[1]->data, true);
        const T* given = device.read<T>(bottom[1]->data);
        sum_losses(
            device, top, {divisor(scores().positions())}, loss,
            TargetLoss<T>{{split, smoothing_, weights_.weight<T>(device), given}, x, log_sum});
      } else {
        sum_losses(
            device, top, label_divisor(device), loss,
            SoftmaxLabelLoss<T, ValuesIn<T>>{split, label_target<T>(device), x, log_sum, labels});
      }
    });
    if (soft_ && trains()) copy(device, bottom[1]->data, target_);
    if (shown && shown != kept) copy(device, *kept, *shown);
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    Tensor& diff = bottom[0]->diff;
    const AxisSplit split = split_of(diff);
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      const T* const probability = device.read<T>(probability_);
      const auto run = [&]<class Side, class Out>(Side side, Out dx) {
        if (soft_) {
          const Target<T> target{split, smoothing_, weights_.weight<T>(device),
                                 device.read<T>(target_)};
          return for_each_position(
              side, split, 4 * kGrain,
              TargetGradient<T, Out>{target,
                                     seed.template over<double>(divisor(scores().positions())),
                                     probability, dx});
        }
        const LossDivisor divisor = label_divisor(device);
        const auto weight = seed.template over<double>(divisor.known);
        for_each_position(side, split, 4 * kGrain,
                          SoftmaxLabelGradient<T, Out>{
                              split, label_target<T>(device), static_cast<T>(weight.known),
                              probability, this->labels(device), dx, divisor.count, weight});
      };
      if (device.on_host()) return run(HostSide(), device.overwrite<T>(diff));
      run(DeviceSide(device), values_out<T>(device, diff));
    });
  }

 protected:
  int64_t counted_labels() const override { return soft_ ? scores().positions() : valid_labels(); }
  // The probabilities and labels that backward needs are kept here.
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// Of scores, or of their diff.
  AxisSplit split_of(const Tensor& tensor) const {
    return tensor.format() == Format::channels_last ? scores().innermost() : scores();
  }
  LossDivisor label_divisor(const ComputeDevice& device) const {
    return device.on_host() ? LossDivisor{divisor()} : device_divisor(device);
  }
  template <class T, class Term>
  void sum_losses(const ComputeDevice& device, Blobs top, const LossDivisor& divisor, T* loss,
                  const Term& term) {
    if (divisor.count == nullptr) {
      sum(device, scores().positions(), kGrain, term, 1 / divisor.known, loss);
    } else {
      double* const all = device.overwrite<double>(sum_);
      sum(device, scores().positions(), kGrain, term, 1.0, all);
      for_each(device, 1, 1, DivideLoss<T>{all, divisor, loss});
    }
    if (top.size() < 3) return;
    for_each(device, scores().positions(), kGrain,
             StoreLosses<T, Term>{term, device.overwrite<T>(top[2]->data)});
  }
  template <class T>
  LabelTarget<T> label_target(const ComputeDevice& device) const {
    return {smoothing_, weights_.weight<T>(device), weights_.mass<T>(device)};
  }

  double smoothing_;
  ClassWeights weights_;
  bool soft_ = false;                     // labels are probabilities of the classes
  Tensor log_sum_{Shape{0}, DType::f64};  // of the sum of exponentials, one a position
  Tensor sum_{Shape{1}, DType::f64};      // of the losses, on a device that counts the labels
  Tensor target_;       // the labels, where they are probabilities and the layer trains
  Tensor probability_;  // of the scores' shape, where the layer trains
};

}  // namespace

void register_softmax_loss(Registry& registry) {
  add_two_sided<SoftmaxLossLayer>(registry, "SoftmaxWithLoss");
  add_two_sided<SoftmaxLossLayer>(registry, "SoftmaxWithLossOHEM");
}

}  // namespace crema
