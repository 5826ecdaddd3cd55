// SPP: pools over a pyramid of grids, as Pooling does. See README.md.
#pragma once

#include <vector>

#include "layer_support/two_sided.hpp"
#include "layers/pooling/pooling_math.hpp"

namespace crema {

class SPPLayer : public TwoSidedLayer {
 public:
  /// One grid. In each sample of the top, its outputs (C, bins, bins) begin at `first`.
  struct Level {
    PoolingWindows windows;
    int64_t first = 0;
  };

  explicit SPPLayer(const LayerInit& init);

  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;

  /// The key of a pass that samples is passed by value.
  bool capturable() const override { return !samples(); }
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  size_t kept_bytes() const override { return choice_.bytes(); }

  PoolingMethod method() const { return method_; }
  const std::vector<Level>& levels() const { return levels_; }
  /// Backward goes to one chosen input of each window, which forward has to remember.
  bool remembers_choice() const { return method_ == PoolingMethod::maximum || samples(); }

 protected:
  BackwardReads reference_backward_reads() const override {
    // A probability-weighted average depends on the values.
    return {.bottom_data = method_ == PoolingMethod::stochastic && !samples(), .top_data = false};
  }

 private:
  /// The output is drawn from the window.
  bool samples() const { return method_ == PoolingMethod::stochastic && phase() == Phase::train; }

  PoolingMethod method_ = PoolingMethod::maximum;
  std::vector<Level> levels_;
  Tensor choice_{Shape{0}, DType::i32};  // of the top's shape: a place within the plane
};

}  // namespace crema
