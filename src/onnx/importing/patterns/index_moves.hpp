// Moves: nodes that give all elements of their input in another order or shape. What several of
// them do together shows on an array of indices.
#pragma once

#include <optional>
#include <vector>

#include "onnx/importing/graph.hpp"

namespace crema::onnx {

/// Chains of more elements than this are looked at pairwise alone.
inline constexpr int64_t kMaxMovedElements = int64_t{1} << 23;

/// Reshape, Flatten, Squeeze, Unsqueeze or Transpose of what is no constant.
bool is_move(const Node& node);
/// The same, Slice, Split and Gather at constant indices: they give some elements.
bool is_selecting_move(const Node& node);

/// Whether the move takes axis 0 to another place, and the batch is open. The present batch may be
/// 1: that elements stay in their order then says nothing of other batches, so that such moves are
/// joined by their axes alone.
bool moves_open_batch(const Graph& graph, const Node& move);

/// The axes of a Transpose in their new order.
std::vector<int64_t> perm_of(const Node& transpose);

/// For each element of the last node's output `to`, which element of the first node's input 0 it
/// is. Each node reads what the one before makes. None if that cannot be evaluated, is larger than
/// kMaxMovedElements, or takes more steps than the graph has left.
std::optional<std::vector<int64_t>> moved_indices(Graph& graph, const std::vector<Node*>& chain,
                                                  const Value& to);

/// The axes in their new order, if indices into a tensor of shape `from` are those of a Transpose
/// to shape `to`.
std::optional<std::vector<int64_t>> as_transpose(const std::vector<int64_t>& indices,
                                                 const Shape& from, const Shape& to);

}  // namespace crema::onnx
