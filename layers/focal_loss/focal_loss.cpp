// FocalLoss: softmax loss that weighs samples less the more certain they are. See README.md.
#include <cmath>

#include "core/dispatch.hpp"
#include "kit/labels.hpp"
#include "kit/passes.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // elements that a thread should have at least

/// -alpha (1 - p)^gamma log(p), of the logarithm of a probability.
struct Focus {
  double alpha, gamma;

  CREMA_FUNCTOR double value(double log_p) const {
    return -alpha * std::pow(-std::expm1(log_p), gamma) * log_p;
  }
  /// The derivative by log(p).
  CREMA_FUNCTOR double slope(double log_p) const {
    const double rest = -std::expm1(log_p);  // 1 - p
    const double power = std::pow(rest, gamma);
    const double by_power = rest > 0 ? gamma * power / rest * std::exp(log_p) * log_p : 0;
    return alpha * (by_power - power);
  }
};

/// The logarithm of the probability of the label of a position.
template <class T>
struct LogProbability {
  AxisSplit split;
  const T* x;
  const double* log_sum;
  const int32_t* labels;
  CREMA_FUNCTOR double operator()(int64_t i) const {
    return static_cast<double>(x[split.at(i) + labels[i] * split.inner]) - log_sum[i];
  }
};

template <class T>
struct PositionLoss {
  Focus focus;
  LogProbability<T> log_p;
  CREMA_FUNCTOR double operator()(int64_t i) const {
    return log_p.labels[i] < 0 ? 0 : focus.value(log_p(i));
  }
};

/// dx = scale * slope * (1 at the label - probability).
template <class T>
struct ScoreGradient {
  double scale;
  Focus focus;
  LogProbability<T> log_p;
  const T* probability;
  T* dx;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) (*this)(i);
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const AxisSplit& split = log_p.split;
    const int32_t label = log_p.labels[i];
    const T factor = label < 0 ? T{0} : static_cast<T>(scale * focus.slope(log_p(i)));
    for (int64_t c = lanes.first; c < split.size; c += lanes.count) {
      const int64_t at = split.at(i) + c * split.inner;
      dx[at] = label < 0 ? T{0} : factor * ((c == label ? T{1} : T{0}) - probability[at]);
    }
  }
};

class FocalLossLayer : public LabelLoss {
 public:
  explicit FocalLossLayer(const LayerInit& init)
      : LabelLoss(init, init.param.softmax_param().axis()) {
    const FocalLossParameter& settings = init.param.focal_loss_param();
    if (settings.type() != FocalLossParameter::ORIGIN)
      throw Error("type LINEAR is not there; forks give it different formulas. Use ORIGIN");
    focus_ = {static_cast<double>(settings.alpha()), static_cast<double>(settings.gamma())};
    if (!(focus_.alpha > 0 && std::isfinite(focus_.alpha)))
      throw Error("alpha ", focus_.alpha, " is not above 0; it is a factor on the loss");
    if (!(focus_.gamma >= 0 && std::isfinite(focus_.gamma)))
      throw Error("gamma ", focus_.gamma, " is below 0; 0 gives the softmax loss");
  }

  void reshape(Blobs bottom, Blobs top) override {
    reshape_scores(bottom);
    top[0]->reshape(Shape{});
    if (top.size() > 1) top[1]->reshape(bottom[0]->shape());
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    log_sum_.reshape(Shape{scores().positions()});
    probability_.reshape(bottom[0]->shape());
    probability_.set_layout(dtype(), Format::contiguous);
  }
  size_t kept_bytes() const override { return log_sum_.bytes() + probability_.bytes(); }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {4 * n, 2 * n};
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    const int32_t* labels = read_labels(side, bottom);
    double* log_sum = side.overwrite<double>(log_sum_);
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = side.read<T>(bottom[0]->data);
      for_each_position(side, scores(), kGrain,
                        SoftmaxForward<T>{scores(), x, side.overwrite<T>(probability_), log_sum});
      sum(side, scores().positions(), kGrain,
          PositionLoss<T>{focus_, {scores(), x, log_sum, labels}}, 1 / divisor(),
          side.overwrite<T>(top[0]->data));
    });
    if (top.size() > 1) copy(side, probability_, top[1]->data);
  }

  void run_backward(const Side& side, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const double weight = static_cast<double>(top[0]->diff.template host<T>()[0]);
      for_each_position(side, scores(), kGrain,
                        ScoreGradient<T>{weight / divisor(),
                                         focus_,
                                         {scores(), side.read<T>(bottom[0]->data),
                                          side.read<double>(log_sum_), labels(side)},
                                         side.read<T>(probability_),
                                         side.overwrite<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0}, false}; }

 private:
  Focus focus_{};
  Tensor log_sum_{Shape{0}, DType::f64};  // of the sum of exponentials, one a position
  Tensor probability_;                    // of the scores' shape
};

}  // namespace

void register_focal_loss(Registry& registry) {
  add_two_sided<FocalLossLayer>(registry, "FocalLoss");
}

}  // namespace crema
