// OnnxOperator: an operator of ONNX that no other layer computes. See README.md.
#include <optional>

#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "onnx/operators/operator.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using onnx::Array;
using onnx::Call;
using onnx::NodeProto;
using onnx::Operand;
using onnx::Operator;
using onnx::TensorProto;

constexpr int kMaxInputs = 1 << 16;

class OnnxOperatorLayer : public Layer {
 public:
  explicit OnnxOperatorLayer(const LayerInit& init);

  Arity arity() const override {
    return {.min_bottoms = 0, .max_bottoms = -1, .min_tops = 1, .max_tops = -1};
  }
  bool can_propagate(int) const override { return false; }
  bool is_exact_top(int) const override { return true; }
  TopShapes top_shapes() const override {
    return is_bound_ ? TopShapes::from_values : TopShapes::fixed;
  }
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  void forward_cpu(Blobs bottom, Blobs top) override;

 private:
  void read_inputs(const OnnxOperatorParameter& settings);
  void read_outputs(const OnnxOperatorParameter& settings);
  Call call_with(Blobs bottom, std::vector<Operand>& operands, bool has_values) const;

  const Operator* operator_ = nullptr;
  NodeProto node_;
  int64_t opset_ = 1;
  std::vector<int> inputs_;                      // the bottom of each input; -1: none
  std::vector<std::optional<Array>> constants_;  // of each input
  std::vector<onnx::ElementType> bottom_types_;
  std::vector<size_t> outputs_;  // of the operator, one a top
  bool is_bound_ = false;
};

OnnxOperatorLayer::OnnxOperatorLayer(const LayerInit& init) : Layer(init) {
  const OnnxOperatorParameter& settings = init.param.onnx_operator_param();
  operator_ = onnx::OperatorTable::instance().find(settings.domain(), settings.op_type());
  if (operator_ == nullptr)
    throw Error("op_type '", settings.op_type(), "' is no operator that Crema knows",
                did_you_mean(settings.op_type(), onnx::OperatorTable::instance().names()));
  if (operator_->evaluate == nullptr)
    throw Error("op_type ", settings.op_type(),
                " is computed by layers of its own; import the model again");
  node_.set_op_type(settings.op_type());
  node_.set_domain(settings.domain());
  *node_.mutable_attribute() = settings.attribute();
  opset_ = settings.has_opset() ? settings.opset() : 1;
  read_inputs(settings);
  read_outputs(settings);
}

void OnnxOperatorLayer::read_inputs(const OnnxOperatorParameter& settings) {
  const int bottoms = param().bottom_size();
  if (settings.bottom_type_size() != bottoms)
    throw Error("bottom_type has ", settings.bottom_type_size(), " types for ", bottoms,
                " bottoms; give one for each");
  for (const int type : settings.bottom_type()) {
    bottom_types_.push_back(static_cast<onnx::ElementType>(type));
    if (!onnx::is_supported(bottom_types_.back()))
      throw Error("bottom_type ", onnx::type_name(type), " is not supported");
  }
  if (settings.input_size() > kMaxInputs)
    throw Error("input has ", settings.input_size(), " numbers");
  for (const int input : settings.input()) {
    if (input < -1 || input >= bottoms)
      throw Error("input ", input, " is no bottom; there are ", bottoms);
    inputs_.push_back(input);
  }
  for (int i = 0; i < bottoms && settings.input_size() == 0; ++i) inputs_.push_back(i);
  constants_.resize(inputs_.size());
  for (const OnnxOperatorParameter::Constant& constant : settings.constant()) {
    const auto place = static_cast<size_t>(constant.input());
    if (constant.input() < 0 || constant.input() >= kMaxInputs)
      throw Error("constant of input ", constant.input(), "; count them from 0");
    if (place >= inputs_.size()) {
      inputs_.resize(place + 1, -1);
      constants_.resize(place + 1);
    }
    if (inputs_[place] != -1)
      throw Error("input ", place, " is both a constant and bottom ", inputs_[place]);
    constants_[place] = onnx::array_of(constant.value());
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const bool is_given = inputs_[i] >= 0 || constants_[i].has_value();
    node_.add_input(is_given ? text("input ", i) : std::string());
  }
}

