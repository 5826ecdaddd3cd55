// A pass over a batch in several pieces of as many images, one after the other: what needs too much
// scratch memory for the whole batch may have enough for a part of it.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "crema/error.hpp"

namespace crema {

/// The numbers of pieces to try: 2, 4, 8 ..., each of as many images. A piece begins on a boundary
/// that libraries ask for, if an image of each operand has that many bytes.
inline std::vector<int64_t> piece_counts(int64_t images,
                                         std::initializer_list<size_t> image_bytes) {
  constexpr int64_t kMostPieces = 64;
  constexpr size_t kBoundary = 16;
  std::vector<int64_t> counts;
  for (int64_t pieces = 2; pieces <= kMostPieces && images % pieces == 0; pieces *= 2) {
    bool fits = true;
    for (const size_t bytes : image_bytes)
      fits = fits && static_cast<size_t>(images / pieces) * bytes % kBoundary == 0;
    if (fits) counts.push_back(pieces);
  }
  return counts;
}

/// The name of a way to compute a piece, for one to compute the batch: "4 pieces, NAME".
inline std::string name_in_pieces(int64_t pieces, const std::string& name) {
  return pieces == 1 ? name : text(pieces, " pieces, ", name);
}

/// The pieces and the name in them; 1 and the name itself if it is of the whole batch.
inline std::pair<int64_t, std::string> pieces_of_name(const std::string& name) {
  constexpr std::string_view kBehind = " pieces, ";
  int64_t pieces = 0;
  const char* const end = name.data() + name.size();
  const auto [behind, error] = std::from_chars(name.data(), end, pieces);
  const std::string_view rest(behind, static_cast<size_t>(end - behind));
  if (error != std::errc() || pieces < 2 || !rest.starts_with(kBehind)) return {1, name};
  return {pieces, std::string(rest.substr(kBehind.size()))};
}

/// A pointer, void or const void, for each piece; null stays null. `bytes`: of a piece.
template <class T>
T* piece_at(T* whole, int64_t piece, size_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  if (whole == nullptr) return nullptr;
  return static_cast<T*>(static_cast<Byte*>(whole) + static_cast<size_t>(piece) * bytes);
}

/// Calls body(piece, beta) for each: sums over the batch begin with `beta`, and go on with 1.
template <class Body>
void each_piece(int64_t pieces, float beta, const Body& body) {
  for (int64_t piece = 0; piece < pieces; ++piece) body(piece, piece == 0 ? beta : 1.0F);
}

}  // namespace crema
