// The gradient of a ReLU, computed by the kernel that reads its top.
//
// A kernel whose forward pass ends with a ReLU begins backward with a pass over the diff of its
// top. Where one other kernel writes that diff, such as the convolution behind it, this one may
// apply the gradient of the ReLU while it writes: the top is its bottom, and has the sign that
// decides. The net finds such pairs among the kernels of a program (net/relu_handover.cpp).
#pragma once

#include <cstddef>
#include <optional>

namespace crema {

/// A base of kernels whose forward pass may end with a ReLU (Kernel::ends_with_relu()).
class EndsWithReLU {
 public:
  virtual ~EndsWithReLU() = default;
  /// The slope, not below 0, of the ReLU that gives top 0, the only one, if backward could do
  /// without its gradient. None if there is none.
  virtual std::optional<float> relu_of_top() const = 0;
  /// From now on, the diff of the top comes with that gradient in it.
  virtual void leave_relu_to_reader() = 0;
};

/// A base of kernels that may apply the gradient of a ReLU to the diff of a bottom
/// (Kernel::undoes_relu()).
class UndoesReLU {
 public:
  virtual ~UndoesReLU() = default;
  /// From now on, backward writes the diff of the bottom, which a ReLU of that slope has given, as
  /// the diff of what is before the ReLU. False, and nothing changes, where the maker of the bottom
  /// does that in less time.
  virtual bool undo_relu(size_t bottom, float slope) = 0;
};

}  // namespace crema
