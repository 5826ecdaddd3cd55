// Passes around cuDNN's RNN: parameters and gradients to and from its weight space, and states.
#include <array>

#include "core/device_run.hpp"
#include "core/float_values.hpp"
#include "crema/context.hpp"
#include "layer_support/passes.hpp"
#include "layers/recurrent/recurrent_layer.hpp"
#include "layers/recurrent/weight_space.hpp"

namespace crema {
namespace {

/// Of one parameter: the gates of a direction.
constexpr size_t kMostPieces = 4;

/// Which piece an element is of, and where it is in the parameter and in the space.
struct Places {
  std::array<int64_t, kMostPieces> ends{}, from{}, to{};
  int64_t count = 0;

  explicit Places(std::span<const PlacedPiece> pieces) {
    if (pieces.size() > kMostPieces)
      throw Error("a parameter of an RNN has at most ", kMostPieces, " pieces, not ",
                  pieces.size());
    for (size_t p = 0; p < pieces.size(); ++p) {
      from[p] = pieces[p].piece.first - count;
      to[p] = pieces[p].at - count;
      count += pieces[p].piece.count;
      ends[p] = count;
    }
  }
  CREMA_FUNCTOR size_t piece(int64_t i) const {
    size_t p = 0;
    while (i >= ends[p]) ++p;
    return p;
  }
};

struct WritePieces {
  Places places;
  const float* values;  // null: zeros
  ValuesOut<float> space;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const size_t p = places.piece(i);
    space[i + places.to[p]] = values != nullptr ? values[i + places.from[p]] : 0.0F;
  }
};

struct AddPieces {
  Places places;
  ValuesIn<float> space;
  bool overwrites;
  float* gradient;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const size_t p = places.piece(i);
    float& sum = gradient[i + places.from[p]];
    const float value = space[i + places.to[p]];
    sum = overwrites ? value : sum + value;
  }
};

struct CopyValues {
  ValuesIn<float> from;
  ValuesOut<float> to;
  CREMA_FUNCTOR void operator()(int64_t i) const { to[i] = from[i]; }
};

/// to = from for the first `present` elements, and 0 behind them. Those of the first direction are
/// multiplied by the factor of their row; 0 masks, also NaN.
struct MaskStates {
  int64_t units, of_direction, present;
  const float* factor;  // null: all are 1
  ValuesIn<float> from;
  ValuesOut<float> to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const float by = factor != nullptr && i < of_direction ? factor[i / units] : 1.0F;
    to[i] = i < present && by != 0 ? by * from[i] : 0.0F;
  }
};

/// Behind a failure, what the next pass begins with stays.
struct CarryStates {
  CopyValues copy;
  const RunBlock* run;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    if (!run->failed()) copy(i);
  }
};

Stored stored(DType dtype) { return stored_as<float>(dtype); }

}  // namespace

void write_pieces(const ComputeDevice& device, std::span<const PlacedPiece> pieces,
                  const Parameter* parameter, DType dtype, void* space) {
  const Places places(pieces);
  const float* const values = parameter != nullptr ? device.read<float>(parameter->data) : nullptr;
  for_each(device, places.count, kElementGrain,
           WritePieces{places, values, {space, stored(dtype)}});
}

void add_pieces(const ComputeDevice& device, std::span<const PlacedPiece> pieces, DType dtype,
                const void* space, Parameter& parameter) {
  const Places places(pieces);
  const bool overwrites = parameter.begin_gradient() == 0;
  for_each(
      device, places.count, kElementGrain,
      AddPieces{places, {space, stored(dtype)}, overwrites, device.change<float>(parameter.diff)});
}

void copy_values(const ComputeDevice& device, const Tensor& from, Tensor& to) {
  for_each(
      device, to.count(), kElementGrain,
      CopyValues{values_in<float>(device, from), {device.overwrite_bytes(to), stored(to.dtype())}});
}

void RecurrentLayer::first_states_to(const ComputeDevice& device, Blobs bottom, int state,
                                     DType dtype, void* to) {
  const int64_t row = batch_ * units_;
  const Tensor* from = nullptr;
  if (exposes_) {
    from = &bottom[bottom.size() - static_cast<size_t>(states_ - state)]->data;
  } else {
    Tensor& carried = carried_[static_cast<size_t>(state)];
    if (carried.shape() != Shape{batch_, units_})
      carried = Tensor(Shape{batch_, units_}, this->dtype());
    from = &carried;
  }
  for_each(device, directions() * row, kElementGrain,
           MaskStates{units_,
                      row,
                      from->count(),
                      device.read<float>(bottom[1]->data),
                      values_in<float>(device, *from),
                      {to, stored(dtype)}});
}

void RecurrentLayer::last_states_from(const ComputeDevice& device, int state, DType dtype,
                                      const void* from, Blobs top) {
  Tensor& to =
      exposes_ ? top[static_cast<size_t>(1 + state)]->data : carried_[static_cast<size_t>(state)];
  const CopyValues copy{{from, stored(dtype)}, {device.overwrite<float>(to), stored(to.dtype())}};
  if (device.on_host() || exposes_ || !context().on_gpu()) {
    for_each(device, to.count(), kElementGrain, copy);
  } else {
    for_each(device, to.count(), kElementGrain, CarryStates{copy, context().device_run().block()});
  }
}

void RecurrentLayer::last_state_diffs_to(const ComputeDevice& device, int state, DType dtype,
                                         void* to, Blobs top) const {
  const Tensor& from = top[static_cast<size_t>(1 + state)]->diff;
  for_each(device, from.count(), kElementGrain,
           CopyValues{values_in<float>(device, from), {to, stored(dtype)}});
}

void RecurrentLayer::first_state_diffs_from(const ComputeDevice& device, int state, DType dtype,
                                            const void* from, Blobs bottom) const {
  Tensor& to = bottom[bottom.size() - static_cast<size_t>(states_ - state)]->diff;
  for_each(device, to.count(), kElementGrain,
           MaskStates{units_,
                      batch_ * units_,
                      to.count(),
                      device.read<float>(bottom[1]->data),
                      {from, stored(dtype)},
                      {device.overwrite<float>(to), stored(to.dtype())}});
}

}  // namespace crema
