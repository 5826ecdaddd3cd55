// InnerProduct: y = act(W x + b). See README.md.
#pragma once

#include <optional>
#include <vector>

#include "crema/layer.hpp"
#include "kit/options.hpp"

namespace crema {

class InnerProductLayer : public Layer {
 public:
  explicit InnerProductLayer(const LayerInit& init);

  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// Weights of more axes, as a convolution over all of the bottom has them, and (1, 1, O, K); a
  /// bias with axes of extent 1.
  bool adopt(std::vector<Tensor>& published) const override;
  /// A ReLU with a slope that is not negative: it is applied in the pass that adds the bias.
  bool accepts(const Tail& tail) const override;

  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  // x is (rows, inputs), y is (rows, outputs), W (outputs, inputs), or (inputs, outputs) where
  // transposed.
  int64_t rows() const { return rows_; }
  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  bool transposed() const { return transposed_; }
  bool has_bias() const { return has_bias_; }
  /// Slope of the ReLU that ends the layer, if one does.
  std::optional<float> relu_slope() const { return own_relu_ ? own_relu_ : relu_slope_of(tail()); }

  size_t kept_bytes() const override { return engine() == nullptr ? masked_.bytes() : 0; }

  // What CPU engines, which compute in float, share with the reference around the products.
  /// Makes room for what enter_backward returns: returns the bytes that this takes.
  size_t prepare_cpu(Blobs top);
  /// y = act(y + bias), where y holds x W^T.
  template <class T>
  void finish_forward(T* y);
  /// Adds to the bias's gradient and returns the gradient with respect to x W^T.
  template <class T>
  const T* enter_backward(Blobs top);

 protected:
  BackwardReads reference_backward_reads() const override;
  void prepare_reference(Blobs, Blobs top) override { prepare_cpu(top); }

 private:
  template <class T>
  void forward_as(const T* x, T* y);
  template <class T>
  void backward_as(Blobs top, bool propagate, Blobs bottom);

  int axis_ = 1;
  int64_t outputs_ = 0, inputs_ = 0, rows_ = 0;
  bool transposed_ = false, has_bias_ = true;
  std::optional<float> own_relu_;  // the slope, if the message sets relu
  Tensor masked_;  // (rows, outputs): dy through the ReLU; the top's own diff is not ours to change
};

}  // namespace crema
