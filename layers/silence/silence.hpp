// Silence: reads blobs that nothing else reads, so that they are no outputs. See README.md.
#pragma once

#include "crema/layer.hpp"

namespace crema {

class SilenceLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override {
    return {.min_bottoms = 1, .max_bottoms = -1, .min_tops = 0, .max_tops = 0};
  }
  void reshape(Blobs, Blobs) override {}
  void forward_cpu(Blobs, Blobs) override {}
  /// dx = 0.
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;
};

}  // namespace crema
