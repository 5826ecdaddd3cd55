// Dropout as passes over elements, for devices (backend/device_passes.hpp).
#pragma once

#include "backend/device_passes.hpp"
#include "layers/dropout/dropout.hpp"

namespace crema {
namespace dropout_passes {

/// Body for Philox blocks: four elements each.
template <class T>
struct DropContiguous {
  DropoutMath math;
  int64_t count;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t block) const {
    const PhiloxBlock drawn = math.words(static_cast<uint64_t>(block));
    const uint32_t words[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int64_t k = 0, i = 4 * block; k < 4 && i < count; ++k, ++i) {
      y[i] = math.apply(x[i], words[k]);
    }
  }
};

/// Body for elements of (N, pixels, C); a mask goes by the logical index.
template <class T>
struct DropChannelsLast {
  DropoutMath math;
  int64_t channels, pixels;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t n = i / (channels * pixels), pixel = i / channels % pixels;
    const int64_t logical = (n * channels + i % channels) * pixels + pixel;
    const PhiloxBlock drawn = math.words(static_cast<uint64_t>(logical / 4));
    const uint32_t words[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    y[i] = math.apply(x[i], words[logical % 4]);
  }
};

class Passes {
 public:
  static constexpr bool kAnyOrder = true;

  template <class Pass>
  void forward(const Pass& pass, DropoutLayer& layer, Blobs bottom, Blobs top) {
    if (layer.drops()) layer.new_mask();
    apply(pass, layer, bottom[0]->data, top[0]->data);
  }

  template <class Pass>
  void backward(const Pass& pass, DropoutLayer& layer, Blobs top,
                const std::vector<bool>& /*propagate*/, Blobs bottom) {
    apply(pass, layer, top[0]->diff, bottom[0]->diff);
  }

 private:
  template <class Pass>
  static void apply(const Pass& pass, const DropoutLayer& layer, const Tensor& from, Tensor& to) {
    using T = typename Pass::Element;
    if (!layer.drops() && to.same_memory(from)) return;
    const T* x = pass.read(from);
    T* y = pass.write(to);
    const int64_t count = to.count();
    const Shape& shape = to.shape();
    if (!layer.drops()) {
      pass.copy(y, x, to.bytes());
    } else if (to.format() == Format::contiguous) {
      pass.each((count + 3) / 4, DropContiguous<T>{layer.mask(), count, x, y});
    } else {
      pass.each(count, DropChannelsLast<T>{layer.mask(), shape[1], shape.count(2), x, y});
    }
  }
};

}  // namespace dropout_passes
}  // namespace crema
