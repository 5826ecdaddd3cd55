// GridSample and AffineGrid.
#include <algorithm>
#include <cmath>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

enum class SampleMode { nearest, linear, cubic };
enum class SamplePadding { zeros, border, reflection };

struct SampleRule {
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool aligns_corners = false;
  bool is_single = false;  // places are computed in single precision
};

SampleRule sample_rule(const Call& call) {
  SampleRule rule;
  const std::string mode = call.get_string("mode", "linear");
  if (mode == "nearest")
    rule.mode = SampleMode::nearest;
  else if (mode == "cubic" || mode == "bicubic")
    rule.mode = SampleMode::cubic;
  else if (mode != "linear" && mode != "bilinear")
    call.fail("mode '", mode, "'; it has to be linear, nearest or cubic");
  const std::string padding = call.get_string("padding_mode", "zeros");
  if (padding == "border")
    rule.padding = SamplePadding::border;
  else if (padding == "reflection")
    rule.padding = SamplePadding::reflection;
  else if (padding != "zeros")
    call.fail("padding_mode '", padding, "'; it has to be zeros, border or reflection");
  rule.aligns_corners = call.get_int("align_corners", 0) != 0;
  rule.is_single = call.type(1) == TensorProto::FLOAT;
  return rule;
}

Shape grid_sample_output(const Call& call) {
  need_rank(call, 0, "X", 3, 5);
  need_rank(call, 1, "grid", call.shape(0).rank(), call.shape(0).rank());
  const Shape& x = call.shape(0);
  const Shape& grid = call.shape(1);
  if (grid[0] != x[0] || grid[-1] != x.rank() - 2)
    call.fail("grid ", grid.str(), " does not fit X ", x.str(), "; it is (batch, output sizes, ",
              x.rank() - 2, ")");
  if (x.count(2) == 0) call.fail("X ", x.str(), " has an empty spatial axis");
  std::vector<int64_t> dims = grid.dims();
  dims.pop_back();
  dims.insert(dims.begin() + 1, x[1]);
  checked_count(call, Shape(dims));
  return Shape(dims);
}

void infer_grid_sample(Call& call) { call.give(0, call.type(0), grid_sample_output(call)); }

double reflected(double place, double least, double most) {
  const double range = most - least;
  if (range <= 0) return least;
  if (place >= least && place <= most) return place;
  const bool below = place < least;
  const double distance = below ? least - place : place - most;
  const double turns = std::floor(distance / range);
  const double rest = distance - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return below == even ? least + rest : most - rest;
}

/// At most four elements of an axis and their weights. Element -1 is a zero.
struct AxisTaps {
  size_t count = 0;
  int64_t elements[4] = {0, 0, 0, 0};
  double weights[4] = {0, 0, 0, 0};
};

AxisTaps taps_at(const SampleRule& rule, double normalized, int64_t size) {
  const auto single = [&](double value) {
    return rule.is_single ? static_cast<double>(static_cast<float>(value)) : value;
  };
  const auto length = static_cast<double>(size);
  const double least = rule.aligns_corners ? 0 : -0.5;
  const double most = rule.aligns_corners ? length - 1 : length - 0.5;
  double place = rule.aligns_corners
                     ? single(single(single(normalized + 1) / 2) * (length - 1))
                     : single(single(single(single(normalized + 1) * length) - 1) / 2);
  // What is no number lies outside.
  constexpr double kFar = 1e12;
  place = std::isnan(place) ? -kFar : std::clamp(place, -kFar, kFar);
  if (rule.mode == SampleMode::nearest) place = std::nearbyint(place);
  if (place < least || place > most) {
    if (rule.padding == SamplePadding::border) place = std::clamp(place, 0.0, length - 1);
    if (rule.padding == SamplePadding::reflection) place = single(reflected(place, least, most));
  }
  AxisTaps taps;
  const auto add = [&](double element, double weight) {
    if (rule.padding == SamplePadding::reflection)
      element = std::trunc(reflected(element, least, most));
    const bool is_inside = element >= 0 && element < length;
    taps.elements[taps.count] = is_inside || rule.padding != SamplePadding::zeros
                                    ? static_cast<int64_t>(std::clamp(element, 0.0, length - 1))
                                    : -1;
    taps.weights[taps.count++] = weight;
  };
  if (rule.mode == SampleMode::nearest) {
    add(std::trunc(place), 1);
    return taps;
  }
  const double low = std::floor(place);
  const double ratio = place - low;
  if (rule.mode == SampleMode::linear) {
    add(low, 1 - ratio);
    add(low + 1, ratio);
    return taps;
  }
  constexpr double kA = -0.75;
  const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  add(low - 1, far(ratio + 1));
  add(low, near(ratio));
  add(low + 1, near(1 - ratio));
  add(low + 2, far(2 - ratio));
  return taps;
}

