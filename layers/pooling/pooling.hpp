// Pooling: the maximum, the average, or a random choice of each window of an image. See README.md.
#pragma once

#include <cstdint>
#include <vector>

#include "kit/two_sided.hpp"
#include "layers/pooling/pooling_math.hpp"

namespace crema {

class PoolingLayer : public TwoSidedLayer {
 public:
  using Method = PoolingMethod;

  explicit PoolingLayer(const LayerInit& init);

  Arity arity() const override;
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// MAX applies a ReLU behind it, and also one in front of it, where there are more values.
  bool commutes_with(const TailStep& step) const override;
  bool accepts(const Tail& tail) const override;
  bool is_exact_top(int top) const override { return top > 0; }

  /// Own kernels on CUDA, since cuDNN's windows end differently: published ones are rounded up.
  void run_forward(const Side& side, Blobs bottom, Blobs top) override;
  void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  void release_reference() override { choice_ = Tensor(Shape{0}, DType::i32); }
  size_t kept_bytes() const override { return choice_.bytes(); }

  Method method() const { return method_; }
  const PoolingWindows& windows() const { return windows_; }
  /// A ReLU follows the maximum.
  bool rectifies() const { return !tail().empty(); }
  /// The output is drawn from the window.
  bool samples() const { return method_ == Method::stochastic && phase() == Phase::train; }
  /// The random numbers of the present pass.
  PoolingChance chance() const;
  /// Backward goes to one chosen input of each window, which forward has to remember.
  bool remembers_choice() const;

 protected:
  BackwardReads reference_backward_reads() const override;

 private:
  Method method_ = Method::maximum;
  bool global_ = false, round_up_ = true;
  PoolingWindows windows_;
  Tensor choice_{Shape{0}, DType::i32};  // (N, C, out_h, out_w): a place within the plane
  uint64_t stream_ = 0;
};

}  // namespace crema
