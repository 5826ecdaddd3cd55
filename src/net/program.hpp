// Program: all that depends on the shapes of the inputs of a graph: layouts, conversions, kernels,
// actions, memory. There is one for each set of shapes and each runner.
//
// The passes that make it are functions of a Plan (whose graph, layers and blobs they read) and a
// Program, each with its file; program.cpp calls them in their order.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crema/net.hpp"
#include "net/graph.hpp"

namespace crema {

struct Plan;         // net/plan.hpp
class RecordedPass;  // net/recorded.hpp

/// A value of the graph, or, behind these, one in another layout.
struct ProgramValue : ValueInfo {
  Blob* blob = nullptr;
  std::unique_ptr<Blob> own;  // the blob of a converted value
  ValueId origin;             // of a converted value: that of the graph
  Layout layout;              // of the blob
  NodeId maker;               // the producer, or a conversion behind it
  std::vector<Use> readers;   // by layers and conversions
  bool has_gradient = false;  // backward computes or reads its diff
  bool reserved = false;      // valid until the next pass
  bool may_be_range = false;  // of the rows of what it is joined to (row_ranges.cpp)
  Shape planned;              // the shape before forward; for TopShapes::from_values, the bound

  bool is_converted() const { return origin.valid(); }
};

/// A node of the graph, or, behind these, a conversion between two layouts.
struct ProgramNode {
  Layer* layer = nullptr;
  std::unique_ptr<Layer> own;   // the layer of a conversion
  const Node* node = nullptr;   // of the graph; null: a conversion
  std::vector<bool> propagate;  // as of Node
  bool needs_backward = false;
  bool follows_values = false;
  bool stood_in = false;  // planned with other bottoms (Plan::stand_ins)
  bool dropped = false;   // its tops are dropped after forward, and computed again in backward
  Option option;
  std::unique_ptr<Kernel> kernel;     // of the option
  std::vector<ValueId> reads, makes;  // bottoms and tops in the layouts of the option
  /// The blobs that the kernel gets. If several nodes write the diff of a bottom, all but one of
  /// them get an edge: a twin with the data of the value and an own diff. A sum action adds these
  /// diffs to the diff of the value.
  std::vector<Blob*> bottom_blobs, top_blobs;
  std::vector<Shape> made_for;  // if follows_values: the bottoms' shapes that the kernel is for
  NodeId chained_into;          // the node that computes this one too (chains.cpp)

  bool is_conversion() const { return node == nullptr; }
};

/// One step of a pass. accesses_of() tells what it reads and writes.
struct Action {
  enum class Kind : uint8_t {
    forward,
    seed,  // sets every element of `into` to `weight`, or adds it
    backward,
    sum,       // into = the sum of parts
    complete,  // calls the hook of Net::on_gradient
    losses,    // adds up the losses for the report of a device
    update,    // of the parameters, by a solver
  };
  Kind kind = Kind::forward;
  NodeId node;
  bool again = false;  // forward: in the backward pass, for dropped values
  std::vector<Blob*> bottoms, tops;
  std::vector<const Tensor*> parts;  // sum: diffs; the first may be `into`
  Tensor* into = nullptr;            // seed and sum: a diff
  double weight = 0;                 // seed: of the loss; 0 for a diff that no reader writes
  bool adds = false;                 // seed
  size_t segment = 0;                // complete: index into ParameterArena::segments()

