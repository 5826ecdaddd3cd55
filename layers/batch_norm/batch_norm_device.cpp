// BatchNorm on a device: forward reads x for its moments, and reads it again and writes y; backward
// reads x and dy for two sums, and reads them again and writes dx and the gradient of the summand.
#include "layer_support/channel_phases.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layers/batch_norm/batch_norm.hpp"

namespace crema {
namespace {

using namespace batch_norm;
using channels::Coefficients;

/// Body for channels: y = (x - centre) * gain + shift, where the centre is the mean as rounded.
template <class T>
struct SetAffine {
  Statistics statistics;
  const T *scale, *bias;  // null: 1, 0
  Coefficients<T> to;
  CREMA_FUNCTOR void operator()(int64_t c) const {
    const double gain =
        statistics.inverse_deviation[c] * (scale ? static_cast<double>(scale[c]) : 1);
    const double mean = statistics.mean[c];
    const T centre = static_cast<T>(mean);
    to.centre[c] = centre;
    to.gain[c] = static_cast<T>(gain);
    to.shift[c] = static_cast<T>((bias ? static_cast<double>(bias[c]) : 0) +
                                 (static_cast<double>(centre) - mean) * gain);
  }
};

template <class T>
struct FromStored {
  TakeStored<T> take;
  SetAffine<T> set;
  CREMA_FUNCTOR void operator()(int64_t c) const {
    take(c);
    set(c);
  }
};

template <class T>
struct FromBatch {
  StoreVariance<T> store;
  const double* origins;
  SetAffine<T> set;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    const channels::Moments moments = channels::Moments::of(sums, origins[c], store.count);
    store.statistics.mean[c] = moments.mean;
    store.set(c, moments.variance);
    set(c);
  }
};

/// From the sums of d and of d * (x - centre).
template <class T>
struct SetGradients {
  double count;
  Statistics statistics;
  channels::AddSums<T> parameters;  // of the bias, of the scale
  Coefficients<T> to;
  bool depends;  // the statistics depend on x
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    const double inverse = statistics.inverse_deviation[c];
    const double rounding = static_cast<double>(to.centre[c]) - statistics.mean[c];
    const double product = (sums.second + rounding * sums.first) * inverse;
    parameters(c, {sums.first, product});
    if (!depends) return;
    const double gain = static_cast<double>(to.gain[c]);
    const double slope = gain * inverse * product / count;
    to.slope[c] = static_cast<T>(slope);
    to.offset[c] = static_cast<T>(gain * sums.first / count + slope * rounding);
  }
};

}  // namespace

std::vector<Option> BatchNormLayer::device_options(Blobs bottom, Blobs top) const {
  return in_activations(*this, without_blocks(same_format_options(bottom, top, dtype(), true)));
}

void BatchNormLayer::prepare_device(Blobs bottom, Blobs) {
  scratch_bytes_ = channels::sums_scratch_bytes(context(), channels::channels_of(bottom[0]->data));
  for (Tensor* values : {&mean_, &inverse_deviation_}) values->reshape(Shape{channels_});
}

template <class T>
void BatchNormLayer::forward_on(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const Tensor& x = bottom[0]->data;
  const Ending end = ending();
  const ChannelMaps maps = channels::channels_of(x);
  const Statistics statistics{device.overwrite<double>(mean_),
                              device.overwrite<double>(inverse_deviation_)};
  const Coefficients<T> coefficients =
      channels::coefficients_in<T>(device, channels_, 5, true, coefficients_);
  const SetAffine<T> set{statistics, read_parameter<T>(device, end.scale),
                         read_parameter<T>(device, end.bias), coefficients};
  if (settings_.stored) {
    for_each(device, channels_, kPassGrain, FromStored<T>{take_stored<T>(device, statistics), set});
  } else {
    const StoreVariance<T> store = store_variance<T>(device, statistics);
    const channels::PartialSums sums = channels::moment_sums(device, maps, x);
    channels::finish_sums(device, sums, FromBatch<T>{store, sums.origins, set});
  }
  const Blob* const other = summand(bottom);
  channels::map_affine<T>(device, maps, x, other != nullptr ? &other->data : nullptr,
                          coefficients.read(), end.relu, top[0]->data);
}

template <class T>
void BatchNormLayer::backward_on(const ComputeDevice& device, Blobs top,
                                 const std::vector<bool>& propagate, Blobs bottom) {
  if (is_empty()) return;
  const BackwardReads reads = reference_backward_reads();
  const Ending end = ending();
  const ChannelMaps maps = channels::channels_of(top[0]->diff);
  channels::GradientOperands from{.dy = &top[0]->diff};
  if (reads.bottom_data) from.x = &bottom[0]->data;
  if (reads.top_data) from.y = &top[0]->data;
  if (end.relu) from.mask = reads.top_data ? channels::Mask::output : channels::Mask::again;

  const Coefficients<T> all =
      channels::coefficients_in<T>(device, channels_, 5, false, coefficients_);
  Coefficients<const T> coefficients{all.centre, all.gain, all.shift};
  const auto parameters = channels::gradients_of<T>(device, end.bias, end.scale);
  const bool depends = propagate[0] && !settings_.stored;
  if (depends || parameters) {
    const Statistics statistics{device.change<double>(mean_),
                                device.change<double>(inverse_deviation_)};
    const channels::PartialSums sums = channels::gradient_sums<T>(device, maps, from, coefficients);
    channels::finish_sums(
        device, sums,
        SetGradients<T>{static_cast<double>(channel_count_), statistics, parameters, all, depends});
  }
  if (depends) coefficients = all.read();

  const size_t other = in_place_bottom();
  Tensor* const dx = propagate[0] ? &bottom[0]->diff : nullptr;
  Tensor* d_add = other > 0 && propagate[other] ? &bottom[other]->diff : nullptr;
  if (d_add != nullptr && !end.relu && d_add->same_memory(top[0]->diff)) d_add = nullptr;
  if (dx == nullptr && d_add == nullptr) return;
  channels::map_gradient<T>(device, maps, from, coefficients, dx, d_add);
}

template void BatchNormLayer::forward_on<float>(const ComputeDevice&, Blobs, Blobs);
template void BatchNormLayer::forward_on<double>(const ComputeDevice&, Blobs, Blobs);
template void BatchNormLayer::backward_on<float>(const ComputeDevice&, Blobs,
                                                 const std::vector<bool>&, Blobs);
template void BatchNormLayer::backward_on<double>(const ComputeDevice&, Blobs,
                                                  const std::vector<bool>&, Blobs);

}  // namespace crema
