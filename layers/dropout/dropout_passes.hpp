// Dropout as passes over elements, for devices (backend/device_passes.hpp).
#pragma once

#include "backend/conversion_math.hpp"
#include "backend/device_passes.hpp"
#include "layers/dropout/dropout.hpp"

namespace crema {
namespace dropout_passes {

/// Body for groups of elements in memory whose words are of one Philox block: four where memory has
/// the logical order, else one.
template <class T>
struct Drop {
  DropoutMath math;
  ElementOrder order, logical_order;
  int64_t group, count;
  const T* x;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t number) const {
    const int64_t first = group * number;
    const int64_t logical = group == 1 ? order.index_in(logical_order, first) : first;
    const PhiloxBlock drawn = math.words(static_cast<uint64_t>(logical / 4));
    const uint32_t words[] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int64_t k = 0; k < group && first + k < count; ++k) {
      y[first + k] = math.apply(x[first + k], words[(logical + k) % 4]);
    }
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
    if (to.count() == 0 || (!layer.drops() && to.same_memory(from))) return;
    const T* x = pass.read(from);
    T* y = pass.write(to);
    const int64_t count = to.count();
    if (!layer.drops()) return pass.copy(y, x, to.bytes());
    const ElementOrder order(to.shape(), to.format()), logical(to.shape(), Format::contiguous);
    const int64_t group = order.same_as(logical) ? 4 : 1;
    pass.each((count + group - 1) / group,
              Drop<T>{layer.mask(), order, logical, group, count, x, y});
  }
};

}  // namespace dropout_passes
}  // namespace crema