  /// The largest number of parts that are added to a diff at once. A larger number saves passes
  /// over the diff, but needs memory for more parts.
  static constexpr size_t kMostParts = 3;
};

/// A blob that shares memory with others: an edge, or a value that is computed again.
struct Twin {
  Blob blob;
  // Whose memory its data and its diff have. Null: memory of their own. An owner without memory:
  // none.
  const Tensor* data = nullptr;
  const Tensor* diff = nullptr;
  Shape planned = {};
};

/// A piece of memory that one or several tensors use.
struct Buffer {
  size_t bytes = 0;
  bool reserved = false;  // has its own memory, which is valid after the pass
  size_t offset = 0;      // if not reserved: in bytes, in the activation arena
  struct Resident {
    Tensor* tensor;
    size_t offset = 0;  // in bytes, in the buffer
    // Of a range of rows (Tensor::bind_rows()).
    int64_t rows = 1;
    size_t row_stride = 0;
  };
  std::vector<Resident> tensors;
};

/// Nodes whose forward pass a device has recorded: backward finds what it left in memory of the
/// device then, and nothing on the host.
struct RecordedNodes {
  std::set<NodeId> all;
  uint64_t changes = 0;
};

struct Program {
  std::vector<Shape> shapes;            // of Graph::outer
  size_t reach = 0;                     // the layers from this index on are left out
  bool outgrown = false;                // unbounded tops are not, or were not, as they were guessed
  IdVector<NodeId, ProgramNode> nodes;  // those of the graph, then conversions
  IdVector<ValueId, ProgramValue> values;  // those of the graph, then converted ones
  std::vector<NodeId> order;               // nodes to run
  std::list<Twin> twins;
  std::vector<Action> forward, backward;  // in order; one of `forward` for each of order
  /// One entry for each of order: its actions in `backward`, [first, second).
  std::vector<std::pair<size_t, size_t>> backward_of;
  std::vector<Buffer> buffers;
  std::vector<NetStep> steps;  // one entry for each of order
  MemoryPlan memory;
  size_t arena_bytes = 0;
  // On a device, made when they are first run. An iteration is forward, losses, backward and an
  // update.
  std::vector<Action> iteration;
  std::shared_ptr<RecordedPass> recorded_forward, recorded_backward, recorded_iteration;
  RecordedNodes recorded_nodes;

  const ProgramNode& operator[](NodeId id) const { return nodes[id]; }
  ProgramNode& operator[](NodeId id) { return nodes[id]; }
  const ProgramValue& operator[](ValueId id) const { return values[id]; }
  ProgramValue& operator[](ValueId id) { return values[id]; }
  std::vector<Blob*> blobs(const std::vector<ValueId>& ids) const;
  /// The only reader of a value. None if there is another number of them.
  std::optional<Use> only_reader(ValueId value) const;
  /// The node that computes the node: itself, or that of its chain.
  NodeId runs(NodeId id) const {
    const NodeId into = nodes[id].chained_into;
    return into.valid() ? into : id;
  }
};

/// Those of the graph in `plan`, with its layers and blobs. Values of layers from index `reach` on
/// are not computed.
Program begin_program(const Plan& plan, size_t reach);
/// layouts.cpp: chooses the layout of each tensor. Sets the option of each node, adds conversions,
/// and sets Program::order.
void choose_layouts(const Plan& plan, Program& program);
/// Makes the kernels of the options.
void make_kernels(Plan& plan, Program& program);
/// chains.cpp: on a device, makes one kernel of pointwise layers that follow each other.
void chain_layers(const Plan& plan, Program& program);
/// relu_handover.cpp: lets kernels that read what a ReLU gives apply its gradient, in place of the
/// kernel that ends with the ReLU.
void hand_over_relus(const Plan& plan, Program& program);
/// row_ranges.cpp: asks kernels to write their tops as ranges of the rows of what these are joined
/// to.
void offer_ranges(const Plan& plan, Program& program);
/// budget.cpp: sets `dropped` of the nodes: those that the prototxt asks for, and those by which
/// the planned memory fits NetOptions::memory_budget.
void choose_dropped(Plan& plan, Program& program);
/// schedule.cpp: sets the blobs of the nodes, and the actions of the program.
void make_schedule(const Plan& plan, Program& program);
/// Of the node's layer and of the layers in its tail.
std::vector<const Parameter*> parameters_of(const ProgramNode& node);
/// What an action reads and writes of data and diffs, each once for each bottom or top; no
/// parameters, and no diffs that nothing computes. Memory is planned by it (memory.cpp), and what
/// moves between host and device foreseen (traffic.cpp).
struct Accesses {
  std::vector<const Tensor*> reads, writes;
};
Accesses accesses_of(const Program& program, const Action& action);
/// memory.cpp: plans which tensors share memory. Sets the buffers of the program.
void plan_memory(Plan& plan, Program& program);
/// The same for a program that is not final: says nothing to the user.
void try_memory(const Plan& plan, Program& program);
/// Allocates the buffers and binds their tensors.
void bind_memory(Plan& plan, Program& program);
/// summary.cpp: sets Program::steps, which describe the result for the user.
void describe_steps(const Plan& plan, Program& program);

/// program.cpp: sets the program of the plan for the present shapes: one that was kept, or a new
/// one.
void take_program(Plan& plan);
/// The same where only the first `needed` layers will run. Behind these, with keep_all, the program
/// ends in front of a layer that refuses the shapes.
void take_program(Plan& plan, size_t needed);
/// Leaves the present program, if there is one, for another one.
void leave_program(Plan& plan);
/// Removes the present program.
void drop_program(Plan& plan);

}  // namespace crema
