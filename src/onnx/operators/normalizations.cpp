// Normalizations. Statistics are made in double.
#include <algorithm>
#include <cmath>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

constexpr double kDefaultEpsilon = 1e-5;

/// (N, C, rest): N and C are 1 where there is no such axis.
struct ChannelView {
  int64_t batch = 1;
  int64_t channels = 1;
  int64_t inner = 1;
};

ChannelView channels_of(const Shape& shape) {
  if (shape.rank() < 2) return {shape.count(), 1, 1};
  return {shape[0], shape[1], shape.count(2)};
}

struct Moments {
  double mean = 0;
  double variance = 0;
};

/// Of the elements that `each` gives to the function that it is called with.
template <class Each>
Moments moments_of(Each each) {
  double sum = 0;
  int64_t count = 0;
  each([&](double value) {
    sum += value;
    ++count;
  });
  if (count == 0) return {};
  Moments moments{sum / static_cast<double>(count), 0};
  each([&](double value) { moments.variance += (value - moments.mean) * (value - moments.mean); });
  moments.variance /= static_cast<double>(count);
  return moments;
}

Moments moments_of_row(std::span<const double> values) {
  return moments_of([&](auto take) {
    for (const double value : values) take(value);
  });
}

void infer_same(Call& call) {
  checked_count(call, call.shape(0));
  call.give(0, call.type(0), call.shape(0));
}

// BatchNormalization: inputs X, scale, B, mean, variance.

bool trains(const Call& call) {
  return call.opset() >= 14 && call.get_int("training_mode", 0) != 0;
}

void infer_batch_normalization(Call& call) {
  const ChannelView view = channels_of(call.shape(0));
  const Shape channels{view.channels};
  need_shape(call, 1, "scale", channels);
  need_shape(call, 2, "B", channels);
  need_shape(call, 3, "mean", channels);
  need_shape(call, 4, "variance", channels);
  if (call.get_int("spatial", 1) == 0)
    call.fail("statistics for each element (spatial 0) are not supported; export the model anew");
  if (!trains(call) && (call.wants(1) || call.wants(2)))
    call.fail("the outputs of training are wanted; export the model for inference");
  infer_same(call);
  if (!trains(call)) return;
  call.give(1, call.type(3), channels);
  call.give(2, call.type(4), channels);
}

void evaluate_batch_normalization(Call& call) {
  const Array& x = call.constant(0, "X");
  const ChannelView view = channels_of(x.shape());
  std::vector<double> values = x.doubles();
  const std::vector<double> scale = numbers(call, 1, "scale");
  const std::vector<double> bias = numbers(call, 2, "B");
  std::vector<double> mean = numbers(call, 3, "mean");
  std::vector<double> variance = numbers(call, 4, "variance");
  const double epsilon = call.get_float("epsilon", kDefaultEpsilon);
  const double momentum = call.get_float("momentum", 0.9);
  for (int64_t c = 0; c < view.channels; ++c) {
    const auto channel = static_cast<size_t>(c);
    const auto each = [&](auto take) {
      for (int64_t n = 0; n < view.batch; ++n) {
        const int64_t start = (n * view.channels + c) * view.inner;
        for (int64_t i = 0; i < view.inner; ++i) take(values[static_cast<size_t>(start + i)]);
      }
    };
    Moments moments{mean[channel], variance[channel]};
    if (trains(call)) {
      moments = moments_of(each);
      mean[channel] = mean[channel] * momentum + moments.mean * (1 - momentum);
      variance[channel] = variance[channel] * momentum + moments.variance * (1 - momentum);
    }
    const double factor = scale[channel] / std::sqrt(moments.variance + epsilon);
    each([&](double& value) { value = (value - moments.mean) * factor + bias[channel]; });
  }
  call.give(0, Array::of_doubles(x.type(), x.shape(), values));
  if (!trains(call)) return;
  call.give(1, Array::of_doubles(call.type(3), call.shape(3), mean));
  call.give(2, Array::of_doubles(call.type(4), call.shape(4), variance));
}

// Instance and group normalization: one mean for a group of channels of one sample.

int64_t groups_of(const Call& call) {
  const int64_t channels = channels_of(call.shape(0)).channels;
  if (call.op() == "InstanceNormalization") return channels;
  const int64_t groups = call.need_int("num_groups");
  if (groups < 1 || channels % groups != 0)
    call.fail("num_groups ", groups, " does not divide the ", channels, " channels");
  return groups;
}

void infer_group_normalization(Call& call) {
  need_rank(call, 0, "X", 2, 8);
  const int64_t groups = groups_of(call);
  // Up to opset 20, GroupNormalization has a scale for each group.
  const bool by_group = call.op() == "GroupNormalization" && call.opset() < 21;
  const Shape affine{by_group ? groups : call.shape(0)[1]};
  need_shape(call, 1, "scale", affine);
  need_shape(call, 2, "bias", affine);
  infer_same(call);
}

