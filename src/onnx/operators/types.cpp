// Operators that change or pass on what values are, not where they lie: Cast, Identity, Dropout.

#include "onnx/operators/all.hpp"

namespace crema::onnx {

namespace {

ElementType supported_type(const Call& call, int64_t number) {
  const int type = static_cast<int>(number);
  if (type != number || !TensorProto::DataType_IsValid(type) ||
      !is_supported(static_cast<ElementType>(type)))
    call.fail("to ", type_name(type),
              "; floats of 16 to 64 bits, integers of 8 to 64 bits and BOOL are supported");
  return static_cast<ElementType>(type);
}

ElementType cast_type(const Call& call) {
  return call.op() == "CastLike" ? call.type(1) : supported_type(call, call.need_int("to"));
}

void infer_cast(Call& call) { call.give(0, cast_type(call), call.shape(0)); }

void evaluate_cast(Call& call) { call.give(0, call.constant(0, "values").cast(cast_type(call))); }

void infer_bit_cast(Call& call) {
  const ElementType type = cast_type(call);
  if (element_size(type) != element_size(call.type(0)))
    call.fail("the bits of ", type_name(call.type(0)), " as ", type_name(type),
              ", which has another size");
  if (type == TensorProto::BOOL) call.fail("bits are no BOOL");
  call.give(0, type, call.shape(0));
}

void evaluate_bit_cast(Call& call) {
  const Array& x = call.constant(0, "values");
  call.give(0, Array(cast_type(call), x.shape(), {x.bytes().begin(), x.bytes().end()}));
}

void infer_identity(Call& call) { call.give(0, call.type(0), call.shape(0)); }
void evaluate_identity(Call& call) { call.give(0, call.constant(0, "values")); }

void infer_dropout(Call& call) {
  const bool drops = call.has(2) && call.constant(2, "training_mode").at(0) != 0 &&
                     (!call.has(1) || call.constant(1, "ratio").at(0) != 0);
  if (drops) call.fail("it is in training mode; export the model for inference");
  call.give(0, call.type(0), call.shape(0));
  call.give(1, call.opset() < 10 ? call.type(0) : TensorProto::BOOL, call.shape(0));
}

void evaluate_dropout(Call& call) {
  const Array& x = call.constant(0, "values");
  const std::vector<int64_t> kept(static_cast<size_t>(x.count()), 1);
  call.give(0, x);
  call.give(1,
            Array::of_integers(call.opset() < 10 ? x.type() : TensorProto::BOOL, x.shape(), kept));
}

}  // namespace

void add_type_operators(OperatorTable& table) {
  table.add({.name = "Cast", .infer = infer_cast, .evaluate = evaluate_cast});
  table.add({.name = "CastLike",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_cast,
             .evaluate = evaluate_cast});
  table.add({.name = "BitCast", .infer = infer_bit_cast, .evaluate = evaluate_bit_cast});
  table.add({.name = "Identity", .infer = infer_identity, .evaluate = evaluate_identity});
  table.add({.name = "Dropout",
             .max_inputs = 3,
             .max_outputs = 2,
             .infer = infer_dropout,
             .evaluate = evaluate_dropout});
}

}  // namespace crema::onnx
