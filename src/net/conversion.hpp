// Conversion: the layer that runs between two layers of different formats, types or devices.
#pragma once

#include <vector>

#include "crema/layer.hpp"

namespace crema {

/// A layer that copies its bottom to the layout of its top, and in backward the diff of the top to
/// the layout of the bottom.
class Conversion : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void forward_cpu(Blobs bottom, Blobs top) override { top[0]->data.copy_from(bottom[0]->data); }
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (propagate[0]) bottom[0]->diff.copy_from(top[0]->diff);
  }

 protected:
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return {{.bottoms = {bottom[0]->data.layout()}, .tops = {top[0]->data.layout()}}};
  }
  BackwardReads reference_backward_reads() const override { return {false, false}; }
};

}  // namespace crema
