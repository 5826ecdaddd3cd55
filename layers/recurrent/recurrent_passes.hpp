// Passes of recurrent layers, for sources that include layer_support/passes.hpp.
#pragma once

#include "backend/relu.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/gemm.hpp"
#include "layer_support/passes.hpp"
#include "layers/recurrent/recurrent_layer.hpp"

namespace crema {

/// Computes the `count` elements of a step.
template <class Cell, template <class> class Step, class T>
void run_elements(const ComputeDevice& device, int64_t count, const Step<T>& step) {
  constexpr int64_t kGrain = 1024;
  if constexpr (std::is_same_v<T, float>) {
    if (device.on_host()) {
      return parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
        compute_on_vectors(Cell::kKind, step, begin, end);
      });
    }
  }
  for_each(device, count, kGrain, EachElement<Cell, Step, T>{step});
}

/// A layer with the arithmetic of a Cell (cells.hpp); Second: of part 1 of its steps.
template <class Cell, class Second = Cell>
class CellLayer : public RecurrentLayer {
 protected:
  using RecurrentLayer::RecurrentLayer;
  void run_step(const ComputeDevice& device, int64_t count, const ForwardStep<float>& step,
                int part) override {
    run_part(device, count, step, part);
  }
  void run_step(const ComputeDevice& device, int64_t count, const ForwardStep<double>& step,
                int part) override {
    run_part(device, count, step, part);
  }
  void run_step(const ComputeDevice& device, int64_t count, const BackwardStep<float>& step,
                int part) override {
    run_part(device, count, step, part);
  }
  void run_step(const ComputeDevice& device, int64_t count, const BackwardStep<double>& step,
                int part) override {
    run_part(device, count, step, part);
  }

 private:
  template <template <class> class Step, class T>
  void run_part(const ComputeDevice& device, int64_t count, const Step<T>& step, int part) {
    if (part == 0) return run_elements<Cell>(device, count, step);
    run_elements<Second>(device, count, step);
  }
};

/// The gradient of a weight += transposed a * b, for matrices of `rows` rows.
template <class T>
void add_outer(const ComputeDevice& device, Math math, Parameter& weight, int64_t rows, const T* a,
               const T* b) {
  const T beta = static_cast<T>(weight.begin_gradient());
  gemm<T>(device, math, true, false, weight.shape()[0], weight.shape()[1], rows, a, b, beta,
          device.change<T>(weight.diff));
}

/// The gradient of a bias += the sum of the rows.
template <class T>
void add_rows(const ComputeDevice& device, Parameter& bias, int64_t rows, const T* values) {
  const bool overwrites = bias.begin_gradient() == 0;
  channels::add_channel_sums(device, {rows, bias.shape().count(), 1}, kPassGrain, values,
                             overwrites, device.change<T>(bias.diff));
}

}  // namespace crema