void evaluate_group_normalization(Call& call) {
  const Array& x = call.constant(0, "X");
  const ChannelView view = channels_of(x.shape());
  std::vector<double> values = x.doubles();
  const std::vector<double> scale = numbers(call, 1, "scale");
  const std::vector<double> bias = numbers(call, 2, "bias");
  const double epsilon = call.get_float("epsilon", kDefaultEpsilon);
  const int64_t groups = groups_of(call);
  if (values.empty()) {
    call.give(0, x);
    return;
  }
  const int64_t group_channels = view.channels / groups;
  const auto size = static_cast<size_t>(group_channels * view.inner);
  const int64_t channels_a_scale = view.channels / call.shape(1)[0];
  for (size_t g = 0; g < values.size() / size; ++g) {
    const std::span<double> group{values.data() + g * size, size};
    const Moments moments = moments_of_row(group);
    const double factor = 1 / std::sqrt(moments.variance + epsilon);
    const int64_t first = static_cast<int64_t>(g) % groups * group_channels;
    for (size_t i = 0; i < size; ++i) {
      const int64_t channel = first + static_cast<int64_t>(i) / view.inner;
      const auto a = static_cast<size_t>(channel / channels_a_scale);
      group[i] = (group[i] - moments.mean) * factor * scale[a] + bias[a];
    }
  }
  call.give(0, Array::of_doubles(x.type(), x.shape(), values));
}

// Layer and RMS normalization: over all axes from `axis` on.

int layer_axis(const Call& call) {
  return call.canonical(call.get_int("axis", -1), call.shape(0).rank());
}

/// The type that the first stage computes in, and the statistics have.
ElementType stash_type(const Call& call) {
  const int64_t type = call.get_int("stash_type", TensorProto::FLOAT);
  if (type != TensorProto::FLOAT && type != TensorProto::DOUBLE && type != TensorProto::FLOAT16 &&
      type != TensorProto::BFLOAT16)
    call.fail("stash_type ", type, " is no type of floats");
  return static_cast<ElementType>(type);
}

void infer_layer_normalization(Call& call) {
  const Shape& shape = call.shape(0);
  const int axis = layer_axis(call);
  for (size_t i = 1; i < call.inputs(); ++i)
    if (call.has(i)) need_broadcast(call, i, i == 1 ? "scale" : "bias", shape);
  infer_same(call);
  std::vector<int64_t> dims = shape.dims();
  std::fill(dims.begin() + axis, dims.end(), int64_t{1});
  const ElementType type = stash_type(call);
  call.give(1, type, Shape(dims));
  call.give(2, type, Shape(dims));
}

void evaluate_layer_normalization(Call& call) {
  const Array& x = call.constant(0, "X");
  const Shape& shape = x.shape();
  const int axis = layer_axis(call);
  const bool centers = call.op() == "LayerNormalization";
  const double epsilon = call.get_float("epsilon", kDefaultEpsilon);
  std::vector<double> values = x.doubles();
  const auto size = static_cast<size_t>(shape.count(axis));
  const size_t rows = size == 0 ? 0 : values.size() / size;
  std::vector<double> means;
  std::vector<double> inverses;
  for (size_t row = 0; row < rows; ++row) {
    const std::span<double> part{values.data() + row * size, size};
    Moments moments = moments_of_row(part);
    if (!centers) {
      moments.variance += moments.mean * moments.mean;  // the mean of the squares
      moments.mean = 0;
    }
    const double inverse = 1 / std::sqrt(moments.variance + epsilon);
    for (double& value : part) value = (value - moments.mean) * inverse;
    means.push_back(moments.mean);
    inverses.push_back(inverse);
  }
  const std::vector<double> scale =
      broadcast_to(call, "scale", numbers(call, 1, "scale"), call.shape(1), shape);
  for (size_t i = 0; i < values.size(); ++i) values[i] = rounded_to(x.type(), values[i]) * scale[i];
  if (call.has(2)) {
    const std::vector<double> bias =
        broadcast_to(call, "bias", numbers(call, 2, "bias"), call.shape(2), shape);
    for (size_t i = 0; i < values.size(); ++i) values[i] += bias[i];
  }
  call.give(0, Array::of_doubles(x.type(), shape, values));
  std::vector<int64_t> dims = shape.dims();
  std::fill(dims.begin() + axis, dims.end(), int64_t{1});
  means.resize(checked_count(call, Shape(dims)));
  inverses.resize(means.size());
  call.give(1, Array::of_doubles(stash_type(call), Shape(dims), means));
  call.give(2, Array::of_doubles(stash_type(call), Shape(dims), inverses));
}

// MeanVarianceNormalization

std::vector<int> mvn_axes(const Call& call) {
  return call.canonical(call.get_ints("axes", {0, 2, 3}), call.shape(0).rank());
}

void infer_mvn(Call& call) {
  mvn_axes(call);
  infer_same(call);
}

