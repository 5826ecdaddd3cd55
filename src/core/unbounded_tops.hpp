// UnboundedTops: of layers that scripts write, which cannot say how large their tops become.
#pragma once

namespace crema {

/// A layer of TopShapes::from_values whose tops may exceed what its reshape() sets: that is a guess
/// then, and no bound. Memory is planned for it; a top that needs more, and what layers behind it
/// make, gets memory of its own. The number of values is mostly the same in all passes.
class UnboundedTops {
 public:
  virtual ~UnboundedTops() = default;
};

}  // namespace crema
