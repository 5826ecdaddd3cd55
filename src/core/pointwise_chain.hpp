// Chains of pointwise layers on a device: one kernel reads the elements of a map, does to each what
// several layers do to it, one after the other, and writes the result. What is between these layers
// stays in registers.
//
// The net finds the chains among the kernels of a program (net/chains.cpp).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "crema/kernel.hpp"

namespace crema {

/// A kernel with one top as a part of a chain, which goes from one of its bottoms to the top.
struct ChainPart {
  const Layer* layer = nullptr;
  const Kernel* kernel = nullptr;    // of the layer; a ChainLink
  size_t entry = 0;                  // the bottom by which the chain comes in
  const Blob* top = nullptr;         // all bottoms have its shape and format
  std::vector<bool> propagate = {};  // as of Kernel::backward(); one entry a bottom
};

/// A base of kernels that may be parts of a chain (Kernel::chain_link()).
class ChainLink {
 public:
  virtual ~ChainLink() = default;
  /// Whether the chain may come in by that bottom.
  virtual bool may_link(size_t entry, const Blob& top) const = 0;
  /// A kernel that does what the parts do, one after the other; this kernel is that of the first
  /// one. Its top is that of the last part. Its bottom 0 is the entry of the first part; all
  /// bottoms that are no entry follow, in the order of the parts. `goes_back`: backward will run.
  /// Null where one kernel cannot do that. The layers outlive it, the kernels of the parts need
  /// not.
  virtual std::unique_ptr<Kernel> make_chain(std::span<const ChainPart> parts,
                                             bool goes_back) const = 0;
};

}  // namespace crema
