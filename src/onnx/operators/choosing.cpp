// Operators that choose elements by values: Where, Compress, NonZero, Unique, OneHot.

#include <algorithm>
#include <cmath>
#include <span>

#include "onnx/operators/all.hpp"
#include "onnx/operators/sources.hpp"
#include "onnx/operators/spread.hpp"

namespace crema::onnx {

namespace {

void infer_where(Call& call) {
  if (call.type(0) != TensorProto::BOOL)
    call.fail("the condition is ", type_name(call.type(0)), "; it is BOOL");
  if (call.type(1) != call.type(2))
    call.fail("it chooses between ", type_name(call.type(1)), " and ", type_name(call.type(2)));
  call.give(0, call.type(1), broadcast(broadcast(call.shape(0), call.shape(1)), call.shape(2)));
}

void evaluate_where(Call& call) {
  const Array& condition = call.constant(0, "condition");
  const Array& yes = call.constant(1, "values");
  const Array& no = call.constant(2, "values");
  const Shape& shape = call.output(0).shape;
  const auto marks = spread(condition.integers(), condition.shape(), shape);
  std::vector<int64_t> sources = broadcast_sources(yes.shape(), shape);
  const std::vector<int64_t> others = broadcast_sources(no.shape(), shape);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (marks[i] == 0) sources[i] = yes.count() + others[i];
  }
  const Array* const parts[] = {&yes, &no};
  call.give(0, chained(parts).taken(shape, sources));
}

// Values that are not cut along an axis are cut as a vector.
Shape compressed_view(const Call& call, int& axis) {
  const Shape& shape = call.shape(0);
  axis = 0;
  if (!call.has_attribute("axis")) return Shape{shape.count()};
  axis = call.canonical(call.need_int("axis"), shape.rank());
  return shape;
}

std::vector<int64_t> marked(const Call& call, int64_t size) {
  const std::vector<int64_t> marks = call.constant(1, "condition").integers();
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] == 0) continue;
    chosen.push_back(checked_index(static_cast<int64_t>(i), size));
  }
  return chosen;
}

void infer_compress(Call& call) {
  if (call.type(1) != TensorProto::BOOL || call.shape(1).rank() != 1)
    call.fail("the condition is ", type_name(call.type(1)), " of shape ", call.shape(1).str(),
              "; it is a vector of BOOL");
  int axis = 0;
  Shape shape = compressed_view(call, axis);
  const int64_t size = shape[axis];
  if (call.is_constant(1)) {
    shape.set(axis, static_cast<int64_t>(marked(call, size).size()));
    return call.give(0, call.type(0), shape);
  }
  shape.set(axis, std::min(size, call.shape(1)[0]));
  call.give_bound(0, call.type(0), shape);
}

void evaluate_compress(Call& call) {
  int axis = 0;
  Shape shape = compressed_view(call, axis);
  const Array x = call.constant(0, "values").reshaped(shape);
  std::vector<std::vector<int64_t>> indices = all_indices(shape);
  indices[static_cast<size_t>(axis)] = marked(call, shape[axis]);
  shape.set(axis, static_cast<int64_t>(indices[static_cast<size_t>(axis)].size()));
  call.give(0, x.taken(shape, sources_at(x.shape(), std::move(indices))));
}

void infer_non_zero(Call& call) {
  call.give_bound(0, TensorProto::INT64, Shape{call.shape(0).rank(), call.shape(0).count()});
}

void evaluate_non_zero(Call& call) {
  const Array& x = call.constant(0, "values");
  const std::vector<int64_t> strides = strides_of(x.shape());
  std::vector<int64_t> places;
  const int64_t count = x.count();
  for (int64_t i = 0; i < count; ++i) {
    if (x.at(i) != 0) places.push_back(i);
  }
  std::vector<int64_t> result;
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    for (const int64_t place : places)
      result.push_back(place / strides[static_cast<size_t>(axis)] % x.shape()[axis]);
  }
  call.give(0, Array::of_integers(TensorProto::INT64,
                                  {x.shape().rank(), static_cast<int64_t>(places.size())}, result));
}

