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

// What a Less compares with 0, Casts left out; null if the value is something else.
const Value* compared_with_zero(const Value* value) {
  const Node* const less = maker_of(value, "Less");
  if (less == nullptr || number_of(less->input(1)) != 0.0) return nullptr;
  const Node* const cast = maker_of(less->input(0), "Cast");
  return cast == nullptr ? less->input(0) : cast->input(0);
}

// The factor beside a Cast of what `is_condition` accepts; null if the value is no such product.
template <class IsCondition>
Value* factor_where(const Value* value, const IsCondition& is_condition) {
  const Node* const product = maker_of(value, "Mul");
  if (product == nullptr) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Node* const cast = maker_of(product->input(i), "Cast");
    if (cast != nullptr && is_condition(cast->input(0))) return product->input(1 - i);
  }
  return nullptr;
}

// i, if the indices are i < 0 ? i + rows : i, as Where or, of TensorFlow, as a sum of products:
// Gather counts negative indices from the end by itself.
Value* unwrapped(const Value& indices, int64_t rows) {
  const auto is_negative = [](const Value* i) {
    return [i](const Value* value) { return i != nullptr && compared_with_zero(value) == i; };
  };
  const auto is_raised = [rows](const Value* value, const Value* i) {
    const Node* const sum = maker_of(value, "Add");
    return sum != nullptr && number_of(other_operand(*sum, i)) == static_cast<double>(rows);
  };
  if (const Node* const where = maker_of(&indices, "Where"); where != nullptr) {
    Value* const i = where->input(2);
    return is_negative(i)(where->input(0)) && is_raised(where->input(1), i) ? i : nullptr;
  }
  const Node* const sum = maker_of(&indices, "Add");
  if (sum == nullptr) return nullptr;
  for (size_t k = 0; k < 2; ++k) {
    const Value *const low = sum->input(k), *const high = sum->input(1 - k);
    Value* const i = factor_where(high, [&](const Value* value) {
      const Node* const inverse = maker_of(value, "Not");
      return inverse != nullptr && compared_with_zero(inverse->input(0)) != nullptr;
    });
    if (i == nullptr || !is_raised(factor_where(low, is_negative(i)), i)) continue;
    const auto is_inverse = [&](const Value* value) {
      const Node* const inverse = maker_of(value, "Not");
      return inverse != nullptr && compared_with_zero(inverse->input(0)) == i;
    };
    if (factor_where(high, is_inverse) == i) return i;
  }
  return nullptr;
}

}  // namespace

bool drop_wrapping(Graph& graph, Node& node) {
  if (!node.is("Gather") || node.input(0)->shape().rank() == 0) return false;
  const Call call = node.call();
  const int axis = call.canonical(call.get_int("axis", 0), node.input(0)->shape().rank());
  Value* const plain = unwrapped(*node.input(1), node.input(0)->shape()[axis]);
  if (plain == nullptr || plain->shape() != node.input(1)->shape()) return false;
  graph.set_input(node, 1, plain);
  return true;
}

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
