// Operators that give their values another shape, order or number, all of them: Reshape, Transpose,
// Expand, Concat, Split and others.

#include <algorithm>
#include <numeric>

#include "core/checked.hpp"
#include "onnx/operators/all.hpp"
#include "onnx/operators/sources.hpp"

namespace crema::onnx {

namespace {

void evaluate_reshaping(Call& call) {
  call.give(0, call.constant(0, "values").reshaped(call.output(0).shape));
}

Shape reshaped_shape(const Call& call) {
  const Shape& from = call.shape(0);
  const std::vector<int64_t> wanted = call.constant(1, "shape").integers();
  const bool zero_is_zero = call.get_int("allowzero", 0) != 0;
  std::vector<int64_t> dims;
  int open = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t dim = wanted[i];
    if (dim == -1) {
      if (open >= 0) call.fail("shape ", joined(wanted, "x"), " has two sizes of -1");
      open = static_cast<int>(i);
      dim = 1;
    } else if (dim == 0 && !zero_is_zero) {
      if (static_cast<int>(i) >= from.rank())
        call.fail("shape ", joined(wanted, "x"), " keeps axis ", i, " of shape ", from.str(),
                  ", which has none");
      dim = from[static_cast<int>(i)];
    } else if (dim < 0) {
      call.fail("shape ", joined(wanted, "x"), " has a size of ", dim);
    }
    dims.push_back(dim);
  }
  Shape shape(dims);
  if (open >= 0) {
    const int64_t others = shape.count();
    if (others == 0 || from.count() % others != 0)
      call.fail("shape ", from.str(), " does not become ", joined(wanted, "x"), ": ", from.count(),
                " elements are no multiple of ", others);
    shape.set(open, from.count() / others);
  }
  if (shape.count() != from.count())
    call.fail("shape ", from.str(), " has ", from.count(), " elements, ", shape.str(), " has ",
              shape.count());
  return shape;
}

void infer_reshape(Call& call) { call.give(0, call.type(0), reshaped_shape(call)); }

void infer_flatten(Call& call) {
  const Shape& shape = call.shape(0);
  const int64_t given = call.get_int("axis", 1);
  const int axis = given == shape.rank() ? shape.rank() : call.canonical(given, shape.rank());
  call.give(0, call.type(0), Shape{shape.count(0, axis), shape.count(axis)});
}

void infer_squeeze(Call& call) {
  const Shape& shape = call.shape(0);
  std::vector<bool> dropped;
  const auto axes = call.ints_of("axes", 1, 13);
  for (const int64_t dim : shape.dims()) dropped.push_back(!axes && dim == 1);
  if (axes) {
    for (const int axis : call.canonical(*axes, shape.rank())) {
      if (shape[axis] != 1)
        call.fail("axis ", axis, " of shape ", shape.str(), " is dropped, and its size is not 1");
      dropped[static_cast<size_t>(axis)] = true;
    }
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!dropped[static_cast<size_t>(axis)]) dims.push_back(shape[axis]);
  }
  call.give(0, call.type(0), Shape(dims));
}

void infer_unsqueeze(Call& call) {
  const Shape& shape = call.shape(0);
  const auto axes = call.ints_of("axes", 1, 13);
  if (!axes) call.fail("axes are missing");
  constexpr size_t kMostAxes = 64;
  if (axes->size() > kMostAxes) call.fail("it adds ", axes->size(), " axes");
  const int rank = shape.rank() + static_cast<int>(axes->size());
  std::vector<int64_t> dims(static_cast<size_t>(rank), -1);
  for (const int axis : call.canonical(*axes, rank)) dims[static_cast<size_t>(axis)] = 1;
  int next = 0;
  for (int64_t& dim : dims) {
    if (dim < 0) dim = shape[next++];
  }
  call.give(0, call.type(0), Shape(dims));
}

