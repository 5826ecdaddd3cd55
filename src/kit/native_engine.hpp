// NativeEngine: what the project's own CPU engines of a layer type have in common.
#pragma once

#include "kit/two_sided.hpp"

namespace crema {

/// An engine that computes layers of type L, a TwoSidedLayer, in f32 on the CPU. It gets the layer
/// as what it is.
template <class L>
class NativeEngine : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) final {
    if (layer.dtype() == DType::f32) return layouts(of(layer), bottom, top, why);
    why = concat("it computes in f32, not in ", to_string(layer.dtype()));
    return {};
  }
  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs top) final {
    of(layer).release_reference();
    plan(of(layer), bottom, top);
  }
  void resume(Layer& layer, Blobs /*bottom*/, Blobs /*top*/) override {
    of(layer).release_reference();
  }
  void forward(Layer& layer, Blobs bottom, Blobs top) final { run_forward(of(layer), bottom, top); }
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate, Blobs bottom) final {
    if (!any_of(propagate) && layer.params().empty()) return;
    run_backward(of(layer), top, propagate, bottom);
  }

 protected:
  // As the functions of Engine, and run_backward as that of TwoSidedLayer.
  virtual std::vector<Option> layouts(const L& layer, Blobs bottom, Blobs top,
                                      std::string& why) = 0;
  virtual void plan(L& layer, Blobs bottom, Blobs top) = 0;
  virtual void run_forward(L& layer, Blobs bottom, Blobs top) = 0;
  virtual void run_backward(L& layer, Blobs top, const std::vector<bool>& propagate,
                            Blobs bottom) = 0;

  static L& of(Layer& layer) { return static_cast<L&>(layer); }
};

}  // namespace crema
