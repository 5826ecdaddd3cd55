#include "onnx/operators/operator.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "onnx/operators/all.hpp"
#include "onnx/operators/all_b.hpp"

namespace crema::onnx {

namespace {

constexpr int kMaxOutputRank = 64;

std::string operator_key(std::string_view domain, std::string_view name) {
  return text(domain == "ai.onnx" ? std::string_view() : domain, ":", name);
}

// Runs a step of an operator: errors begin with the operator, whoever throws them.
template <class Step>
void run_step(const Call& call, const Step& step) {
  const std::string prefix = call.op() + ": ";
  try {
    step();
  } catch (const Error& error) {
    if (error.message().starts_with(prefix)) throw;
    throw Error(prefix, error.message());
  } catch (const std::bad_alloc&) {
    throw Error(prefix, "there is not enough memory for its values");
  } catch (const std::length_error&) {
    throw Error(prefix, "there is not enough memory for its values");
  }
}

bool fits_bound(const Shape& shape, const Shape& bound) {
  if (shape.rank() != bound.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] > bound[axis]) return false;
  }
  return true;
}

}  // namespace

Call::Call(const NodeProto& node, int64_t opset, std::vector<const Operand*> inputs)
    : node_(node),
      opset_(opset),
      inputs_(std::move(inputs)),
      outputs_(static_cast<size_t>(node.output_size())) {}

const Operand& Call::input(size_t i) const {
  if (!has(i)) fail("input ", i, " is missing");
  return *inputs_[i];
}

const Array& Call::constant(size_t i, std::string_view what) const {
  const Operand& operand = input(i);
  if (!operand.constant) {
    const int index = static_cast<int>(i);
    const std::string name = index < node_.input_size() ? node_.input(index) : std::string();
    fail("input ", i, " ('", name, "'), its ", what,
         ", does not follow from the model alone; sizes have to be fixed: export the model with "
         "fixed shapes, or give the shapes of its inputs");
  }
  return *operand.constant;
}

