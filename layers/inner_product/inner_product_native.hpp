// The engine of InnerProduct for small batches and big weights: f32, contiguous. Each product reads
// or writes the weights once, where they lie.
#pragma once

#include "backend/cpu/thin_product.hpp"
#include "crema/layer.hpp"

namespace crema {

class InnerProductNative : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) override;
  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs top) override;
  void resume(Layer& layer, Blobs bottom, Blobs top) override;
  void forward(Layer& layer, Blobs bottom, Blobs top) override;
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;
  size_t extra_bytes() const override { return product_.bytes() + masked_bytes_; }

 private:
  ThinProduct product_;  // of the batch and the weights, as they are stored
  size_t masked_bytes_ = 0;
};

}  // namespace crema
