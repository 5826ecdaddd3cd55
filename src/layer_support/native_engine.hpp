// NativeKernel and NativeEngine: what the project's own CPU engines of a layer type have in common.
#pragma once

#include "layer_support/two_sided.hpp"

namespace crema {

/// A kernel that computes layers of type L, a TwoSidedLayer, in f32 on the CPU. It gets the layer
/// as what it is. A class K that derives from it has
///
///     static std::vector<Option> options(const L&, Blobs bottom, Blobs top, std::string& why);
///     K(L& layer, Blobs bottom, Blobs top);
template <class L>
class NativeKernel : public Kernel {
 public:
  using LayerType = L;

  void forward(Blobs bottom, Blobs top) final { run_forward(layer_, bottom, top); }
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) final {
    if (!any_of(propagate) && layer_.params().empty()) return;
    run_backward(layer_, top, propagate, bottom);
  }

 protected:
  explicit NativeKernel(L& layer) : Kernel(layer), layer_(layer) {}

  // As the functions of TwoSidedLayer.
  virtual void run_forward(L& layer, Blobs bottom, Blobs top) = 0;
  virtual void run_backward(L& layer, Blobs top, const std::vector<bool>& propagate,
                            Blobs bottom) = 0;

 private:
  L& layer_;
};

/// The engine that makes kernels K.
template <class K>
class NativeEngine : public Engine {
  using L = typename K::LayerType;

 public:
  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string& why) const override {
    if (layer.dtype() == DType::f32)
      return K::options(static_cast<const L&>(layer), bottom, top, why);
    why = text("it computes in f32, not in ", to_string(layer.dtype()));
    return {};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs bottom,
                               Blobs top) const override {
    return std::make_unique<K>(static_cast<L&>(layer), bottom, top);
  }
};

}  // namespace crema
