// Passes on the host, one element after the other: how the mathematics of a device's kernels is
// tested where there is no device.
#pragma once

#include <cstring>

#include "backend/device_passes.hpp"

namespace crema {

template <class T>
class HostPass {
 public:
  using Element = T;

  explicit HostPass(const Context& /*context*/) {}

  template <class U = T>
  const U* read(const Tensor& tensor) const {
    return tensor.host<U>();
  }
  template <class U = T>
  U* write(Tensor& tensor) const {
    return tensor.host_overwrite<U>();
  }
  template <class U = T>
  U* change(Tensor& tensor) const {
    return tensor.host_mut<U>();
  }

  template <class Body>
  void each(int64_t count, const Body& body) const {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
  template <class Term>
  void sum(int64_t count, const Term& term, double factor, T* result) const {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += term(i);
    *result = static_cast<T>(total * factor);
  }
  template <class Term, class Finish>
  void channel_sums(const ChannelView& view, const Term& term, const Finish& finish) const {
    for (int64_t c = 0; c < view.channels; ++c) {
      SumPair sums;
      for (int64_t i = 0; i < view.each(); ++i) {
        const SumPair added = term(view.at(c, i), c);
        sums.first += added.first;
        sums.second += added.second;
      }
      finish(c, sums);
    }
  }

  void copy(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }
  void* scratch(size_t bytes) const {
    scratch_.resize(bytes);
    return scratch_.data();
  }

 private:
  mutable std::vector<std::byte> scratch_;
};

template <class L, class Passes>
using HostPassEngine = PassEngine<HostPass, L, Passes>;

}  // namespace crema
