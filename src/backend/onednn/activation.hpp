// Sigmoid and TanH by oneDNN, in f32: vectorized exponentials, which the plain loop lacks.
#pragma once

#include "backend/onednn/onednn.hpp"
#include "crema/layer.hpp"

namespace crema::onednn {

/// For layers y = f(x) whose backward reads y. Every format, since elements are taken as they lie.
class ActivationEngine : public Engine {
 public:
  /// sigmoid or tanh.
  explicit ActivationEngine(Activation::Kind kind) : kind_(kind) {}

  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top,
                                    std::string& why) override;
  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs top) override;
  void forward(Layer& layer, Blobs bottom, Blobs top) override;
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;
  std::string detail() const override { return forward_.implementation(); }

 private:
  struct Operations {
    Operation forward, backward;
  };
  /// nullopt, and the reason in `why`, where oneDNN refuses.
  std::optional<Operations> make(int64_t elements, std::string& why) const;

  Activation::Kind kind_;
  Operation forward_, backward_;
};

}  // namespace crema::onednn