std::vector<int> permutation(const Call& call) {
  const int rank = call.shape(0).rank();
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.rbegin(), order.rend(), 0);
  order = call.get_ints("perm", order);
  if (order.size() != static_cast<size_t>(rank))
    call.fail("perm ", joined(order), " for a tensor of shape ", call.shape(0).str());
  return call.canonical(order, rank);
}

Shape permuted_shape(const Shape& shape, const std::vector<int>& order) {
  std::vector<int64_t> dims;
  for (const int axis : order) dims.push_back(shape[axis]);
  return Shape(dims);
}

// The elements, seen in shape `from`, in the order of its permuted axes, in shape `to`.
Array permuted(const Array& x, const Shape& from, const std::vector<int>& order, const Shape& to) {
  checked_count(from);
  const std::vector<int64_t> strides = strides_of(from);
  std::vector<std::vector<int64_t>> offsets;
  for (const int axis : order) {
    if (from.count() == 0) return x.reshaped(to);
    offsets.push_back(steps(from[axis], strides[static_cast<size_t>(axis)]));
  }
  return x.taken(to, sum_of_offsets(offsets));
}

void infer_transpose(Call& call) {
  call.give(0, call.type(0), permuted_shape(call.shape(0), permutation(call)));
}

void evaluate_transpose(Call& call) {
  const Array& x = call.constant(0, "values");
  call.give(0, permuted(x, x.shape(), permutation(call), call.output(0).shape));
}

void infer_expand(Call& call) {
  const std::vector<int64_t> sizes = call.constant(1, "shape").integers();
  for (const int64_t size : sizes) {
    if (size < 0) call.fail("its shape has a size of ", size);
  }
  call.give(0, call.type(0), broadcast(call.shape(0), Shape(sizes)));
}

void evaluate_expand(Call& call) {
  const Array& x = call.constant(0, "values");
  const Shape& shape = call.output(0).shape;
  call.give(0, x.taken(shape, broadcast_sources(x.shape(), shape)));
}

void infer_tile(Call& call) {
  const Shape& shape = call.shape(0);
  const std::vector<int64_t> repeats = call.constant(1, "repeats").integers();
  if (repeats.size() != static_cast<size_t>(shape.rank()))
    call.fail("repeats ", joined(repeats), " for a tensor of shape ", shape.str());
  std::vector<int64_t> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t times = repeats[static_cast<size_t>(axis)];
    if (times < 0) call.fail("repeats ", joined(repeats), " has a negative number");
    dims.push_back(checked_multiply(shape[axis], times, "Tile"));
  }
  call.give(0, call.type(0), Shape(dims));
}

void evaluate_tile(Call& call) {
  const Array& x = call.constant(0, "values");
  const Shape& shape = call.output(0).shape;
  if (checked_count(shape) == 0) return call.give(0, Array(x.type(), shape));
  std::vector<std::vector<int64_t>> indices = all_indices(shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    for (int64_t& index : indices[static_cast<size_t>(axis)]) index %= x.shape()[axis];
  }
  call.give(0, x.taken(shape, sources_at(x.shape(), std::move(indices))));
}

void infer_concat(Call& call) {
  const Shape& first = call.shape(0);
  const int axis = call.canonical(call.need_int("axis"), first.rank());
  int64_t size = 0;
  for (size_t i = 0; i < call.inputs(); ++i) {
    Shape shape = call.shape(i);
    if (call.type(i) != call.type(0))
      call.fail("input ", i, " is ", type_name(call.type(i)), ", input 0 is ",
                type_name(call.type(0)));
    if (shape.rank() != first.rank())
      call.fail("input ", i, " has shape ", shape.str(), ", input 0 ", first.str());
    size = checked_add(size, shape[axis], "Concat");
    shape.set(axis, first[axis]);
    if (shape != first)
      call.fail("input ", i, " has shape ", call.shape(i).str(), ", input 0 ", first.str(),
                ": they differ beside axis ", axis);
  }
  Shape result = first;
  result.set(axis, size);
  call.give(0, call.type(0), result);
}

