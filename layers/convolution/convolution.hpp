// Convolution: each output is a weighted sum over a window of the input, plus a bias. See
// README.md. Deconvolution (layers/deconvolution) is the same class with a transposed geometry.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "crema/layer.hpp"
#include "crema/registry.hpp"
#include "layers/convolution/geometry.hpp"

namespace crema {

/// The layer types that are a ConvolutionLayer. All but Convolution and Deconvolution are names of
/// forks.
inline constexpr const char* kConvolutionTypes[] = {"Convolution", "DepthwiseConvolution",
                                                    "ConvolutionDepthwise", "Convolution3D",
                                                    "Deconvolution"};

class ConvolutionEnds;

class ConvolutionLayer : public Layer {
 public:
  /// `settings` need not be those of the message.
  ConvolutionLayer(const LayerInit& init, const ConvolutionParameter& settings,
                   ConvolutionGeometry::Kind kind);
  ~ConvolutionLayer() override;

  Arity arity() const override;
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// Weights of an InnerProduct over windows of this size, (O, K) or (1, 1, O, K); a bias with axes
  /// of extent 1.
  bool convert_weights(std::vector<Tensor>& published) const override;
  /// Scales and shifts of the channels (of a layer that does not train), the sum with another value
  /// of the top's shape (of a convolution), a ReLU with a slope that is not negative. Each may be
  /// absent; the order is this one.
  bool accepts(const Tail& tail) const override;

  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  const ConvolutionGeometry& geometry() const { return geometry_; }
  /// Whether a bias is added: the layer's own, or that of scales and shifts in the tail.
  bool has_bias() const;
  /// The negative slope of the ReLU that the layer applies to its result, if any.
  std::optional<float> relu() const;
  /// The bottom that the layer adds to its top; null if there is none.
  Blob* summand(Blobs bottom) const;
  size_t kept_bytes() const override;
  size_t in_place_bottom() const override;
  /// Logs what an engine has to say of this layer, unless that is what it said last.
  void log_once(const std::string& what) const;

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

  ConvolutionGeometry geometry_;
  Filler weight_filler_, bias_filler_;
  std::optional<float> own_relu_;  // the slope, if the message sets relu
  mutable std::string logged_;     // the last one of log_once()
  // Of the reference:
  std::unique_ptr<ConvolutionEnds> ends_;
  Tensor columns_{Shape{0}};  // those of one group, unless it is pointwise
};

/// Registers a type of kConvolutionTypes.
void add_convolution_type(Registry& registry, const std::string& type,
                          ConvolutionGeometry::Kind kind);

}  // namespace crema
