#include "layers/convolution/folded_parameters.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/access_log.hpp"
#include "core/dispatch.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"

namespace crema {
namespace {

bool is_foldable(const TailStep& step) {
  return step.kind == TailStep::Kind::affine || step.kind == TailStep::Kind::stored;
}

std::vector<double> values_of(const Parameter* parameter, int64_t count, double otherwise) {
  std::vector<double> values(static_cast<size_t>(count), otherwise);
  if (parameter == nullptr) return values;
  dispatch_float(parameter->data.dtype(), [&](auto zero) {
    std::copy_n(parameter->data.read<decltype(zero)>(), count, values.begin());
  });
  return values;
}

std::shared_ptr<ParameterStorage> storage_of(Tensor values) {
  values.memory()->seal();
  return std::make_shared<ParameterStorage>(std::move(values), Tensor());
}

}  // namespace

size_t foldable_steps(const Tail& tail) {
  return static_cast<size_t>(std::ranges::find_if_not(tail, is_foldable) - tail.begin());
}

struct FoldedParameters::Values {
  std::shared_ptr<ParameterStorage> weights, bias;
};

FoldedParameters::FoldedParameters(const ConvolutionGeometry& geometry,
                                   const Parameter& own_weights, const Parameter* own_bias,
                                   Tail steps)
    : weights(own_weights.shape(), own_weights.filler()),
      bias(Shape{geometry.top_channels()}, Filler::constant(0)),
      geometry_(geometry),
      own_weights_(own_weights),
      own_bias_(own_bias),
      steps_(std::move(steps)),
      sources_{&own_weights} {
  const auto add = [&](const Parameter* parameter) {
    if (parameter != nullptr) sources_.push_back(parameter);
  };
  add(own_bias);
  for (const TailStep& step : steps_) {
    add(step.scale);
    add(step.bias);
    if (step.kind != TailStep::Kind::stored) continue;
    for (const auto& parameter : step.layer->params()) add(parameter.get());
  }
  versions_.resize(sources_.size());
}

void FoldedParameters::update(const ComputeDevice& device) {
  AccessLog* const log = device.on_host() ? nullptr : device.backend()->access_log();
  bool changed = values_ == nullptr;
  for (size_t i = 0; i < sources_.size(); ++i) {
    ParameterStorage& source = sources_[i]->values();
    const uint64_t version = source.version();
    if (log != nullptr) log->note_derived(*source.data().memory(), version);
    changed = changed || version != versions_[i];
    if (log == nullptr) versions_[i] = version;
  }
  if (!changed) return;
  if (log != nullptr) throw StaleRecord("folds weights in each pass");
  // values_ stays null if the rest throws. The present values may be those of the new versions too.
  const std::shared_ptr<Values> present = std::move(values_);
  const ChannelAffine affine = this->affine();
  // What the values follow from, beside the weights.
  std::string form = text("folded ", geometry_.transposed(), " ", geometry_.groups, " ",
                          weights.shape().str(), " ");
  for (const std::vector<double>* numbers : {&affine.scale, &affine.shift}) {
    form.append(reinterpret_cast<const char*>(numbers->data()), numbers->size() * sizeof(double));
  }
  values_ = own_weights_.values().derived_object<Values>(
      form, [&](const Tensor& own) { return fold(own, affine); });
  weights.attach(values_->weights);
  bias.attach(values_->bias);
}

ChannelAffine FoldedParameters::affine() const {
  const int64_t channels = bias.shape().count();
  ChannelAffine all{values_of(nullptr, channels, 1), values_of(own_bias_, channels, 0)};
  for (const TailStep& step : steps_) {
    const ChannelAffine next =
        step.kind == TailStep::Kind::stored
            ? step.layer->stored_affine()
            : ChannelAffine{values_of(step.scale, channels, 1), values_of(step.bias, channels, 0)};
    for (size_t c = 0; c < all.scale.size(); ++c) {
      all.scale[c] *= next.scale[c];
      all.shift[c] = all.shift[c] * next.scale[c] + next.shift[c];
    }
  }
  return all;
}

std::shared_ptr<FoldedParameters::Values> FoldedParameters::fold(
    const Tensor& own_weights, const ChannelAffine& affine) const {
  Tensor folded(weights.shape(), own_weights.dtype()), shift(bias.shape(), own_weights.dtype());
  const int64_t second = weights.shape()[1], taps = geometry_.taps();
  const int64_t first_of_a_group = weights.shape()[0] / geometry_.groups;
  dispatch_float(own_weights.dtype(), [&]<class T>(T) {
    const T* const from = own_weights.read<T>();
    T *const to = folded.overwrite<T>(), *const of_bias = shift.overwrite<T>();
    parallel_for(weights.shape()[0], kElementGrain / std::max<int64_t>(second * taps, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t a = begin; a < end; ++a) {
                     for (int64_t b = 0; b < second; ++b) {
                       const int64_t channel =
                           geometry_.transposed() ? a / first_of_a_group * second + b : a;
                       const double scale = affine.scale[static_cast<size_t>(channel)];
                       for (int64_t i = (a * second + b) * taps; i < (a * second + b + 1) * taps;
                            ++i) {
                         to[i] = static_cast<T>(scale * static_cast<double>(from[i]));
                       }
                     }
                   }
                 });
    for (size_t c = 0; c < affine.shift.size(); ++c) of_bias[c] = static_cast<T>(affine.shift[c]);
  });
  return std::make_shared<Values>(Values{storage_of(folded), storage_of(shift)});
}

}  // namespace crema
