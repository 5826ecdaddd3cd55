// SpatialDropout: zeroes whole channels at random while training. See README.md.
#include <cmath>

#include "core/device_run.hpp"
#include "core/dispatch.hpp"
#include "core/philox.hpp"
#include "crema/random.hpp"
#include "layer_support/channel_factors.hpp"
#include "layer_support/options.hpp"
#include "layer_support/packs.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The factors that draw_factors() draws on the host, four at a time, on a device.
template <class T>
struct DrawFactors {
  const PassState* state;
  uint64_t stream, threshold;
  T kept;
  int64_t count;
  T* to;

  CREMA_FUNCTOR void operator()(int64_t number) const {
    const PhiloxBlock drawn = random_block(state->seed, stream + state->pass, state->iteration,
                                           static_cast<uint64_t>(number));
    const uint32_t words[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int64_t k = 0; k < 4 && 4 * number + k < count; ++k)
      to[4 * number + k] = words[k] < threshold ? T{0} : kept;
  }
};

class SpatialDropoutLayer : public TwoSidedLayer {
 public:
  explicit SpatialDropoutLayer(const LayerInit& init)
      : TwoSidedLayer(init), stream_(stream_id(name())), factors_(Shape{0}, dtype()) {
    const float ratio = init.param.spatial_dropout_param().dropout_ratio();
    if (!(ratio >= 0 && ratio < 1))
      throw Error("dropout_ratio ", ratio,
                  " is outside [0, 1); give the share of channels to drop");
    ratio_ = phase() == Phase::train ? static_cast<double>(ratio) : 0;
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() < 2)
      throw Error("drops channels, axis 1 of N x C x ..., but the bottom is ", shape.str());
    factors_.reshape(Shape{shape[0], shape[1]});
    top[0]->reshape(shape);
  }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return without_blocks(same_format_options(bottom, top, dtype(), false));
  }
  bool stores_16_bits() const override { return ratio_ > 0; }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override {
    if (ratio_ == 0) return without_blocks(moving_options(*this, bottom, top, true));
    return TwoSidedLayer::device_options(bottom, top);
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    factor_of_ = ScaleOf(bottom[0]->shape(), bottom[0]->data.format());
  }
  size_t kept_bytes() const override { return factors_.bytes(); }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = ratio_ > 0 ? static_cast<double>(bottom[0]->count()) : 0;
    return {n, n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (ratio_ > 0) draw_factors(device);
    apply(device, bottom[0]->data, top[0]->data);
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    apply(device, top[0]->diff, bottom[0]->diff);
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return ratio_ > 0 ? InPlace::overwrite : InPlace::alias;
  }

 private:
  /// 0, or 1 / (1 - ratio): channel c of sample n takes word n * C + c of the pass.
  void draw_factors(const ComputeDevice& device) {
    const auto threshold = static_cast<uint64_t>(std::llround(ratio_ * 0x1p32));
    dispatch_float(dtype(), [&]<class T>(T) {
      const T kept = static_cast<T>(0x1p32 / (0x1p32 - static_cast<double>(threshold)));
      if (!device.on_host() && context().on_gpu()) {
        const int64_t count = factors_.count();
        return for_each(device, (count + 3) / 4, kElementGrain,
                        DrawFactors<T>{&context().device_run().block()->state, stream_, threshold,
                                       kept, count, device.overwrite<T>(factors_)});
      }
      Random random(run().seed, stream_ + run().pass, run().iteration);
      T* const to = factors_.overwrite<T>();
      for (int64_t i = 0; i < factors_.count(); ++i) {
        to[i] = random.next_u32() < threshold ? T{0} : kept;
      }
    });
  }
  void apply(const ComputeDevice& device, const Tensor& from, Tensor& to) const {
    if (ratio_ == 0) return copy(device, from, to);
    dispatch_float(dtype(), [&]<class T>(T) {
      if (device.on_host()) {
        return for_each(HostSide(), to.count(), kElementGrain,
                        ScaleAndAdd<T>{factor_of_, device.read<T>(factors_), device.read<T>(from),
                                       nullptr, device.overwrite<T>(to)});
      }
      const ScaleAndAddPack<T> body{ScaleWalk(factor_of_, to.count() + 1),
                                    values_in<T>(device, factors_), values_in<T>(device, from),
                                    ValuesIn<T>(), values_out<T>(device, to)};
      for_each_pack<T>(device, to.count(), aligned(body.x, body.y), body);
    });
  }

  double ratio_ = 0;
  uint64_t stream_;  // of the layer's name
  ScaleOf factor_of_;
  Tensor factors_;  // (N, C)
};

}  // namespace

void register_spatial_dropout(Registry& registry) {
  add_two_sided<SpatialDropoutLayer>(registry, "SpatialDropout");
}

}  // namespace crema
