// RowNormLayer on a device. LayerNorm runs by rows of memory. What normalizes groups of channels of
// each sample runs by the channels of the samples: sums of each, then statistics of the groups,
// then a map with coefficients of each; two passes over memory, in either format.
#include <algorithm>

#include "core/dispatch.hpp"
#include "layer_support/blocks.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/row_norm.hpp"
#include "layer_support/row_norm_blocks.hpp"

namespace crema {
namespace row_norm {
namespace {

using channels::Coefficients;

/// Lanes of OpenMP or of a block share the values of an item, of which each has every `count`-th.
template <class Lanes, class Body>
CREMA_FUNCTOR void share(int64_t count, const Lanes& lanes, const Body& body) {
  for (int64_t i = lanes.first; i < count; i += lanes.count) body(i);
}

/// Body for rows: statistics of the row and coefficients of its channels, from moments of these.
template <class T>
struct GroupForward {
  Rows rows;
  double eps;
  const SumPair* sums;  // of the channels of all samples
  const double* origins;
  const T *scale, *bias;  // null: 1, 0
  Statistics statistics;
  Coefficients<T> to;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes) const {
    const int64_t first = row * rows.channels_each;
    const auto inner = static_cast<double>(rows.inner), size = static_cast<double>(rows.size);
    double sum = 0, squares = 0;
    share(rows.channels_each, lanes,
          [&](int64_t c) { sum += origins[first + c] + sums[first + c].first / inner; });
    const double mean = lanes.sum(sum) / static_cast<double>(rows.channels_each);
    share(rows.channels_each, lanes, [&](int64_t c) {
      const auto of = channels::Moments::of(sums[first + c], origins[first + c], inner);
      squares += inner * (of.variance + (of.mean - mean) * (of.mean - mean));
    });
    const double inverse = 1 / std::sqrt(lanes.sum(squares) / size + eps);
    if (lanes.first == 0) {
      statistics.mean[row] = mean;
      statistics.inverse_deviation[row] = inverse;
    }
    const T centre = static_cast<T>(mean);
    const int64_t of_scale = row % rows.groups * rows.channels_each;
    share(rows.channels_each, lanes, [&](int64_t c) {
      const double gain = inverse * (scale ? static_cast<double>(scale[of_scale + c]) : 1);
      const double added = bias ? static_cast<double>(bias[of_scale + c]) : 0;
      to.centre[first + c] = centre;
      to.gain[first + c] = static_cast<T>(gain);
      to.shift[first + c] = static_cast<T>(added + (static_cast<double>(centre) - mean) * gain);
    });
  }
};

/// Body for rows: coefficients of the gradient, from the sums of dy and of dy * (x - centre).
template <class T>
struct GroupBackward {
  Rows rows;
  const SumPair* sums;
  const T* scale;
  Statistics statistics;
  Coefficients<T> to;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes) const {
    const int64_t first = row * rows.channels_each;
    const int64_t of_scale = row % rows.groups * rows.channels_each;
    const double inverse = statistics.inverse_deviation[row];
    const double rest = static_cast<double>(to.centre[first]) - statistics.mean[row];
    double sum = 0, products = 0;
    share(rows.channels_each, lanes, [&](int64_t c) {
      const double factor = scale ? static_cast<double>(scale[of_scale + c]) : 1;
      sum += factor * sums[first + c].first;
      products += factor * (sums[first + c].second + rest * sums[first + c].first);
    });
    const auto size = static_cast<double>(rows.size);
    sum = lanes.sum(sum);
    const double by_x = inverse * inverse * inverse * lanes.sum(products) / size;
    share(rows.channels_each, lanes, [&](int64_t c) {
      to.slope[first + c] = static_cast<T>(by_x);
      to.offset[first + c] = static_cast<T>(inverse * sum / size + by_x * rest);
    });
  }
};

/// Body for channels: the gradients of its scale and its bias, from the sums of all samples.
template <class T>
struct GroupParameters {
  Rows rows;
  int64_t samples;
  const SumPair* sums;
  Statistics statistics;
  const T* centre;
  channels::AddSums<T> to;  // of the bias, of the scale

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t channel, const Lanes& lanes) const {
    const int64_t all = rows.channels();
    double sum = 0, products = 0;
    share(samples, lanes, [&](int64_t n) {
      const int64_t i = n * all + channel;
      const int64_t row = n * rows.groups + channel / rows.channels_each;
      const double rest = static_cast<double>(centre[i]) - statistics.mean[row];
      sum += sums[i].first;
      products += (sums[i].second + rest * sums[i].first) * statistics.inverse_deviation[row];
    });
    sum = lanes.sum(sum);
    products = lanes.sum(products);
    if (lanes.first == 0) to(channel, {sum, products});
  }
};

/// Threads for rows of some vectors.
int64_t threads_for(int64_t size, int64_t vector) {
  return (size + vector * kHeldVectors - 1) / (vector * kHeldVectors);
}

}  // namespace
}  // namespace row_norm

using channels::Coefficients;

bool RowNormLayer::runs_by_rows() const { return rows_.groups == 1 && rows_.inner == 1; }

std::vector<Option> RowNormLayer::device_options(Blobs bottom, Blobs top) const {
  if (runs_by_rows()) return TwoSidedLayer::device_options(bottom, top);
  return in_activations(*this, without_blocks(same_format_options(bottom, top, dtype(), true)));
}

