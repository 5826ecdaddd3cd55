// The key of the random numbers of a layer in a pass. On a device it lies in the device's memory
// and is drawn there, from the state of the pass: a recorded pass that runs again draws others.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/device_run.hpp"
#include "core/philox.hpp"
#include "crema/layer.hpp"
#include "crema/random.hpp"
#include "layer_support/passes.hpp"

namespace crema {

struct RandomKey {
  uint32_t key0 = 0, key1 = 0;
  const uint32_t* drawn = nullptr;  // both, in memory of the device; null: key0 and key1

  /// With the key itself, for a functor to begin with.
  CREMA_FUNCTOR RandomKey known() const {
    return drawn != nullptr ? RandomKey{drawn[0], drawn[1]} : *this;
  }
};

/// The first two words of Random(seed, stream + pass, iteration).
struct DrawKey {
  const PassState* state;
  uint64_t stream, seed;
  bool own_seed;  // else that of the state
  uint32_t* key;
  CREMA_FUNCTOR void operator()(int64_t) const {
    const PhiloxBlock block =
        random_block(own_seed ? seed : state->seed, stream + state->pass, state->iteration, 0);
    key[0] = block.a;
    key[1] = block.b;
  }
};

/// For sources that include layer_support/passes.hpp themselves.
class PassKey {
 public:
  /// Draws the key of this pass. `stream` is that of the layer; `seed` is its own one.
  void draw(const ComputeDevice& device, const Layer& layer, uint64_t stream,
            std::optional<uint64_t> seed = {}) {
    on_device_ = !device.on_host() && layer.context().on_gpu();
    if (on_device_) {
      uint32_t* const key = reinterpret_cast<uint32_t*>(device.overwrite<int32_t>(drawn_));
      return for_each(device, 1, 1,
                      DrawKey{&layer.context().device_run().block()->state, stream,
                              seed.value_or(0), seed.has_value(), key});
    }
    const RunState& run = layer.run();
    Random random(seed.value_or(run.seed), stream + run.pass, run.iteration);
    host_.key0 = random.next_u32();
    host_.key1 = random.next_u32();
  }
  /// The key that was drawn last, for functors on this side.
  RandomKey on(const ComputeDevice& device) const {
    if (!on_device_) return host_;
    return {.drawn = reinterpret_cast<const uint32_t*>(device.read<int32_t>(drawn_))};
  }

 private:
  RandomKey host_;
  Tensor drawn_{Shape{2}, DType::i32};
  bool on_device_ = false;
};

}  // namespace crema