/// Of Unique: the axis whose slices are compared; without one, the elements are.
struct UniquePlan {
  Shape view;
  int axis = 0;
};

UniquePlan unique_plan(const Call& call) {
  UniquePlan plan;
  plan.view = compressed_view(call, plan.axis);
  return plan;
}

void infer_unique(Call& call) {
  const UniquePlan plan = unique_plan(call);
  const int64_t size = plan.view[plan.axis];
  call.give_bound(0, call.type(0), plan.view);
  call.give_bound(1, TensorProto::INT64, Shape{size});
  call.give(2, TensorProto::INT64, Shape{size});
  call.give_bound(3, TensorProto::INT64, Shape{size});
}

// NaN comes last, and is equal to itself.
bool comes_before(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }
bool comes_before(int64_t a, int64_t b) { return a < b; }

/// Which slices are equal: the first slice of each group, in the groups' order, and each one's
/// group.
struct Groups {
  std::vector<int64_t> first;
  std::vector<int64_t> count;
  std::vector<int64_t> group;
};

// `slices` has `size` slices of `width` values.
template <class T>
Groups grouped(const std::vector<T>& slices, int64_t size, int64_t width, bool sorted) {
  const auto less = [&](int64_t a, int64_t b) {
    const auto left = slices.begin() + a * width;
    const auto right = slices.begin() + b * width;
    return std::lexicographical_compare(left, left + width, right, right + width,
                                        [](T x, T y) { return comes_before(x, y); });
  };
  std::vector<int64_t> order = steps(size);
  std::stable_sort(order.begin(), order.end(), less);
  std::vector<std::vector<int64_t>> sets;
  for (const int64_t slice : order) {
    if (sets.empty() || less(sets.back().front(), slice)) sets.emplace_back();
    sets.back().push_back(slice);
  }
  if (!sorted)
    std::sort(sets.begin(), sets.end(),
              [](const auto& a, const auto& b) { return a.front() < b.front(); });
  Groups groups;
  groups.group.resize(static_cast<size_t>(size));
  for (const std::vector<int64_t>& set : sets) {
    for (const int64_t slice : set)
      groups.group[static_cast<size_t>(slice)] = static_cast<int64_t>(groups.first.size());
    groups.first.push_back(set.front());
    groups.count.push_back(static_cast<int64_t>(set.size()));
  }
  return groups;
}

// Of slices without elements, all are equal. There may be any number of them, which takes memory
// only where the model wants an index for each.
void give_unique_of_nothing(Call& call, const UniquePlan& plan) {
  const int64_t size = plan.view[plan.axis];
  Shape shape = plan.view;
  shape.set(plan.axis, std::min<int64_t>(size, 1));
  call.give(0, Array(call.type(0), shape));
  const std::vector<int64_t> zero{0}, count{size};
  const auto groups = static_cast<size_t>(shape[plan.axis]);
  call.give(1, Array::of_indices(std::span(zero).first(groups)));
  if (call.wants(2)) call.give(2, Array(TensorProto::INT64, Shape{size}));
  call.give(3, Array::of_indices(std::span(count).first(groups)));
}

