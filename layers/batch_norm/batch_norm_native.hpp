// The vectorized engine of BatchNorm: f32, every memory format, with every tail. In training,
// forward reads x twice and writes y once; backward reads x and dy twice and writes dx once. If a
// channel (or block of channels) of the batch fits the cache, the second read is from the cache.
#pragma once

#include <array>

#include "backend/cpu/channelwise.hpp"
#include "kit/native_engine.hpp"
#include "layers/batch_norm/batch_norm.hpp"

namespace crema {

class BatchNormNative : public NativeEngine<BatchNormLayer> {
 public:
  size_t extra_bytes() const override;

 protected:
  std::vector<Option> layouts(const BatchNormLayer& layer, Blobs bottom, Blobs top,
                              std::string& why) override;
  void plan(BatchNormLayer& layer, Blobs bottom, Blobs top) override;
  void run_forward(BatchNormLayer& layer, Blobs bottom, Blobs top) override;
  void run_backward(BatchNormLayer& layer, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 private:
  /// Sets gain, centre and shift of channel c.
  void set_affine(const BatchNormLayer& norm, const float* scale, const float* bias, int64_t c);
  ChannelAffine affine(const BatchNormLayer& norm) const;

  ChannelSplit split_;
  ChannelScratch scratch_;
  // Coefficients, a channel; see ChannelAffine and ChannelGradient. Until the statistics are known,
  // centre_ holds the origin of the moments. Padding channels hold zeros.
  std::vector<float> gain_, shift_, centre_, slope_, offset_;
};

}  // namespace crema
