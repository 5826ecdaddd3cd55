// Passes of a layer (backend/device_passes.hpp) as CUDA kernels.
#pragma once

#include "backend/cuda/kernels.cuh"
#include "backend/device_passes.hpp"
#include "crema/registry.hpp"

namespace crema {

template <class T>
struct CudaPass {
  using Element = T;

  CudaBackend& backend;

  explicit CudaPass(const Context& context) : backend(cuda(context)) {}

  template <class U = T>
  const U* read(const Tensor& tensor) const {
    return tensor.device<U>(backend);
  }
  template <class U = T>
  U* write(Tensor& tensor) const {
    return tensor.device_overwrite<U>(backend);
  }
  template <class U = T>
  U* change(Tensor& tensor) const {
    return tensor.device_mut<U>(backend);
  }

  template <class Body>
  void each(int64_t count, const Body& body) const {
    cuda_for_each(backend, count, body);
  }
  template <class Body>
  void each(const ChannelView& view, const Body& body) const {
    cuda_for_each(backend, view.count(), ByPlace<Body>{view, body});
  }
  template <class Term>
  void sum(int64_t count, const Term& term, double factor, T* result) const {
    cuda_sum(backend, count, term, factor, result);
  }
  template <class Term, class Finish>
  void channel_sums(const ChannelView& view, const Term& term, const Finish& finish) const {
    cuda_channel_sums(backend, view, term, finish);
  }

  void copy(void* to, const void* from, size_t bytes) const { backend.copy(to, from, bytes); }
  void* scratch(size_t bytes) const { return backend.scratch(bytes); }
};

/// Adds engine "cuda" for layers of class L.
template <class L, class Passes>
void add_cuda_passes(Registry& registry, const std::string& type) {
  registry.add_engine<PassEngine<CudaPass, L, Passes>>(type, "cuda", DeviceType::cuda);
}

}  // namespace crema