void evaluate_unique(Call& call) {
  const UniquePlan plan = unique_plan(call);
  const Array x = call.constant(0, "values").reshaped(plan.view);
  if (x.count() == 0) return give_unique_of_nothing(call, plan);
  const int64_t size = plan.view[plan.axis];
  const bool sorted = call.get_int("sorted", 1) != 0;
  const int64_t inner = plan.view.count(plan.axis + 1);
  const int64_t outer = plan.view.count(0, plan.axis);
  // The values of a slice one after the other.
  std::vector<int64_t> order;
  for (int64_t slice = 0; slice < size; ++slice) {
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t k = 0; k < inner; ++k) order.push_back((i * size + slice) * inner + k);
    }
  }
  const Array slices = x.taken(plan.view, order);
  Groups groups;
  if (is_float(x.type())) {
    groups = grouped(slices.doubles(), size, outer * inner, sorted);
  } else {
    std::vector<int64_t> values = slices.integers();
    // The bits of UINT64 are in the order of its values with the upper one turned.
    if (x.type() == TensorProto::UINT64) {
      for (int64_t& value : values)
        value = static_cast<int64_t>(static_cast<uint64_t>(value) ^ (uint64_t{1} << 63));
    }
    groups = grouped(values, size, outer * inner, sorted);
  }
  std::vector<std::vector<int64_t>> indices = all_indices(plan.view);
  indices[static_cast<size_t>(plan.axis)] = groups.first;
  Shape shape = plan.view;
  shape.set(plan.axis, static_cast<int64_t>(groups.first.size()));
  call.give(0, x.taken(shape, sources_at(plan.view, std::move(indices))));
  call.give(1, Array::of_indices(groups.first));
  call.give(2, Array::of_indices(groups.group));
  call.give(3, Array::of_indices(groups.count));
}

int64_t one_hot_depth(const Call& call) {
  const Array& depth = call.constant(1, "depth");
  if (depth.count() != 1) call.fail("depth has shape ", depth.shape().str(), "; it is one number");
  const double number = depth.at(0);
  if (!(number >= 0 && number <= 2147483648.0))
    call.fail("depth is ", number, "; it is from 0 to 2^31");
  return static_cast<int64_t>(number);
}

int one_hot_axis(const Call& call) {
  return call.canonical(call.get_int("axis", -1), call.shape(0).rank() + 1);
}

void infer_one_hot(Call& call) {
  if (call.shape(2) != Shape{2})
    call.fail("values of shape ", call.shape(2).str(), "; they are two: off and on");
  std::vector<int64_t> dims = call.shape(0).dims();
  dims.insert(dims.begin() + one_hot_axis(call), one_hot_depth(call));
  call.give(0, call.type(2), Shape(dims));
}

void evaluate_one_hot(Call& call) {
  const Array& where = call.constant(0, "indices");
  const Shape& shape = call.output(0).shape;
  const int64_t depth = one_hot_depth(call);
  const int axis = one_hot_axis(call);
  const int64_t inner = shape.count(axis + 1);
  const std::vector<int64_t> numbers = where.cast(TensorProto::INT64).integers();
  std::vector<int64_t> sources(static_cast<size_t>(checked_count(shape)), 0);
  for (size_t i = 0; i < numbers.size() && depth > 0; ++i) {
    const int64_t number = numbers[i];
    // An index outside has no element that is on.
    if (number < -depth || number >= depth) continue;
    const auto place = static_cast<int64_t>(i);
    const int64_t row = place / inner * depth + (number < 0 ? number + depth : number);
    sources[static_cast<size_t>(row * inner + place % inner)] = 1;
  }
  call.give(0, call.constant(2, "values").taken(shape, sources));
}

}  // namespace

void add_choosing_operators(OperatorTable& table) {
  table.add({.name = "Where",
             .min_inputs = 3,
             .max_inputs = 3,
             .infer = infer_where,
             .evaluate = evaluate_where});
  table.add({.name = "Compress",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_compress,
             .evaluate = evaluate_compress});
  table.add({.name = "NonZero", .infer = infer_non_zero, .evaluate = evaluate_non_zero});
  table.add(
      {.name = "Unique", .max_outputs = 4, .infer = infer_unique, .evaluate = evaluate_unique});
  table.add({.name = "OneHot",
             .min_inputs = 3,
             .max_inputs = 3,
             .infer = infer_one_hot,
             .evaluate = evaluate_one_hot});
}

}  // namespace crema::onnx
