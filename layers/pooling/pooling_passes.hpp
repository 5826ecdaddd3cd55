// Pooling as passes over elements, for devices (backend/device_passes.hpp).
#pragma once

#include "backend/device_passes.hpp"
#include "layers/pooling/pooling.hpp"

namespace crema {
namespace pooling_passes {

/// Own kernels, since cuDNN's windows end differently: published ones are rounded up.
class Passes {
 public:
  template <class Pass>
  void forward(const Pass& pass, PoolingLayer& layer, Blobs bottom, Blobs top) {
    using T = typename Pass::Element;
    int32_t* choice = remembers(layer) ? pass.template write<int32_t>(choice_) : nullptr;
    pass.each(
        top[0]->count(),
        PoolingForward<T>{layer.windows(), layer.method(), layer.rectifies(), layer.samples(),
                          layer.chance(), pass.read(bottom[0]->data), pass.write(top[0]->data),
                          choice, top.size() > 1 ? pass.write(top[1]->data) : nullptr});
  }

  template <class Pass>
  void backward(const Pass& pass, PoolingLayer& layer, Blobs top,
                const std::vector<bool>& /*propagate*/, Blobs bottom) {
    using T = typename Pass::Element;
    const T* in = layer.backward_reads().bottom_data ? pass.read(bottom[0]->data) : nullptr;
    const int32_t* choice = remembers(layer) ? pass.template read<int32_t>(choice_) : nullptr;
    pass.each(bottom[0]->count(), PoolingBackward<T>{layer.windows(), pass.read(top[0]->diff), in,
                                                     choice, pass.write(bottom[0]->diff)});
  }

  size_t extra_bytes() const { return choice_.bytes(); }

  void make_room(const PoolingLayer& layer, Blobs /*bottom*/, Blobs top) {
    if (remembers(layer)) choice_.reshape(top[0]->shape());
  }

 private:
  static bool remembers(const PoolingLayer& layer) {
    return layer.trains() && layer.remembers_choice();
  }

  Tensor choice_{Shape{0}, DType::i32};  // (N, C, out_h, out_w): a place within the plane
};

}  // namespace pooling_passes
}  // namespace crema
