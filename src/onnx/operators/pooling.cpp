// Pooling over windows and over all spatial axes, and its way back.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"
#include "onnx/operators/convolve.hpp"

namespace crema::onnx {
namespace {

std::vector<WindowAxis> pooling_axes(const Call& call) {
  need_rank(call, 0, "X", 3, kMaxSpatialAxes + 2);
  const size_t count = static_cast<size_t>(call.shape(0).rank()) - 2;
  std::vector<WindowAxis> axes = window_axes(call, kernel_shape(call, {}, count));
  for (const WindowAxis& axis : axes) {
    if (axis.in < 1) call.fail("X ", call.shape(0).str(), " has an empty spatial axis");
    if (std::max(axis.begin, axis.end) >= axis.extent() && axis.extent() > 1)
      call.fail("a pad of ", std::max(axis.begin, axis.end), " takes a whole window of ",
                axis.extent(), "; it has to be smaller");
  }
  return axes;
}

Shape pooling_output(const Call& call, std::span<const WindowAxis> axes) {
  const Shape shape = window_output(call.shape(0)[0], call.shape(0)[1], axes);
  checked_count(call, shape);
  return shape;
}

int64_t pooling_power(const Call& call) {
  const int64_t p = call.get_int("p", 2);
  need_within(call, "p", p, 1);
  return p;
}

void infer_pool(Call& call) {
  if (call.op() == "LpPool") pooling_power(call);
  const Shape shape = pooling_output(call, pooling_axes(call));
  call.give(0, call.type(0), shape);
  call.give(1, TensorProto::INT64, shape);
}

/// Elements of the window at `place` that lie in the input or its padding.
double padded_count(std::span<const WindowAxis> axes, std::span<const int64_t> place) {
  double count = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t room = axes[i].in + axes[i].end + axes[i].begin - place[i] * axes[i].stride;
    count *= static_cast<double>(
        std::clamp<int64_t>((room + axes[i].dilation - 1) / axes[i].dilation, 0, axes[i].kernel));
  }
  return count;
}

void evaluate_average_pool(Call& call) {
  const std::vector<WindowAxis> axes = pooling_axes(call);
  const Shape output = pooling_output(call, axes);
  const std::vector<double> x = numbers(call, 0, "X");
  const bool is_norm = call.op() == "LpPool";
  const auto p = static_cast<double>(is_norm ? pooling_power(call) : 1);
  const bool counts_pad = call.get_int("count_include_pad", 0) != 0;
  const int64_t in = input_count(axes);
  const int64_t out = output_count(axes);
  std::vector<double> y(checked_count(call, output), 0);
  const std::vector<int64_t> sizes = output_sizes(axes);
  std::vector<int64_t> place(sizes.size(), 0);
  std::vector<Tap> taps;
  for (int64_t o = 0; o < out; ++o) {
    find_taps(axes, place, taps);
    const double count = counts_pad ? padded_count(axes, place) : static_cast<double>(taps.size());
    next_index(place, sizes);
    for (int64_t plane = 0; plane < output.count(0, 2); ++plane) {
      double sum = 0;
      for (const Tap& tap : taps) {
        const double value = x[static_cast<size_t>(plane * in + tap.input)];
        sum += is_norm ? std::pow(std::abs(value), p) : value;
      }
      if (is_norm)
        sum = std::pow(sum, 1 / p);
      else if (count > 0)
        sum /= count;
      y[static_cast<size_t>(plane * out + o)] = sum;
    }
  }
  call.give(0, Array::of_doubles(call.type(0), output, y));
}

/// Spatial index in the order that the last axis is slowest.
int64_t column_major(std::span<const WindowAxis> axes, int64_t index) {
  std::vector<int64_t> place(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    place[i] = index % axes[i].in;
    index /= axes[i].in;
  }
  int64_t result = 0;
  for (size_t i = axes.size(); i-- > 0;) result = result * axes[i].in + place[i];
  return result;
}

void evaluate_max_pool(Call& call) {
  const std::vector<WindowAxis> axes = pooling_axes(call);
  const Shape output = pooling_output(call, axes);
  const std::vector<double> x = numbers(call, 0, "X");
  const bool by_columns = call.get_int("storage_order", 0) != 0;
  const int64_t in = input_count(axes);
  const int64_t out = output_count(axes);
  const double least = saturated(call.type(0), -std::numeric_limits<double>::infinity());
  std::vector<double> y(checked_count(call, output), least);
  std::vector<int64_t> indices(y.size(), 0);
  const std::vector<int64_t> sizes = output_sizes(axes);
  std::vector<int64_t> place(sizes.size(), 0);
  std::vector<Tap> taps;
  for (int64_t o = 0; o < out; ++o) {
    find_taps(axes, place, taps);
    next_index(place, sizes);
    for (int64_t plane = 0; plane < output.count(0, 2) && !taps.empty(); ++plane) {
      int64_t best = taps.front().input;
      for (const Tap& tap : taps)
        if (x[static_cast<size_t>(plane * in + tap.input)] >
            x[static_cast<size_t>(plane * in + best)])
          best = tap.input;
      y[static_cast<size_t>(plane * out + o)] = x[static_cast<size_t>(plane * in + best)];
      indices[static_cast<size_t>(plane * out + o)] =
          plane * in + (by_columns ? column_major(axes, best) : best);
    }
  }
  call.give(0, Array::of_doubles(call.type(0), output, y));
  call.give(1, Array::of_integers(TensorProto::INT64, output, indices));
}

// Global pooling

Shape global_output(const Call& call) {
  need_rank(call, 0, "X", 2, kMaxSpatialAxes + 2);
  const Shape& x = call.shape(0);
  if (x.count(2) == 0) call.fail("X ", x.str(), " has an empty spatial axis");
  if (call.op() == "GlobalLpPool") pooling_power(call);
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()), 1);
  dims[0] = x[0];
  dims[1] = x[1];
  return Shape(dims);
}

