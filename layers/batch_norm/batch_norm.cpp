#include "layers/batch_norm/batch_norm.hpp"

#include "backend/host_pass.hpp"
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "kit/options.hpp"
#include "layers/batch_norm/batch_norm_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

int64_t channels_of(const Shape& shape) { return shape.rank() == 1 ? 1 : shape[1]; }

}  // namespace

BatchNormLayer::BatchNormLayer(const LayerInit& init)
    : PassLayer(init,
                std::make_unique<HostPassEngine<BatchNormLayer, batch_norm_passes::Passes>>()) {
  const BatchNormParameter& settings = init.param.batch_norm_param();
  stored_ = settings.has_use_global_stats() ? settings.use_global_stats() : phase() == Phase::test;
  fraction_ = settings.moving_average_fraction();
  epsilon_ = settings.eps();
  if (!(epsilon_ >= 0))
    throw Error("eps ", epsilon_, " is negative; variances would become so too");
  if (settings.stats_batch_size() != 0)
    throw Error("stats_batch_size ", settings.stats_batch_size(),
                " is not supported; remove it: statistics are those of the whole batch");
  own_relu_ = settings.relu();
}

void BatchNormLayer::setup(Blobs bottom, Blobs) {
  if (bottom[0]->shape().rank() < 1)
    throw Error("needs a bottom with at least 1 axis, not a scalar");
  channels_ = channels_of(bottom[0]->shape());
  for (const Shape& shape : {Shape{channels_}, Shape{channels_}, Shape{1}}) {
    add_param(shape, Filler::constant(0)).learnable = false;
  }
  const BatchNormParameter& settings = param().batch_norm_param();
  const bool by_weight = settings.has_use_weight_bias() && settings.use_weight_bias();
  if (!settings.scale_bias() && !by_weight) return;
  const bool has_filler = settings.has_scale_filler() || settings.has_filler();
  const FillerParameter& filler =
      settings.has_scale_filler() ? settings.scale_filler() : settings.filler();
  own_scale_ = &add_param({channels_}, has_filler ? Filler(filler) : Filler::constant(1));
  if (settings.scale_bias() || settings.bias_term()) {
    own_bias_ = &add_param({channels_}, settings.has_bias_filler() ? Filler(settings.bias_filler())
                                                                   : Filler::constant(0));
  }
}

bool BatchNormLayer::adopt(std::vector<Tensor>& published) const {
  const size_t count = published.size();
  const bool has_factor = count == 3 || count == 5, has_scale = count == 4 || count == 5;
  if (count < 2 || count > 5) return false;
  const size_t first_scale = has_factor ? 3 : 2;
  for (size_t i = 0; i < count; ++i) {
    const Shape own = has_factor && i == kFactor ? Shape{1} : Shape{channels_};
    if (published[i].count() != own.count()) return false;
    published[i].reshape(own);
  }
  std::vector<Tensor> own(published.begin(), published.begin() + (has_factor ? 3 : 2));
  const auto constant = [&](const Shape& shape, double value) {
    own.emplace_back(shape, dtype()).fill(value);
  };
  if (!has_factor) constant({1}, 1);
  const Parameter* const wanted[] = {own_scale_, own_bias_};
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
  return stored_ ? Flops{2 * n, n} : Flops{5 * n, 9 * n};
}

bool BatchNormLayer::accepts(const Tail& tail) const {
  // At most: one affine step where the layer has none of its own, then a ReLU.
  size_t step = 0;
  if (step < tail.size() && tail[step].kind == TailStep::Kind::affine) {
    if (own_scale_ != nullptr || own_relu_) return false;
    ++step;
  }
  if (step < tail.size()) {
    if (own_relu_ || relu_slope_of({tail[step]}) != 0.0F) return false;
    ++step;
  }
  return step == tail.size();
}

BatchNormLayer::Ending BatchNormLayer::ending() const {
  Ending ending{own_scale_, own_bias_, own_relu_};
  for (const TailStep& step : tail()) {
    if (step.kind == TailStep::Kind::affine) {
      ending.scale = step.scale;
      ending.bias = step.bias;
    } else {
      ending.relu = true;
    }
  }
  return ending;
}

BackwardReads BatchNormLayer::reference_backward_reads() const {
  // With stored statistics the layer is linear. The sign that ReLU saw is computed again.
  const Ending ending = this->ending();
  const bool reads_x = !stored_ || ending.relu || ending.wants_scale_gradient();
  return {.bottom_data = reads_x, .top_data = false};
}

void register_batch_norm(Registry& registry);

void register_batch_norm(Registry& registry) { registry.add<BatchNormLayer>("BatchNorm"); }

}  // namespace crema
