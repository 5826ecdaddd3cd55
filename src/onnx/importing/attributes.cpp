#include "onnx/importing/attributes.hpp"

namespace crema::onnx {

namespace {

AttributeProto empty_attribute(std::string_view name, AttributeProto::AttributeType type) {
  AttributeProto attribute;
  attribute.set_name(std::string(name));
  attribute.set_type(type);
  return attribute;
}

}  // namespace

AttributeProto int_attribute(std::string_view name, int64_t value) {
  AttributeProto attribute = empty_attribute(name, AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}

AttributeProto float_attribute(std::string_view name, double value) {
  AttributeProto attribute = empty_attribute(name, AttributeProto::FLOAT);
  attribute.set_f(static_cast<float>(value));
  return attribute;
}

AttributeProto ints_attribute(std::string_view name, const std::vector<int64_t>& values) {
  AttributeProto attribute = empty_attribute(name, AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
  return attribute;
}

AttributeProto string_attribute(std::string_view name, std::string_view value) {
  AttributeProto attribute = empty_attribute(name, AttributeProto::STRING);
  attribute.set_s(std::string(value));
  return attribute;
}

void remove_attribute(NodeProto& node, std::string_view name) {
  for (int i = node.attribute_size() - 1; i >= 0; --i) {
    if (node.attribute(i).name() == name) node.mutable_attribute()->DeleteSubrange(i, 1);
  }
}

void set_attribute(NodeProto& node, AttributeProto attribute) {
  remove_attribute(node, attribute.name());
  *node.add_attribute() = std::move(attribute);
}

}  // namespace crema::onnx