const AttributeProto* Call::attribute(std::string_view name) const {
  for (const AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

namespace {

// Null if the node has no such attribute. Models of the first versions leave the type out.
const AttributeProto* typed_attribute(const Call& call, std::string_view name,
                                      AttributeProto::AttributeType type) {
  const AttributeProto* const attribute = call.attribute(name);
  if (attribute == nullptr) return nullptr;
  if (!attribute->ref_attr_name().empty())
    call.fail("attribute ", name, " refers to attribute ", attribute->ref_attr_name(),
              " of a function, and stands in none");
  if (attribute->type() != type && attribute->type() != AttributeProto::UNDEFINED)
    call.fail("attribute ", name, " is of type ",
              AttributeProto::AttributeType_Name(attribute->type()), ", not ",
              AttributeProto::AttributeType_Name(type));
  return attribute;
}

}  // namespace

int64_t Call::get_int(std::string_view name, int64_t otherwise) const {
  const AttributeProto* const found = typed_attribute(*this, name, AttributeProto::INT);
  return found == nullptr ? otherwise : found->i();
}

double Call::get_float(std::string_view name, double otherwise) const {
  const AttributeProto* const found = typed_attribute(*this, name, AttributeProto::FLOAT);
  return found == nullptr ? otherwise : static_cast<double>(found->f());
}

std::string Call::get_string(std::string_view name, std::string_view otherwise) const {
  const AttributeProto* const found = typed_attribute(*this, name, AttributeProto::STRING);
  return found == nullptr ? std::string(otherwise) : found->s();
}

std::vector<int64_t> Call::get_ints(std::string_view name,
                                    const std::vector<int64_t>& otherwise) const {
  const AttributeProto* const found = typed_attribute(*this, name, AttributeProto::INTS);
  if (found == nullptr) return otherwise;
  return {found->ints().begin(), found->ints().end()};
}

std::vector<double> Call::get_floats(std::string_view name) const {
  const AttributeProto* const found = typed_attribute(*this, name, AttributeProto::FLOATS);
  if (found == nullptr) return {};
  return {found->floats().begin(), found->floats().end()};
}

std::vector<std::string> Call::get_strings(std::string_view name) const {
  const AttributeProto* const found = typed_attribute(*this, name, AttributeProto::STRINGS);
  if (found == nullptr) return {};
  return {found->strings().begin(), found->strings().end()};
}

std::optional<Array> Call::get_tensor(std::string_view name) const {
  const AttributeProto* const found = typed_attribute(*this, name, AttributeProto::TENSOR);
  if (found == nullptr) return std::nullopt;
  return array_of(found->t());
}

int64_t Call::need_int(std::string_view name) const {
  if (!has_attribute(name)) fail("attribute ", name, " is missing");
  return get_int(name, 0);
}

std::optional<std::vector<int64_t>> Call::ints_of(std::string_view name, size_t i,
                                                  int64_t since) const {
  if (opset_ >= since) {
    if (!has(i)) return std::nullopt;
    return constant(i, name).integers();
  }
  if (!has_attribute(name)) return std::nullopt;
  return get_ints(name);
}

int Call::canonical(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) fail("axis ", axis, " of a scalar; it has no axes");
    fail("axis ", axis, " of a tensor of ", rank, " axes; use ", -rank, " to ", rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> Call::canonical(const std::vector<int64_t>& axes, int rank) const {
  std::vector<int> result;
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (const int64_t axis : axes) {
    const int place = canonical(axis, rank);
    if (seen[static_cast<size_t>(place)])
      fail("axis ", place, " is named twice in axes ", joined(axes));
    seen[static_cast<size_t>(place)] = true;
    result.push_back(place);
  }
  return result;
}

void Call::give(size_t i, ElementType type, const Shape& shape) {
  if (!wants(i)) return;
  if (shape.rank() > kMaxOutputRank)
    fail("output ", i, " would have ", shape.rank(), " axes; ", kMaxOutputRank, " are supported");
  checked_count(shape);
  outputs_[i] = {.type = type, .shape = shape, .constant = std::nullopt, .is_bound = false};
}

void Call::give_bound(size_t i, ElementType type, const Shape& bound) {
  give(i, type, bound);
  if (wants(i)) outputs_[i].is_bound = true;
}

void Call::give(size_t i, Array values) {
  if (!wants(i)) return;
  outputs_[i].type = values.type();
  outputs_[i].shape = values.shape();
  outputs_[i].is_bound = false;
  outputs_[i].constant = std::move(values);
}

const OperatorTable& OperatorTable::instance() {
  static const OperatorTable table;
  return table;
}

OperatorTable::OperatorTable() {
  add_function_operators(*this);
  add_arithmetic_operators(*this);
  add_type_operators(*this);
  add_constant_operators(*this);
  add_shape_operators(*this);
  add_slicing_operators(*this);
  add_gathering_operators(*this);
  add_scattering_operators(*this);
  add_choosing_operators(*this);
  add_scan_operators(*this);
  add_attention_operators(*this);
  add_convolution_operators(*this);
  add_einsum_operators(*this);
  add_loss_operators(*this);
  add_normalization_operators(*this);
  add_pooling_operators(*this);
  add_product_operators(*this);
  add_quantization_operators(*this);
  add_recurrent_operators(*this);
  add_reduction_operators(*this);
  add_region_operators(*this);
  add_resize_operators(*this);
  add_sampling_operators(*this);
  add_selection_operators(*this);
  add_signal_operators(*this);
}

void OperatorTable::add(Operator entry) {
  std::string key = operator_key(entry.domain, entry.name);
  if (!operators_.try_emplace(std::move(key), std::move(entry)).second)
    throw Error("operator ", entry.name, " is added to the table twice");
}

const Operator* OperatorTable::find(std::string_view domain, std::string_view name) const {
  const auto found = operators_.find(operator_key(domain, name));
  return found == operators_.end() ? nullptr : &found->second;
}

std::vector<std::string> OperatorTable::names() const {
  std::vector<std::string> result;
  for (const auto& [key, entry] : operators_) {
    result.push_back(entry.domain.empty() ? entry.name : text(entry.domain, ".", entry.name));
  }
  return result;
}

void infer(const Operator& entry, Call& call) {
  const auto outputs = static_cast<size_t>(call.node().output_size());
  run_step(call, [&] {
    if (call.inputs() > entry.max_inputs)
      call.fail("it has ", call.inputs(), " inputs, and takes up to ", entry.max_inputs);
    if (outputs > entry.max_outputs)
      call.fail("it has ", outputs, " outputs, and gives up to ", entry.max_outputs);
    bool is_bound = false;
    for (size_t i = 0; i < std::max(call.inputs(), entry.min_inputs); ++i) {
      if (!call.has(i) && i >= entry.min_inputs) continue;
      const Operand& operand = call.input(i);
      if (!is_supported(operand.type))
        call.fail("input ", i, " has values of ", type_name(operand.type),
                  "; floats of 16 to 64 bits, integers of 8 to 64 bits and BOOL are supported");
      is_bound = is_bound || operand.is_bound;
    }
    entry.infer(call);
    for (size_t i = 0; i < outputs; ++i) {
      if (!call.wants(i)) continue;
      const Operand output = call.output(i);
      if (output.type == TensorProto::UNDEFINED)
        call.fail("output ", i, " ('", call.node().output(static_cast<int>(i)),
                  "') is one that it does not give with these attributes and inputs");
      checked_count(output.shape);
      // What follows from a bound is one.
      if (is_bound && !output.constant) call.give_bound(i, output.type, output.shape);
    }
  });
}

void evaluate(const Operator& entry, Call& call) {
  infer(entry, call);
  run_step(call, [&] {
    std::vector<Operand> inferred;
    bool is_done = true;
    for (size_t i = 0; i < call.outputs(); ++i) {
      const Operand output = call.output(i);
      inferred.push_back(output);
      if (!call.wants(i) || output.constant) continue;
      // Without elements, an output has no values to wait for.
      const bool is_empty = !output.is_bound && output.shape.count() == 0;
      if (is_empty) call.give(i, Array(output.type, output.shape));
      is_done = is_done && is_empty;
    }
    if (is_done) return;
    if (entry.evaluate == nullptr)
      call.fail("its values are computed by a layer alone, not from constants");
    for (size_t i = 0; i < call.inputs(); ++i) {
      if (call.has(i)) call.constant(i, "values");
    }
    entry.evaluate(call);
    for (size_t i = 0; i < call.outputs(); ++i) {
      if (!call.wants(i)) continue;
      const Operand& output = call.output(i);
      const Operand& expected = inferred[i];
      if (!output.constant) call.fail("output ", i, " has no values");
      const bool fits = expected.is_bound ? fits_bound(output.shape, expected.shape)
                                          : output.shape == expected.shape;
      if (!fits || output.type != expected.type)
        call.fail("output ", i, " came out as ", type_name(output.type), " of shape ",
                  output.shape.str(), " where ", type_name(expected.type), " of shape ",
                  expected.shape.str(), " was expected");
    }
  });
}

}  // namespace crema::onnx
