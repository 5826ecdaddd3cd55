// HasHostPart: the interface of layers whose forward pass on a device computes a part on the host,
// or checks something there, for those who show what a net does.
#pragma once

#include <string>

namespace crema {

class HasHostPart {
 public:
  virtual ~HasHostPart() = default;

  /// What the pass computes on the host, in a few words: "choice of boxes". "" if nothing.
  virtual std::string host_part() const = 0;
  /// Whether the host reads bottom b for that.
  virtual bool host_reads(int /*b*/) const { return true; }
  /// Whether the host writes the tops.
  virtual bool host_writes() const { return true; }
};

}  // namespace crema