void OnnxOperatorLayer::read_outputs(const OnnxOperatorParameter& settings) {
  const int tops = param().top_size();
  if (settings.output_size() != 0 && settings.output_size() != tops)
    throw Error("output has ", settings.output_size(), " numbers for ", tops,
                " tops; give one for each");
  for (int i = 0; i < tops; ++i) {
    const int output = settings.output_size() == 0 ? i : settings.output(i);
    if (output < 0 || output >= kMaxInputs) throw Error("output ", output, "; count them from 0");
    while (node_.output_size() <= output) node_.add_output("");
    if (!node_.output(output).empty()) throw Error("output ", output, " is that of two tops");
    node_.set_output(output, text("output ", output));
    outputs_.push_back(static_cast<size_t>(output));
  }
}

// The operator's inputs in the present shapes, with the values of the bottoms or without.
Call OnnxOperatorLayer::call_with(Blobs bottom, std::vector<Operand>& operands,
                                  bool has_values) const {
  operands.assign(inputs_.size(), {});
  std::vector<const Operand*> given;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Operand& operand = operands[i];
    if (constants_[i]) {
      operand = {.type = constants_[i]->type(),
                 .shape = constants_[i]->shape(),
                 .constant = constants_[i]};
    } else if (inputs_[i] >= 0) {
      const auto place = static_cast<size_t>(inputs_[i]);
      const Tensor& data = bottom[place]->data;
      operand.type = bottom_types_[place];
      operand.shape = data.shape();
      if (has_values) {
        dispatch_float(data.dtype(), [&]<class T>(T) {
          const T* const values = data.read<T>();
          const std::vector<double> numbers(values, values + data.count());
          operand.constant = Array::of_doubles(operand.type, operand.shape, numbers);
        });
      }
    } else {
      given.push_back(nullptr);
      continue;
    }
    given.push_back(&operand);
  }
  return Call(node_, opset_, std::move(given));
}

void OnnxOperatorLayer::setup(Blobs bottom, Blobs) {
  std::vector<Operand> operands;
  Call call = call_with(bottom, operands, false);
  infer(*operator_, call);
  for (const size_t output : outputs_) is_bound_ = is_bound_ || call.output(output).is_bound;
}

void OnnxOperatorLayer::reshape(Blobs bottom, Blobs top) {
  std::vector<Operand> operands;
  Call call = call_with(bottom, operands, false);
  infer(*operator_, call);
  for (size_t i = 0; i < top.size(); ++i) top[i]->reshape(call.output(outputs_[i]).shape);
}

void OnnxOperatorLayer::forward_cpu(Blobs bottom, Blobs top) {
  std::vector<Operand> operands;
  Call call = call_with(bottom, operands, true);
  evaluate(*operator_, call);
  for (size_t i = 0; i < top.size(); ++i) {
    const Operand& output = call.output(outputs_[i]);
    if (is_bound_) top[i]->reshape(output.shape);
    if (top[i]->shape() != output.shape)
      throw Error("output ", outputs_[i], " has shape ", output.shape.str(), " now, not ",
                  top[i]->shape().str());
    const std::vector<double> numbers = output.constant->doubles();
    dispatch_float(top[i]->data.dtype(), [&]<class T>(T) {
      T* const values = top[i]->data.overwrite<T>();
      for (size_t k = 0; k < numbers.size(); ++k) values[k] = static_cast<T>(numbers[k]);
    });
  }
}

}  // namespace

void register_onnx_operator(Registry& registry) { registry.add<OnnxOperatorLayer>("OnnxOperator"); }

}  // namespace crema
