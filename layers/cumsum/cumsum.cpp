// CumSum: sums of all elements up to each, along an axis. See README.md.
#include <algorithm>
#include <array>

#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Of each position. `In` and `Out` are pointers, or ValuesIn<T> and ValuesOut<T>.
template <class T, class In, class Out>
struct RunningSums {
  static constexpr int64_t kTogether = 128;
  AxisSplit split;
  bool exclusive, reverse;
  In x;
  Out y;

  CREMA_FUNCTOR int64_t step(int64_t k) const {
    return (reverse ? split.size - 1 - k : k) * split.inner;
  }
  CREMA_FUNCTOR void operator()(int64_t position) const {
    const int64_t first = split.at(position);
    double sum = 0;
    for (int64_t k = 0; k < split.size; ++k) {
      const int64_t at = first + step(k);
      const double before = sum;
      sum += static_cast<double>(x[at]);
      y[at] = static_cast<T>(exclusive ? before : sum);
    }
  }
  void on_host(int64_t begin, int64_t end) const {
    if (split.inner == 1) {
      for (int64_t i = begin; i < end; ++i) (*this)(i);
      return;
    }
    // Neighbouring positions together.
    for (int64_t i = begin; i < end;) {
      const int64_t count = std::min({kTogether, split.inner - i % split.inner, end - i});
      std::array<double, kTogether> sums{};
      for (int64_t k = 0; k < split.size; ++k) {
        const int64_t at = split.at(i) + step(k);
        add(x + at, y + at, sums.data(), count);
      }
      i += count;
    }
  }

 private:
  void add(const T* from, T* to, double* sums, int64_t count) const {
    if (exclusive) {
      for (int64_t j = 0; j < count; ++j) {
        const double value = static_cast<double>(from[j]);
        to[j] = static_cast<T>(sums[j]);
        sums[j] += value;
      }
    } else {
      for (int64_t j = 0; j < count; ++j) {
        sums[j] += static_cast<double>(from[j]);
        to[j] = static_cast<T>(sums[j]);
      }
    }
  }
};

class CumSumLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    split_ = AxisSplit(shape, shape.canonical_axis(param().cumsum_param().axis()));
    top[0]->reshape(shape);
  }
  bool stores_16_bits() const override { return true; }
  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[0]->count());
    return {n, n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    add_up(device, param().cumsum_param().reverse(), bottom[0]->data, top[0]->data);
  }
  /// An element counts in the sums of those behind it: sums in the other direction.
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    add_up(device, !param().cumsum_param().reverse(), top[0]->diff, bottom[0]->diff);
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  void add_up(const ComputeDevice& device, bool reverse, const Tensor& from, Tensor& to) const {
    if (from.count() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto run = [&]<class Side, class In, class Out>(Side side, In x, Out y) {
        for_each(
            side, split_.positions(), kPassGrain / split_.size + 1,
            RunningSums<T, In, Out>{split_, param().cumsum_param().exclusive(), reverse, x, y});
      };
      // What is read comes first: both may be the same memory.
      if (device.on_host()) {
        const T* const x = device.read<T>(from);
        return run(HostSide(), x, device.overwrite<T>(to));
      }
      const ValuesIn<T> x = values_in<T>(device, from);
      run(DeviceSide(device), x, values_out<T>(device, to));
    });
  }

  AxisSplit split_;
};

}  // namespace

void register_cumsum(Registry& registry) { add_two_sided<CumSumLayer>(registry, "CumSum"); }

}  // namespace crema
