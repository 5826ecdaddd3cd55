// Layers that read parts of a value where they lie, so that no Slice has to copy them.
#pragma once

namespace crema {

/// A base of layers whose first bottoms may be the equal parts of one value, side by side along its
/// last axis. The net asks on the CPU, where the tops of a Slice are these bottoms and nothing else
/// reads them (net/fuse.cpp).
class TakesParts {
 public:
  virtual ~TakesParts() = default;
  /// So many parts.
  virtual int parts() const = 0;
  /// From now on the first bottom is the whole value, and the other bottoms follow it. One gradient
  /// is that of all parts.
  virtual void take_whole() = 0;
  /// Whether take_whole() was called.
  virtual bool takes_whole() const = 0;
};

}  // namespace crema