void evaluate_mvn(Call& call) {
  const Array& x = call.constant(0, "X");
  const Shape& shape = x.shape();
  // The kept axes give the group of an element.
  std::vector<int64_t> steps(static_cast<size_t>(shape.rank()), 0);
  const std::vector<int> axes = mvn_axes(call);
  int64_t groups = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
    steps[static_cast<size_t>(axis)] = groups;
    groups *= shape[axis];
  }
  std::vector<double> values = x.doubles();
  std::vector<size_t> group_of(values.size(), 0);
  std::vector<int64_t> index(steps.size(), 0);
  for (size_t& group : group_of) {
    for (size_t axis = 0; axis < steps.size(); ++axis)
      group += static_cast<size_t>(index[axis] * steps[axis]);
    next_index(index, shape.dims());
  }
  std::vector<Moments> moments(values.empty() ? 0 : static_cast<size_t>(groups));
  const double share = static_cast<double>(groups) / static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i) moments[group_of[i]].mean += values[i] * share;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = values[i] - moments[group_of[i]].mean;
    moments[group_of[i]].variance += difference * difference * share;
  }
  constexpr double kEpsilon = 1e-9;  // of the operator's definition
  for (size_t i = 0; i < values.size(); ++i) {
    const Moments& group = moments[group_of[i]];
    values[i] = (values[i] - group.mean) / (std::sqrt(group.variance) + kEpsilon);
  }
  call.give(0, Array::of_doubles(x.type(), shape, values));
}

// LRN

int64_t lrn_size(const Call& call) {
  const int64_t size = call.need_int("size");
  need_within(call, "size", size, 1);
  return size;
}

void infer_lrn(Call& call) {
  need_rank(call, 0, "X", 2, 8);
  lrn_size(call);
  infer_same(call);
}

void evaluate_lrn(Call& call) {
  const Array& x = call.constant(0, "X");
  const ChannelView view = channels_of(x.shape());
  const int64_t size = lrn_size(call);
  const double alpha = call.get_float("alpha", 1e-4) / static_cast<double>(size);
  const double beta = call.get_float("beta", 0.75);
  const double bias = call.get_float("bias", 1.0);
  const std::vector<double> values = x.doubles();
  std::vector<double> result(values.size());
  for (int64_t n = 0; n < view.batch; ++n) {
    for (int64_t c = 0; c < view.channels; ++c) {
      const int64_t first = std::max<int64_t>(0, c - (size - 1) / 2);
      const int64_t last = std::min(view.channels - 1, c + size / 2);
      for (int64_t i = 0; i < view.inner; ++i) {
        const auto place = [&](int64_t channel) {
          return static_cast<size_t>((n * view.channels + channel) * view.inner + i);
        };
        double squares = 0;
        for (int64_t k = first; k <= last; ++k) squares += values[place(k)] * values[place(k)];
        result[place(c)] = values[place(c)] / std::pow(bias + alpha * squares, beta);
      }
    }
  }
  call.give(0, Array::of_doubles(x.type(), x.shape(), result));
}

// LpNormalization

int64_t norm_power(const Call& call) {
  const int64_t p = call.get_int("p", 2);
  need_within(call, "p", p, 1, 2);
  return p;
}

void infer_lp_normalization(Call& call) {
  norm_power(call);
  call.canonical(call.get_int("axis", -1), call.shape(0).rank());
  infer_same(call);
}

void evaluate_lp_normalization(Call& call) {
  const Array& x = call.constant(0, "input");
  const bool squares = norm_power(call) == 2;
  const AxisView view =
      view_along(x.shape(), call.canonical(call.get_int("axis", -1), x.shape().rank()));
  std::vector<double> values = x.doubles();
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      const auto at = [&](int64_t k) -> double& {
        return values[static_cast<size_t>((o * view.size + k) * view.inner + i)];
      };
      double norm = 0;
      for (int64_t k = 0; k < view.size; ++k) norm += squares ? at(k) * at(k) : std::abs(at(k));
      if (squares) norm = std::sqrt(norm);
      for (int64_t k = 0; k < view.size; ++k) at(k) = norm == 0 ? 0 : at(k) / norm;
    }
  }
  call.give(0, Array::of_doubles(x.type(), x.shape(), values));
}

}  // namespace

void add_normalization_operators(OperatorTable& table) {
  table.add({.name = "BatchNormalization",
             .min_inputs = 5,
             .max_inputs = 5,
             .max_outputs = 5,
             .infer = infer_batch_normalization,
             .evaluate = evaluate_batch_normalization});
  for (const char* name : {"InstanceNormalization", "GroupNormalization"})
    table.add({.name = name,
               .min_inputs = 3,
               .max_inputs = 3,
               .infer = infer_group_normalization,
               .evaluate = evaluate_group_normalization});
  table.add({.name = "LayerNormalization",
             .min_inputs = 2,
             .max_inputs = 3,
             .max_outputs = 3,
             .infer = infer_layer_normalization,
             .evaluate = evaluate_layer_normalization});
  table.add({.name = "RMSNormalization",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_layer_normalization,
             .evaluate = evaluate_layer_normalization});
  table.add({.name = "MeanVarianceNormalization", .infer = infer_mvn, .evaluate = evaluate_mvn});
  table.add({.name = "LRN", .infer = infer_lrn, .evaluate = evaluate_lrn});
  table.add({.name = "LpNormalization",
             .infer = infer_lp_normalization,
             .evaluate = evaluate_lp_normalization});
}

}  // namespace crema::onnx
