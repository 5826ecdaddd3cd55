// Chains of Reshape and Transpose: joined where they are one.
#include <algorithm>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/index_moves.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

constexpr size_t kLongestChain = 16;

bool joins(const Graph& graph, const Node& node) {
  return is_move(node) && !moves_open_batch(graph, node);
}

// The moves that end in the node, the first one first; each is read by the next alone.
std::vector<Node*> chain_of(const Graph& graph, Node& node) {
  std::vector<Node*> chain = {&node};
  while (chain.size() < kLongestChain) {
    Value* const from = chain.front()->input(0);
    Node* const producer = from->producer;
    if (producer == nullptr || !joins(graph, *producer) || graph.only_reader(*from) == nullptr)
      break;
    chain.insert(chain.begin(), producer);
  }
  return chain;
}

void put_reshape(Graph& graph, Node& node, Value& x) {
  Value& shape =
      index_constant(graph, node.output()->name + "_shape", node.output()->shape().dims());
  graph.substitute(node, "Reshape", {&x, &shape}, {int_attribute("allowzero", 1)});
}

bool is_in_order(const std::vector<int64_t>& indices) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// Element i of a tensor whose channels were shuffled in groups, or blocks became channels: by a
// function that gives its source.
template <class Source>
bool are_sources(const std::vector<int64_t>& indices, const Source& source) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != source(static_cast<int64_t>(i))) return false;
  }
  return true;
}

// The groups of a channel shuffle of (N, C, ...); 0 if it is none.
int64_t shuffled_groups(const std::vector<int64_t>& indices, const Shape& x) {
  if (x.rank() < 3 || x[1] < 4) return 0;
  const int64_t channels = x[1], positions = x.count(2);
  if (positions == 0 || static_cast<int64_t>(indices.size()) <= positions) return 0;
  // Channel 1 of the result is the first one of the second group.
  const int64_t width = indices[static_cast<size_t>(positions)] / positions;
  if (width < 2 || channels % width != 0) return 0;
  const int64_t groups = channels / width;
  const bool is_shuffle = are_sources(indices, [&](int64_t i) {
    const int64_t position = i % positions, channel = i / positions % channels;
    const int64_t sample = i / (positions * channels);
    return (sample * channels + channel % groups * width + channel / groups) * positions + position;
  });
  return is_shuffle ? groups : 0;
}

// (N, C r^2, H, W) to (N, C, H r, W r), by PyTorch's order of channels; the factor, or 0.
int64_t pixel_factor(const std::vector<int64_t>& indices, const Shape& from, const Shape& to) {
  if (from.rank() != 4 || to.rank() != 4 || from[2] == 0 || to[2] % from[2] != 0) return 0;
  const int64_t factor = to[2] / from[2];
  if (factor < 2 || to[3] != from[3] * factor || from[1] != to[1] * factor * factor) return 0;
  const bool is_shuffle = are_sources(indices, [&](int64_t i) {
    const int64_t w = i % to[3], h = i / to[3] % to[2], rest = i / (to[3] * to[2]);
    const int64_t channel = rest % to[1], sample = rest / to[1];
    const int64_t source = (channel * factor + h % factor) * factor + w % factor;
    return ((sample * from[1] + source) * from[2] + h / factor) * from[3] + w / factor;
  });
  return is_shuffle ? factor : 0;
}

// (N, C, H, W) to (N, C, H r, W s), each element several times: r and s, or none.
std::optional<std::pair<int64_t, int64_t>> repeats_of(const std::vector<int64_t>& indices,
                                                      const Shape& from, const Shape& to) {
  if (from.rank() != 4 || to.rank() != 4 || from.count() == 0 || from[0] != to[0] ||
      from[1] != to[1] || to[2] % from[2] != 0 || to[3] % from[3] != 0)
    return std::nullopt;
  const int64_t rows = to[2] / from[2], columns = to[3] / from[3];
  const bool is_repeat = are_sources(indices, [&](int64_t i) {
    const int64_t w = i % to[3], h = i / to[3] % to[2], map = i / (to[3] * to[2]);
    return (map * from[2] + h / rows) * from[3] + w / columns;
  });
  if (!is_repeat) return std::nullopt;
  return std::pair(rows, columns);
}

bool is_tile(const Node& node) {
  return node.is("Tile") && node.outputs.size() == 1 && node.input(0) != nullptr &&
         !node.input(0)->is_constant() && node.input(1) != nullptr && node.input(1)->is_constant();
}

