// GradientPaths: the interface, for the net, of layers with bottoms or tops that no gradient
// belongs to. They derive from it and from Layer; the net finds them with dynamic_cast. It asks for
// no gradient of such tops, and refuses a loss that would train through them.
#pragma once

namespace crema {

class GradientPaths {
 public:
  virtual ~GradientPaths() = default;

  /// Whether bottom b is a constant for the layer: its shape alone is read, or a setting keeps
  /// gradients from it.
  virtual bool is_constant(int /*b*/) const { return false; }
  /// Whether bottom b, which has no gradient, mostly holds what other layers compute from what
  /// learns, but without gradient, such as regions and weights. No propagate_down has to say so.
  virtual bool takes_constants(int /*b*/) const { return false; }
  /// Whether top t has a gradient, which backward reads. False for masks, for regions that are
  /// proposed, and for what a loss shows beside itself: they are constants for what reads them.
  virtual bool has_gradient(int /*t*/) const { return true; }
};

}  // namespace crema
