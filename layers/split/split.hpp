// Split: hands one blob to several layers. See README.md.
#pragma once

#include "crema/layer.hpp"

namespace crema {

class SplitLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {.max_tops = -1}; }
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;

  /// Copies to the tops that do not lie in the bottom's memory; in a net all do.
  void forward_cpu(Blobs bottom, Blobs top) override;
  /// dx = sum of dy.
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override { return InPlace::alias; }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;
};

}  // namespace crema