void RowNormLayer::prepare_device(Blobs bottom, Blobs) {
  const Tensor& x = bottom[0]->data;
  scratch_bytes_ = channels::sums_scratch_bytes(
      context(),
      runs_by_rows() ? ChannelMaps{{rows_.rows, rows_.size, 1}} : channels::channels_of_samples(x));
}

template <class S>
void RowNormLayer::rows_forward_on(const ComputeDevice& device, Blobs bottom, Blobs top) {
  using W = Wide<S>;
  const S* const x = device.read<S>(bottom[0]->data);
  S* const y = device.overwrite<S>(top[0]->data);
  const bool aligned = rows_.size % kVector<S> == 0 && is_aligned(x) && is_aligned(y);
  const Coefficients<W> of_rows =
      channels::coefficients_in<W>(device, rows_.rows, 3, true, coefficients_);
  for_each_block(device, rows_.rows, row_norm::threads_for(rows_.size, kVector<S>), 0,
                 row_norm::RowForward<S>{
                     rows_.size, settings_.eps, aligned, x, read_parameter<W>(device, scale_),
                     read_parameter<W>(device, bias_), statistics(device, true), of_rows, y});
}

template <class S>
void RowNormLayer::rows_backward_on(const ComputeDevice& device, Blobs top, bool propagates,
                                    Blobs bottom) {
  using W = Wide<S>;
  const row_norm::Statistics known = statistics(device, false);
  const Coefficients<W> of_rows =
      channels::coefficients_in<W>(device, rows_.rows, 3, false, coefficients_);
  const auto parameters = channels::gradients_of<W>(device, bias_, scale_);
  if (parameters) {  // first: dx may overwrite dy
    channels::add_column_sums<W>(device, rows_.rows, rows_.size, top[0]->diff, bottom[0]->data,
                                 of_rows.read(), parameters);
  }
  if (!propagates) return;
  const S *const x = device.read<S>(bottom[0]->data), *const dy = device.read<S>(top[0]->diff);
  S* const dx = device.overwrite<S>(bottom[0]->diff);
  const bool aligned =
      rows_.size % kVector<S> == 0 && is_aligned(x) && is_aligned(dy) && is_aligned(dx);
  for_each_block(device, rows_.rows, row_norm::threads_for(rows_.size, kVector<S>), 0,
                 row_norm::RowBackward<S>{rows_.size, aligned, x, dy,
                                          read_parameter<W>(device, scale_), known, dx});
}

template <class T>
void RowNormLayer::groups_forward_on(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const Tensor& x = bottom[0]->data;
  const ChannelMaps maps = channels::channels_of_samples(x);
  const Coefficients<T> coefficients =
      channels::coefficients_in<T>(device, maps.count(), 5, true, coefficients_);
  const channels::PartialSums sums =
      channels::total_sums(device, channels::moment_sums(device, maps, x));
  for_each_block(
      device, rows_.rows, rows_.channels_each, 0,
      row_norm::GroupForward<T>{rows_, settings_.eps, sums.sums, sums.origins,
                                read_parameter<T>(device, scale_), read_parameter<T>(device, bias_),
                                statistics(device, true), coefficients});
  channels::map_affine<T>(device, maps, x, nullptr, coefficients.read(), false, top[0]->data);
}

template <class T>
void RowNormLayer::groups_backward_on(const ComputeDevice& device, Blobs top, bool propagates,
                                      Blobs bottom) {
  const auto parameters = channels::gradients_of<T>(device, bias_, scale_);
  if (!propagates && !parameters) return;
  const channels::GradientOperands from{&top[0]->diff, &bottom[0]->data};
  const ChannelMaps maps = channels::channels_of_samples(top[0]->diff);
  const row_norm::Statistics known = statistics(device, false);
  const Coefficients<T> all =
      channels::coefficients_in<T>(device, maps.count(), 5, false, coefficients_);
  const channels::PartialSums sums =
      channels::total_sums(device, channels::gradient_sums<T>(device, maps, from, {all.centre}));
  if (parameters) {
    const int64_t samples = rows_.rows / rows_.groups;
    for_each_block(
        device, rows_.channels(), samples, 0,
        row_norm::GroupParameters<T>{rows_, samples, sums.sums, known, all.centre, parameters});
  }
  if (!propagates) return;
  for_each_block(
      device, rows_.rows, rows_.channels_each, 0,
      row_norm::GroupBackward<T>{rows_, sums.sums, read_parameter<T>(device, scale_), known, all});
  channels::map_gradient<T>(device, maps, from, all.read(), &bottom[0]->diff, nullptr);
}

void RowNormLayer::forward_on(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (bottom[0]->count() == 0) return;
  if (runs_by_rows()) {
    dispatch_any_float(bottom[0]->data.dtype(),
                       [&]<class S>(S) { rows_forward_on<S>(device, bottom, top); });
  } else {
    dispatch_float(dtype(), [&]<class T>(T) { groups_forward_on<T>(device, bottom, top); });
  }
}

void RowNormLayer::backward_on(const ComputeDevice& device, Blobs top, bool propagates,
                               Blobs bottom) {
  if (bottom[0]->count() == 0) return;
  if (runs_by_rows()) {
    dispatch_any_float(bottom[0]->data.dtype(),
                       [&]<class S>(S) { rows_backward_on<S>(device, top, propagates, bottom); });
  } else {
    dispatch_float(dtype(),
                   [&]<class T>(T) { groups_backward_on<T>(device, top, propagates, bottom); });
  }
}

}  // namespace crema
