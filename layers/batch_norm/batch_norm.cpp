#include "layers/batch_norm/batch_norm.hpp"

#include "core/dispatch.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/unused_settings.hpp"
#include "parallel/communicator.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using namespace batch_norm;

int64_t channels_of(const Shape& shape) { return shape.rank() == 1 ? 1 : shape[1]; }

/// Whether the layer has a scale, by either fork's name.
bool has_scale(const BatchNormParameter& settings) {
  const bool named = settings.has_use_weight_bias() || settings.has_bias_term();
  return settings.scale_bias() || (named && settings.use_weight_bias());
}

}  // namespace

BatchNormLayer::BatchNormLayer(const LayerInit& init) : BatchNormLayer(init, settings_of(init)) {
  const BatchNormParameter& settings = init.param.batch_norm_param();
  if (settings.stats_batch_size() != 0)
    throw Error("stats_batch_size ", settings.stats_batch_size(),
                " is not supported; remove it: statistics are those of the whole batch");
  if (!has_scale(settings)) {
    warn_without_effect(init, settings, {"filler", "scale_filler", "bias_filler"},
                        "without scale_bias: true; there is no scale and no bias");
  } else if (settings.has_scale_filler()) {
    warn_without_effect(init, settings, {"filler"}, "beside scale_filler");
  }
}

BatchNormLayer::BatchNormLayer(const LayerInit& init, const Settings& settings)
    : TwoSidedLayer(init), settings_(settings) {
  if (!(settings.epsilon >= 0))
    throw Error("eps ", settings.epsilon, " is negative; variances would become so too");
  if (!(settings.fraction >= 0 && settings.fraction <= 1))
    throw Error(
        "moving_average_fraction ", settings.fraction,
        " must lie in [0, 1]; it is the share of the earlier statistics that each iteration "
        "keeps");
}

BatchNormLayer::Settings BatchNormLayer::settings_of(const LayerInit& init) {
  const BatchNormParameter& settings = init.param.batch_norm_param();
  return {settings.has_use_global_stats() ? settings.use_global_stats() : init.phase == Phase::test,
          settings.moving_average_fraction(), settings.eps(), settings.relu(), settings.sync()};
}

void BatchNormLayer::setup(Blobs bottom, Blobs) {
  if (bottom[0]->shape().rank() < 1)
    throw Error("needs a bottom with at least 1 axis, not a scalar");
  channels_ = channels_of(bottom[0]->shape());
  roles_ = add_params();
}

Parameter& BatchNormLayer::add_statistics(int64_t count) {
  Parameter& parameter = add_param({count}, Filler::constant(0));
  parameter.learnable = false;
  return parameter;
}

BatchNormLayer::Roles BatchNormLayer::add_params() {
  Roles roles;
  roles.means = &add_statistics(channels_);
  roles.variances = &add_statistics(channels_);
  roles.factor = &add_statistics(1);
  const BatchNormParameter& settings = param().batch_norm_param();
  if (!has_scale(settings)) return roles;
  const bool has_filler = settings.has_scale_filler() || settings.has_filler();
  const FillerParameter& filler =
      settings.has_scale_filler() ? settings.scale_filler() : settings.filler();
  roles.scale = &add_param({channels_}, has_filler ? Filler(filler) : Filler::constant(1));
  if (settings.scale_bias() || settings.bias_term()) {
    roles.bias = &add_param({channels_}, settings.has_bias_filler() ? Filler(settings.bias_filler())
                                                                    : Filler::constant(0));
  }
  return roles;
}

bool BatchNormLayer::convert_weights(std::vector<Tensor>& published) const {
  const size_t count = published.size();
  const bool has_factor = count == 3 || count == 5, has_scale = count == 4 || count == 5;
  if (count < 2 || count > 5) return false;
  const size_t first_scale = has_factor ? 3 : 2;
  for (size_t i = 0; i < count; ++i) {
    const Shape own = has_factor && i == 2 ? Shape{1} : Shape{channels_};
    if (published[i].count() != own.count()) return false;
    published[i].reshape(own);
  }
  std::vector<Tensor> own(published.begin(), published.begin() + (has_factor ? 3 : 2));
  const auto constant = [&](const Shape& shape, double value) {
    own.emplace_back(shape, dtype()).fill(value);
  };
  if (!has_factor) constant({1}, 1);
  const Parameter* const wanted[] = {roles_.scale, roles_.bias};
  for (size_t i = 0; i < 2; ++i) {
    const double neutral = i == 0 ? 1 : 0;
    if (wanted[i] != nullptr) {
      if (!has_scale) return false;
      own.push_back(published[first_scale + i]);
    } else if (has_scale) {
      bool changes = false;
      dispatch_float(dtype(), [&](auto zero) {
        for (const auto value : published[first_scale + i].values<decltype(zero)>()) {
          changes = changes || static_cast<double>(value) != neutral;
        }
      });
      if (changes)
        throw Error("the file has a ", i == 0 ? "scale" : "bias",
                    " in this layer, the net has none; say batch_norm_param { scale_bias: true }");
    }
  }
  published = std::move(own);
  return true;
}

void BatchNormLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  if (shape.rank() < 1 || channels_of(shape) != channels_)
    throw Error("bottom of shape ", shape.str(), " does not have the ", channels_,
                " channels that the layer was made for");
  channel_count_ = channels_ == 0 ? 0 : shape.count() / channels_;
  top[0]->reshape(shape);
}

Flops BatchNormLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  // Batch statistics: two sums forward; backward two sums, of which one of products, and three
  // coefficients.
  return settings_.stored ? Flops{2 * n, n} : Flops{5 * n, 9 * n};
}

bool BatchNormLayer::accepts(const Tail& tail) const {
  // At most: one affine step where the layer has none of its own, then a sum, then a ReLU.
  size_t step = 0;
  if (step < tail.size() && tail[step].kind == TailStep::Kind::affine) {
    if (roles_.scale != nullptr || settings_.relu) return false;
    ++step;
  }
  if (step < tail.size() && tail[step].kind == TailStep::Kind::add) {
    if (settings_.relu) return false;
    ++step;
  }
  if (step < tail.size()) {
    if (settings_.relu || relu_slope_of({tail[step]}) != 0.0F) return false;
    ++step;
  }
  return step == tail.size();
}

std::optional<TailStep> BatchNormLayer::as_tail_step() const {
  if (!settings_.stored || settings_.relu || trains()) return std::nullopt;
  return TailStep{.kind = TailStep::Kind::stored, .layer = this};
}

ChannelAffine BatchNormLayer::stored_affine() const {
  const auto channels = static_cast<size_t>(channels_);
  std::vector<double> means(channels), scale(channels), shift(channels);
  dispatch_float(dtype(), [&]<class T>(T) {
    const TakeStored<T> take = take_stored<T>(ComputeDevice(), {means.data(), scale.data()});
    const T* const own_scale = read_parameter<T>(ComputeDevice(), roles_.scale);
    const T* const own_bias = read_parameter<T>(ComputeDevice(), roles_.bias);
    for (size_t c = 0; c < channels; ++c) {
      take(static_cast<int64_t>(c));
      if (own_scale) scale[c] *= static_cast<double>(own_scale[c]);
      shift[c] = (own_bias ? static_cast<double>(own_bias[c]) : 0) - means[c] * scale[c];
    }
  });
  return {std::move(scale), std::move(shift)};
}

BatchNormLayer::Ending BatchNormLayer::ending() const {
  Ending ending{roles_.scale, roles_.bias, settings_.relu};
  for (const TailStep& step : tail()) {
    if (step.kind == TailStep::Kind::affine) {
      ending.scale = step.scale;
      ending.bias = step.bias;
    }
    if (step.kind == TailStep::Kind::relu) ending.relu = true;
  }
  return ending;
}

BackwardReads BatchNormLayer::reference_backward_reads() const {
  // With stored statistics the layer is linear. The sign that ReLU saw is computed again, but for
  // a sum, of which both parts would have to be kept.
  const Ending ending = this->ending();
  const bool adds = in_place_bottom() > 0, again = ending.relu && !adds;
  const bool reads_x = !settings_.stored || again || (ending.scale && ending.scale->needs_gradient);
  return {.bottom_data = reads_x ? IndexSet{0} : IndexSet(false), .top_data = ending.relu && adds};
}

void BatchNormLayer::prepare_reference(Blobs bottom, Blobs) {
  const Shape& shape = bottom[0]->shape();
  const int64_t outer = shape.rank() == 1 ? 1 : shape[0];
  view_ = {outer, channels_, channel_count_ / std::max<int64_t>(outer, 1)};
  for (Tensor* values : {&mean_, &inverse_deviation_}) values->reshape(Shape{channels_});
  means_.reshape(Shape{channels_, 2});
}

