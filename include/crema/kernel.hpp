// Kernel: one computation ready to run, for one layer in one set of shapes and layouts. An Engine
// makes it (crema/engine.hpp).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "crema/blob.hpp"
#include "crema/scratch_plan.hpp"

namespace crema {

class ChainLink;     // src/core/pointwise_chain.hpp
class EndsWithReLU;  // src/core/relu_handover.hpp
class Layer;
class UndoesReLU;  // src/core/relu_handover.hpp

/// A set of bottoms or of tops of a layer, by index.
class IndexSet {
 public:
  /// All of them, or none.
  constexpr IndexSet(bool all)
      : first_(all ? ~uint64_t{0} : 0), others_(all) {}  // NOLINT: implicit
  /// The indices in the list; each is below 64.
  constexpr IndexSet(std::initializer_list<int> list) {
    for (const int index : list) first_ |= uint64_t{1} << index;
  }
  constexpr bool operator[](size_t index) const {
    return index < 64 ? (first_ >> index & 1U) != 0 : others_;
  }
  /// Whether the set contains any index.
  constexpr explicit operator bool() const { return first_ != 0; }

 private:
  uint64_t first_ = 0;   // one bit for each index below 64
  bool others_ = false;  // all indices from 64 on
};

/// The forward values that backward reads. The net keeps only these until backward.
struct BackwardReads {
  IndexSet bottom_data = true;
  IndexSet top_data = true;
};

/// Whether top 0 may use the memory of a bottom: of bottom 0, unless in_place_bottom() names
/// another. In backward, the same holds for their diffs.
enum class InPlace : uint8_t {
  never,
  overwrite,  // the layer may write the top over the bottom
  alias,      // top and bottom have the same values; only the shape differs
  parts,  // the values of all bottoms, one behind the other in memory, are those of the one top;
          // or those of all tops are those of the one bottom
};

/// The layer outlives its kernels. One thread at a time may run the kernels of a layer.
class Kernel {
 public:
  explicit Kernel(const Layer& layer) : layer_(layer) {}
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// The bottoms and tops have the shapes and layouts that the kernel was made for. Behind a layer
  /// whose tops are TopShapes::from_values, they are blobs of a kernel for those shapes.
  /// The net may run forward again before backward, with the same bottoms and with
  /// RunState::recomputing set, if the tops were dropped (`recompute`,
  /// NetOptions::memory_budget): it must then write the same tops, and change nothing else.
  virtual void forward(Blobs bottom, Blobs top) = 0;
  /// Reads the diffs of the tops: the gradients of the loss with respect to the tops. For a loss
  /// that no layer reads, each element is the loss weight. Overwrites the diff of bottom i if
  /// propagate[i]. Adds to the gradients of the parameters. Leaves the diffs of the tops unchanged
  /// if Requirements::top_diffs_stay.
  virtual void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) = 0;

  /// The forward values that backward reads. Default: those that the reference reads.
  virtual BackwardReads backward_reads() const;
  /// Default: the value for the reference.
  virtual InPlace in_place() const;
  /// Bytes that the kernel holds beside the blobs: workspaces and weights in its own layout.
  virtual size_t bytes() const { return 0; }
  /// Adds the scratch memory that the kernel needs during a pass and does not hold itself.
  virtual void plan_scratch(ScratchPlan& /*plan*/) const {}
  /// The primitives chosen for this problem, for `summary` and `time`: "jit:avx512_core, winograd".
  virtual std::string detail() const { return {}; }
  /// Whether a device may record the passes and run the record in place of them: they do the same
  /// in every iteration, on the device alone, with what changes (values of blobs, the state of the
  /// pass in DeviceRun) in its memory. Passes that copy from or to the host, take memory or wait
  /// are found out, and are not recorded; where forward is such a one, backward is not, either.
  virtual bool capturable() const { return false; }
  /// The net returns to the shapes of this kernel after it ran others. For kernels with memory in
  /// their layer, which has been sized for those.
  virtual void enter(Blobs /*bottom*/, Blobs /*top*/) {}

  // What else the kernel is; null: it is not.
  virtual const ChainLink* chain_link() const { return nullptr; }
  virtual EndsWithReLU* ends_with_relu() { return nullptr; }
  virtual UndoesReLU* undoes_relu() { return nullptr; }

 private:
  const Layer& layer_;
};

}  // namespace crema
