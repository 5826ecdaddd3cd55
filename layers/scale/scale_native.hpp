// The vectorized engine of Scale: f32; every memory format where the scale is one number a channel
// or one for all, contiguous memory for any other.
#pragma once

#include "backend/cpu/channelwise.hpp"
#include "crema/layer.hpp"

namespace crema {

class ScaleNative : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top,
                                    std::string& why) override;
  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs top) override;
  void forward(Layer& layer, Blobs bottom, Blobs top) override;
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;
  size_t extra_bytes() const override;

 private:
  /// The tensor's own values where they can serve as coefficients, else a copy of them in `room`.
  const float* coefficients(const Tensor& values, std::vector<float>& room) const;

  ChannelSplit split_;
  ChannelScratch scratch_;
  // One number for all channels is copied to each of them; blocks are padded with zeros.
  bool one_for_all_ = false;
  std::vector<float> scale_, bias_;
};

}  // namespace crema
