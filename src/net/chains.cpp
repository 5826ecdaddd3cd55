// Chains of pointwise layers: on a device, kernels that pass over the elements of a map one behind
// the other become one kernel (core/pointwise_chain.hpp). The last node of a chain runs it, where
// it stands in the order, and reads what all of them read; the others leave the order.
#include <algorithm>

#include "core/pointwise_chain.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

class Chains {
 public:
  Chains(const Plan& plan, Program& program) : plan_(plan), program_(program) {
    readers_.resize(program.values.size());
    for (const NodeId id : program.order) {
      const std::vector<ValueId>& reads = program[id].reads;
      for (size_t i = 0; i < reads.size(); ++i) readers_[reads[i]].push_back({id, i});
    }
  }

  void run() {
    for (const NodeId id : program_.order) {
      if (program_[id].chained_into.valid() || !may_link(id, 0)) continue;
      std::vector<Use> chain = {{id, 0}};
      std::unique_ptr<Kernel> made;
      for (std::optional<Use> next; (next = behind(chain.back().node));) {
        chain.push_back(*next);
        std::unique_ptr<Kernel> longer = try_chain(chain);
        if (longer == nullptr) {
          chain.pop_back();
          break;
        }
        made = std::move(longer);
      }
      if (made != nullptr) join(chain, std::move(made));
    }
    std::erase_if(program_.order, [&](NodeId id) { return program_[id].chained_into.valid(); });
  }

 private:
  /// Whether a chain may go from that bottom of the node to its top.
  bool may_link(NodeId id, size_t entry) const {
    const ProgramNode& node = program_[id];
    // Null: in a chain already.
    const ChainLink* const link = node.kernel != nullptr ? node.kernel->chain_link() : nullptr;
    if (link == nullptr || node.is_conversion() || node.makes.size() != 1 || node.follows_values ||
        node.layer->top_shapes() != TopShapes::fixed)
      return false;
    const Blob& top = *program_[node.makes[0]].blob;
    return std::ranges::all_of(node.reads,
                               [&](ValueId read) {
                                 const Blob& bottom = *program_[read].blob;
                                 return bottom.shape() == top.shape() &&
                                        bottom.data.format() == top.data.format();
                               }) &&
           link->may_link(entry, top);
  }

  /// Who reads the top of the node, if that is one bottom of a link and nobody else looks at the
  /// value.
  std::optional<Use> behind(NodeId id) const {
    const ValueId top = program_[id].makes[0];
    const ProgramValue& value = program_[top];
    if (readers_[top].size() != 1 || plan_.shows(value) || value.loss_weight != 0)
      return std::nullopt;
    const Use use = readers_[top][0];
    if (!may_link(use.node, use.bottom)) return std::nullopt;
    return use;
  }

  std::unique_ptr<Kernel> try_chain(const std::vector<Use>& chain) const {
    std::vector<ChainPart> parts;
    bool goes_back = false;
    for (const Use& use : chain) {
      const ProgramNode& node = program_[use.node];
      parts.push_back({.layer = node.layer,
                       .kernel = node.kernel.get(),
                       .entry = use.bottom,
                       .top = program_[node.makes[0]].blob,
                       .propagate = node.propagate});
      goes_back = goes_back || node.needs_backward;
    }
    const auto& first = *parts[0].kernel->chain_link();
    return in_node(program_[chain[0].node], [&] { return first.make_chain(parts, goes_back); });
  }

  void join(const std::vector<Use>& chain, std::unique_ptr<Kernel> kernel) {
    const NodeId into = chain.back().node;
    std::vector<ValueId> reads;
    std::vector<bool> propagate;
    std::vector<Layout> layouts;
    double seconds = 0;
    bool needs_backward = false;
    for (const Use& use : chain) {
      ProgramNode& node = program_[use.node];
      const auto add = [&](size_t bottom) {
        reads.push_back(node.reads[bottom]);
        propagate.push_back(node.propagate[bottom]);
        layouts.push_back(node.option.bottoms[bottom]);
      };
      if (reads.empty()) add(use.bottom);
      for (size_t b = 0; b < node.reads.size(); ++b) {
        if (b != use.bottom) add(b);
      }
      seconds += node.option.seconds;
      needs_backward = needs_backward || node.needs_backward;
      if (use.node == into) continue;
      node.chained_into = into;
      program_[node.makes[0]].fused_away = true;
    }
    for (const Use& use : chain) program_[use.node].kernel.reset();
    ProgramNode& node = program_[into];
    node.reads = std::move(reads);
    node.propagate = std::move(propagate);
    node.needs_backward = needs_backward;
    node.option.bottoms = std::move(layouts);
    node.option.seconds = seconds;
    node.bottom_blobs = program_.blobs(node.reads);
    node.kernel = std::move(kernel);
  }

  const Plan& plan_;
  Program& program_;
  IdVector<ValueId, std::vector<Use>> readers_;
};

}  // namespace

void chain_layers(const Plan& plan, Program& program) {
  const NetOptions& options = plan.options;
  if (!plan.context->on_gpu() || !options.fuse || options.keep_all || plan.debug_info) return;
  Chains(plan, program).run();
}

}  // namespace crema
