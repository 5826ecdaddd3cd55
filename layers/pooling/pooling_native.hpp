// The vectorized engine of Pooling: maximum and average, f32, every memory format. A maximum's
// choices are remembered as one byte an output where windows have no more than 255 cells.
#pragma once

#include "kit/native_engine.hpp"
#include "layers/pooling/pooling.hpp"
#include "layers/pooling/pooling_kernels.hpp"

namespace crema {

class PoolingNative : public NativeEngine<PoolingLayer> {
 public:
  size_t extra_bytes() const override;
  void plan_scratch(ScratchPlan& scratch) const override;

 protected:
  std::vector<Option> layouts(const PoolingLayer& layer, Blobs bottom, Blobs top,
                              std::string& why) override;
  void plan(PoolingLayer& layer, Blobs bottom, Blobs top) override;
  void run_forward(PoolingLayer& layer, Blobs bottom, Blobs top) override;
  void run_backward(PoolingLayer& layer, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 private:
  /// Runs body(image, row) for each row of each image of pixels, or body(plane, 0) for each plane.
  template <class Body>
  void each_part(int64_t rows, const Body& body) const;
  template <class Choice>
  void forward_maximum(const float* in, float* out);
  template <class Choice>
  void rectify(int64_t row, float* y, Choice* choice) const;
  template <class Choice>
  void backward_maximum(const float* dy, float* dx) const;

  PoolingPlan plan_;
  bool maximum_ = true, rectifies_ = false;
  bool planes_ = true;  // contiguous; else pixels
  int64_t images_ = 0;  // planes, or images of pixels
  Tensor choice_;       // of a maximum, laid out like the top; where the layer trains
};

}  // namespace crema
