// The order of the patterns.
#include <span>

#include "onnx/importing/graph.hpp"
#include "onnx/importing/patterns/all.hpp"

namespace crema::onnx {

namespace {

constexpr int kMaxRounds = 12;

bool apply_patterns(Graph& graph, std::span<const Pattern> patterns) {
  bool found = false;
  for (const Pattern pattern : patterns) {
    bool matched = false;
    for (Node* node : std::vector<Node*>(graph.nodes.begin(), graph.nodes.end())) {
      // Nodes that a pattern emptied before.
      bool is_alive = false;
      for (const Value* output : node->outputs)
        is_alive = is_alive || (output != nullptr && graph.is_wanted(*output));
      if (is_alive && pattern(graph, *node)) matched = true;
    }
    if (matched) graph.remove_dead();
    found = found || matched;
  }
  return found;
}

}  // namespace

void simplify(Graph& graph) {
  graph.remove_dead();
  static constexpr Pattern kOperators[] = {
      find_steps,      drop_nothing,       find_softplus,   find_hard_sigmoid, find_gated,
      find_gelu,       find_clip,          find_layer_norm, find_moments_norm, find_rms_norm,
      find_group_norm, find_recurrent,     write_einsum,    drop_wrapping,     find_rows,
      find_attention,  find_inner_product, join_bias,       join_pad,          find_repeat,
      join_moves,      sink_moves,         drop_flatten};
  static constexpr Pattern kConstants[] = {find_scaled_product, find_scale,        find_power,
                                           join_scale,          flatten_transpose, drop_nothing,
                                           join_moves,          follow_batch};
  for (int round = 0; round < kMaxRounds; ++round) {
    if (!apply_patterns(graph, kOperators)) break;
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    if (!apply_patterns(graph, kConstants)) break;
  }
}

}  // namespace crema::onnx
