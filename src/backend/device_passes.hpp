// Passes of a layer over its tensors, written once for each device that can run bodies over
// elements: CUDA (backend/cuda/device_passes.cuh) and the host (backend/host_pass.hpp).
//
// A room's NAME_passes.hpp has a class, of which every engine of a layer has one:
//
//   struct Passes {
//     template <class Pass> void forward(const Pass& pass, L& layer, Blobs bottom, Blobs top);
//     // Where a gradient flows. Of a layer without parameters only if some bottom's is wanted.
//     template <class Pass> void backward(const Pass& pass, L& layer, Blobs top,
//                                         const std::vector<bool>& propagate, Blobs bottom);
//     // Each of these may be missing:
//     static constexpr bool kAnyOrder = true;   // channels_last makes no difference
//     static std::string refusal(Blobs bottom);  // "" where it takes the problem
//     void make_room(const L& layer, Blobs bottom, Blobs top);  // for tensors that it keeps
//     size_t extra_bytes() const;
//     size_t scratch_bytes() const;
//   };
//
// `Pass` is of one element type, Pass::Element (float or double), and has
//
//   read(tensor), write(tensor), change(tensor)   pointers: what is there, all of it overwritten,
//                                                 read and written; tensors of another type U by
//                                                 read<U>(tensor) and so on
//   each(count, body)                             body(i) for all i of [0, count), in any order
//   each(view, body)                              body(place, c) for all places of a ChannelView,
//                                                 of which c is the channel
//   sum(count, term, factor, result)              *result = factor * sum of double term(i)
//   channel_sums(view, term, finish)              finish(c, sum over the channel of SumPair
//                                                 term(place, c)) for each channel c
//   copy(to, from, bytes), scratch(bytes)         memory until the pass's end
//
// Bodies, terms and finishes are functors whose operator() is a CREMA_FUNCTOR.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/dispatch.hpp"
#include "core/functor.hpp"
#include "crema/layer.hpp"
#include "crema/scratch_plan.hpp"

namespace crema {

/// Memory seen as (outer, channels, inner).
struct ChannelView {
  int64_t outer = 1, channels = 1, inner = 1;

  CREMA_FUNCTOR int64_t each() const { return outer * inner; }
  CREMA_FUNCTOR int64_t count() const { return outer * channels * inner; }
  /// Place of value i of [0, each()) of channel c.
  CREMA_FUNCTOR int64_t at(int64_t c, int64_t i) const {
    return (i / inner * channels + c) * inner + i % inner;
  }
  CREMA_FUNCTOR int64_t channel_of(int64_t place) const { return place / inner % channels; }
};

/// A body over the places of a view as one over indices.
template <class Body>
struct ByPlace {
  ChannelView view;
  Body body;
  CREMA_FUNCTOR void operator()(int64_t place) const { body(place, view.channel_of(place)); }
};

/// Two sums of a channel.
struct SumPair {
  double first = 0, second = 0;
};

/// Term for channel sums: the value itself.
template <class T>
struct ValueTerm {
  const T* x;
  CREMA_FUNCTOR SumPair operator()(int64_t place, int64_t /*channel*/) const {
    return {static_cast<double>(x[place]), 0};
  }
};

/// The values of a parameter; null without one.
template <class Pass>
const typename Pass::Element* read_parameter(const Pass& pass, const Parameter* parameter) {
  return parameter ? pass.read(parameter->data) : nullptr;
}
/// Memory that a gradient is added to; null where it is not wanted.
template <class Pass>
typename Pass::Element* gradient_of(const Pass& pass, Parameter* parameter, bool wanted) {
  return parameter && wanted ? pass.change(parameter->gradient()) : nullptr;
}

template <class Passes, class L>
concept MakesRoom = requires(Passes& passes, const L& layer, Blobs blobs) {
  passes.make_room(layer, blobs, blobs);
};
template <class Passes>
concept MayRefuse = requires(Blobs blobs) {
  Passes::refusal(blobs);
};
template <class Passes>
concept TakesAnyOrder = requires {
  requires Passes::kAnyOrder;
};
template <class Passes>
concept KeepsBytes = requires(const Passes& passes) {
  passes.extra_bytes();
};
template <class Passes>
concept UsesScratch = requires(const Passes& passes) {
  passes.scratch_bytes();
};

/// Contiguous, and channels_last where the order of elements makes no difference.
inline std::vector<Option> pass_options(const Layer& layer, Blobs bottom, Blobs top,
                                        bool any_order) {
  std::vector<Option> options = {uniform_option(bottom, top, layer.dtype())};
  const bool has_order = std::any_of(bottom.begin(), bottom.end(),
                                     [](const Blob* blob) { return blob->shape().rank() >= 3; });
  if (any_order && has_order) {
    options.push_back(
        uniform_option(bottom, top, layer.dtype(), Format::channels_last, Format::channels_last));
  }
  return options;
}

/// The engine that runs the passes of layers of class L by Pass<float> and Pass<double>, which are
/// made from a Context.
template <template <class> class Pass, class L, class Passes>
class PassEngine : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) override {
    if constexpr (MayRefuse<Passes>) {
      why = Passes::refusal(bottom);
      if (!why.empty()) return {};
    }
    return pass_options(layer, bottom, top, TakesAnyOrder<Passes>);
  }

  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs top) override {
    if constexpr (MakesRoom<Passes, L>) passes_.make_room(static_cast<L&>(layer), bottom, top);
  }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    dispatch_float(layer.dtype(), [&](auto zero) {
      passes_.forward(Pass<decltype(zero)>(layer.context()), static_cast<L&>(layer), bottom, top);
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    const bool any = std::find(propagate.begin(), propagate.end(), true) != propagate.end();
    if (!any && layer.params().empty()) return;
    dispatch_float(layer.dtype(), [&](auto zero) {
      passes_.backward(Pass<decltype(zero)>(layer.context()), static_cast<L&>(layer), top,
                       propagate, bottom);
    });
  }

  size_t extra_bytes() const override {
    if constexpr (KeepsBytes<Passes>) return passes_.extra_bytes();
    return 0;
  }
  void plan_scratch(ScratchPlan& plan) const override {
    if constexpr (UsesScratch<Passes>) plan.need(kDeviceScratch, passes_.scratch_bytes());
  }

 private:
  Passes passes_;
};

}  // namespace crema