void evaluate_concat(Call& call) {
  const Shape& result = call.output(0).shape;
  const int axis = call.canonical(call.need_int("axis"), result.rank());
  std::vector<const Array*> arrays;
  for (size_t i = 0; i < call.inputs(); ++i) arrays.push_back(&call.constant(i, "values"));
  const Array all = chained(arrays);
  const int64_t outer = result.count(0, axis);
  std::vector<int64_t> sources;
  sources.reserve(static_cast<size_t>(checked_count(result)));
  for (int64_t i = 0; i < outer; ++i) {
    int64_t begin = 0;
    for (const Array* const array : arrays) {
      const int64_t run = array->shape().count(axis);
      for (int64_t k = 0; k < run; ++k) sources.push_back(begin + i * run + k);
      begin += array->count();
    }
  }
  call.give(0, all.taken(result, sources));
}

struct SplitPlan {
  int axis = 0;
  std::vector<int64_t> sizes;
};

SplitPlan split_plan(const Call& call) {
  const Shape& shape = call.shape(0);
  SplitPlan plan;
  plan.axis = call.canonical(call.get_int("axis", 0), shape.rank());
  const int64_t size = shape[plan.axis];
  const auto outputs = static_cast<int64_t>(call.node().output_size());
  if (const auto given = call.ints_of("split", 1, 13)) {
    plan.sizes = *given;
    int64_t sum = 0;
    for (const int64_t part : plan.sizes) {
      if (part < 0) call.fail("a part of ", part, " along axis ", plan.axis);
      sum = checked_add(sum, part, "Split");
    }
    if (sum != size || static_cast<int64_t>(plan.sizes.size()) != outputs)
      call.fail("parts of ", joined(plan.sizes), " for ", outputs, " outputs of an axis of size ",
                size);
    return plan;
  }
  const int64_t parts = call.get_int("num_outputs", outputs);
  if (parts != outputs) call.fail("num_outputs is ", parts, ", and it has ", outputs, " outputs");
  if (parts < 1) call.fail("it has no outputs");
  const int64_t part = size / parts + (size % parts != 0 ? 1 : 0);
  const int64_t last = size - part * (parts - 1);
  if (last < 0 || (last != part && call.opset() < 18))
    call.fail("an axis of size ", size, " does not split into ", parts, " parts; give their sizes");
  plan.sizes.assign(static_cast<size_t>(parts), part);
  plan.sizes.back() = last;
  return plan;
}

void infer_split(Call& call) {
  const SplitPlan plan = split_plan(call);
  Shape shape = call.shape(0);
  for (size_t i = 0; i < plan.sizes.size(); ++i) {
    shape.set(plan.axis, plan.sizes[i]);
    call.give(i, call.type(0), shape);
  }
}

void evaluate_split(Call& call) {
  const SplitPlan plan = split_plan(call);
  const Array& x = call.constant(0, "values");
  std::vector<std::vector<int64_t>> indices = all_indices(x.shape());
  int64_t begin = 0;
  for (size_t i = 0; i < plan.sizes.size(); ++i) {
    std::vector<int64_t>& part = indices[static_cast<size_t>(plan.axis)];
    part = steps(plan.sizes[i]);
    for (int64_t& index : part) index += begin;
    begin += plan.sizes[i];
    Shape shape = x.shape();
    shape.set(plan.axis, plan.sizes[i]);
    if (call.wants(i)) call.give(i, x.taken(shape, sources_at(x.shape(), indices)));
  }
}

int64_t block_size(const Call& call) {
  const int64_t size = call.need_int("blocksize");
  if (call.shape(0).rank() != 4)
    call.fail("input 0 has shape ", call.shape(0).str(), "; it has four axes");
  if (size < 1) call.fail("blocksize is ", size);
  checked_multiply(size, size, "blocksize");
  return size;
}

