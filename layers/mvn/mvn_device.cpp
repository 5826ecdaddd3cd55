// MVN on a device: moments of each group, then a map with coefficients of each; backward likewise.
#include "layer_support/channel_phases.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layers/mvn/deviation.hpp"
#include "layers/mvn/mvn.hpp"

namespace crema {
namespace {

using channels::Coefficients;

/// From moments: y = (x - mean) / deviation, or x - mean.
template <class T>
struct SetAffine {
  double count, epsilon;
  bool scales;
  const double* origins;
  double* inverse;
  Coefficients<T> to;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    const channels::Moments moments = channels::Moments::of(sums, origins[c], count);
    inverse[c] = scales ? mvn::inverse_of(moments.variance, epsilon) : 1;
    const T centre = static_cast<T>(moments.mean);
    to.centre[c] = centre;
    to.gain[c] = static_cast<T>(inverse[c]);
    to.shift[c] = static_cast<T>((static_cast<double>(centre) - moments.mean) * inverse[c]);
  }
};

/// From the sums of dy and of dy * y: dx = (dy - mean(dy) - y * mean(dy * y)) / deviation.
template <class T>
struct SetGradient {
  double count, epsilon;
  const double* inverse;
  Coefficients<T> to;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    const SumPair means = mvn::means_of(sums, count, inverse[c], epsilon);
    to.centre[c] = T{0};
    to.gain[c] = static_cast<T>(inverse[c]);
    to.slope[c] = static_cast<T>(inverse[c] * means.second);
    to.offset[c] = static_cast<T>(inverse[c] * means.first);
  }
};

}  // namespace

ChannelMaps MVNLayer::maps_of(const Tensor& tensor) const {
  const bool last = tensor.format() == Format::channels_last && !across_channels_;
  return last ? channels::channels_of_samples(tensor) : ChannelMaps{view_};
}

std::vector<Option> MVNLayer::device_options(Blobs bottom, Blobs top) const {
  return in_activations(*this, without_blocks(same_format_options(bottom, top, dtype(), true)));
}

void MVNLayer::prepare_device(Blobs bottom, Blobs) {
  scratch_bytes_ = channels::sums_scratch_bytes(context(), maps_of(bottom[0]->data));
  inverse_.reshape(Shape{view_.channels});
}

template <class T>
void MVNLayer::centre_on(const ComputeDevice& device, const Tensor& from, bool scales, Tensor& to) {
  const ChannelMaps maps = maps_of(from);
  const Coefficients<T> coefficients =
      channels::coefficients_in<T>(device, maps.count(), 5, true, coefficients_);
  const channels::PartialSums sums = channels::moment_sums(device, maps, from);
  channels::finish_sums(
      device, sums,
      SetAffine<T>{static_cast<double>(view_.inner), epsilon_, scales, sums.origins,
                   device.overwrite<double>(inverse_), coefficients});
  channels::map_affine<T>(device, maps, from, nullptr, coefficients.read(), false, to);
}

template <class T>
void MVNLayer::backward_on(const ComputeDevice& device, Blobs top, Blobs bottom) {
  // Without the variance the layer is linear, and its own transpose.
  if (!normalizes_variance_) return centre_on<T>(device, top[0]->diff, false, bottom[0]->diff);
  const channels::GradientOperands from{&top[0]->diff, &top[0]->data};
  const ChannelMaps maps = maps_of(top[0]->diff);
  const Coefficients<T> coefficients =
      channels::coefficients_in<T>(device, maps.count(), 5, true, coefficients_);
  channels::finish_sums(device, channels::gradient_sums<T>(device, maps, from, {}),
                        SetGradient<T>{static_cast<double>(view_.inner), epsilon_,
                                       device.read<double>(inverse_), coefficients});
  channels::map_gradient<T>(device, maps, from, coefficients.read(), &bottom[0]->diff, nullptr);
}

template void MVNLayer::centre_on<float>(const ComputeDevice&, const Tensor&, bool, Tensor&);
template void MVNLayer::centre_on<double>(const ComputeDevice&, const Tensor&, bool, Tensor&);
template void MVNLayer::backward_on<float>(const ComputeDevice&, Blobs, Blobs);
template void MVNLayer::backward_on<double>(const ComputeDevice&, Blobs, Blobs);

}  // namespace crema