template <class T>
Normalize<T> BatchNormLayer::normalize(const ComputeDevice& device) {
  const Ending end = ending();
  return {{device.change<double>(mean_), device.change<double>(inverse_deviation_)},
          read_parameter<T>(device, end.scale),
          read_parameter<T>(device, end.bias),
          end.relu};
}

double BatchNormLayer::count_of_all() const {
  const int processes = processes_ != nullptr ? processes_->size() : 1;
  return static_cast<double>(channel_count_) * processes;
}

void BatchNormLayer::add_processes(double* sums, int64_t count) const {
  if (processes_ != nullptr)
    processes_->all_reduce({.values = sums, .count = count, .dtype = DType::f64});
}

void BatchNormLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (is_empty()) return;
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host()) return forward_on<T>(device, bottom, top);
    const T* x = device.read<T>(bottom[0]->data);
    const Normalize<T> norm = normalize<T>(device);
    if (settings_.stored) {
      for_each(HostSide(), channels_, kPassGrain, take_stored<T>(device, norm.statistics));
    } else {
      // The memory of `channels` pairs.
      double* const both = device.change<double>(means_);
      auto* const sums = reinterpret_cast<SumPair*>(both);
      const auto keep = [sums](int64_t c, const SumPair& of_channel) { sums[c] = of_channel; };
      channel_sums(HostSide(), view_, kPassGrain, ValueTerm<T>{x}, keep);
      add_processes(both, 2 * channels_);
      for (int64_t c = 0; c < channels_; ++c)
        StoreMean{count_of_all(), norm.statistics.mean}(c, sums[c]);
      channel_sums(HostSide(), view_, kPassGrain, SquaredDeviation<T>{x, norm.statistics.mean},
                   keep);
      add_processes(both, 2 * channels_);
      const StoreVariance<T> store = store_variance<T>(device, norm.statistics);
      for (int64_t c = 0; c < channels_; ++c) store(c, sums[c]);
    }
    if (const Blob* const other = summand(bottom)) {
      const T* const add = device.read<T>(other->data);
      for_each(HostSide(), view_, kPassGrain,
               ForwardSum<T>{norm, x, add, device.overwrite<T>(top[0]->data)});
    } else {
      for_each(HostSide(), view_, kPassGrain,
               Forward<T>{norm, x, device.overwrite<T>(top[0]->data)});
    }
  });
}

void BatchNormLayer::run_backward(const ComputeDevice& device, Blobs top,
                                  const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host()) return backward_on<T>(device, top, propagate, bottom);
    const T* dy = device.read<T>(top[0]->diff);
    const BackwardReads reads = reference_backward_reads();
    const T* x = reads.bottom_data ? device.read<T>(bottom[0]->data) : nullptr;
    const T* y = reads.top_data ? device.read<T>(top[0]->data) : nullptr;
    const Incoming<T> in{normalize<T>(device), dy, x, y};
    // The memory of `channels` pairs.
    auto* means = reinterpret_cast<SumPair*>(device.change<double>(means_));
    const bool depends = propagate[0] && !settings_.stored;
    T* const of_bias = gradient_of<T>(device, ending().bias);
    T* const of_scale = gradient_of<T>(device, ending().scale);
    if (depends || of_bias || of_scale) {
      channel_sums(HostSide(), view_, kPassGrain, in,
                   StoreGradients<T>{count_of_all(), means, of_bias, of_scale});
    }
    // The gradients of scale and bias are those of this process, as all gradients are here.
    if (depends) add_processes(device.change<double>(means_), 2 * channels_);
    const size_t other = in_place_bottom();
    T* const dx = propagate[0] ? device.overwrite<T>(bottom[0]->diff) : nullptr;
    T* const d_add =
        other > 0 && propagate[other] ? device.overwrite<T>(bottom[other]->diff) : nullptr;
    if (!dx && !d_add) return;
    for_each(HostSide(), view_, kPassGrain,
             DataGradient<T>{in, depends ? means : nullptr, dx, d_add});
  });
}

void register_batch_norm(Registry& registry) {
  add_two_sided<BatchNormLayer>(registry, "BatchNorm");
}

}  // namespace crema
