// MultiBoxLoss: matches prior boxes with true ones; location loss plus confidence loss. See
// README.md.
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "core/dispatch.hpp"
#include "layer_support/class_weights.hpp"
#include "layer_support/detection_rows.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "layers/multibox_loss/multibox_passes.hpp"
#include "layers/multibox_loss/settings.hpp"
#include "layers/multibox_loss/targets.hpp"
#include "layers/multibox_loss/targets_on_device.hpp"
#include "layers/sigmoid_cross_entropy_loss/cross_entropy_passes.hpp"

namespace crema {
namespace {

constexpr int64_t kGrain = 2048;  // scores that a thread should have at least

class MultiBoxLossLayer : public TwoSidedLayer {
 public:
  std::string host_part() const override { return finds_there() ? "" : "matching and mining"; }
  explicit MultiBoxLossLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        settings_(init.param.multibox_loss_param()),
        normalization_(init.param),
        weights_(init),
        counts_{counts(init.param, 0), counts(init.param, 1)},
        finders_{settings_, settings_} {
    check_loss_settings(init, {.ignore_label = false, .class_weights = true});
  }

  Arity arity() const override { return {.min_bottoms = 4, .max_bottoms = 4}; }
  std::optional<MeanUnits> mean_over(int top, int64_t) const override {
    if (top != 0) return std::nullopt;
    return normalization_.units(images_, priors_, was_there_ ? there_->matched() : pairs_);
  }
  float default_loss_weight(int) const override { return 1; }
  /// Where the host finds the targets, backward takes the numbers of pairs and of negatives by
  /// value.
  bool capturable() const override { return finds_there(); }
  bool can_propagate(int bottom) const override { return bottom < 2; }

  void reshape(Blobs bottom, Blobs top) override {
    priors_ = prior_count(*bottom[2]);
    const Shape &locations = bottom[0]->shape(), &scores = bottom[1]->shape();
    check_predictions(*bottom[0], *bottom[2], priors_,
                      location_predictions(settings_.locations, settings_.classes));
    check_predictions(*bottom[1], *bottom[2], priors_, score_predictions(settings_.classes));
    weights_.reshape(*bottom[1], settings_.classes, dtype());
    images_ = locations[0];
    if (scores[0] != images_)
      throw Error("'", bottom[0]->name, "' (", locations.str(), ") and '", bottom[1]->name, "' (",
                  scores.str(), ") must have the same batch size");
    const Shape& truths = bottom[3]->shape();
    if (truths.rank() == 0 || truths[truths.rank() - 1] != kTruthRow)
      throw Error("'", bottom[3]->name,
                  "' must be rows of image, label, instance, xmin, ymin, xmax, ",
                  "ymax, difficult: 1 x 1 x G x 8, not ", truths.str());
    top[0]->reshape(Shape{});
  }

