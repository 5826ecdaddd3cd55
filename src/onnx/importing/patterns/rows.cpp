// Rows of a table at indices: layers Embed and Gather.
#include "onnx/importing/patterns/all.hpp"
#include "onnx/importing/patterns/match.hpp"

namespace crema::onnx {

namespace {

constexpr int kMaxSteps = 8;

bool makes_whole_numbers(const Node& node) {
  for (const char* op : {"Floor", "Ceil", "Round"}) {
    if (node.is(op)) return true;
  }
  return node.is_layer("ArgMax") || (node.is("Cast") && !is_float(node.input(0)->type()));
}

bool keeps_numbers(const Node& node) {
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice",
                         "Split", "Expand", "Identity"}) {
    if (node.is(op)) return true;
  }
  return false;
}

// Whether indices that a model casts to integers are whole numbers as they are: a Cast cuts
// fractions, and layers refuse them. Whoever gives a model indices as floats gives whole ones.
bool are_whole(const Value& value) {
  const Value* from = &value;
  for (int step = 0; step < kMaxSteps; ++step) {
    if (from->is_input) return true;
    if (from->producer == nullptr) return false;
    if (makes_whole_numbers(*from->producer)) return true;
    if (!keeps_numbers(*from->producer)) return false;
    from = from->producer->input(0);
  }
  return false;
}

// The floats of which a Cast makes the indices; null if there are none.
Value* floats_behind(Value* indices) {
  if (indices->type() != TensorProto::INT64 && indices->type() != TensorProto::INT32)
    return nullptr;
  const Node* const cast = maker_of(indices, "Cast");
  if (cast == nullptr) return nullptr;
  Value* const floats = cast->input(0);
  const bool are_floats =
      floats->type() == TensorProto::FLOAT || floats->type() == TensorProto::DOUBLE;
  return are_floats && !floats->is_constant() && are_whole(*floats) ? floats : nullptr;
}

}  // namespace

bool find_rows(Graph& graph, Node& node) {
  if (!node.is("Gather")) return false;
  Value *const table = node.input(0), *const indices = node.input(1);
  const Shape& shape = table->shape();
  if (indices->is_constant() || !is_float(table->type()) || shape.count() == 0 ||
      node.output()->shape().count() == 0)
    return false;
  const Call call = node.call();
  const int axis = call.canonical(call.get_int("axis", 0), shape.rank());
  Value* const floats = floats_behind(indices);
  Value* const rows = floats == nullptr ? indices : floats;
  if (table->is_constant() && !table->weight.empty() && shape.rank() == 2 && axis == 0) {
    graph.substitute_layer(node, "Embed", {rows, table},
                           {int_attribute("input_dim", shape[0]),
                            int_attribute("num_output", shape[1]), int_attribute("bias_term", 0)});
    return true;
  }
  if (floats == nullptr) return false;
  graph.substitute_layer(node, "Gather", {table, rows}, {int_attribute("axis", axis)}).bottoms = 2;
  return true;
}

}  // namespace crema::onnx
