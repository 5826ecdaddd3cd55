// Layers whose passes are one text for the host and for a device: they ask a Side for pointers and
// call what runs on either (core/move.hpp, kit/passes.hpp).
//
//   class MyLayer : public TwoSidedLayer {
//     void run_forward(const Side& side, Blobs bottom, Blobs top) override;
//     void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
//                       Blobs bottom) override;
//   };
//   void register_my(Registry& registry) { add_two_sided<MyLayer>(registry, "My"); }
//
// On the host such a layer is its own reference; on a device it runs as the engine "cuda".
#pragma once

#include <string>
#include <vector>

#include "core/side.hpp"
#include "crema/layer.hpp"
#include "crema/registry.hpp"

namespace crema {

class TwoSidedLayer : public Layer {
 public:
  using Layer::Layer;

  virtual void run_forward(const Side& side, Blobs bottom, Blobs top) = 0;
  /// Called only where some bottom's diff is asked for.
  virtual void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                            Blobs bottom);
  /// Makes what both passes need, when layouts are fixed.
  void prepare_reference(Blobs /*bottom*/, Blobs /*top*/) override {}
  /// By default contiguous, of dtype(). A device is offered those that are not blocked.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return Layer::reference_options(bottom, top);
  }
  /// Bytes that the layer itself holds between its passes.
  virtual size_t kept_bytes() const { return 0; }

  void forward_cpu(Blobs bottom, Blobs top) final { run_forward(Side(), bottom, top); }
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) final;
};

/// Options for layers that only move elements: the net's activation type, and its own.
/// `same_format_options` of both, or contiguous alone.
std::vector<Option> moving_options(const Layer& layer, Blobs bottom, Blobs top, bool any_format);

/// Registers the engine that runs TwoSidedLayers of the type on a device.
void add_device_side(Registry& registry, const std::string& type);

template <class L>
void add_two_sided(Registry& registry, const std::string& type) {
  registry.add<L>(type);
  add_device_side(registry, type);
}

}  // namespace crema
