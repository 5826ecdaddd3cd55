#include "layers/recurrent/weight_space.hpp"

#include "core/dispatch.hpp"
#include "layers/recurrent/recurrent_layer.hpp"

namespace crema {
namespace {

/// Our block of rows for each gate of the library. Its LSTM has i, f, g, o and ours i, f, o, g;
/// both GRUs have r, z, n.
std::vector<int64_t> blocks_of(LibraryCell cell) {
  if (cell == LibraryCell::lstm) return {0, 1, 3, 2};
  if (cell == LibraryCell::gru) return {0, 1, 2};
  return {0};
}

}  // namespace

std::vector<SpacePiece> space_pieces(LibraryCell cell, int directions, int64_t inputs,
                                     int64_t units) {
  const std::vector<int64_t> blocks = blocks_of(cell);
  const int gates = static_cast<int>(blocks.size());
  std::vector<SpacePiece> pieces;
  for (int direction = 0; direction < directions; ++direction) {
    for (int gate = 0; gate < gates; ++gate) {
      const int64_t block = blocks[static_cast<size_t>(gate)];
      pieces.push_back({SpaceParam::input_weights, direction, gate, false, block * units * inputs,
                        units * inputs});
      pieces.push_back({SpaceParam::recurrent_weights, direction, gates + gate, false,
                        block * units * units, units * units});
      pieces.push_back({SpaceParam::bias, direction, gate, true, block * units, units});
      if (cell != LibraryCell::gru) continue;
      const bool is_candidate = gate == 2;
      pieces.push_back({is_candidate ? SpaceParam::recurrent_bias : SpaceParam::none, direction,
                        gates + gate, true, 0, units});
    }
  }
  return pieces;
}

bool begins_at_first_step(const Tensor& factors) {
  std::vector<bool> masked;
  find_masked_steps(factors, masked);
  bool plain = true;
  dispatch_float(factors.dtype(), [&]<class T>(T) {
    const T* values = factors.read<T>();
    for (int64_t i = factors.shape()[1]; i < factors.count(); ++i) plain = plain && values[i] == 1;
  });
  return plain;
}

}  // namespace crema
