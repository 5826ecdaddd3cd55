#include "onnx/importing/patterns/index_moves.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace crema::onnx {

namespace {

bool has_constant_settings(const Node& node) {
  if (node.input(0) == nullptr || node.input(0)->is_constant()) return false;
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                     [](const Value* input) { return input == nullptr || input->is_constant(); });
}

}  // namespace

bool is_move(const Node& node) {
  static constexpr std::array<std::string_view, 5> kMoves = {"Reshape", "Flatten", "Squeeze",
                                                             "Unsqueeze", "Transpose"};
  return node.message.domain().empty() && node.outputs.size() == 1 && node.output() != nullptr &&
         std::ranges::find(kMoves, node.op()) != kMoves.end() && has_constant_settings(node);
}

bool is_selecting_move(const Node& node) {
  static constexpr std::array<std::string_view, 4> kMoves = {"Slice", "Split", "Gather",
                                                             "Identity"};
  return is_move(node) ||
         (node.message.domain().empty() && std::ranges::find(kMoves, node.op()) != kMoves.end() &&
          has_constant_settings(node));
}

bool moves_open_batch(const Graph& graph, const Node& move) {
  if (!graph.has_open_batch() || move.input(0) == nullptr || move.output() == nullptr) return false;
  const Shape &in = move.input(0)->shape(), &out = move.output()->shape();
  if (move.is("Transpose")) return in.rank() > 0 && perm_of(move)[0] != 0;
  if (!move.is("Squeeze") && !move.is("Unsqueeze")) return false;
  const auto axes = move.call().ints_of("axes", 1, 13);
  if (!axes) return in.rank() > 0 && in[0] == 1;
  const int rank = move.is("Squeeze") ? in.rank() : out.rank();
  return std::ranges::any_of(*axes, [&](int64_t axis) { return axis == 0 || axis == -rank; });
}

std::vector<int64_t> perm_of(const Node& transpose) {
  const int rank = transpose.input(0)->shape().rank();
  std::vector<int64_t> reversed(static_cast<size_t>(rank));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return transpose.call().get_ints("perm", reversed);
}

std::optional<std::vector<int64_t>> moved_indices(Graph& graph, const std::vector<Node*>& chain,
                                                  const Value& to) {
  const Shape& from = chain.front()->input(0)->shape();
  if (from.count() > kMaxMovedElements || to.shape().count() > kMaxMovedElements)
    return std::nullopt;
  const auto elements = static_cast<double>(std::max(from.count(), to.shape().count()));
  if (!graph.take_steps(elements * static_cast<double>(chain.size()))) return std::nullopt;
  std::vector<int64_t> numbers(static_cast<size_t>(from.count()));
  std::iota(numbers.begin(), numbers.end(), 0);
  Array indices = Array::of_integers(TensorProto::INT64, from, numbers);
  for (size_t i = 0; i < chain.size(); ++i) {
    const Node& node = *chain[i];
    const Operator* const entry = OperatorTable::instance().find({}, node.op());
    if (entry == nullptr || entry->evaluate == nullptr) return std::nullopt;
    const Operand data{.type = TensorProto::INT64, .shape = indices.shape(), .constant = indices};
    std::vector<const Operand*> operands = {&data};
    for (size_t k = 1; k < node.inputs.size(); ++k)
      operands.push_back(node.inputs[k] == nullptr ? nullptr : &node.inputs[k]->known);
    const Value* const made = i + 1 < chain.size() ? chain[i + 1]->input(0) : &to;
    size_t output = 0;
    while (output < node.outputs.size() && node.outputs[output] != made) ++output;
    if (output == node.outputs.size()) return std::nullopt;
    try {
      Call call(node.message, node.opset, operands);
      evaluate(*entry, call);
      indices = *call.output(output).constant;
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  return indices.integers();
}

std::optional<std::vector<int64_t>> as_transpose(const std::vector<int64_t>& indices,
                                                 const Shape& from, const Shape& to) {
  if (from.rank() != to.rank() || from.count() != to.count() || indices.empty())
    return std::nullopt;
  const std::vector<int64_t> strides = strides_of(from), steps = strides_of(to);
  const auto rank = static_cast<size_t>(from.rank());
  std::vector<int64_t> order(rank, -1);
  std::vector<bool> used(rank, false);
  // An axis of several elements is the one whose stride its neighbours have; those of one element
  // take what is left, in their order.
  for (const bool single : {false, true}) {
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t size = to[static_cast<int>(axis)];
      if ((size == 1) != single) continue;
      for (size_t source = 0; source < rank && order[axis] < 0; ++source) {
        if (used[source] || from[static_cast<int>(source)] != size) continue;
        if (!single && indices[static_cast<size_t>(steps[axis])] != strides[source]) continue;
        order[axis] = static_cast<int64_t>(source);
        used[source] = true;
      }
      if (order[axis] < 0) return std::nullopt;
    }
  }
  std::vector<int64_t> place(rank, 0);
  int64_t index = 0;
  for (const int64_t wanted : indices) {
    if (index != wanted) return std::nullopt;
    for (size_t axis = rank; axis-- > 0;) {
      const int64_t stride = strides[static_cast<size_t>(order[axis])];
      index += stride;
      if (++place[axis] < to[static_cast<int>(axis)]) break;
      index -= stride * to[static_cast<int>(axis)];
      place[axis] = 0;
    }
  }
  return order;
}

}  // namespace crema::onnx
