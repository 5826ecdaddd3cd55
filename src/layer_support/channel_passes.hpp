// Passes over maps whose channels have sums or coefficients of their own, on a device: they read
// and write at the rate of its memory. On the host, layers have loops of their own (passes.hpp).
//
//   sums of a channel    moment_sums(), gradient_sums(); then finish_sums() (channel_phases.hpp)
//                        or total_sums()
//   maps                 map_affine(), map_gradient()
//
// Maps are of f32, f64, bf16 or f16. Coefficients and parameters are of T: double for maps of f64,
// else float. What is summed up is in channel_blocks.hpp.
#pragma once

#include <algorithm>

#include "core/move.hpp"
#include "crema/context.hpp"
#include "crema/parameter.hpp"
#include "layer_support/channel_blocks.hpp"

namespace crema::channels {

/// The channels of a tensor of shape N x C x ..., contiguous or channels_last. A shape of one axis
/// has one channel.
ChannelMaps channels_of(const Tensor& tensor);
/// The channels of each sample, as channels of their own.
ChannelMaps channels_of_samples(const Tensor& tensor);

/// Sums of each channel, which finish_sums() adds up: `pieces` times `count`, in the scratch memory
/// of the device, valid until its next use.
struct PartialSums {
  const SumPair* sums = nullptr;
  int64_t pieces = 0, count = 0;
  const double* origins = nullptr;  // of moments, one a channel
};
/// At most so many bytes of pass_scratch() are taken by sums of such maps on the device of the
/// context.
size_t sums_scratch_bytes(Context& context, const ChannelMaps& maps);
/// The same on a device of so many multiprocessors.
size_t sums_scratch_bytes(int multiprocessors, const ChannelMaps& maps);

/// Sums that are the gradients of parameters, each of which may be null. What was cleared is
/// overwritten.
template <class T>
AddSums<T> gradients_of(const ComputeDevice& device, Parameter* first, Parameter* second) {
  AddSums<T> to;
  const auto take = [&](Parameter* parameter, T*& values, bool& overwrites) {
    if (parameter == nullptr || !parameter->needs_gradient) return;
    overwrites = parameter->begin_gradient() == 0;
    values = device.change<T>(parameter->diff);
  };
  take(first, to.of_first, to.first_overwrites);
  take(second, to.of_second, to.second_overwrites);
  return to;
}

/// Mean and variance of a channel of `count` values, from its moments.
struct Moments {
  double mean, variance;

  /// The variance is 0 where no more than rounding is left, which is so where all values are equal.
  CREMA_FUNCTOR static Moments of(const SumPair& sums, double origin, double count) {
    const double gap = sums.first / count, squares = sums.second / count;
    const double variance = squares - gap * gap;
    return {origin + gap, variance <= 0x1p-48 * squares ? 0 : variance};  // NaN stays
  }
};

/// Sums of x and of its square, about origins.
PartialSums moment_sums(const ComputeDevice& device, const ChannelMaps& maps, const Tensor& x);

/// What gradients are computed from. x and y may be null: zeros.
struct GradientOperands {
  const Tensor* dy = nullptr;
  const Tensor* x = nullptr;
  const Tensor* y = nullptr;
  Mask mask = Mask::all;
};
/// Sums of d and of d * (x - centre), d being what counts of dy.
template <class T>
PartialSums gradient_sums(const ComputeDevice& device, const ChannelMaps& maps,
                          const GradientOperands& from, const Coefficients<const T>& coefficients);

/// The sums of all pieces, in scratch memory too. `pieces` is 1.
PartialSums total_sums(const ComputeDevice& device, const PartialSums& of);

/// gradient_sums() that are added to gradients; of small maps in one launch.
template <class T>
void add_sums(const ComputeDevice& device, const ChannelMaps& maps, const GradientOperands& from,
              const AddSums<T>& to);

/// The gradient of a bias, one a channel, grows by the sum of the values; what was there is not
/// read if it `overwrites`. On the host too, where `grain` is that of passes.hpp.
template <class T>
void add_channel_sums(const ComputeDevice& device, const ChannelView& view, int64_t grain,
                      const T* values, bool overwrites, T* gradient);

/// Of the columns of a contiguous matrix (rows, size): sums of dy and of dy * z are added to
/// gradients, where z = (x - centre) * gain + shift with coefficients of each row.
template <class T>
void add_column_sums(const ComputeDevice& device, int64_t rows, int64_t size, const Tensor& dy,
                     const Tensor& x, const Coefficients<const T>& of_rows, const AddSums<T>& to);

/// y = relu((x - centre) * gain + shift + add). `add` may be null. y may be x or add.
template <class T>
void map_affine(const ComputeDevice& device, const ChannelMaps& maps, const Tensor& x,
                const Tensor* add, const Coefficients<const T>& coefficients, bool relu, Tensor& y);

/// dx = d * gain - (x - centre) * slope - offset, and d_add = d. Either may be null, or dy.
template <class T>
void map_gradient(const ComputeDevice& device, const ChannelMaps& maps,
                  const GradientOperands& from, const Coefficients<const T>& coefficients,
                  Tensor* dx, Tensor* d_add);

/// Coefficients of `count` channels in a tensor of T, each beginning where vectors may: the first
/// `kinds` of Coefficients.
template <class T>
Coefficients<T> coefficients_in(const ComputeDevice& device, int64_t count, int kinds, bool written,
                                Tensor& memory) {
  const int64_t row = (count + 15) / 16 * 16;
  if (memory.dtype() != dtype_of<T>()) memory = Tensor(Shape{0}, dtype_of<T>());
  memory.reshape(Shape{kinds, row});
  T* const first = written ? device.overwrite<T>(memory) : device.change<T>(memory);
  const auto kind = [&](int k) { return k < kinds ? first + k * row : nullptr; };
  return {kind(0), kind(1), kind(2), kind(3), kind(4)};
}

}  // namespace crema::channels
