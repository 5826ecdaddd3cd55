// Layers whose passes are written once for the host and for a device. A pass gets its pointers from
// a ComputeDevice, and calls functions that run on both (core/move.hpp, layer_support/passes.hpp).
//
//   class MyLayer : public TwoSidedLayer {
//     void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
//     void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
//                       Blobs bottom) override;
//   };
//   void register_my(Registry& registry) { add_two_sided<MyLayer>(registry, "My"); }
//
// On the host, the passes are the reference of the layer; on a device, they are the engine "cuda",
// in the layouts of device_options().
//
// Types: a pass computes in dtype(). The parameters, what is exact (Layer::is_exact_bottom,
// is_exact_top) and what the layer keeps between its passes have that type. A layer with
// stores_16_bits() reads and writes its other bottoms and tops on a device in the type that they
// have: by ValuesIn and ValuesOut (core/float_values.hpp), or by passes that are compiled for each
// type (dispatch_any_float()).
#pragma once

#include <string>
#include <vector>

#include "core/move.hpp"
#include "crema/layer.hpp"
#include "crema/registry.hpp"

namespace crema {

struct ChainStep;  // layer_support/pointwise_chain.hpp

class TwoSidedLayer : public Layer {
 public:
  using Layer::Layer;

  virtual void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) = 0;
  /// Called only if the diff of a bottom is needed, or the layer has parameters.
  virtual void run_backward(const ComputeDevice& device, Blobs top,
                            const std::vector<bool>& propagate, Blobs bottom);
  /// Why a device cannot run these bottoms; "" if it can.
  virtual std::string device_refusal(Blobs /*bottom*/) const { return {}; }
  /// Whether the passes on a device also read and write maps in the 16 bits of activations(). What
  /// they compute with them is of dtype().
  virtual bool stores_16_bits() const { return false; }
  /// The layouts that the passes take on a device, the preferred ones first. Default: those of
  /// reference_options() that are not blocked, by in_activations() if stores_16_bits().
  virtual std::vector<Option> device_options(Blobs bottom, Blobs top) const;
  /// Bytes of pass_scratch() (layer_support/passes.hpp) that a pass takes.
  virtual size_t scratch_bytes() const { return 0; }
  /// As prepare_reference(), for the passes on a device.
  virtual void prepare_device(Blobs bottom, Blobs top) { prepare_reference(bottom, top); }
  /// Kernel::capturable() of the passes on a device. False where numbers that differ from pass to
  /// pass reach them by value. A forward pass that reads or writes on the host need not be told.
  virtual bool capturable() const { return true; }
  /// What the layer does on a device with what comes in by bottom `entry`, as a part of a chain of
  /// pointwise layers. Default: none, it cannot be in a chain there.
  virtual std::vector<ChainStep> chain_steps(size_t entry, const Blob& top);
  void forward_cpu(Blobs bottom, Blobs top) final { run_forward(ComputeDevice(), bottom, top); }
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) final;
};

/// Options for layers that only move elements, in the type of the activations and in dtype(): those
/// of same_format_options() if `any_format`, else contiguous.
std::vector<Option> moving_options(const Layer& layer, Blobs bottom, Blobs top, bool any_format);

/// Those of `options` whose formats are not blocked: what kernels of devices take.
std::vector<Option> without_blocks(std::vector<Option> options);

/// `options`, behind copies of them in which maps of dtype() have the type of the activations, if
/// that is another one. What has to be exact keeps its type.
std::vector<Option> in_activations(const Layer& layer, std::vector<Option> options);

/// Whether the diff of any bottom is needed.
bool any_of(const std::vector<bool>& propagate);

/// The values of a parameter in the memory of the device; null without one.
template <class T>
const T* read_parameter(const ComputeDevice& device, const Parameter* parameter) {
  return parameter != nullptr ? device.read<T>(parameter->data) : nullptr;
}
/// Memory that a gradient is added to; null if it is not wanted.
template <class T>
T* gradient_of(const ComputeDevice& device, Parameter* parameter) {
  const bool wanted = parameter != nullptr && parameter->needs_gradient;
  return wanted ? device.change<T>(parameter->gradient()) : nullptr;
}

/// Registers the engine "cuda" for a type of TwoSidedLayer.
void add_device_engine(Registry& registry, const std::string& type);

template <class L>
void add_two_sided(Registry& registry, const std::string& type) {
  registry.add<L>(type);
#ifndef CREMA_CPU_PLUGIN  // whose passes no nvcc compiles
  add_device_engine(registry, type);
#endif
}

}  // namespace crema
