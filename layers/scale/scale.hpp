// Scale: multiplies by a tensor that covers some axes and is broadcast over the others; optionally
// adds a learned bias of the same shape. See README.md. Bias extends it.
#pragma once

#include "layer_support/channel_grid.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

/// y = x * scale + bias. One of the two is the operand that the axes are given for; it is learned,
/// or the second bottom.
class ScaleLayer : public TwoSidedLayer {
 public:
  explicit ScaleLayer(const LayerInit& init);

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = 2}; }
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  std::optional<TailStep> as_tail_step() const override;

  /// False for Bias, which has no scale: y = x + bias.
  bool scales() const { return settings_.scales; }
  /// Null where it is not learned.
  Parameter* scale() const { return scale_; }
  Parameter* bias() const { return bias_; }
  /// The operand is learned, or else it is the second bottom.
  bool learns_operand() const { return operand() != nullptr; }
  /// A learned operand, one number a channel (axis 1).
  bool is_learned_per_channel() const { return learns_operand() && axis_ == 1 && axes_ == 1; }
  /// One number for each sample and channel (axes 0 and 1), as a squeeze-and-excitation block has.
  bool is_per_sample_channel() const { return axis_ == 0 && axes_ == 2; }
  /// One number a channel, one a sample and channel, or one for all.
  bool fits_any_format() const {
    return (axis_ == 1 && axes_ == 1) || is_per_sample_channel() || view_.channels == 1;
  }
  /// The values that forward multiplies by and adds: (view().channels); null without them.
  const Tensor* scale_data(Blobs bottom) const;
  const Tensor* bias_data(Blobs bottom) const;

  /// Where a backward pass adds its gradients; null where none is wanted.
  template <class T>
  struct Gradients {
    T* of_bias;
    T* of_scale;
  };
  /// Clears that of a bottom.
  template <class T>
  Gradients<T> gradients(const ComputeDevice& device, const std::vector<bool>& propagate,
                         Blobs bottom) const {
    Gradients<T> result{gradient_of<T>(device, bias_), gradient_of<T>(device, scale_)};
    if (!learns_operand() && propagate[1]) {
      fill_zero(device, bottom[1]->diff);
      (scales() ? result.of_scale : result.of_bias) = device.change<T>(bottom[1]->diff);
    }
    return result;
  }

  /// The first bottom; the operand covers its channels.
  const ChannelView& view() const { return view_; }

  bool stores_16_bits() const override { return true; }
  std::vector<Option> device_options(Blobs bottom, Blobs top) const override;
  void prepare_device(Blobs bottom, Blobs top) override;
  size_t scratch_bytes() const override { return scratch_bytes_; }
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;

 protected:
  struct Settings {
    bool scales;     // the operand is the scale, not the bias
    int axis;        // the first axis that it covers; negative ones count from the end
    int num_axes;    // how many of them; -1: all that follow
    Filler filler;   // of a learned operand
    bool bias_term;  // beside a scale
    Filler bias_filler;
  };
  ScaleLayer(const LayerInit& init, Settings settings);

  BackwardReads reference_backward_reads() const override;
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  // scale_device.cpp
  ChannelMaps maps_of(const Tensor& tensor) const;
  template <class T>
  void forward_on(const ComputeDevice& device, Blobs bottom, Blobs top);
  template <class T>
  void backward_on(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                   Blobs bottom);

  Parameter* operand() const { return scales() ? scale_ : bias_; }
  const char* operand_name() const { return scales() ? "scale" : "bias"; }

  Settings settings_;
  Parameter* scale_ = nullptr;
  Parameter* bias_ = nullptr;
  int axis_ = 1;
  int axes_ = 1;
  ChannelView view_;
  size_t scratch_bytes_ = 0;  // on a device
};

/// Registers the engine "native" for ScaleLayer or a type that extends it.
void add_scale_engines(Registry& registry, const std::string& type);

}  // namespace crema
