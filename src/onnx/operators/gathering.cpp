// Operators that read at indices which are values: Gather, GatherElements, GatherND.

#include "onnx/operators/all.hpp"
#include "onnx/operators/sources.hpp"

namespace crema::onnx {

namespace {

int gather_axis(const Call& call) {
  return call.canonical(call.get_int("axis", 0), call.shape(0).rank());
}

void need_indices(const Call& call, size_t i) {
  if (call.type(i) != TensorProto::INT64 && call.type(i) != TensorProto::INT32)
    call.fail("indices of ", type_name(call.type(i)), "; they are INT32 or INT64");
}

void infer_gather(Call& call) {
  need_indices(call, 1);
  const Shape& from = call.shape(0);
  const int axis = gather_axis(call);
  std::vector<int64_t> dims(from.dims().begin(), from.dims().begin() + axis);
  const std::vector<int64_t>& places = call.shape(1).dims();
  dims.insert(dims.end(), places.begin(), places.end());
  dims.insert(dims.end(), from.dims().begin() + axis + 1, from.dims().end());
  call.give(0, call.type(0), Shape(dims));
}

void evaluate_gather(Call& call) {
  const Array& x = call.constant(0, "values");
  const int axis = gather_axis(call);
  std::vector<std::vector<int64_t>> indices = all_indices(x.shape());
  std::vector<int64_t>& places = indices[static_cast<size_t>(axis)];
  places = call.constant(1, "indices").integers();
  for (int64_t& place : places) place = checked_index(place, x.shape()[axis]);
  call.give(0, x.taken(call.output(0).shape, sources_at(x.shape(), std::move(indices))));
}

void infer_gather_elements(Call& call) {
  need_indices(call, 1);
  const Shape& from = call.shape(0);
  const Shape& to = call.shape(1);
  const int axis = gather_axis(call);
  if (to.rank() != from.rank())
    call.fail("indices of shape ", to.str(), " for values of shape ", from.str());
  for (int k = 0; k < to.rank(); ++k) {
    if (k != axis && to[k] > from[k])
      call.fail("indices of shape ", to.str(), " exceed values of shape ", from.str(), " in axis ",
                k);
  }
  call.give(0, call.type(0), to);
}

void evaluate_gather_elements(Call& call) {
  const Array& x = call.constant(0, "values");
  const Array& where = call.constant(1, "indices");
  const auto axis = static_cast<size_t>(gather_axis(call));
  const int64_t size = x.shape()[static_cast<int>(axis)];
  const int64_t stride = strides_of(x.shape())[axis];
  std::vector<std::vector<int64_t>> indices = all_indices(where.shape());
  for (int64_t& index : indices[axis]) index = 0;
  std::vector<int64_t> sources = sources_at(x.shape(), std::move(indices));
  const std::vector<int64_t> places = where.integers();
  for (size_t i = 0; i < sources.size(); ++i) sources[i] += checked_index(places[i], size) * stride;
  call.give(0, x.taken(where.shape(), sources));
}

struct GatherPlan {
  int batch = 0;   // leading axes that values and indices have in common
  int places = 0;  // axes that an index goes through
};

GatherPlan gather_plan(const Call& call) {
  const Shape& from = call.shape(0);
  const Shape& where = call.shape(1);
  const int64_t batch = call.get_int("batch_dims", 0);
  if (from.rank() < 1 || where.rank() < 1 || batch < 0 || batch >= from.rank() ||
      batch >= where.rank())
    call.fail("batch_dims ", batch, " for values of shape ", from.str(), " and indices of shape ",
              where.str());
  GatherPlan plan;
  plan.batch = static_cast<int>(batch);
  for (int axis = 0; axis < plan.batch; ++axis) {
    if (from[axis] != where[axis])
      call.fail("values of shape ", from.str(), " and indices of shape ", where.str(),
                " differ in batch axis ", axis);
  }
  const int64_t places = where[-1];
  if (places < 1 || places > from.rank() - plan.batch)
    call.fail("indices of ", places, " numbers into values of shape ", from.str(), " behind ",
              plan.batch, " batch axes");
  plan.places = static_cast<int>(places);
  return plan;
}

void infer_gather_nd(Call& call) {
  if (call.type(1) != TensorProto::INT64)
    call.fail("indices of ", type_name(call.type(1)), "; they are INT64");
  const GatherPlan plan = gather_plan(call);
  const std::vector<int64_t>& from = call.shape(0).dims();
  std::vector<int64_t> dims = call.shape(1).dims();
  dims.pop_back();
  dims.insert(dims.end(), from.begin() + plan.batch + plan.places, from.end());
  call.give(0, call.type(0), Shape(dims));
}

void evaluate_gather_nd(Call& call) {
  const Array& x = call.constant(0, "values");
  const Array& where = call.constant(1, "indices");
  const GatherPlan plan = gather_plan(call);
  const Shape& to = call.output(0).shape;
  const std::vector<int64_t> numbers = where.integers();
  const std::vector<int64_t> strides = strides_of(x.shape());
  std::vector<int64_t> sources;
  sources.reserve(static_cast<size_t>(checked_count(to)));
  const int64_t run = x.shape().count(plan.batch + plan.places);
  const int64_t each_batch = x.shape().count(plan.batch);
  const int64_t tuples = where.shape().count(0, where.shape().rank() - 1);
  const int64_t in_batch = where.shape().count(plan.batch, where.shape().rank() - 1);
  for (int64_t i = 0; i < tuples; ++i) {
    int64_t place = i / in_batch * each_batch;
    for (int k = 0; k < plan.places; ++k) {
      const int axis = plan.batch + k;
      const int64_t number = numbers[static_cast<size_t>(i * plan.places + k)];
      place += checked_index(number, x.shape()[axis]) * strides[static_cast<size_t>(axis)];
    }
    for (int64_t k = 0; k < run; ++k) sources.push_back(place + k);
  }
  call.give(0, x.taken(to, sources));
}

void add_gathering(OperatorTable& table, const char* name, void (*infer)(Call&),
                   void (*evaluate)(Call&)) {
  table.add({.name = name, .min_inputs = 2, .max_inputs = 2, .infer = infer, .evaluate = evaluate});
}

}  // namespace

void add_gathering_operators(OperatorTable& table) {
  add_gathering(table, "Gather", infer_gather, evaluate_gather);
  add_gathering(table, "GatherElements", infer_gather_elements, evaluate_gather_elements);
  add_gathering(table, "GatherND", infer_gather_nd, evaluate_gather_nd);
}

}  // namespace crema::onnx
