// Dropout: zeroes elements at random while training. See README.md.
#pragma once

#include "crema/layer.hpp"
#include "layers/dropout/dropout_math.hpp"

namespace crema {

class DropoutLayer : public Layer {
 public:
  /// Error unless 0 <= dropout_ratio < 1.
  explicit DropoutLayer(const LayerInit& init);

  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;

  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  /// False where the values pass through, as in TEST they mostly do.
  bool drops() const { return math_.threshold > 0 || math_.scale != 1; }
  /// Takes the mask of the run's iteration and pass; for the beginning of a forward pass.
  const DropoutMath& new_mask();
  /// The mask of the last forward pass.
  const DropoutMath& mask() const { return math_; }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return drops() ? InPlace::overwrite : InPlace::alias;
  }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;

 private:
  DropoutMath math_;
  uint64_t stream_ = 0;  // of the layer's name
  uint64_t seed_ = 0;    // random_seed, where own_seed_
  bool own_seed_ = false;
};

}  // namespace crema
