// Convolution: each output is a weighted sum over a window of the input, plus a bias. See
// README.md.
#pragma once

#include <optional>

#include "crema/layer.hpp"
#include "layers/convolution/geometry.hpp"
#include "layers/convolution/im2col.hpp"

namespace crema {

class ConvolutionLayer : public Layer {
 public:
  explicit ConvolutionLayer(const LayerInit& init);

  Arity arity() const override;
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// Weights of an InnerProduct over windows of this size, (O, K) or (1, 1, O, K); a bias with axes
  /// of extent 1.
  bool adopt(std::vector<Tensor>& published) const override;
  /// The sum with another value of the top's shape (on the CPU), a ReLU with a slope that is not
  /// negative, or the one behind the other.
  bool accepts(const Tail& tail) const override;

  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  // For engines.
  const ConvolutionGeometry& geometry() const { return geometry_; }
  /// Slope for negative values of the ReLU that the layer applies to its result, if any.
  std::optional<float> relu() const;
  /// The bottom that is added to the top; null where there is none.
  Blob* summand(Blobs bottom) const;
  /// Forward's first step where there is a summand: top 0 holds it.
  void place_summand(Blobs bottom, Blobs top) const;
  /// Backward's last step: the summand gets the diff of the sums, where it wants one.
  void pass_to_summand(Blobs top, const std::vector<bool>& propagate, Blobs bottom);
  size_t in_place_bottom() const override;
  Parameter& weights() { return *params()[0]; }
  /// Null without bias_term.
  Parameter* bias() { return geometry_.bias ? params()[1].get() : nullptr; }
  /// Where backward has the diff of the sums that ReLU was applied to, or that top i is: in the
  /// top's own diff where that may change, or need not.
  Tensor& sums_diff(Blobs top, size_t i) { return masked_.empty() ? top[i]->diff : masked_[i]; }
  /// For prepare, when the tops' formats are fixed: returns the bytes that this takes.
  size_t prepare_sums_diffs(Blobs top);
  /// Backward's first step on the CPU: fills them. Does nothing without ReLU.
  void undo_relu(Blobs top);
  /// The bias's gradient by itself, after undo_relu, from tops in any format.
  void backward_bias(Blobs top);

 protected:
  BackwardReads reference_backward_reads() const override;
  InPlace reference_in_place() const override;
  void prepare_reference(Blobs bottom, Blobs top) override;

 private:
  template <class T>
  void forward_image(const T* x, T beta, T* y);
  template <class T>
  void backward_weights(const T* x, const T* dy, T beta, T* dweights);
  template <class T>
  void backward_data(const T* dy, T* dx);

  ConvolutionGeometry geometry_;
  std::optional<float> own_relu_;  // that the message asks for
  std::vector<Tensor> masked_;     // laid out like the tops, where their diffs have to stay
  // Of one group of one image.
  ColumnGeometry group_columns_;
  int64_t taps_ = 0, positions_ = 0, group_input_ = 0;
  bool pointwise_ = false;
  Tensor columns_;  // (taps, positions)
};

}  // namespace crema
