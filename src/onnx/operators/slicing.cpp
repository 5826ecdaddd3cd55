// Operators that take the elements at some indices of each axis: Slice, Pad, CenterCropPad,
// Upsample, ReverseSequence, Trilu.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/operators/all.hpp"
#include "onnx/operators/sources.hpp"

namespace crema::onnx {

namespace {

/// Indices first, first + step, ...: `count` of them.
struct Cut {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// What start:end:step of Python means on an axis of `size`.
Cut cut_of(const Call& call, int64_t start, int64_t end, int64_t step, int64_t size) {
  if (step == 0) call.fail("a step is 0");
  const bool forward = step > 0;
  const auto place = [&](int64_t index) {
    if (index < 0) index += size;
    return forward ? std::clamp<int64_t>(index, 0, size) : std::clamp<int64_t>(index, -1, size - 1);
  };
  Cut cut;
  cut.first = place(start);
  cut.step = step;
  const int64_t last = place(end);
  const int64_t reach = forward ? last - cut.first : cut.first - last;
  const uint64_t stride =
      forward ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  if (reach > 0) cut.count = static_cast<int64_t>((static_cast<uint64_t>(reach) - 1) / stride) + 1;
  return cut;
}

std::vector<Cut> cuts_of(const Call& call) {
  const Shape& shape = call.shape(0);
  const auto starts = call.ints_of("starts", 1, 10);
  const auto ends = call.ints_of("ends", 2, 10);
  if (!starts || !ends) call.fail("starts and ends are missing");
  std::vector<int64_t> all(starts->size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int64_t> axes = call.ints_of("axes", 3, 10).value_or(all);
  std::vector<int64_t> strides(starts->size(), 1);
  if (call.opset() >= 10 && call.has(4)) strides = call.constant(4, "steps").integers();
  if (ends->size() != starts->size() || axes.size() != starts->size() ||
      strides.size() != starts->size())
    call.fail(starts->size(), " starts, ", ends->size(), " ends, ", axes.size(), " axes and ",
              strides.size(), " steps; they are as many");
  std::vector<Cut> cuts;
  for (const int64_t dim : shape.dims()) cuts.push_back({.count = dim});
  const std::vector<int> places = call.canonical(axes, shape.rank());
  for (size_t i = 0; i < places.size(); ++i) {
    cuts[static_cast<size_t>(places[i])] =
        cut_of(call, (*starts)[i], (*ends)[i], strides[i], shape[places[i]]);
  }
  return cuts;
}

void infer_slice(Call& call) {
  for (const size_t i : {1, 2, 3, 4}) {
    if (call.opset() < 10 || !call.has(i) || call.is_constant(i)) continue;
    // As many as detectors found, say.
    call.give_bound(0, call.type(0), call.shape(0));
    return;
  }
  std::vector<int64_t> dims;
  for (const Cut& cut : cuts_of(call)) dims.push_back(cut.count);
  call.give(0, call.type(0), Shape(dims));
}

void evaluate_slice(Call& call) {
  const Array& x = call.constant(0, "values");
  const Shape& shape = call.output(0).shape;
  checked_count(shape);
  std::vector<std::vector<int64_t>> indices;
  for (const Cut& cut : cuts_of(call)) {
    checked_count(Shape{cut.count});
    // With one element, the step may be of any size.
    indices.push_back(steps(cut.count, cut.count > 1 ? cut.step : 0));
    for (int64_t& index : indices.back()) index += cut.first;
  }
  call.give(0, x.taken(shape, sources_at(x.shape(), std::move(indices))));
}

/// What Pad does with one axis: of its elements from `low` on, `kept` stay, and `before` and
/// `after` more are put around them.
struct Padding {
  int64_t low = 0;
  int64_t kept = 0;
  int64_t before = 0;
  int64_t after = 0;
  int64_t size() const { return before + kept + after; }
};

std::vector<Padding> paddings_of(const Call& call) {
  const Shape& shape = call.shape(0);
  const auto pads = call.ints_of("pads", 1, 11);
  if (!pads) call.fail("pads are missing");
  std::vector<int64_t> all(static_cast<size_t>(shape.rank()));
  std::iota(all.begin(), all.end(), 0);
  if (call.opset() >= 18 && call.has(3)) all = call.constant(3, "axes").integers();
  const std::vector<int> axes = call.canonical(all, shape.rank());
  if (pads->size() != 2 * axes.size())
    call.fail(pads->size(), " pads for ", axes.size(), " axes; each has two");
  const std::string mode = call.get_string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    call.fail("mode is '", mode, "'; use constant, reflect, edge or wrap");
  std::vector<Padding> paddings;
  for (const int64_t dim : shape.dims()) paddings.push_back({.kept = dim});
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t before = (*pads)[i];
    const int64_t after = (*pads)[i + axes.size()];
    constexpr int64_t kMost = int64_t{1} << 31;
    if (before < -kMost || before > kMost || after < -kMost || after > kMost)
      call.fail("pads ", before, " and ", after, " of axis ", axes[i], " are too large");
    Padding& padding = paddings[static_cast<size_t>(axes[i])];
    padding.low = std::max<int64_t>(-before, 0);
    padding.kept -= padding.low + std::max<int64_t>(-after, 0);
    padding.before = std::max<int64_t>(before, 0);
    padding.after = std::max<int64_t>(after, 0);
    if (padding.kept < 0)
      call.fail("pads ", before, " and ", after, " take more than axis ", axes[i], " of shape ",
                shape.str(), " has");
    if (padding.kept == 0 && padding.size() > 0 && mode != "constant")
      call.fail("axis ", axes[i], " is padded in mode ", mode, " and has no elements");
  }
  return paddings;
}

void infer_pad(Call& call) {
  std::vector<int64_t> dims;
  for (const Padding& padding : paddings_of(call)) {
    if (__builtin_add_overflow(padding.kept, padding.before + padding.after, &dims.emplace_back()))
      call.fail("the padded size does not fit 64 bits");
  }
  if (call.opset() >= 11 && call.has(2) &&
      (call.type(2) != call.type(0) || call.shape(2).count() != 1))
    call.fail("the value is ", type_name(call.type(2)), " of shape ", call.shape(2).str(),
              "; it is one ", type_name(call.type(0)));
  call.give(0, call.type(0), Shape(dims));
}

// The element of an axis of `size` that place `at`, which may be outside, has in a mode.
int64_t padded_index(const std::string& mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == "constant") return kOutside;
  if (mode == "edge") return at < 0 ? 0 : size - 1;
  const int64_t period = mode == "wrap" ? size : std::max<int64_t>(2 * (size - 1), 1);
  const int64_t rest = (at % period + period) % period;
  return rest < size ? rest : period - rest;
}

Array with_value(const Array& x, const Array& value, const Shape& shape,
                 std::vector<int64_t> sources) {
  const Array* const parts[] = {&x, &value};
  for (int64_t& source : sources) {
    if (source == kOutside) source = x.count();
  }
  return chained(parts).taken(shape, sources);
}

void evaluate_pad(Call& call) {
  const Array& x = call.constant(0, "values");
  const std::string mode = call.get_string("mode", "constant");
  const Shape shape = call.output(0).shape;
  checked_count(shape);
  std::vector<std::vector<int64_t>> indices;
  for (const Padding& padding : paddings_of(call)) {
    checked_count(Shape{padding.size()});
    indices.push_back(steps(padding.size()));
    for (int64_t& index : indices.back()) {
      index = padded_index(mode, index - padding.before, padding.kept);
      if (index != kOutside) index += padding.low;
    }
  }
  std::vector<int64_t> sources = sources_at(x.shape(), std::move(indices));
  Array value = Array::scalar(x.type(), call.get_float("value", 0));
  if (call.opset() >= 11 && call.has(2)) value = call.constant(2, "value");
  call.give(0, with_value(x, value, shape, std::move(sources)));
}

// The sizes that CenterCropPad gives the axes.
Shape centered_shape(const Call& call) {
  Shape shape = call.shape(0);
  std::vector<int64_t> all(static_cast<size_t>(shape.rank()));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> axes = call.canonical(call.get_ints("axes", all), shape.rank());
  const std::vector<int64_t> sizes = call.constant(1, "shape").integers();
  if (sizes.size() != axes.size()) call.fail(sizes.size(), " sizes for ", axes.size(), " axes");
  for (size_t i = 0; i < axes.size(); ++i) shape.set(axes[i], sizes[i]);
  return shape;
}

void infer_center_crop_pad(Call& call) { call.give(0, call.type(0), centered_shape(call)); }

void evaluate_center_crop_pad(Call& call) {
  const Array& x = call.constant(0, "values");
  const Shape& shape = call.output(0).shape;
  std::vector<std::vector<int64_t>> indices = all_indices(shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t size = x.shape()[axis];
    // Rounded down where it crops, and where it pads.
    const int64_t low = size > shape[axis] ? (size - shape[axis]) / 2 : -((shape[axis] - size) / 2);
    for (int64_t& index : indices[static_cast<size_t>(axis)]) {
      index += low;
      if (index < 0 || index >= size) index = kOutside;
    }
  }
  call.give(0, x.taken(shape, sources_at(x.shape(), std::move(indices))));
}

std::vector<double> upsample_scales(const Call& call) {
  std::vector<double> scales =
      call.opset() >= 9 ? call.constant(1, "scales").doubles() : call.get_floats("scales");
  if (scales.size() != static_cast<size_t>(call.shape(0).rank()))
    call.fail(scales.size(), " scales for a tensor of shape ", call.shape(0).str());
  return scales;
}

void infer_upsample(Call& call) {
  const std::string mode = call.get_string("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear")
    call.fail("mode is '", mode, "'; use nearest or linear");
  std::vector<int64_t> dims;
  const std::vector<double> scales = upsample_scales(call);
  for (size_t axis = 0; axis < scales.size(); ++axis) {
    const int64_t dim = call.shape(0)[static_cast<int>(axis)];
    const double size = std::floor(static_cast<double>(dim) * scales[axis]);
    if (!(scales[axis] > 0) || !(size < 2147483648.0))
      call.fail("an axis of size ", dim, " by ", scales[axis]);
    dims.push_back(static_cast<int64_t>(size));
  }
  call.give(0, call.type(0), Shape(dims));
}

void evaluate_upsample(Call& call) {
  const Array& x = call.constant(0, "values");
  const Shape to = call.output(0).shape;
  const std::vector<double> scales = upsample_scales(call);
  if (call.get_string("mode", "nearest") == "nearest") {
    std::vector<std::vector<int64_t>> indices = all_indices(to);
    for (size_t axis = 0; axis < scales.size(); ++axis) {
      const int64_t last = x.shape()[static_cast<int>(axis)] - 1;
      for (int64_t& index : indices[axis])
        index = std::min(static_cast<int64_t>(static_cast<double>(index) / scales[axis]), last);
    }
    return call.give(0, x.taken(to, sources_at(x.shape(), std::move(indices))));
  }
  // Linear along one axis after the other.
  std::vector<double> values = x.doubles();
  Shape shape = x.shape();
  for (size_t k = 0; k < scales.size(); ++k) {
    const int axis = static_cast<int>(k);
    if (scales[k] == 1) continue;
    const int64_t inner = shape.count(axis + 1);
    const int64_t outer = shape.count(0, axis);
    const int64_t size = shape[axis];
    shape.set(axis, to[axis]);
    std::vector<double> next(static_cast<size_t>(checked_count(shape)));
    for (int64_t i = 0; i < outer * to[axis]; ++i) {
      const double at = static_cast<double>(i % to[axis]) / scales[k];
      const int64_t low = std::min(static_cast<int64_t>(at), size - 1);
      const int64_t high = std::min(low + 1, size - 1);
      const double part = at - static_cast<double>(low);
      const int64_t row = i / to[axis] * size;
      for (int64_t j = 0; j < inner; ++j)
        next[static_cast<size_t>(i * inner + j)] =
            values[static_cast<size_t>((row + low) * inner + j)] * (1 - part) +
            values[static_cast<size_t>((row + high) * inner + j)] * part;
    }
    values = std::move(next);
  }
  call.give(0, Array::of_doubles(x.type(), to, values));
}

struct SequenceAxes {
  int batch;
  int time;
};

SequenceAxes sequence_axes(const Call& call) {
  const int rank = call.shape(0).rank();
  const SequenceAxes axes{call.canonical(call.get_int("batch_axis", 1), rank),
                          call.canonical(call.get_int("time_axis", 0), rank)};
  if (axes.batch == axes.time || axes.batch > 1 || axes.time > 1)
    call.fail("batch_axis ", axes.batch, " and time_axis ", axes.time, "; they are 0 and 1");
  return axes;
}

void infer_reverse_sequence(Call& call) {
  const SequenceAxes axes = sequence_axes(call);
  if (call.shape(1) != Shape{call.shape(0)[axes.batch]})
    call.fail("lengths of shape ", call.shape(1).str(), " for a batch of ",
              call.shape(0)[axes.batch]);
  call.give(0, call.type(0), call.shape(0));
}

void evaluate_reverse_sequence(Call& call) {
  const Array& x = call.constant(0, "values");
  const SequenceAxes axes = sequence_axes(call);
  const std::vector<int64_t> lengths = call.constant(1, "lengths").integers();
  const int64_t times = x.shape()[axes.time];
  for (const int64_t length : lengths) {
    if (length < 0 || length > times) call.fail("a length of ", length, " in sequences of ", times);
  }
  const std::vector<int64_t> strides = strides_of(x.shape());
  const int64_t batch_stride = strides[static_cast<size_t>(axes.batch)];
  const int64_t time_stride = strides[static_cast<size_t>(axes.time)];
  std::vector<int64_t> sources = steps(x.count());
  for (int64_t& source : sources) {
    const int64_t time = source / time_stride % times;
    const int64_t batch = source / batch_stride % x.shape()[axes.batch];
    const int64_t length = lengths[static_cast<size_t>(batch)];
    if (time < length) source += (length - 1 - 2 * time) * time_stride;
  }
  call.give(0, x.taken(x.shape(), sources));
}

void infer_trilu(Call& call) {
  if (call.shape(0).rank() < 2)
    call.fail("input 0 has shape ", call.shape(0).str(), "; it has two axes or more");
  if (call.has(1) && (call.type(1) != TensorProto::INT64 || call.shape(1).count() != 1))
    call.fail("k is ", type_name(call.type(1)), " of shape ", call.shape(1).str(),
              "; it is one INT64");
  call.give(0, call.type(0), call.shape(0));
}

void evaluate_trilu(Call& call) {
  const Array& x = call.constant(0, "values");
  const int64_t k = call.has(1) ? call.constant(1, "k").integers()[0] : 0;
  const bool upper = call.get_int("upper", 1) != 0;
  const int64_t rows = x.shape()[-2];
  const int64_t columns = x.shape()[-1];
  std::vector<int64_t> sources = steps(x.count());
  for (int64_t& source : sources) {
    const int64_t diagonal = source % columns - source / columns % rows;
    if (upper ? diagonal < k : diagonal > k) source = kOutside;
  }
  call.give(0, x.taken(x.shape(), sources));
}

}  // namespace

void add_slicing_operators(OperatorTable& table) {
  table.add({.name = "Slice", .max_inputs = 5, .infer = infer_slice, .evaluate = evaluate_slice});
  table.add({.name = "Pad", .max_inputs = 4, .infer = infer_pad, .evaluate = evaluate_pad});
  table.add({.name = "CenterCropPad",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_center_crop_pad,
             .evaluate = evaluate_center_crop_pad});
  table.add({.name = "Upsample",
             .max_inputs = 2,
             .infer = infer_upsample,
             .evaluate = evaluate_upsample});
  table.add({.name = "ReverseSequence",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_reverse_sequence,
             .evaluate = evaluate_reverse_sequence});
  table.add({.name = "Trilu", .max_inputs = 2, .infer = infer_trilu, .evaluate = evaluate_trilu});
}

}  // namespace crema::onnx