// Two Transposes are one, whoever else reads the first.
bool join_transposes(Graph& graph, Node& node) {
  const Node* const first = maker_of(node.input(0), "Transpose");
  if (!node.is("Transpose") || first == nullptr || first->input(0)->is_constant()) return false;
  const std::vector<int64_t> before = perm_of(*first);
  std::vector<int64_t> order;
  for (const int64_t axis : perm_of(node)) order.push_back(before[static_cast<size_t>(axis)]);
  graph.substitute(node, "Transpose", {first->input(0)}, {ints_attribute("perm", order)});
  return true;
}

bool join_pair(Graph& graph, Node& node) {
  Node* const first = node.input(0)->producer;
  if (first == nullptr || !is_move(*first) || graph.only_reader(*node.input(0)) == nullptr)
    return false;
  if (node.is("Transpose") && first->is("Transpose")) return join_transposes(graph, node);
  if (node.is("Transpose") || first->is("Transpose")) return false;
  put_reshape(graph, node, *first->input(0));
  return true;
}

}  // namespace

bool join_moves(Graph& graph, Node& node) {
  if (!is_move(node)) return false;
  if (moves_open_batch(graph, node)) return join_transposes(graph, node);
  // The last one of a chain: what follows is no move.
  const Node* const reader = graph.only_reader(*node.output());
  if (reader != nullptr && joins(graph, *reader)) return false;
  const std::vector<Node*> chain = chain_of(graph, node);
  Value& x = *chain.front()->input(0);
  Value& y = *node.output();
  if (chain.size() == 1 && !node.is("Transpose")) return false;
  const auto indices = moved_indices(graph, chain, y);
  if (!indices) return chain.size() > 1 ? join_pair(graph, node) : join_transposes(graph, node);
  if (is_in_order(*indices)) {
    if (chain.size() == 1 && x.shape() != y.shape()) return join_transposes(graph, node);
    if (x.shape() == y.shape()) {
      graph.replace(y, x);
      return !graph.is_wanted(y);
    }
    put_reshape(graph, node, x);
    return true;
  }
  if (chain.size() == 1) return join_transposes(graph, node);
  if (const auto order = as_transpose(*indices, x.shape(), y.shape())) {
    graph.substitute(node, "Transpose", {&x}, {ints_attribute("perm", *order)});
    return true;
  }
  if (x.shape() == y.shape()) {
    if (const int64_t groups = shuffled_groups(*indices, x.shape()); groups > 1) {
      graph.substitute_layer(node, "ShuffleChannel", {&x}, {int_attribute("group", groups)});
      return true;
    }
  }
  if (const int64_t factor = pixel_factor(*indices, x.shape(), y.shape()); factor > 1) {
    graph.substitute(node, "DepthToSpace", {&x},
                     {int_attribute("blocksize", factor), string_attribute("mode", "CRD")});
    return true;
  }
  return join_pair(graph, node);
}

// The batch stays in front.
bool flatten_transpose(Graph& graph, Node& node) {
  if (!node.is("Transpose") || !joins(graph, node)) return false;
  Value& x = *node.input(0);
  if (x.shape().rank() == 0 || x.shape()[0] != node.output()->shape()[0]) return false;
  const auto indices = moved_indices(graph, {&node}, *node.output());
  if (!indices || !is_in_order(*indices)) return false;
  put_reshape(graph, node, x);
  return true;
}

bool find_repeat(Graph& graph, Node& node) {
  const auto belongs = [](const Node& each) { return is_move(each) || is_tile(each); };
  const Node* const reader = belongs(node) ? graph.only_reader(*node.output()) : nullptr;
  if (!belongs(node) || (reader != nullptr && belongs(*reader))) return false;
  std::vector<Node*> chain = {&node};
  while (chain.size() < kLongestChain) {
    Value& from = *chain.front()->input(0);
    if (from.producer == nullptr || !belongs(*from.producer) || graph.only_reader(from) == nullptr)
      break;
    chain.insert(chain.begin(), from.producer);
  }
  // The longest part that does it.
  for (; std::ranges::any_of(chain, [](const Node* each) { return is_tile(*each); });
       chain.erase(chain.begin())) {
    Value& x = *chain.front()->input(0);
    if (x.shape().rank() != 4) continue;
    const auto indices = moved_indices(graph, chain, *node.output());
    if (!indices) return false;
    const auto repeats = repeats_of(*indices, x.shape(), node.output()->shape());
    if (!repeats) continue;
    const std::vector<double> scales = {1, 1, static_cast<double>(repeats->first),
                                        static_cast<double>(repeats->second)};
    Value& constant = graph.add_constant(node.output()->name + "_scales",
                                         Array::of_doubles(TensorProto::FLOAT, Shape{4}, scales));
    graph.substitute(node, "Resize", {&x, nullptr, &constant},
                     {string_attribute("coordinate_transformation_mode", "asymmetric"),
                      string_attribute("nearest_mode", "floor")});
    return true;
  }
  return false;
}

}  // namespace crema::onnx
