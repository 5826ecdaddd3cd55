#include "layers/spp/spp.hpp"

#include <limits>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layers/pooling/pooling.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Outputs, or inputs, that are worth a thread.
constexpr int64_t kGrain = 1024;

/// Where the outputs of channels begin: those of a level's channels lie in each sample of the top.
struct PyramidOutputs {
  int64_t channels, sample, first;
  CREMA_FUNCTOR int64_t begin(int64_t channel, int64_t outputs) const {
    return channel / channels * sample + first + channel % channels * outputs;
  }
};

/// The windows of `bins` bins, which lie side by side and reach as far beyond either end.
PoolingAxis axis_of(int64_t size, int64_t bins) {
  const int64_t kernel = (size + bins - 1) / bins;
  return {.size = size,
          .out = bins,
          .kernel = kernel,
          .stride = kernel,
          .pad = (kernel * bins - size + 1) / 2};
}

}  // namespace

SPPLayer::SPPLayer(const LayerInit& init) : TwoSidedLayer(init) {
  const SPPParameter& settings = init.param.spp_param();
  method_ = settings.pool() == SPPParameter::MAX   ? PoolingMethod::maximum
            : settings.pool() == SPPParameter::AVE ? PoolingMethod::average
                                                   : PoolingMethod::stochastic;
  if (settings.pyramid_height() == 0)
    throw Error("pyramid_height is ", settings.has_pyramid_height() ? "0" : "not set",
                "; set it to the number of levels, 1 or more");
}

void SPPLayer::setup(Blobs bottom, Blobs) {
  if (bottom[0]->shape().rank() != 4)
    throw Error("takes images, (N, C, H, W), not a bottom of shape ", bottom[0]->shape().str());
}

void SPPLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  if (shape.rank() != 4 || shape.count(1) <= 0)
    throw Error("takes images, (N, C, H, W), with C, H and W above 0, not ", shape.str());
  if (shape.count(2) > std::numeric_limits<int32_t>::max())
    throw Error("an image of ", shape[2], "x", shape[3], " has more than 2^31 pixels");
  const uint32_t height = param().spp_param().pyramid_height();
  levels_.clear();
  int64_t sample = 0, bins = 1;
  for (uint32_t level = 0; level < height; ++level, bins *= 2) {
    const PoolingWindows windows{.y = axis_of(shape[2], bins), .x = axis_of(shape[3], bins)};
    for (const PoolingAxis& axis : {windows.y, windows.x}) {
      if (axis.pad >= axis.kernel)
        throw Error("images of ", shape[2], "x", shape[3], " are too small for the ", bins, "x",
                    bins, " bins of level ", level, ": its windows of ", axis.kernel,
                    " would see padding only; set pyramid_height to ", level, " or less");
      if (axis.pad > 0 && method_ == PoolingMethod::stochastic)
        throw Error("STOCHASTIC is not defined where bins have padding, and level ", level, " has ",
                    bins, "x", bins, " for images of ", shape[2], "x", shape[3],
                    "; take MAX or AVE, or extents that are multiples of ", bins);
    }
    levels_.push_back({windows, sample});
    sample += shape[1] * bins * bins;
  }
  top[0]->reshape(height == 1 ? Shape{shape[0], shape[1], 1, 1} : Shape{shape[0], sample});
}

Flops SPPLayer::flops(Blobs bottom, Blobs top) const {
  const double cells =
      static_cast<double>(bottom[0]->count()) * static_cast<double>(levels_.size());
  return {cells, remembers_choice() ? static_cast<double>(top[0]->count()) : cells};
}

void SPPLayer::prepare_reference(Blobs, Blobs top) {
  choice_.reshape(remembers_choice() && trains() ? top[0]->shape() : Shape{0});
}

void SPPLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* in = device.read<T>(bottom[0]->data);
    T* out = device.overwrite<T>(top[0]->data);
    int32_t* choice = choice_.count() > 0 ? device.overwrite<int32_t>(choice_) : nullptr;
    for (const Level& level : levels_) {
      for_each(
          device, shape.count(0, 2) * level.windows.outputs(), kGrain,
          PoolingForward<T, PyramidOutputs>{level.windows,
                                            method_,
                                            false,
                                            samples(),
                                            pooling_chance(*this),
                                            in,
                                            out,
                                            choice,
                                            nullptr,
                                            {shape[1], top[0]->shape().count(1), level.first}});
    }
  });
}

void SPPLayer::run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                            Blobs bottom) {
  const Shape& shape = bottom[0]->shape();
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* dy = device.read<T>(top[0]->diff);
    const T* in =
        reference_backward_reads().bottom_data ? device.read<T>(bottom[0]->data) : nullptr;
    const int32_t* choice = remembers_choice() ? device.read<int32_t>(choice_) : nullptr;
    T* dx = device.overwrite<T>(bottom[0]->diff);
    for (const Level& level : levels_) {
      for_each(
          device, bottom[0]->count(), kGrain,
          PoolingBackward<T, PyramidOutputs>{level.windows,
                                             dy,
                                             in,
                                             choice,
                                             level.first > 0,
                                             dx,
                                             {shape[1], top[0]->shape().count(1), level.first}});
    }
  });
}

void register_spp(Registry& registry) { add_two_sided<SPPLayer>(registry, "SPP"); }

}  // namespace crema
