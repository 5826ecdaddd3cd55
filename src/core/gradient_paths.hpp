// GradientPaths: the interface, for the net, of layers with bottoms or tops that no gradient
// belongs to. They derive from it and from Layer; the net finds them with dynamic_cast. It asks for
// no gradient of such tops, and refuses a loss that would train through them.
#pragma once

namespace crema {

class GradientPaths {
 public:
  virtual ~GradientPaths() = default;

  /// Whether the layer reads the shape of bottom b alone: its values change nothing.
  virtual bool reads_shape_alone(int /*b*/) const { return false; }
  /// Whether backward reads the diff of top t. False for masks, and for what a loss shows beside
  /// itself.
  virtual bool reads_top_diff(int /*t*/) const { return true; }
};

}  // namespace crema