void infer_global_pool(Call& call) { call.give(0, call.type(0), global_output(call)); }

void evaluate_global_pool(Call& call) {
  const Array& x = call.constant(0, "X");
  const Shape output = global_output(call);
  const std::vector<double> values = x.doubles();
  const auto size = static_cast<size_t>(x.shape().count(2));
  std::vector<double> y(checked_count(call, output), 0);
  for (size_t plane = 0; plane < y.size(); ++plane) {
    const std::span<const double> part{values.data() + plane * size, size};
    if (call.op() == "GlobalMaxPool") {
      y[plane] = *std::max_element(part.begin(), part.end());
    } else if (call.op() == "GlobalAveragePool") {
      for (const double value : part) y[plane] += value;
      y[plane] /= static_cast<double>(size);
    } else {
      const auto p = static_cast<double>(pooling_power(call));
      for (const double value : part) y[plane] += std::pow(std::abs(value), p);
      y[plane] = std::pow(y[plane], 1 / p);
    }
  }
  call.give(0, Array::of_doubles(x.type(), output, y));
}

// MaxUnpool: the indices count in the shape that the attributes give; output_shape may be greater.

struct UnpoolShapes {
  Shape pooled;  // that the indices count in
  Shape output;
};

UnpoolShapes unpool_shapes(const Call& call) {
  need_rank(call, 0, "X", 3, kMaxSpatialAxes + 2);
  need_shape(call, 1, "I", call.shape(0));
  std::vector<int64_t> dims = call.shape(0).dims();
  const size_t count = dims.size() - 2;
  const std::vector<int64_t> kernel = kernel_shape(call, {}, count);
  const std::vector<int64_t> strides = spatial_ints(call, "strides", count, 1, 1);
  const std::vector<int64_t> pads = spatial_pads(call, count);
  for (size_t i = 0; i < count; ++i) {
    dims[i + 2] = (dims[i + 2] - 1) * strides[i] - pads[i] - pads[count + i] + kernel[i];
    need_within(call, "the size of the output", dims[i + 2], 1);
  }
  UnpoolShapes shapes{Shape(dims), Shape(dims)};
  checked_count(call, shapes.pooled);
  if (!call.has(2)) return shapes;
  const std::vector<int64_t> given = integers(call, 2, "output_shape");
  if (given.size() != dims.size())
    call.fail("output_shape has ", given.size(), " values; it needs ", dims.size());
  for (size_t i = 0; i < given.size(); ++i) need_within(call, "output_shape", given[i], dims[i]);
  shapes.output = Shape(given);
  checked_count(call, shapes.output);
  return shapes;
}

void infer_max_unpool(Call& call) { call.give(0, call.type(0), unpool_shapes(call).output); }

void evaluate_max_unpool(Call& call) {
  const UnpoolShapes shapes = unpool_shapes(call);
  const std::vector<double> x = numbers(call, 0, "X");
  const std::vector<int64_t> indices = integers(call, 1, "I");
  std::vector<double> y(checked_count(call, shapes.output), 0);
  const int64_t pooled = shapes.pooled.count();
  const std::vector<int64_t> steps = strides_of(shapes.output);
  for (size_t i = 0; i < x.size(); ++i) {
    need_within(call, "an index", indices[i], 0, pooled - 1);
    int64_t rest = indices[i];
    int64_t target = 0;
    for (int axis = shapes.pooled.rank(); axis-- > 0;) {
      target += rest % shapes.pooled[axis] * steps[static_cast<size_t>(axis)];
      rest /= shapes.pooled[axis];
    }
    y[static_cast<size_t>(target)] = x[i];
  }
  call.give(0, Array::of_doubles(call.type(0), shapes.output, y));
}

}  // namespace

void add_pooling_operators(OperatorTable& table) {
  table.add(
      {.name = "MaxPool", .max_outputs = 2, .infer = infer_pool, .evaluate = evaluate_max_pool});
  for (const char* name : {"AveragePool", "LpPool"})
    table.add({.name = name, .infer = infer_pool, .evaluate = evaluate_average_pool});
  for (const char* name : {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"})
    table.add({.name = name, .infer = infer_global_pool, .evaluate = evaluate_global_pool});
  table.add({.name = "MaxUnpool",
             .min_inputs = 2,
             .max_inputs = 3,
             .infer = infer_max_unpool,
             .evaluate = evaluate_max_unpool});
}

}  // namespace crema::onnx
