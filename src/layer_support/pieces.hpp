// Loops whose pieces have memory of their own.
#pragma once

#include <cstdint>

#include "core/parallel.hpp"

namespace crema {

/// body(piece, begin, end) for `pieces` consecutive pieces of [0, count), whatever the team, on the
/// threads: one thread at a time works on a piece.
template <class Body>
void for_pieces(int64_t count, int64_t pieces, const Body& body) {
  parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      body(piece, count * piece / pieces, count * (piece + 1) / pieces);
    }
  });
}

}  // namespace crema
