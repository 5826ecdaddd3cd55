// The vectorized engine of Scale: f32; every memory format where the scale is one number a channel
// or one for all, contiguous memory for any other.
#pragma once

#include "backend/cpu/channelwise.hpp"
#include "kit/native_engine.hpp"
#include "layers/scale/scale.hpp"

namespace crema {

class ScaleNative : public NativeEngine<ScaleLayer> {
 public:
  size_t extra_bytes() const override;

 protected:
  std::vector<Option> layouts(const ScaleLayer& layer, Blobs bottom, Blobs top,
                              std::string& why) override;
  void plan(ScaleLayer& layer, Blobs bottom, Blobs top) override;
  void run_forward(ScaleLayer& layer, Blobs bottom, Blobs top) override;
  void run_backward(ScaleLayer& layer, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

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
