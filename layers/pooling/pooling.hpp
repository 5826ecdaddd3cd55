// Pooling: the maximum, the average, or a random choice of each window of an image. See README.md.
#pragma once

#include <cstdint>
#include <vector>

#include "crema/layer.hpp"
#include "layers/pooling/pooling_axis.hpp"

namespace crema {

class PoolingLayer : public Layer {
 public:
  enum class Method : uint8_t { maximum, average, stochastic };

  PoolingLayer(const LayerParameter& param, Context& context);

  Arity arity() const override;
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;

  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  Method method() const { return method_; }
  /// Of the rows, and within a row.
  const PoolingAxis& y() const { return y_; }
  const PoolingAxis& x() const { return x_; }
  /// An average counts padding as zeros.
  bool counts_padding() const { return counts_padding_; }
  /// What an average at output (oy, ox) divides by.
  int64_t divisor(int64_t oy, int64_t ox) const;
  /// Backward goes to one chosen input of each window, which forward has to remember.
  bool remembers_choice() const;

 protected:
  BackwardReads reference_backward_reads() const override;
  void prepare_reference(Blobs bottom, Blobs top) override;

 private:
  template <class T>
  void forward_as(Blobs bottom, Blobs top);
  template <class T>
  void backward_as(Blobs top, Blobs bottom);
  /// The random number in [0, 1) of one output.
  float chance(int64_t output) const;

  Method method_ = Method::maximum;
  bool global_ = false, round_up_ = true, counts_padding_ = true;
  PoolingAxis y_, x_;
  std::vector<int32_t> choice_;  // within the plane, an output: (N, C, out_h, out_w)
  uint64_t stream_ = 0;
  uint32_t key_[2] = {0, 0};  // of this pass
};

}  // namespace crema
