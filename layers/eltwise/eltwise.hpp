// Eltwise: sum, product or maximum of bottoms of one shape, element by element. See README.md.
#pragma once

#include <vector>

#include "crema/layer.hpp"
#include "kit/options.hpp"

namespace crema {

/// What passes work on beside the operands.
struct EltwiseForward {
  float slope;  // of the ReLU at the end; 1 without one
  void* y;
  uint8_t* which;  // which bottom each element of a maximum came from; may be null
};
struct EltwiseBackward {
  float slope;
  const void* dy;
  const void* y;  // null where it is not read
  const uint8_t* which;
};

class EltwiseLayer : public Layer {
 public:
  enum class Operation : uint8_t { product, sum, maximum };

  explicit EltwiseLayer(const LayerInit& init);

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = -1}; }
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  Flops flops(Blobs bottom, Blobs top) const override;
  /// A ReLU behind a sum: residual nets have one behind each.
  bool accepts(const Tail& tail) const override;
  /// A sum of two bottoms without factors.
  std::optional<TailStep> as_tail_step() const override;

  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  Operation operation() const { return operation_; }
  /// Factor of bottom i in a sum.
  float coefficient(size_t i) const { return coefficients_[i]; }
  /// The slope of the ReLU that ends the layer, if one does.
  std::optional<float> relu_slope() const { return relu_slope_of(tail()); }

 protected:
  BackwardReads reference_backward_reads() const override;
  InPlace reference_in_place() const override { return InPlace::overwrite; }
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;
  void prepare_reference(Blobs bottom, Blobs top) override;

 private:
  Operation operation_ = Operation::sum;
  std::vector<float> coefficients_;  // one a bottom
  bool stable_product_ = true;
  Tensor
      maximum_of_;  // u8, laid out like the top: which bottom each element of a maximum came from
  // Of one pass; kept so that none allocates.
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace crema
