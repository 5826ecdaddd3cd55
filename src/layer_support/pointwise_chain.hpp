// What pointwise layers tell a chain of themselves (core/pointwise_chain.hpp). The kernel of a
// chain is layer_support/pointwise_chain-inl.hpp.
#pragma once

#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "core/pointwise_chain.hpp"

namespace crema {

class ComputeDevice;
struct RandomKey;  // layer_support/pass_key.hpp

/// A base of layers with random numbers, whose key a chain draws in their place.
class DrawsKey {
 public:
  virtual ~DrawsKey() = default;
  /// In front of each forward pass.
  virtual void draw_key(const ComputeDevice& device) = 0;
  /// The key that was drawn last.
  virtual RandomKey key_on(const ComputeDevice& device) const = 0;
};

/// One operation on each element: of a layer, or of the tail of one.
struct ChainStep {
  enum class Kind : uint8_t {
    math,     // y = f(x), f being that of a pointwise room
    sum,      // y = own * x + other * (the element of a bottom)
    product,  // y = x * (the element of a bottom)
    drop,     // y = 0 or scale * x (layer_support/dropout_math.hpp), memory being in logical order
  };
  static constexpr size_t kMathBytes = 24;

  Kind kind = Kind::math;
  // math: the type of the room, its Math, and what backward reads
  std::string_view type = {};
  alignas(8) std::array<unsigned char, kMathBytes> math = {};
  bool reads_x = false, reads_y = false;
  // sum and product: a bottom of the layer
  size_t bottom = 0;
  float own = 1, other = 1;
  // drop
  DrawsKey* keys = nullptr;
  uint32_t threshold = 0;
  float scale = 1;

  /// `Math` is that of a room of that type.
  template <class Math>
  static ChainStep of(std::string_view type, const Math& math) {
    static_assert(std::is_trivially_copyable_v<Math>);
    ChainStep step{.type = type, .reads_x = math.reads_x(), .reads_y = math.reads_y()};
    // Larger ones are of rooms outside of the tree, which no chain knows.
    if constexpr (sizeof(Math) <= kMathBytes) std::memcpy(step.math.data(), &math, sizeof(Math));
    return step;
  }
};

/// Defined in a file that CMake writes (scripts/cmake/rooms.cmake).
std::unique_ptr<Kernel> make_pointwise_chain(std::span<const ChainPart> parts, bool goes_back);

/// A base of kernels that do such operations.
class PointwiseLink : public ChainLink {
 public:
  /// As TwoSidedLayer::chain_steps().
  virtual std::vector<ChainStep> chain_steps(size_t entry, const Blob& top) const = 0;

  bool may_link(size_t entry, const Blob& top) const final {
    return !chain_steps(entry, top).empty();
  }
  std::unique_ptr<Kernel> make_chain(std::span<const ChainPart> parts, bool goes_back) const final {
    return make_pointwise_chain(parts, goes_back);
  }
};

}  // namespace crema
