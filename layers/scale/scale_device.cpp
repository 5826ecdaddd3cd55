// Scale and Bias on a device, in each format where the operand has one number a channel, one a
// sample and channel, or one for all.
#include "layer_support/channel_passes.hpp"
#include "layer_support/options.hpp"
#include "layers/scale/scale.hpp"

namespace crema {
namespace {

template <class T>
const T* values_or_null(const ComputeDevice& device, const Tensor* tensor) {
  return tensor != nullptr ? device.read<T>(*tensor) : nullptr;
}

}  // namespace

ChannelMaps ScaleLayer::maps_of(const Tensor& tensor) const {
  if (view_.channels == 1) return {{1, 1, view_.count()}};
  if (tensor.format() != Format::channels_last) return {view_};
  return is_per_sample_channel() ? channels::channels_of_samples(tensor)
                                 : channels::channels_of(tensor);
}

std::vector<Option> ScaleLayer::device_options(Blobs bottom, Blobs top) const {
  std::vector<Option> options =
      fits_any_format() ? without_blocks(same_format_options(bottom, top, dtype(), true))
                        : std::vector{uniform_option(bottom, top, dtype())};
  options = in_activations(*this, std::move(options));
  if (learns_operand()) return options;
  // An operand that is a bottom is read as parameters are: it is small.
  for (Option& option : options) option.bottoms[1] = {dtype(), Format::contiguous};
  return options;
}

void ScaleLayer::prepare_device(Blobs bottom, Blobs) {
  scratch_bytes_ = channels::sums_scratch_bytes(context(), maps_of(bottom[0]->data));
}

template <class T>
void ScaleLayer::forward_on(const ComputeDevice& device, Blobs bottom, Blobs top) {
  channels::Coefficients<const T> coefficients;
  coefficients.gain = values_or_null<T>(device, scale_data(bottom));
  coefficients.shift = values_or_null<T>(device, bias_data(bottom));
  const Tensor& x = bottom[0]->data;
  channels::map_affine<T>(device, maps_of(x), x, nullptr, coefficients, false, top[0]->data);
}

template <class T>
void ScaleLayer::backward_on(const ComputeDevice& device, Blobs top,
                             const std::vector<bool>& propagate, Blobs bottom) {
  const Tensor& dy = top[0]->diff;
  const ChannelMaps maps = maps_of(dy);
  // Sums first: dx may overwrite dy.
  auto to = channels::gradients_of<T>(device, bias_, scale_);
  if (!learns_operand() && propagate[1]) {
    (scales() ? to.of_second : to.of_first) = device.overwrite<T>(bottom[1]->diff);
    (scales() ? to.second_overwrites : to.first_overwrites) = true;
  }
  if (to) {
    const Tensor* const x = to.of_second ? &bottom[0]->data : nullptr;
    channels::add_sums<T>(device, maps, {&dy, x}, to);
  }
  if (!propagate[0]) return;
  if (!scales()) return copy(device, dy, bottom[0]->diff);
  channels::Coefficients<const T> coefficients;
  coefficients.gain = device.read<T>(*scale_data(bottom));
  channels::map_gradient<T>(device, maps, {&dy}, coefficients, &bottom[0]->diff, nullptr);
}

template void ScaleLayer::forward_on<float>(const ComputeDevice&, Blobs, Blobs);
template void ScaleLayer::forward_on<double>(const ComputeDevice&, Blobs, Blobs);
template void ScaleLayer::backward_on<float>(const ComputeDevice&, Blobs, const std::vector<bool>&,
                                             Blobs);
template void ScaleLayer::backward_on<double>(const ComputeDevice&, Blobs, const std::vector<bool>&,
                                              Blobs);

}  // namespace crema
