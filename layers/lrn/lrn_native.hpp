// The vectorized engine of LRN: f32; every memory format across channels, contiguous memory within
// a channel.
#pragma once

#include "kit/native_engine.hpp"
#include "layers/lrn/lrn.hpp"
#include "layers/lrn/lrn_kernels.hpp"

namespace crema {

class LRNNative : public NativeEngine<LRNLayer> {
 protected:
  std::vector<Option> layouts(const LRNLayer& layer, Blobs bottom, Blobs top,
                              std::string& why) override;
  void plan(LRNLayer& layer, Blobs bottom, Blobs top) override;
  void run_forward(LRNLayer& layer, Blobs bottom, Blobs top) override;
  void run_backward(LRNLayer& layer, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 private:
  enum class Memory : uint8_t { planes, rows, pixels };

  /// Runs body(offset of the sample or plane, begin, end) for parts of it that threads share out.
  template <class Body>
  void each_part(const Body& body) const;

  LRNCoefficients coefficients_;
  Memory memory_ = Memory::rows;
  int64_t samples_ = 0;  // or planes
  int64_t sample_ = 0;   // elements of one, padding counted
  int64_t height_ = 1, width_ = 1;
  int64_t channels_ = 0, inner_ = 0;  // rows
  int64_t blocks_ = 1, block_ = 1;    // pixels
};

}  // namespace crema
