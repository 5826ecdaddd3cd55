// FocalLoss: a softmax or sigmoid loss that weighs samples less the more certain they are. See
// README.md.
#include <optional>

#include "core/dispatch.hpp"
#include "layer_support/class_weights.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layers/focal_loss/focal_passes.hpp"
#include "layers/softmax/softmax_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // elements that a thread should have at least

class FocalLossLayer : public LabelLoss {
 public:
  std::string host_part() const override {
    return given_ ? "check of probabilities" : weights_.by_frequency() ? "weights of classes" : "";
  }
  bool host_reads(int b) const override { return b == 1; }
  bool host_writes() const override { return false; }
  explicit FocalLossLayer(const LayerInit& init)
      : LabelLoss(init, init.param.softmax_param().axis(),
                  {.class_weights = true, .label_smoothing = true}),
        sigmoid_(init.param.focal_loss_param().activation() == FocalLossParameter::SIGMOID),
        smoothing_(label_smoothing(init.param)),
        weights_(init, smoothing_, ClassWeights::Unset::on) {
    const FocalLossParameter& settings = init.param.focal_loss_param();
    if (settings.type() != FocalLossParameter::ORIGIN)
      throw Error("type LINEAR is not there; forks give it different formulas. Use ORIGIN");
    if (settings.beta() != FocalLossParameter().beta()) {
      init.context.log(Severity::warning,
                       text("layer '", init.param.name(), "': beta ", settings.beta(),
                            " has no effect: it belongs to type LINEAR"));
    }
    focus_ = {static_cast<double>(settings.alpha()), static_cast<double>(settings.gamma())};
    if (!(focus_.alpha > 0 && std::isfinite(focus_.alpha)))
      throw Error("alpha ", focus_.alpha, " is not above 0; it is a factor on the loss");
    if (sigmoid_ && focus_.alpha > 1)
      throw Error("alpha ", focus_.alpha,
                  " is above 1; with activation: SIGMOID, targets of 0 have the factor 1 - alpha: "
                  "give a share, and the rest as loss_weight");
    if (!(focus_.gamma >= 0 && std::isfinite(focus_.gamma)))
      throw Error("gamma ", focus_.gamma, " is below 0; 0 gives the ",
                  sigmoid_ ? "sigmoid" : "softmax", " loss");
    if (!settings.has_background_label_id()) return;
    if (!sigmoid_)
      throw Error("background_label_id ", settings.background_label_id(),
                  " is for activation: SIGMOID; in a softmax, the background is a class like "
                  "others: remove it");
    if (settings.background_label_id() != -1) background_ = settings.background_label_id();
  }

