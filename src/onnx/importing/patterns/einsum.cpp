// Einsum of two operands: Transpose, Reshape and MatMul.
#include <algorithm>
#include <set>

#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

struct Equation {
  std::string left, right, out;
};

// None for ellipses, repeated labels and one operand.
std::optional<Equation> equation_of(const Node& node) {
  std::string text = node.call().get_string("equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->"), comma = text.find(',');
  if (arrow == std::string::npos || comma == std::string::npos || comma > arrow)
    return std::nullopt;
  Equation equation{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
                    text.substr(arrow + 2)};
  for (const std::string* labels : {&equation.left, &equation.right, &equation.out}) {
    const std::set<char> once(labels->begin(), labels->end());
    if (once.size() != labels->size() || labels->find_first_of(".,>-") != std::string::npos)
      return std::nullopt;
  }
  if (static_cast<int>(equation.left.size()) != node.input(0)->shape().rank() ||
      static_cast<int>(equation.right.size()) != node.input(1)->shape().rank())
    return std::nullopt;
  return equation;
}

bool has_label(const std::string& labels, char label) {
  return labels.find(label) != std::string::npos;
}

// The operand with its axes in the order of `labels`, and these in one shape.
Value& ordered(Graph& graph, Node& node, Value& x, const std::string& from,
               const std::string& labels, const std::vector<int64_t>& shape) {
  std::vector<int64_t> order;
  for (const char label : labels) order.push_back(static_cast<int64_t>(from.find(label)));
  Value* moved = &x;
  if (!std::ranges::is_sorted(order))
    moved = &graph.add_step(&node, "Transpose", {&x}, {ints_attribute("perm", order)});
  if (moved->shape().dims() == shape) return *moved;
  return graph.add_step(&node, "Reshape", {moved, &index_constant(graph, "einsum_shape", shape)});
}

}  // namespace

bool write_einsum(Graph& graph, Node& node) {
  if (!node.is("Einsum") || node.inputs.size() != 2 || !is_float(node.input(0)->type()))
    return false;
  const auto equation = equation_of(node);
  if (!equation) return false;
  Value &a = *node.input(0), &b = *node.input(1);
  std::string batch, rows, summed, columns;
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < equation->left.size(); ++i) {
    const char label = equation->left[i];
    sizes[label] = a.shape()[static_cast<int>(i)];
    const bool in_right = has_label(equation->right, label),
               in_out = has_label(equation->out, label);
    if (!in_right && !in_out) return false;
    (in_right ? (in_out ? batch : summed) : rows) += label;
  }
  for (size_t i = 0; i < equation->right.size(); ++i) {
    const char label = equation->right[i];
    const int64_t size = b.shape()[static_cast<int>(i)];
    const auto found = sizes.try_emplace(label, size).first;
    if (found->second != size) return false;
    if (has_label(equation->left, label)) continue;
    if (!has_label(equation->out, label)) return false;
    columns += label;
  }
  if (summed.empty() || equation->out.size() != batch.size() + rows.size() + columns.size())
    return false;
  const auto count = [&](const std::string& labels) {
    int64_t result = 1;
    for (const char label : labels) result *= sizes[label];
    return result;
  };
  std::vector<int64_t> front;
  for (const char label : batch) front.push_back(sizes[label]);
  const auto shape = [&](int64_t first, int64_t second) {
    std::vector<int64_t> dims = front;
    dims.push_back(first);
    dims.push_back(second);
    return dims;
  };
  if (count(rows) == 0 || count(columns) == 0 || count(summed) == 0 || count(batch) == 0)
    return false;
  Value& left = ordered(graph, node, a, equation->left, batch + rows + summed,
                        shape(count(rows), count(summed)));
  Value& right = ordered(graph, node, b, equation->right, batch + summed + columns,
                         shape(count(summed), count(columns)));
  Value& product = graph.add_step(&node, "MatMul", {&left, &right});
  const std::string labels = batch + rows + columns;
  std::vector<int64_t> dims, order;
  for (const char label : labels) dims.push_back(sizes[label]);
  for (const char label : equation->out) order.push_back(static_cast<int64_t>(labels.find(label)));
  Value& split =
      graph.add_step(&node, "Reshape", {&product, &index_constant(graph, "einsum_shape", dims)});
  graph.substitute(node, "Transpose", {&split}, {ints_attribute("perm", order)});
  return true;
}

}  // namespace crema::onnx