  void prepare_reference(Blobs, Blobs) override {
    const int64_t positions = images_ * priors_;
    labels_.reshape(Shape{positions});
    counted_.reshape(Shape{positions});
    dispatch_float(dtype(), [&]<class T>(T) {
      std::get<TargetFinder<T>>(finders_).prepare(images_, priors_);
    });
    if (settings_.softmax) {
      log_sum_.reshape(Shape{positions});
      loss_.reshape(Shape{positions});
      loss_.set_layout(dtype(), Format::contiguous);
    } else {
      targets_.reshape(Shape{positions, settings_.classes});
      targets_.set_layout(dtype(), Format::contiguous);
    }
    parts_.set_layout(dtype(), Format::contiguous);
  }
  size_t kept_bytes() const override {
    const int64_t matches = images_ * settings_.locations * priors_;
    return weights_.bytes() + labels_.bytes() + counted_.bytes() + log_sum_.bytes() +
           loss_.bytes() + targets_.bytes() + (there_ ? there_->bytes() : 0) +
           static_cast<size_t>(matches) * (sizeof(int32_t) + size_of(dtype()));  // with overlaps
  }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[1]->count());
    return {4 * n, 2 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    was_there_ = !device.on_host() && finds_there();
    dispatch_float(dtype(), [&]<class T>(T) {
      if (settings_.softmax && !estimates<T>(device)) {
        for_each_position(device, split(), kGrain,
                          FindSums<T>{{split(), device.read<T>(bottom[1]->data), nullptr,
                                       device.overwrite<double>(log_sum_)},
                                      settings_.background,
                                      device.overwrite<T>(loss_)});
      }
      if (was_there_) return forward_there<T>(device, bottom, top);
      find_targets<T>(bottom, estimates<T>(device));
      if (weights_.by_frequency()) weights_.count(labels_.read<int32_t>(), labels_.count());
      const T* const weight = weights_.weight<T>(device);
      T* const parts = device.overwrite<T>(parts_);
      sum(device, counts_[0] ? kEdges * pairs_ : 0, kPassGrain,
          LocationLoss{location_math(), device.read<double>(difference_)},
          settings_.location_weight / divisor(), parts);
      const T* x = device.read<T>(bottom[1]->data);
      if (settings_.softmax) {
        sum(device, counts_[1] ? count_ : 0, kElementGrain,
            ScoreLoss<T>{settings_.classes, device.read<int64_t>(counted_), x,
                         device.read<double>(log_sum_), device.read<int32_t>(labels_), weight},
            1 / divisor(), parts + 1);
      } else {
        const int64_t count = counts_[1] ? split().count() : 0;
        const CrossEntropyLoss<T> each{x, device.read<T>(targets_), T{-1}};
        if (weight) {
          sum(device, count, kPassGrain, WeightedCrossEntropyLoss<T>{each, factors(weight)},
              1 / divisor(), parts + 1);
        } else {
          sum(device, count, kPassGrain, each, 1 / divisor(), parts + 1);
        }
      }
      for_each(device, 1, 1, AddParts<T>{parts, device.overwrite<T>(top[0]->data)});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const LossSeed<T> seed(device, *top[0]);
      if (was_there_ && !device.on_host())
        return backward_there<T>(device, seed, propagate, bottom);
      const auto scale = seed.template over<double>(divisor());
      for (size_t b = 0; b < 2; ++b) {
        if (propagate[b] && (b == 0 || !counts_[b])) fill_zero(device, bottom[b]->diff);
      }
      if (propagate[0] && counts_[0]) {
        for_each(
            device, kEdges * pairs_, kPassGrain,
            LocationGradient<T>{location_math(), scale.times(settings_.location_weight),
                                device.read<double>(difference_), device.read<double>(factor_),
                                device.read<int64_t>(places_), device.change<T>(bottom[0]->diff)});
      }
      if (!propagate[1] || !counts_[1]) return;
      if (settings_.softmax) {
        return for_each_position(
            device, split(), 4 * kGrain,
            ScoreGradient<T>{settings_.classes, count_, device.read<int64_t>(counted_),
                             seed.over(divisor()), device.read<T>(bottom[1]->data),
                             device.read<double>(log_sum_), device.read<int32_t>(labels_),
                             weights_.weight<T>(device), device.overwrite<T>(bottom[1]->diff)});
      }
      const CrossEntropyGradient<T> each{scale,
                                         {nullptr},
                                         device.read<T>(bottom[1]->data),
                                         device.read<T>(targets_),
                                         T{-1},
                                         device.overwrite<T>(bottom[1]->diff)};
      if (const T* const weight = weights_.weight<T>(device)) {
        for_each(device, split().count(), kPassGrain,
                 WeightedCrossEntropyGradient<T>{each, factors(weight)});
      } else {
        for_each(device, split().count(), kPassGrain, each);
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {IndexSet{1}, false}; }

 private:
  /// Whether the loss of a bottom is part of the sum; propagate_down: false leaves it out.
  static bool counts(const LayerParameter& param, int bottom) {
    return param.propagate_down_size() <= bottom || param.propagate_down(bottom);
  }
  AxisSplit split() const {
    AxisSplit split;
    split.outer = images_ * priors_;
    split.size = settings_.classes;
    return split;
  }
  template <class T>
  ClassFactors<T> factors(const T* weight) const {
    return {weight, settings_.classes, 1};
  }
  LocationMath location_math() const { return {settings_.smooth_l1}; }
  double divisor() const { return normalization_.divisor(images_, priors_, pairs_); }

  /// Whether a device finds the targets.
  bool finds_there() const {
    return TargetsOnDevice::offers(settings_) && !weights_.by_frequency();
  }
  /// divisor() on a device, which counts the pairs.
  LossDivisor divisor_there(const LocationsThere& locations) const {
    if (normalization_.mode() == LossNormalization::Mode::valid)
      return {.count = locations.matched};
    return {normalization_.divisor(images_, priors_, 0)};
  }

  template <class T>
  void forward_there(const ComputeDevice& device, Blobs bottom, Blobs top) {
    const bool softmax = settings_.softmax;
    const T* const x = device.read<T>(bottom[1]->data);
    const double* const log_sum = softmax ? device.read<double>(log_sum_) : nullptr;
    if (!there_) there_.emplace(settings_);
    there_->find<T>(device, *this, bottom, images_, priors_,
                    {.locations = device.read<T>(bottom[0]->data),
                     .scores = x,
                     .priors = device.read<T>(bottom[2]->data),
                     .truths = device.read<T>(bottom[3]->data),
                     .log_sum = log_sum,
                     .loss = softmax ? device.read<T>(loss_) : nullptr,
                     .labels = device.overwrite<int32_t>(labels_),
                     .targets = softmax ? nullptr : device.overwrite<T>(targets_)});
    const LocationsThere locations = there_->locations(device);
    const T* const weight = weights_.weight<T>(device);
    double* const sums = device.overwrite<double>(sums_);
    sum(device, counts_[0] ? images_ * priors_ * settings_.locations : 0, kPassGrain,
        StoredLoss{locations.loss}, 1.0, sums);
    if (softmax) {
      sum(device, counts_[1] ? images_ * priors_ : 0, kElementGrain,
          LabelledLoss<T>{
              {settings_.classes, nullptr, x, log_sum, device.read<int32_t>(labels_), weight}},
          1.0, sums + 1);
    } else {
      const int64_t count = counts_[1] ? split().count() : 0;
      const CrossEntropyLoss<T> each{x, device.read<T>(targets_), T{-1}};
      if (weight) {
        sum(device, count, kPassGrain, WeightedCrossEntropyLoss<T>{each, factors(weight)}, 1.0,
            sums + 1);
      } else {
        sum(device, count, kPassGrain, each, 1.0, sums + 1);
      }
    }
    for_each(device, 1, 1,
             DivideParts<T>{sums, settings_.location_weight, divisor_there(locations),
                            device.overwrite<T>(top[0]->data)});
  }

  template <class T>
  void backward_there(const ComputeDevice& device, const LossSeed<T>& seed,
                      const std::vector<bool>& propagate, Blobs bottom) {
    const auto weight = seed.template over<double>(1);
    const LocationsThere locations = there_->locations(device);
    const LossDivisor divisor = divisor_there(locations);
    for (size_t b = 0; b < 2; ++b) {
      if (propagate[b] && !counts_[b]) fill_zero(device, bottom[b]->diff);
    }
    if (propagate[0] && counts_[0]) {
      for_each(device, bottom[0]->count(), kElementGrain,
               StoredSlope<T>{weight, settings_.location_weight, divisor, locations.slope,
                              device.overwrite<T>(bottom[0]->diff)});
    }
    if (!propagate[1] || !counts_[1]) return;
    const T* const x = device.read<T>(bottom[1]->data);
    T* const dx = device.overwrite<T>(bottom[1]->diff);
    if (settings_.softmax) {
      return for_each_position(DeviceSide(device), split(), kGrain,
                               LabelledGradient<T>{{settings_.classes,
                                                    0,
                                                    nullptr,
                                                    {},
                                                    x,
                                                    device.read<double>(log_sum_),
                                                    device.read<int32_t>(labels_),
                                                    weights_.weight<T>(device),
                                                    dx},
                                                   weight,
                                                   divisor});
    }
    const CrossEntropyGradient<T> each{
        seed.template over<double>(divisor.count ? 1 : divisor.known),
        {divisor.count},
        x,
        device.read<T>(targets_),
        T{-1},
        dx};
    if (const T* const by_class = weights_.weight<T>(device)) {
      for_each(device, split().count(), kPassGrain,
               WeightedCrossEntropyGradient<T>{each, factors(by_class)});
    } else {
      for_each(device, split().count(), kPassGrain, each);
    }
  }

  /// Whether losses of negatives are estimated. log_sum_ is then that of the positions that count.
  template <class T>
  bool estimates(const ComputeDevice& device) const {
    return std::is_same_v<T, float> && device.on_host() && settings_.may_estimate();
  }

  /// On the host: finds what the passes read.
  template <class T>
  void find_targets(Blobs bottom, bool estimated) {
    const bool softmax = settings_.softmax, mines = settings_.mines(), hard = settings_.hard();
    const T* const priors = bottom[2]->data.template read<T>();
    TargetInput<T> values{.locations = bottom[0]->data.template read<T>(),
                          .priors = priors,
                          .variances = priors + kEdges * priors_};
    if (mines && (hard || !softmax || estimated))
      values.scores = bottom[1]->data.template read<T>();
    if (softmax && hard) values.log_sum = log_sum_.read<double>();
    if (softmax && mines && !hard && !estimated) values.loss = loss_.template read<T>();
    if (estimated) values.log_sum_to = log_sum_.overwrite<double>();
    auto& finder = std::get<TargetFinder<T>>(finders_);
    finder.find(bottom, values,
                {labels_.overwrite<int32_t>(), counted_.overwrite<int64_t>(),
                 softmax ? nullptr : targets_.template overwrite<T>()});
    count_ = finder.counted();
    pairs_ = finder.pairs();
    grow_pairs();
    finder.write_pairs(values, places_.overwrite<int64_t>(), difference_.overwrite<double>(),
                       factor_.overwrite<double>());
  }
  /// Makes the tensors of pairs larger if they are too small for pairs_, with headroom, so that few
  /// batches allocate.
  void grow_pairs() {
    if (places_.count() >= pairs_ && places_.count() > 0) return;
    const int64_t room = 2 * pairs_ + 1;
    places_.reshape(Shape{room});
    difference_.reshape(Shape{room, kEdges});
    factor_.reshape(Shape{room, kEdges});
  }

  MultiBoxSettings settings_;
  LossNormalization normalization_;
  ClassWeights weights_;
  std::array<bool, 2> counts_;  // of locations and of scores: their loss is part of the sum
  int64_t images_ = 0, priors_ = 0;

  // Of the last forward.
  int64_t pairs_ = 0;                        // matched locations
  Tensor labels_{Shape{0}, DType::i32};      // of each prior of each image
  Tensor targets_;                           // logistic: of each score; -1: no loss
  Tensor log_sum_{Shape{0}, DType::f64};     // softmax: of the exponentials of each prior's scores
  Tensor loss_{Shape{0}};                    // softmax: of each prior, if it has no match
  int64_t count_ = 0;                        // positions with a label
  Tensor counted_{Shape{0}, DType::i64};     // count_ positions; more room behind them
  Tensor places_{Shape{0}, DType::i64};      // of pairs_ locations; more room behind them
  Tensor difference_{Shape{0}, DType::f64};  // four each
  Tensor factor_{Shape{0}, DType::f64};      // four each
  Tensor parts_{Shape{2}};                   // the losses of locations and scores

  std::tuple<TargetFinder<float>, TargetFinder<double>> finders_;

  // Of a device that finds the targets:
  std::optional<TargetsOnDevice> there_;
  bool was_there_ = false;             // in the last forward
  Tensor sums_{Shape{2}, DType::f64};  // the losses of locations and scores, undivided
};

}  // namespace

void register_multibox_loss(Registry& registry) {
  add_two_sided<MultiBoxLossLayer>(registry, "MultiBoxLoss");
}

}  // namespace crema
