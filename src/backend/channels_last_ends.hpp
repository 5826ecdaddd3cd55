// Bodies of passes around a product whose result is channels-last, (rows, channels): what follows
// its values, and the gradients of that. For the CPU's tests and CUDA's kernels.
//
// An index stands for a pack of kPack neighbouring channels of a row, whose loads and stores take
// 16 bytes if kPack says so. Sums are made in steps, each of which adds kRows rows in their order:
// the result has the same bits every time.
#pragma once

#include "backend/depth_map.hpp"
#include "backend/relu.hpp"

namespace crema {

template <class T, int kPack>
struct alignas(sizeof(T) * kPack) ChannelPack {
  T values[kPack];
};

/// y = relu(y + bias + other); bias and other may be null, a slope of 1 stands for no ReLU. Indices
/// are below 2^32. Rows of y may lie apart.
template <class T, int kPack>
struct FinishRows {
  using Pack = ChannelPack<T, kPack>;
  uint32_t packs;   // of a row
  uint32_t stride;  // from a row of y to the next
  const float* bias;
  const Pack* other;
  ReLUMath relu;
  Pack* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const uint32_t row = static_cast<uint32_t>(i) / packs;
    const uint32_t pack = static_cast<uint32_t>(i) - row * packs, first = pack * kPack;
    Pack& place = y[int64_t{row} * stride + pack];
    Pack all = place;
    Pack added{};
    if (other != nullptr) added = other[i];
    for (int k = 0; k < kPack; ++k) {
      float value = convert_value<float>(all.values[k]) + (bias != nullptr ? bias[first + k] : 0);
      if (other != nullptr) value += convert_value<float>(added.values[k]);
      all.values[k] = convert_value<T>(relu.forward(value));
    }
    place = all;
  }
};

/// dx = dy through the ReLU that gave y, and sums of dx over the rows of a step: the first step of
/// the gradient of a bias. Any of y (no ReLU), dx and sums may be null. Rows may lie apart, so many
/// packs from one to the next.
template <class T, int kPack>
struct UndoAndSumRows {
  static constexpr int64_t kRows = 32;
  using Pack = ChannelPack<T, kPack>;
  int64_t rows, packs;
  int64_t dy_stride, y_stride, dx_stride;
  const Pack* dy;
  const Pack* y;
  ReLUMath relu;
  Pack* dx;
  ChannelPack<float, kPack>* sums;  // (steps, packs)

  static CREMA_FUNCTOR int64_t steps(int64_t rows) { return (rows + kRows - 1) / kRows; }
  CREMA_FUNCTOR int64_t count() const { return steps(rows) * packs; }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t step = i / packs, pack = i - step * packs;
    const int64_t end = (step + 1) * kRows < rows ? (step + 1) * kRows : rows;
    ChannelPack<float, kPack> total{};
    for (int64_t row = step * kRows; row < end; ++row) {
      Pack diff = dy[row * dy_stride + pack];
      if (y != nullptr) {
        const Pack made = y[row * y_stride + pack];
        for (int k = 0; k < kPack; ++k) {
          diff.values[k] = convert_value<T>(relu.backward(
              convert_value<float>(diff.values[k]), 0.0F, convert_value<float>(made.values[k])));
        }
        if (dx != nullptr) dx[row * dx_stride + pack] = diff;
      }
      for (int k = 0; k < kPack; ++k) total.values[k] += convert_value<float>(diff.values[k]);
    }
    if (sums != nullptr) sums[i] = total;
  }
};

/// A later step: sums of kRows rows of sums each. With `result`, of the last step: result = beta *
/// result + the sum.
struct SumRows {
  static constexpr int64_t kRows = 64;
  int64_t rows, channels;
  const float* from;
  float* to;  // (steps, channels); null: `result` takes the one step
  float beta;
  float* result;  // (channels)

  static CREMA_FUNCTOR int64_t steps(int64_t rows) { return (rows + kRows - 1) / kRows; }
  CREMA_FUNCTOR int64_t count() const { return steps(rows) * channels; }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t step = i / channels, c = i - step * channels;
    const int64_t end = (step + 1) * kRows < rows ? (step + 1) * kRows : rows;
    float total = 0;
    for (int64_t row = step * kRows; row < end; ++row) total += from[row * channels + c];
    if (to != nullptr) {
      to[i] = total;
    } else {
      // 0 * NaN is NaN, so what is to be overwritten is not read.
      result[c] = beta == 0 ? total : beta * result[c] + total;
    }
  }
};

}  // namespace crema
