// PassLayer: a layer whose mathematics is its passes over elements (backend/device_passes.hpp)
// alone. The host runs them as the reference, devices as their engines.
#pragma once

#include <memory>
#include <utility>

#include "crema/layer.hpp"

namespace crema {

class PassLayer : public Layer {
 public:
  /// `reference` is a HostPassEngine (backend/host_pass.hpp).
  PassLayer(const LayerInit& init, std::unique_ptr<Engine> reference)
      : Layer(init), reference_(std::move(reference)) {}

  size_t kept_bytes() const final { return reference_->extra_bytes(); }
  void forward_cpu(Blobs bottom, Blobs top) final { reference_->forward(*this, bottom, top); }
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) final {
    reference_->backward(*this, top, propagate, bottom);
  }

 protected:
  void prepare_reference(Blobs bottom, Blobs top) final {
    reference_->prepare(*this, {}, bottom, top);
  }

 private:
  std::unique_ptr<Engine> reference_;
};

}  // namespace crema
