// The vectorized engine of PReLU: f32, every memory format. Backward reads x and dy once, for dx
// and the gradient of the slope together.
#include <algorithm>

#include "backend/cpu/channelwise.hpp"
#include "layer_support/native_engine.hpp"
#include "layer_support/options.hpp"
#include "layers/prelu/prelu.hpp"

namespace crema {
namespace {

class PReLUKernel : public NativeKernel<PReLULayer> {
 public:
  static std::vector<Option> options(const PReLULayer&, Blobs bottom, Blobs top, std::string&) {
    return same_format_options(bottom, top, DType::f32, true);
  }

  PReLUKernel(PReLULayer& prelu, Blobs bottom, Blobs) : NativeKernel(prelu) {
    const Tensor& x = bottom[0]->data;
    const ChannelLayout layout =
        prelu.is_shared() ? ChannelLayout::of_one(x.storage())
        : x.format() == Format::contiguous
            ? ChannelLayout::of(x.shape()[0], x.shape()[1], x.shape().count(2))
            : ChannelLayout::of(x.shape(), x.format());
    split_ = ChannelSplit(layout, prelu.context().threads());
    scratch_.resize(split_);
    padded_.assign(layout.block > 1 ? static_cast<size_t>(layout.padded_channels()) : 0, 0.0F);
  }

  size_t bytes() const override { return scratch_.bytes() + padded_.size() * sizeof(float); }

 protected:
  void run_forward(PReLULayer& prelu, Blobs bottom, Blobs top) override {
    const float *x = bottom[0]->data.read<float>(), *slope = slopes(prelu);
    float* y = top[0]->data.overwrite<float>();
    channel_apply(split_, [&](const ChannelPiece& piece) {
      channel_slope(split_.layout(), piece, x, slope, y);
    });
  }

  void run_backward(PReLULayer& prelu, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    const float *x = bottom[0]->data.read<float>(), *dy = top[0]->diff.read<float>();
    const float* slope = slopes(prelu);
    float* dx = propagate[0] ? bottom[0]->diff.overwrite<float>() : nullptr;
    float* gradient = gradient_of<float>(ComputeDevice(), prelu.slope());
    channel_reduce(
        split_, scratch_,
        [&](const ChannelPiece& piece, const ChannelSums& sums) {
          channel_slope_gradient(split_.layout(), piece, x, dy, slope, sums, dx);
        },
        [&](int64_t begin, int64_t end, const ChannelSums& sums) {
          if (!gradient) return;
          for (int64_t c = begin; c < end; ++c) gradient[c] += static_cast<float>(sums.first[c]);
        });
  }

 private:
  /// Blocks are padded with zeros.
  const float* slopes(const PReLULayer& prelu) {
    const float* from = prelu.slope()->data.read<float>();
    if (padded_.empty()) return from;
    std::copy_n(from, split_.layout().channels, padded_.data());
    return padded_.data();
  }

  ChannelSplit split_;
  ChannelScratch scratch_;
  std::vector<float> padded_;  // the slopes, for blocked formats
};

}  // namespace

void register_prelu_native(Registry& registry) {
  registry.add_engine<NativeEngine<PReLUKernel>>("PReLU", "native", DeviceType::cpu);
}

}  // namespace crema
