// SmoothL1Loss: squares of small differences, and larger ones as they are; and the variant of
// R-FCN, SmoothL1LossOHEM. See README.md of both rooms.
#include "layer_support/element_loss.hpp"
#include "layer_support/passes.hpp"
#include "layers/smooth_l1_loss/smooth_l1_math.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

struct SmoothL1OfSigma : SmoothL1 {
  static SmoothL1OfSigma of(const LayerParameter& param) {
    const float sigma = param.smooth_l1_loss_param().sigma();
    if (!(sigma > 0 && std::isfinite(sigma)))
      throw Error("sigma ", sigma, " is not above 0; the loss is linear from 1 / sigma^2 on");
    return {{static_cast<double>(sigma) * static_cast<double>(sigma)}};
  }
};

class SmoothL1LossLayer : public ElementLossLayer<SmoothL1OfSigma> {
 public:
  explicit SmoothL1LossLayer(const LayerInit& init) : ElementLossLayer(init, 4) {}
};

/// The loss of one position: the sum over its channels.
template <class T>
struct PositionSum {
  AxisSplit split;
  ElementLossTerm<T, SmoothL1OfSigma> term;
  T* loss;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    double sum = 0;
    for (int64_t c = 0; c < split.size; ++c) sum += term(split.at(i) + c * split.inner);
    loss[i] = static_cast<T>(sum);
  }
};

class SmoothL1LossOHEMLayer : public ElementLossLayer<SmoothL1OfSigma> {
 public:
  explicit SmoothL1LossOHEMLayer(const LayerInit& init)
      : ElementLossLayer(init, 3, 2), normalization_(init.param) {
    check_loss_settings(init, {.ignore_label = false});
  }

  std::optional<MeanUnits> mean_over(int top, int64_t) const override {
    if (top != 0) return std::nullopt;
    return normalization_.units(split_.outer, split_.inner, split_.positions());
  }

  void reshape(Blobs bottom, Blobs top) override {
    ElementLossLayer::reshape(bottom, top);
    Shape shape = bottom[0]->shape();
    if (shape.rank() < 2)
      throw Error("'", bottom[0]->name, "' (", shape.str(),
                  ") has no axis of channels; give N x C or N x C x H x W");
    split_ = AxisSplit(shape, 1);
    shape.set(1, 1);
    if (top.size() > 1) top[1]->reshape(shape);
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    ElementLossLayer::run_forward(device, bottom, top);
    if (top.size() < 2) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, split_.positions(), kElementGrain / std::max<int64_t>(split_.size, 1) + 1,
               PositionSum<T>{split_, term<T>(device, bottom), device.overwrite<T>(top[1]->data)});
    });
  }

 protected:
  double divisor() const override {
    return normalization_.divisor(split_.outer, split_.inner, split_.positions());
  }

 private:
  LossNormalization normalization_;
  AxisSplit split_;  // around the channels
};

}  // namespace

void register_smooth_l1_loss(Registry& registry) {
  add_two_sided<SmoothL1LossLayer>(registry, "SmoothL1Loss");
  add_two_sided<SmoothL1LossOHEMLayer>(registry, "SmoothL1LossOHEM");
}

}  // namespace crema