// Whether the channels in front of the places of a block are the outer ones (CRD), not the inner
// ones.
bool has_outer_channels(const Call& call) {
  const std::string mode = call.get_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") call.fail("mode is '", mode, "'; use DCR or CRD");
  return mode == "CRD";
}

void infer_depth_to_space(Call& call) {
  const int64_t b = block_size(call);
  const Shape& shape = call.shape(0);
  if (shape[1] % (b * b) != 0)
    call.fail(shape[1], " channels are no multiple of ", b * b, ", the places of a block");
  has_outer_channels(call);
  call.give(0, call.type(0),
            Shape{shape[0], shape[1] / (b * b), checked_multiply(shape[2], b, "the height"),
                  checked_multiply(shape[3], b, "the width")});
}

void evaluate_depth_to_space(Call& call) {
  const int64_t b = block_size(call);
  const Array& x = call.constant(0, "values");
  const Shape& from = x.shape();
  const Shape& to = call.output(0).shape;
  if (has_outer_channels(call))
    return call.give(
        0, permuted(x, Shape{from[0], to[1], b, b, from[2], from[3]}, {0, 1, 4, 2, 5, 3}, to));
  call.give(0, permuted(x, Shape{from[0], b, b, to[1], from[2], from[3]}, {0, 3, 4, 1, 5, 2}, to));
}

void infer_space_to_depth(Call& call) {
  const int64_t b = block_size(call);
  const Shape& shape = call.shape(0);
  if (shape[2] % b != 0 || shape[3] % b != 0)
    call.fail("an image of ", shape[2], "x", shape[3], " is no multiple of blocks of ", b);
  has_outer_channels(call);
  call.give(0, call.type(0),
            Shape{shape[0], checked_multiply(shape[1], b * b, "the channels"), shape[2] / b,
                  shape[3] / b});
}

void evaluate_space_to_depth(Call& call) {
  const int64_t b = block_size(call);
  const Array& x = call.constant(0, "values");
  const Shape& from = x.shape();
  const Shape& to = call.output(0).shape;
  const std::vector<int> order = has_outer_channels(call) ? std::vector<int>{0, 1, 3, 5, 2, 4}
                                                          : std::vector<int>{0, 3, 5, 1, 2, 4};
  call.give(0, permuted(x, Shape{from[0], from[1], to[2], b, to[3], b}, order, to));
}

}  // namespace

void add_shape_operators(OperatorTable& table) {
  table.add({.name = "Reshape",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_reshape,
             .evaluate = evaluate_reshaping});
  table.add({.name = "Flatten", .infer = infer_flatten, .evaluate = evaluate_reshaping});
  table.add(
      {.name = "Squeeze", .max_inputs = 2, .infer = infer_squeeze, .evaluate = evaluate_reshaping});
  table.add({.name = "Unsqueeze",
             .max_inputs = 2,
             .infer = infer_unsqueeze,
             .evaluate = evaluate_reshaping});
  table.add({.name = "Transpose", .infer = infer_transpose, .evaluate = evaluate_transpose});
  table.add({.name = "Expand",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_expand,
             .evaluate = evaluate_expand});
  table.add({.name = "Tile",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_tile,
             .evaluate = evaluate_tile});
  table.add(
      {.name = "Concat", .max_inputs = kAny, .infer = infer_concat, .evaluate = evaluate_concat});
  table.add({.name = "Split",
             .max_inputs = 2,
             .max_outputs = kAny,
             .infer = infer_split,
             .evaluate = evaluate_split});
  table.add(
      {.name = "DepthToSpace", .infer = infer_depth_to_space, .evaluate = evaluate_depth_to_space});
  table.add(
      {.name = "SpaceToDepth", .infer = infer_space_to_depth, .evaluate = evaluate_space_to_depth});
}

}  // namespace crema::onnx
