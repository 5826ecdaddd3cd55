#include "layer_support/class_weights.hpp"

#include <algorithm>
#include <cmath>

#include "core/dispatch.hpp"
#include "proto/layer.pb.h"

namespace crema {

ClassWeights::ClassWeights(const LayerInit& init, double smoothing, Unset unset)
    : weigh_(init.param.loss_param().weight_by_label_freqs()), smoothing_(smoothing) {
  const LossParameter& settings = init.param.loss_param();
  if (unset == Unset::on && !settings.has_weight_by_label_freqs())
    weigh_ = settings.class_weighting_size() > 0;
  if (!weigh_) {
    if (settings.class_weighting_size() > 0) {
      init.context.log(Severity::warning,
                       text("layer '", init.param.name(), "': class_weighting has no effect ",
                            unset == Unset::on ? "with weight_by_label_freqs: false; remove that"
                                               : "without weight_by_label_freqs: true"));
    }
    return;
  }
  given_.assign(settings.class_weighting().begin(), settings.class_weighting().end());
  for (const float weight : given_) {
    if (!(weight >= 0 && std::isfinite(weight)))
      throw Error("class_weighting ", weight, " is no weight; give a number from 0 on");
  }
}

void ClassWeights::reshape(const Blob& scores, int64_t classes, DType dtype) {
  if (!weigh_) return;
  for (Tensor* values : {&weight_, &mass_}) {
    values->reshape(Shape{classes});
    values->set_layout(dtype, Format::contiguous);
  }
  if (by_frequency()) return;
  if (static_cast<int64_t>(given_.size()) != classes)
    throw Error("class_weighting has ", given_.size(), " numbers, and '", scores.name, "' (",
                scores.shape().str(), ") has ", classes, " classes; give one for each class");
  set([&](int64_t c) { return given_[static_cast<size_t>(c)]; });
}

void ClassWeights::count(const int32_t* labels, int64_t positions) {
  if (!by_frequency()) return;
  const int64_t classes = weight_.count();
  counts_.assign(static_cast<size_t>(classes), 0);
  int64_t all = 0;
  for (int64_t i = 0; i < positions; ++i) {
    if (labels[i] < 0 || labels[i] >= classes) continue;
    ++counts_[static_cast<size_t>(labels[i])];
    ++all;
  }
  const auto occurring = std::ranges::count_if(counts_, [](int64_t count) { return count > 0; });
  set([&](int64_t c) {
    const int64_t count = counts_[static_cast<size_t>(c)];
    return count == 0 ? 0 : static_cast<double>(all) / static_cast<double>(count * occurring);
  });
}

void ClassWeights::refuse_frequency(const Blob& targets) const {
  if (by_frequency())
    throw Error("'", targets.name, "' (", targets.shape().str(),
                ") has a target for each score, so labels cannot be counted, as ",
                "weight_by_label_freqs does without class_weighting; give class_weighting for ",
                "each class");
}

void ClassWeights::leave_out_frequency(const LayerInit& init) {
  if (!by_frequency()) return;
  weigh_ = false;
  init.context.log(Severity::warning,
                   text("layer '", init.param.name(), "': weight_by_label_freqs has no effect on ",
                        init.param.type(),
                        " without class_weighting: bottom 1 has a target for each score, so "
                        "labels cannot be counted"));
}

void ClassWeights::set(const auto& weight_of) {
  dispatch_float(weight_.dtype(), [&]<class T>(T) {
    T *weight = weight_.overwrite<T>(), *mass = mass_.overwrite<T>();
    const int64_t classes = weight_.count();
    double all = 0;
    for (int64_t c = 0; c < classes; ++c) {
      weight[c] = static_cast<T>(weight_of(c));
      all += static_cast<double>(weight[c]);
    }
    const double spread = smoothing_ / static_cast<double>(classes) * all;
    for (int64_t c = 0; c < classes; ++c)
      mass[c] = static_cast<T>((1 - smoothing_) * static_cast<double>(weight[c]) + spread);
  });
}

}  // namespace crema