/// The weighted sum of the elements that `taps` has along axes [axis, rank) of `shape`.
double sum_of_taps(const double* values, const Shape& shape, std::span<const AxisTaps> taps) {
  if (taps.empty()) return *values;
  const int axis = shape.rank() - static_cast<int>(taps.size());
  double sum = 0;
  for (size_t i = 0; i < taps.front().count; ++i) {
    const int64_t element = taps.front().elements[i];
    if (element < 0 || taps.front().weights[i] == 0) continue;
    sum += taps.front().weights[i] *
           sum_of_taps(values + element * shape.count(axis + 1), shape, taps.subspan(1));
  }
  return sum;
}

void evaluate_grid_sample(Call& call) {
  const Shape output = grid_sample_output(call);
  const SampleRule rule = sample_rule(call);
  const std::vector<double> x = numbers(call, 0, "X");
  const std::vector<double> grid = numbers(call, 1, "grid");
  const Shape& shape = call.shape(0);
  const auto axes = static_cast<size_t>(shape.rank()) - 2;
  const int64_t size = shape.count(2);
  const int64_t places = output.count(2);
  std::vector<double> y(checked_count(call, output), 0);
  std::vector<AxisTaps> taps(axes);
  for (int64_t n = 0; n < output[0] && !y.empty(); ++n) {
    for (int64_t p = 0; p < places; ++p) {
      // The grid has the last axis first.
      const double* place = grid.data() + (n * places + p) * static_cast<int64_t>(axes);
      for (size_t i = 0; i < axes; ++i)
        taps[i] = taps_at(rule, place[axes - 1 - i], shape[static_cast<int>(i) + 2]);
      for (int64_t c = 0; c < output[1]; ++c) {
        const int64_t plane = n * output[1] + c;
        y[static_cast<size_t>(plane * places + p)] =
            sum_of_taps(x.data() + plane * size, shape, taps);
      }
    }
  }
  call.give(0, Array::of_doubles(call.type(0), output, y));
}

// AffineGrid: theta (N, axes, axes + 1) and the size (N, C, ...) to (N, ..., axes).

Shape affine_grid_output(const Call& call) {
  need_rank(call, 0, "theta", 3, 3);
  const std::vector<int64_t> size = integers(call, 1, "size");
  if (size.size() != 4 && size.size() != 5)
    call.fail("size has ", size.size(), " values; it needs 4 or 5");
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  need_within(call, "size", size[0], 0);
  need_shape(call, 0, "theta", {size[0], axes, axes + 1});
  std::vector<int64_t> dims{size[0]};
  for (size_t i = 2; i < size.size(); ++i) {
    need_within(call, "size", size[i], 0);
    dims.push_back(size[i]);
  }
  dims.push_back(axes);
  checked_count(call, Shape(dims));
  return Shape(dims);
}

void infer_affine_grid(Call& call) { call.give(0, call.type(0), affine_grid_output(call)); }

double grid_place(int64_t index, int64_t size, bool aligns_corners) {
  const auto at = static_cast<double>(2 * index);
  const auto length = static_cast<double>(size);
  if (!aligns_corners) return (at + 1) / length - 1;
  return size == 1 ? 0 : at / (length - 1) - 1;
}

void evaluate_affine_grid(Call& call) {
  const Shape output = affine_grid_output(call);
  const std::vector<double> theta = numbers(call, 0, "theta");
  const bool aligns_corners = call.get_int("align_corners", 0) != 0;
  const int axes = output.rank() - 2;
  std::vector<double> grid(checked_count(call, output), 0);
  const std::vector<int64_t> sizes(output.dims().begin(), output.dims().end() - 1);
  std::vector<int64_t> index(sizes.size(), 0);
  for (size_t target = 0; target < grid.size();) {
    const double* matrix = theta.data() + index[0] * axes * (axes + 1);
    for (int row = 0; row < axes; ++row, ++target) {
      double sum = matrix[row * (axes + 1) + axes];
      // Coordinate 0 belongs to the last axis.
      for (int k = 0; k < axes; ++k)
        sum += matrix[row * (axes + 1) + k] * grid_place(index[static_cast<size_t>(axes - k)],
                                                         sizes[static_cast<size_t>(axes - k)],
                                                         aligns_corners);
      grid[target] = sum;
    }
    next_index(index, sizes);
  }
  call.give(0, Array::of_doubles(call.type(0), output, grid));
}

}  // namespace

void add_sampling_operators(OperatorTable& table) {
  table.add({.name = "GridSample",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_grid_sample,
             .evaluate = evaluate_grid_sample});
  table.add({.name = "AffineGrid",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_affine_grid,
             .evaluate = evaluate_affine_grid});
}

}  // namespace crema::onnx
