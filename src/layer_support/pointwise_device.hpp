// The engine of pointwise layers on a device: the functor that the reference runs, over packs of
// elements. For sources that include layer_support/passes.hpp, which CMake writes
// (scripts/cmake/CremaRooms.cmake).
#pragma once

#include <string>
#include <vector>

#include "crema/registry.hpp"
#include "layer_support/options.hpp"
#include "layer_support/packs.hpp"
#include "layer_support/pointwise.hpp"
#include "layer_support/pointwise_chain.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

template <class Math, class T>
struct PointwiseForward {
  Math math;
  ValuesIn<T> x;
  ValuesOut<T> y;
  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const {
    const Pack<T> from = at.load(x);
    at.store(Pack<T>::each([&](int k) { return math.template forward<T>(from.lanes[k]); }), y);
  }
};

/// x and y are null where the mathematics does not read them.
template <class Math, class T>
struct PointwiseBackward {
  Math math;
  ValuesIn<T> dy, x, y;
  ValuesOut<T> dx;
  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const {
    using Raw = typename PackAt<T>::Raw;
    const Raw raw_dy = at.fetch(dy);
    const Raw raw_x = x ? at.fetch(x) : Raw{}, raw_y = y ? at.fetch(y) : Raw{};
    const Pack<T> g = at.value(dy, raw_dy);
    const Pack<T> from = x ? at.value(x, raw_x) : g, to = y ? at.value(y, raw_y) : g;
    at.store(Pack<T>::each([&](int k) {
               return math.template backward<T>(g.lanes[k], from.lanes[k], to.lanes[k]);
             }),
             dx);
  }
};

/// `L` derives from PointwiseLayer; each element stays where it is, whatever their order.
template <class L>
class PointwiseKernel : public Kernel, public PointwiseLink {
  using Math = typename L::Math;

 public:
  explicit PointwiseKernel(const L& layer) : Kernel(layer), layer_(layer) {}

  void forward(Blobs bottom, Blobs top) override {
    const ComputeDevice device(layer_.context().backend());
    dispatch_float(layer_.dtype(), [&]<class T>(T) {
      const PointwiseForward<Math, T> body{layer_.math(), values_in<T>(device, bottom[0]->data),
                                           values_out<T>(device, top[0]->data)};
      for_each_pack<T>(device, top[0]->data.storage(), aligned(body.x, body.y), body);
    });
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!propagate[0]) return;
    const ComputeDevice device(layer_.context().backend());
    const Math& math = layer_.math();
    dispatch_float(layer_.dtype(), [&]<class T>(T) {
      const PointwiseBackward<Math, T> body{
          math, values_in<T>(device, top[0]->diff),
          math.reads_x() ? values_in<T>(device, bottom[0]->data) : ValuesIn<T>(),
          math.reads_y() ? values_in<T>(device, top[0]->data) : ValuesIn<T>(),
          values_out<T>(device, bottom[0]->diff)};
      for_each_pack<T>(device, bottom[0]->diff.storage(), aligned(body.dy, body.x, body.y, body.dx),
                       body);
    });
  }
  bool capturable() const override { return true; }
  const ChainLink* chain_link() const override { return this; }
  std::vector<ChainStep> chain_steps(size_t, const Blob&) const override {
    return {ChainStep::of(Math::type, layer_.math())};
  }

 private:
  const L& layer_;
};

template <class L>
class PointwiseDevice : public Engine {
 public:
  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string&) const override {
    return in_activations(layer,
                          without_blocks(same_format_options(bottom, top, layer.dtype(), true)));
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs, Blobs) const override {
    return std::make_unique<PointwiseKernel<L>>(static_cast<const L&>(layer));
  }
};

/// Registers the engine "cuda" of a pointwise layer.
template <class L>
void add_pointwise_device(Registry& registry) {
  registry.add_engine<PointwiseDevice<L>>(L::Math::type, "cuda", DeviceType::cuda);
}

}  // namespace crema
