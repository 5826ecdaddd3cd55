// The parameters of recurrent layers as cuDNN's RNN keeps them: pieces of one weight space. The
// library has a matrix, and perhaps a bias, for each gate of the input, and then for each of the
// state; ours lie behind each other in one parameter, in an order of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/move.hpp"
#include "crema/parameter.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// The cells that the library has: h = tanh(...); the published LSTM; GRU whose reset gate is
/// applied to the product of the state.
enum class LibraryCell : uint8_t { tanh, lstm, gru };

/// Parameters of a direction.
enum class SpaceParam : uint8_t { input_weights, recurrent_weights, bias, recurrent_bias, none };

/// A matrix or bias of the library, which is `count` values of a parameter from `first` on. Those
/// of no parameter are zeros.
struct SpacePiece {
  SpaceParam of = SpaceParam::none;
  int direction = 0;
  int matrix = 0;  // as the library counts them
  bool is_bias = false;
  int64_t first = 0, count = 0;
};

/// All of them. One bias a gate of the input; GRU has one a gate of the state too, of which all but
/// that of the candidate are zeros.
std::vector<SpacePiece> space_pieces(LibraryCell cell, int directions, int64_t inputs,
                                     int64_t units);

/// A piece where the library has it: `at` elements behind the begin of the space.
struct PlacedPiece {
  SpacePiece piece;
  int64_t at = 0;
};

// Passes for both sides, in library_passes.cpp. Parameters are f32; `dtype` is that of the space:
// f32, bf16 or f16.

/// The pieces of one parameter, all of one direction, become its values; zeros without one.
void write_pieces(const ComputeDevice& device, std::span<const PlacedPiece> pieces,
                  const Parameter* parameter, DType dtype, void* space);
/// Adds to the gradient of a parameter.
void add_pieces(const ComputeDevice& device, std::span<const PlacedPiece> pieces, DType dtype,
                const void* space, Parameter& parameter);

/// to = from, in the type of each: f32, bf16 or f16.
void copy_values(const ComputeDevice& device, const Tensor& from, Tensor& to);

/// Whether the indicators (T, N) are 1 behind the first step, so that sequences begin nowhere else.
/// Reads them on the host. Error if one is outside [0, 1].
bool begins_at_first_step(const Tensor& factors);

}  // namespace crema
