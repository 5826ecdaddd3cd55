// Passes on the threads of the host: the reference of layers that have passes (kit/pass_layer.hpp),
// and a test of the kernels where there is no device.
#pragma once

#include <cstring>

#include "backend/device_passes.hpp"
#include "core/parallel.hpp"

namespace crema {

/// Results do not depend on the number of threads: one thread computes an element, or a channel.
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
    parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }
  template <class Body>
  void each(const ChannelView& view, const Body& body) const {
    const int64_t rows = view.outer * view.channels, inner = view.inner;
    parallel_for(rows, kGrain / std::max<int64_t>(inner, 1) + 1, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t c = row % view.channels;
        for (int64_t i = row * inner; i < (row + 1) * inner; ++i) body(i, c);
      }
    });
  }
  template <class Term>
  void sum(int64_t count, const Term& term, double factor, T* result) const {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += term(i);
    *result = static_cast<T>(total * factor);
  }
  template <class Term, class Finish>
  void channel_sums(const ChannelView& view, const Term& term, const Finish& finish) const {
    parallel_for(view.channels, 1, [=](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        SumPair sums;
        for (int64_t n = 0; n < view.outer; ++n) {
          const int64_t first = (n * view.channels + c) * view.inner;
          for (int64_t i = first; i < first + view.inner; ++i) {
            const SumPair added = term(i, c);
            sums.first += added.first;
            sums.second += added.second;
          }
        }
        finish(c, sums);
      }
    });
  }

  void copy(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }
  void* scratch(size_t bytes) const {
    scratch_.resize(bytes);
    return scratch_.data();
  }

 private:
  static constexpr int64_t kGrain = 4096;  // elements for which a further thread is worthwhile

  mutable std::vector<std::byte> scratch_;
};

template <class L, class Passes>
using HostPassEngine = PassEngine<HostPass, L, Passes>;

}  // namespace crema
