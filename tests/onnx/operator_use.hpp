// One use of an operator of ONNX in a test: inputs, attributes, and what comes out.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/operators/operator.hpp"

namespace crema::onnx {

inline constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline Array floats(Shape shape, std::vector<double> values,
                    ElementType type = TensorProto::FLOAT) {
  return Array::of_doubles(type, std::move(shape), values);
}
inline Array integers(Shape shape, std::vector<int64_t> values,
                      ElementType type = TensorProto::INT64) {
  return Array::of_integers(type, std::move(shape), values);
}
/// A vector.
inline Array indices(std::vector<int64_t> values) { return Array::of_indices(values); }
inline Array bools(Shape shape, std::vector<int64_t> values) {
  return integers(std::move(shape), std::move(values), TensorProto::BOOL);
}

class Use {
 public:
  explicit Use(std::string_view op, int64_t opset = 21) : opset_(opset) {
    node_.set_op_type(std::string(op));
    node_.add_output("y0");
  }

  Use& in(Array values) {
    operands_.push_back({values.type(), values.shape(), values, false});
    given_.push_back(operands_.size() - 1);
    node_.add_input("x" + std::to_string(given_.size() - 1));
    return *this;
  }
  /// An input whose values are not known.
  Use& unknown(ElementType type, const Shape& shape, bool is_bound = false) {
    operands_.push_back({type, shape, std::nullopt, is_bound});
    given_.push_back(operands_.size() - 1);
    node_.add_input("x" + std::to_string(given_.size() - 1));
    return *this;
  }
  Use& none() {
    given_.push_back(std::nullopt);
    node_.add_input("");
    return *this;
  }
  Use& outputs(int count) {
    while (node_.output_size() < count) node_.add_output("y" + std::to_string(node_.output_size()));
    return *this;
  }
  Use& set(std::string_view name, int64_t value) {
    auto& attribute = add(name, AttributeProto::INT);
    attribute.set_i(value);
    return *this;
  }
  Use& set(std::string_view name, double value) {
    add(name, AttributeProto::FLOAT).set_f(static_cast<float>(value));
    return *this;
  }
  Use& set(std::string_view name, const char* value) {
    add(name, AttributeProto::STRING).set_s(value);
    return *this;
  }
  Use& set(std::string_view name, const std::vector<int64_t>& values) {
    auto& attribute = add(name, AttributeProto::INTS);
    for (const int64_t value : values) attribute.add_ints(value);
    return *this;
  }
  Use& set_floats(std::string_view name, const std::vector<double>& values) {
    auto& attribute = add(name, AttributeProto::FLOATS);
    for (const double value : values) attribute.add_floats(static_cast<float>(value));
    return *this;
  }
  Use& set(std::string_view name, const Array& value) {
    *add(name, AttributeProto::TENSOR).mutable_t() = message_of(value, "");
    return *this;
  }

  /// The values of all outputs.
  std::vector<Array> run() const {
    Call call(node_, opset_, given());
    evaluate(entry(), call);
    std::vector<Array> results;
    for (size_t i = 0; i < call.outputs(); ++i) results.push_back(call.output(i).constant.value());
    return results;
  }
  Array result() const { return run().front(); }
  /// What is known of all outputs without the operator's values.
  std::vector<Operand> inferred() const {
    Call call(node_, opset_, given());
    infer(entry(), call);
    std::vector<Operand> results;
    for (size_t i = 0; i < call.outputs(); ++i) results.push_back(call.output(i));
    return results;
  }

 private:
  AttributeProto& add(std::string_view name, AttributeProto::AttributeType type) {
    AttributeProto& attribute = *node_.add_attribute();
    attribute.set_name(std::string(name));
    attribute.set_type(type);
    return attribute;
  }
  std::vector<const Operand*> given() const {
    std::vector<const Operand*> result;
    for (const std::optional<size_t>& place : given_)
      result.push_back(place ? &operands_[*place] : nullptr);
    return result;
  }
  const Operator& entry() const {
    const Operator* const found = OperatorTable::instance().find("", node_.op_type());
    if (found == nullptr) throw Error("no operator ", node_.op_type());
    return *found;
  }

  NodeProto node_;
  int64_t opset_;
  std::vector<Operand> operands_;
  std::vector<std::optional<size_t>> given_;  // places in operands_
};

/// Shape and values, to 1e-6 of each value; NaN matches NaN.
inline void expect_array(const Array& array, const Shape& shape,
                         const std::vector<double>& values) {
  EXPECT_EQ(array.shape(), shape);
  const std::vector<double> found = array.doubles();
  ASSERT_EQ(found.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << "element " << i << ": " << found[i];
    } else if (std::isinf(values[i])) {
      EXPECT_EQ(found[i], values[i]) << "element " << i;
    } else {
      EXPECT_NEAR(found[i], values[i], 1e-6 * std::max(1.0, std::abs(values[i])))
          << "element " << i;
    }
  }
}

/// Exactly these integers.
inline void expect_integers(const Array& array, ElementType type, const Shape& shape,
                            const std::vector<int64_t>& values) {
  EXPECT_EQ(array.type(), type);
  EXPECT_EQ(array.shape(), shape);
  EXPECT_EQ(array.integers(), values);
}

}  // namespace crema::onnx
