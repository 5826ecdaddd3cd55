// HasHostPart: the interface of layers whose forward pass on a device reads its bottoms on the host
// and computes a part there, for those who show what a net does.
#pragma once

#include <string>

namespace crema {

class HasHostPart {
 public:
  virtual ~HasHostPart() = default;

  /// What the pass computes on the host, in a few words: "choice of boxes". "" if nothing.
  virtual std::string host_part() const = 0;
};

}  // namespace crema
