// MovesValues: the interface, for the net, of layers whose tops hold values of their bottoms,
// unchanged. They derive from it and from Layer; the net finds them with dynamic_cast. Labels that
// pass such a layer have to stay exact, as in front of the layer that reads them.
#pragma once

namespace crema {

class MovesValues {
 public:
  virtual ~MovesValues() = default;

  /// Whether top t holds values of bottom b.
  virtual bool moves(int /*b*/, int /*t*/) const { return true; }
};

}  // namespace crema
