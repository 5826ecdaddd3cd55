// LateTops: the interface, for the net, of data layers whose batches differ in the shape of some
// tops, such as the list of all boxes. They derive from it and from Layer, with
// TopShapes::per_batch; the net finds them with dynamic_cast. fetch() sets a bound on such a shape
// and forward the shape, as with TopShapes::from_values: a batch that fits needs no new program.
#pragma once

namespace crema {

class LateTops {
 public:
  virtual ~LateTops() = default;

  /// Whether fetch() sets a bound on the shape of top t. Fixed once the layer is set up.
  virtual bool is_late(int t) const = 0;
};

}  // namespace crema