  void reshape(Blobs bottom, Blobs top) override {
    given_ = has_targets(bottom);
    if (!given_) reshape_scores(bottom);
    const Blob& labels = *bottom[1];
    const auto refuse = [&](const char* setting) {
      throw Error("'", labels.name, "' (", labels.shape().str(),
                  ") has the shape of the scores: ", "it holds a target for each class, and ",
                  setting, " is for labels that are numbers; remove it");
    };
    if (given_ && param().loss_param().has_ignore_label()) refuse("ignore_label");
    if (given_ && background_) refuse("background_label_id");
    if (given_) weights_.refuse_frequency(labels);
    weights_.reshape(*bottom[0], scores().size, dtype());
    top[0]->reshape(Shape{});
    if (top.size() > 1) top[1]->reshape(bottom[0]->shape());
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    if (sigmoid_) return;
    log_sum_.reshape(Shape{scores().positions()});
    probability_.reshape(bottom[0]->shape());
    probability_.set_layout(dtype(), Format::contiguous);
  }
  size_t kept_bytes() const override {
    return log_sum_.bytes() + probability_.bytes() + weights_.bytes();
  }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {(sigmoid_ ? 12 : 4) * n, (sigmoid_ ? 14 : 2) * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (given_) {
      check_probabilities(scores(), bottom[1]->data, !sigmoid_);
    } else {
      read_labels(device, bottom, background_);
      if (weights_.by_frequency()) weights_.count(labels(ComputeDevice()), scores().positions());
    }
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = device.read<T>(bottom[0]->data);
      T* const loss = device.overwrite<T>(top[0]->data);
      if (sigmoid_) {
        sum(device, bottom[0]->count(), kGrain, sigmoid_loss<T>(device, bottom), 1 / loss_divisor(),
            loss);
        if (top.size() > 1)
          for_each(device, bottom[0]->count(), kPassGrain,
                   Probabilities<T>{x, device.overwrite<T>(top[1]->data)});
        return;
      }
      for_each_position(device, scores(), kGrain,
                        SoftmaxForward<T>{scores(), x, device.overwrite<T>(probability_),
                                          device.overwrite<double>(log_sum_)});
      sum(device, scores().positions(), kGrain, softmax_loss<T>(device, bottom), 1 / loss_divisor(),
          loss);
    });
    if (!sigmoid_ && top.size() > 1) copy(device, probability_, top[1]->data);
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto scale = LossSeed<T>(device, *top[0]).template over<double>(loss_divisor());
      T* const dx = device.overwrite<T>(bottom[0]->diff);
      if (sigmoid_) {
        return for_each(device, bottom[0]->count(), kGrain,
                        SigmoidFocalGradient<T>{scale, sigmoid_loss<T>(device, bottom), dx});
      }
      for_each_position(device, scores(), kGrain,
                        SoftmaxFocalGradient<T>{scale, softmax_loss<T>(device, bottom),
                                                device.read<T>(probability_), dx});
    });
  }

 protected:
  // Labels that are numbers are kept here.
  BackwardReads reference_backward_reads() const override {
    return {given_ ? IndexSet{0, 1} : IndexSet{0}, false};
  }
  int64_t counted_labels() const override { return given_ ? scores().positions() : valid_labels(); }

 private:
  /// Whether bottom 1 has a target for each score. Scores of one class have labels of their shape
  /// too; a sigmoid learns nothing from labels that are all of this class.
  bool has_targets(Blobs bottom) {
    if (reshape_probabilities(bottom)) return true;
    if (!sigmoid_ || background_ || bottom[0]->shape() != bottom[1]->shape()) return false;
    reshape_scores(bottom);
    return true;
  }
  double loss_divisor() const { return divisor(counted_labels()); }

  template <class T>
  FocalTarget<T> target(const ComputeDevice& device, Blobs bottom) const {
    return {smoothing_, sigmoid_ ? 2 : scores().size, weights_.weight<T>(device),
            given_ ? nullptr : labels(device), given_ ? device.read<T>(bottom[1]->data) : nullptr};
  }
  template <class T>
  SoftmaxFocalLoss<T> softmax_loss(const ComputeDevice& device, Blobs bottom) const {
    return {scores(), focus_, target<T>(device, bottom), device.read<T>(bottom[0]->data),
            device.read<double>(log_sum_)};
  }
  template <class T>
  SigmoidFocalLoss<T> sigmoid_loss(const ComputeDevice& device, Blobs bottom) const {
    return {scores(), focus_, target<T>(device, bottom), device.read<T>(bottom[0]->data)};
  }

  Focus focus_{};
  bool sigmoid_;
  double smoothing_;
  ClassWeights weights_;
  std::optional<int> background_;         // the label of positions that are of no class
  bool given_ = false;                    // bottom 1 has a target for each score
  Tensor log_sum_{Shape{0}, DType::f64};  // softmax: of the exponentials, one a position
  Tensor probability_;                    // softmax: of the scores' shape
};

}  // namespace

void register_focal_loss(Registry& registry) {
  add_two_sided<FocalLossLayer>(registry, "FocalLoss");
}

}  // namespace crema
