// Convolution: each output is a weighted sum over a window of the input, plus a bias. See
// README.md. Deconvolution (layers/deconvolution) is the same class with a transposed geometry.
#pragma once

#include <memory>
#include <optional>

#include "backend/channel_view.hpp"
#include "core/move.hpp"
#include "crema/layer.hpp"
#include "crema/registry.hpp"
#include "layers/convolution/folded_parameters.hpp"
#include "layers/convolution/geometry.hpp"

namespace crema {

/// The layer types that are a ConvolutionLayer. All but Convolution and Deconvolution are names of
/// forks.
inline constexpr const char* kConvolutionTypes[] = {"Convolution", "DepthwiseConvolution",
                                                    "ConvolutionDepthwise", "Convolution3D",
                                                    "Deconvolution"};

class ConvolutionLayer : public Layer {
 public:
  /// `settings` need not be those of the message.
  ConvolutionLayer(const LayerInit& init, const ConvolutionParameter& settings,
                   ConvolutionGeometry::Kind kind);

  Arity arity() const override;
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// Weights of an InnerProduct over windows of this size, (O, K) or (1, 1, O, K); a bias with axes
  /// of extent 1.
  bool adopt(std::vector<Tensor>& published) const override;
  /// Scales and shifts of the channels (of a layer that does not train, on the CPU), the sum with
  /// another value of the top's shape (of a convolution on the CPU), a ReLU with a slope that is
  /// not negative. Each may be absent; the order is this one.
  bool accepts(const Tail& tail) const override;

  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  // For engines.
  const ConvolutionGeometry& geometry() const { return geometry_; }
  /// The negative slope of the ReLU that the layer applies to its result, if any.
  std::optional<float> relu() const;
  /// The bottom that the layer adds to its top; null if there is none.
  Blob* summand(Blobs bottom) const;
  /// The first step of forward: folds the tail's scales and shifts into the parameters if any of
  /// these changed, and copies the summand to top 0.
  void begin_forward(Blobs bottom, Blobs top);
  /// The last step of backward: copies the diff of the sums to the summand if it wants one.
  void pass_to_summand(Blobs top, const std::vector<bool>& propagate, Blobs bottom);
  size_t kept_bytes() const override;
  size_t in_place_bottom() const override;
  /// What the layer computes with: its parameters, or those with the tail's scales and shifts in
  /// them, whose values are valid from begin_forward() on. No bias is null.
  Parameter& weights() { return folded() ? folded()->weights : *params()[0]; }
  Parameter* bias() { return folded() ? &folded()->bias : own_bias(); }
  /// The last step of forward: adds the bias to the products y, in any format, and applies the
  /// ReLU.
  void finish(const Side& side, Tensor& y);
  /// The diff of the sums before the ReLU, for top i. It is the diff of the top, unless there is a
  /// ReLU and the diff of the top must not be overwritten.
  Tensor& sums_diff(Blobs top, size_t i) { return masked_.empty() ? top[i]->diff : masked_[i]; }
  /// For prepare and resume of engines, when the formats of the tops are set: allocates
  /// sums_diff(), and frees the memory of the reference.
  void prepare_engine(Blobs top);
  /// The first step of backward: writes them. Does nothing without a ReLU.
  void undo_relu(const Side& side, Blobs top);
  /// Adds the gradient of the bias only, after undo_relu(), for tops in any format.
  void backward_bias(const Side& side, Blobs top);

 protected:
  BackwardReads reference_backward_reads() const override;
  InPlace reference_in_place() const override;
  void prepare_reference(Blobs bottom, Blobs top) override;

 private:
  /// The windows of one group of one image as a matrix, (kernel_count, positions).
  template <class T>
  const T* columns_of(const T* image);
  // The products of the reference. x is the input of the convolution, y its output.
  /// y = w x + beta y.
  template <class T>
  void multiply(const T* x, T beta, T* y);
  /// x = the transposed product of w and y.
  template <class T>
  void multiply_transposed(const T* y, T* x);
  /// Adds the gradient of the weights, where dy is that of w x.
  template <class T>
  void add_weights_gradient(const T* x, const T* dy);
  /// The top as (outer, channels, inner); of any format that is not blocked.
  ChannelView top_view(Format format) const;
  void prepare_sums_diffs(Blobs top);
  Parameter* own_bias() { return geometry_.bias ? params()[1].get() : nullptr; }
  /// Null without scales and shifts in the tail.
  FoldedParameters* folded();

  ConvolutionGeometry geometry_;
  Filler weight_filler_, bias_filler_;
  std::unique_ptr<FoldedParameters> folded_;  // see folded()
  std::optional<float> own_relu_;             // the slope, if the message sets relu
  std::vector<Tensor> masked_;      // like the tops, if their diffs must not be overwritten
  std::vector<double> block_sums_;  // of backward_bias() in blocked formats
  Tensor columns_{Shape{0}};        // of the reference: those of one group, unless it is pointwise
};

/// Registers a type of kConvolutionTypes.
void add_convolution_type(Registry& registry, const std::string& type,
                          ConvolutionGeometry::Kind kind);

}  // namespace crema
