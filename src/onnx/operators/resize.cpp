// Resize: one axis after the other, since each mode is separable. An element of the output is a
// weighted sum of elements of the input, beyond whose ends the last element goes on.
#include <algorithm>
#include <cmath>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

/// How one axis is resized.
struct ResizeAxis {
  double scale = 1;
  int64_t out = 0;
  double start = 0;  // of the region, as a share of the axis
  double end = 1;
};

bool crops(const Call& call) {
  return call.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
}

/// Whether input i is given and not empty: an empty one counts as missing.
bool has_values(const Call& call, size_t i) { return call.has(i) && call.shape(i).count() > 0; }

std::vector<int> resized_axes(const Call& call) {
  const int rank = call.shape(0).rank();
  if (call.has_attribute("axes")) return call.canonical(call.get_ints("axes"), rank);
  std::vector<int> axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

void set_sizes(const Call& call, const std::vector<int>& axes, std::vector<ResizeAxis>& result) {
  const Shape& x = call.shape(0);
  const std::vector<int64_t> sizes = integers(call, 3, "sizes");
  if (sizes.size() != axes.size())
    call.fail("sizes has ", sizes.size(), " values for ", axes.size(), " axes");
  const std::string policy = call.get_string("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    call.fail("keep_aspect_ratio_policy '", policy,
              "'; it has to be stretch, not_larger or not_smaller");
  std::vector<double> scales;
  for (size_t i = 0; i < axes.size(); ++i) {
    need_within(call, "a size", sizes[i], 0);
    if (x[axes[i]] == 0) call.fail("X ", x.str(), " has an empty axis");
    scales.push_back(static_cast<double>(sizes[i]) / static_cast<double>(x[axes[i]]));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& axis = result[static_cast<size_t>(axes[i])];
    axis.scale = scales[i];
    axis.out = sizes[i];
    if (policy == "stretch") continue;
    axis.scale = policy == "not_larger" ? *std::min_element(scales.begin(), scales.end())
                                        : *std::max_element(scales.begin(), scales.end());
    const double size = std::floor(axis.scale * static_cast<double>(x[axes[i]]) + 0.5);
    if (!(size <= static_cast<double>(kMaxExtent)))
      call.fail("a size of ", size, "; at most ", kMaxExtent, " is supported");
    axis.out = static_cast<int64_t>(size);
  }
}

void set_scales(const Call& call, size_t input, const std::vector<int>& axes,
                std::vector<ResizeAxis>& result) {
  const Shape& x = call.shape(0);
  const std::vector<double> scales = numbers(call, input, "scales");
  if (scales.size() != axes.size())
    call.fail("scales has ", scales.size(), " values for ", axes.size(), " axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& axis = result[static_cast<size_t>(axes[i])];
    axis.scale = scales[i];
    // In single precision: 0.7 in a file is a little less, and 10 times that is to be 7.
    const float share = crops(call) ? static_cast<float>(axis.end - axis.start) : 1.0F;
    const float size =
        std::floor(static_cast<float>(x[axes[i]]) * share * static_cast<float>(scales[i]));
    // Also false for NaN.
    if (!(scales[i] > 0 && size >= 0 && size <= static_cast<float>(kMaxExtent)))
      call.fail("a scale of ", scales[i], " of an axis of ", x[axes[i]],
                "; the size has to be in [0, ", kMaxExtent, "]");
    axis.out = static_cast<int64_t>(size);
  }
}

std::vector<ResizeAxis> resize_axes(const Call& call) {
  const Shape& x = call.shape(0);
  need_rank(call, 0, "X", 1, 8);
  const std::vector<int> axes = resized_axes(call);
  std::vector<ResizeAxis> result(static_cast<size_t>(x.rank()));
  for (int axis = 0; axis < x.rank(); ++axis) result[static_cast<size_t>(axis)].out = x[axis];
  if (crops(call)) {
    if (!has_values(call, 1)) call.fail("tf_crop_and_resize needs the input roi");
    const std::vector<double> roi = numbers(call, 1, "roi");
    if (roi.size() != 2 * axes.size())
      call.fail("roi has ", roi.size(), " values for ", axes.size(), " axes; it needs two each");
    for (size_t i = 0; i < axes.size(); ++i) {
      ResizeAxis& axis = result[static_cast<size_t>(axes[i])];
      axis.start = roi[i];
      axis.end = roi[axes.size() + i];
      if (!std::isfinite(axis.start) || !std::isfinite(axis.end))
        call.fail("roi has the value ", axis.start + axis.end);
    }
  }
  if (call.opset() < 11) {
    set_scales(call, 1, axes, result);
  } else if (has_values(call, 3)) {
    if (has_values(call, 2)) call.fail("scales and sizes exclude each other");
    set_sizes(call, axes, result);
  } else if (has_values(call, 2)) {
    set_scales(call, 2, axes, result);
  } else {
    call.fail("one of the inputs scales and sizes is needed");
  }
  return result;
}

Shape resize_output(const Call& call, const std::vector<ResizeAxis>& axes) {
  std::vector<int64_t> dims;
  for (const ResizeAxis& axis : axes) dims.push_back(axis.out);
  checked_count(call, Shape(dims));
  return Shape(dims);
}

void infer_resize(Call& call) {
  call.give(0, call.type(0), resize_output(call, resize_axes(call)));
}

enum class ResizeMode { nearest, linear, cubic };

/// The attributes that say which elements are read.
struct ResizeRule {
  ResizeMode mode = ResizeMode::nearest;
  std::string coordinates;
  std::string rounding;
  double cubic_a = -0.75;
  bool excludes_outside = false;
  bool antialiases = false;
};

ResizeRule resize_rule(const Call& call) {
  ResizeRule rule;
  const std::string mode = call.get_string("mode", "nearest");
  if (mode == "linear")
    rule.mode = ResizeMode::linear;
  else if (mode == "cubic")
    rule.mode = ResizeMode::cubic;
  else if (mode != "nearest")
    call.fail("mode '", mode, "'; it has to be nearest, linear or cubic");
  const bool is_old = call.opset() < 11;
  rule.coordinates =
      is_old ? "asymmetric" : call.get_string("coordinate_transformation_mode", "half_pixel");
  rule.rounding = is_old ? "simple" : call.get_string("nearest_mode", "round_prefer_floor");
  rule.cubic_a = call.get_float("cubic_coeff_a", -0.75);
  rule.excludes_outside = call.get_int("exclude_outside", 0) != 0;
  rule.antialiases = call.get_int("antialias", 0) != 0 && rule.mode != ResizeMode::nearest;
  return rule;
}

/// The place in the input of element `x` of the output.
double original_place(const Call& call, const std::string& mode, const ResizeAxis& axis, int64_t in,
                      int64_t x) {
  const double size = axis.scale * static_cast<double>(in);  // may have a fraction
  const auto last = static_cast<double>(in - 1);
  const auto at = static_cast<double>(x);
  if (mode == "half_pixel") return (at + 0.5) / axis.scale - 0.5;
  if (mode == "asymmetric") return at / axis.scale;
  if (mode == "align_corners") return size == 1 ? 0 : at * last / (size - 1);
  if (mode == "pytorch_half_pixel") return size == 1 ? -0.5 : (at + 0.5) / axis.scale - 0.5;
  if (mode == "half_pixel_symmetric") {
    const double offset = static_cast<double>(in) / 2 * (1 - static_cast<double>(axis.out) / size);
    return offset + (at + 0.5) / axis.scale - 0.5;
  }
  if (mode == "tf_crop_and_resize") {
    if (axis.out == 1) return 0.5 * (axis.start + axis.end) * last;
    return axis.start * last +
           at * (axis.end - axis.start) * last / static_cast<double>(axis.out - 1);
  }
  call.fail("coordinate_transformation_mode '", mode, "' is not known");
}

double rounded_place(const Call& call, const ResizeRule& rule, const ResizeAxis& axis, double at) {
  if (rule.rounding == "round_prefer_floor") return std::ceil(at - 0.5);
  if (rule.rounding == "round_prefer_ceil") return std::floor(at + 0.5);
  if (rule.rounding == "floor") return std::floor(at);
  if (rule.rounding == "ceil") return std::ceil(at);
  if (rule.rounding == "simple") return axis.scale < 1 ? std::ceil(at) : std::floor(at);
  call.fail("nearest_mode '", rule.rounding, "' is not known");
}

/// The weight of an element at a distance, with the filter's own width of 1 or 2.
double filter_weight(const ResizeRule& rule, double distance) {
  const double d = std::abs(distance);
  if (rule.mode == ResizeMode::linear) return std::max(0.0, 1 - d);
  const double a = rule.cubic_a;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

/// Elements and weights that make one element of the output.
struct WeightedElements {
  bool is_outside = false;  // of the crop: the extrapolation value instead
  std::vector<int64_t> elements;
  std::vector<double> weights;
};

WeightedElements elements_of(const Call& call, const ResizeRule& rule, const ResizeAxis& axis,
                             int64_t in, int64_t x) {
  WeightedElements result;
  double at = original_place(call, rule.coordinates, axis, in, x);
  const auto last = static_cast<double>(in - 1);
  if (rule.coordinates == "tf_crop_and_resize" && (at < 0 || at > last)) {
    result.is_outside = true;
    return result;
  }
  // Far outside, all elements are the last one.
  at =
      std::clamp(at, -4.0 * static_cast<double>(kMaxExtent), 4.0 * static_cast<double>(kMaxExtent));
  const auto add = [&](double element, double weight) {
    if (rule.excludes_outside && (element < 0 || element > last)) return;
    result.elements.push_back(static_cast<int64_t>(std::clamp(element, 0.0, last)));
    result.weights.push_back(weight);
  };
  if (rule.mode == ResizeMode::nearest) {
    add(rounded_place(call, rule, axis, at), 1);
    if (result.elements.empty()) result.is_outside = true;
    return result;
  }
  const double shrink = rule.antialiases ? std::min(axis.scale, 1.0) : 1;
  const double radius = (rule.mode == ResizeMode::linear ? 1 : 2) / shrink;
  if (!(radius <= 4.0 * static_cast<double>(kMaxExtent)))
    call.fail("a scale of ", axis.scale, " is too small");
  double sum = 0;
  for (double element = std::ceil(at - radius); element <= at + radius; ++element) {
    const double weight = filter_weight(rule, (element - at) * shrink);
    if (weight == 0) continue;
    add(element, weight);
  }
  for (const double weight : result.weights) sum += weight;
  if ((rule.antialiases || rule.excludes_outside) && sum != 0)
    for (double& weight : result.weights) weight /= sum;
  return result;
}

void evaluate_resize(Call& call) {
  const std::vector<ResizeAxis> axes = resize_axes(call);
  const Shape output = resize_output(call, axes);
  const ResizeRule rule = resize_rule(call);
  const double outside = call.get_float("extrapolation_value", 0);
  Shape shape = call.shape(0);
  std::vector<double> values = numbers(call, 0, "X");
  for (int a = 0; a < shape.rank(); ++a) {
    const ResizeAxis& axis = axes[static_cast<size_t>(a)];
    const bool is_whole = !crops(call) || (axis.start == 0 && axis.end == 1);
    if (axis.out == shape[a] && std::abs(axis.scale - 1) < 1e-9 && is_whole) continue;
    const AxisView view = view_along(shape, a);
    shape.set(a, axis.out);
    std::vector<double> resized(checked_count(call, shape), 0);
    for (int64_t x = 0; x < axis.out && !resized.empty(); ++x) {
      if (view.size == 0) call.fail("X ", call.shape(0).str(), " has an empty axis");
      const WeightedElements from = elements_of(call, rule, axis, view.size, x);
      for (int64_t o = 0; o < view.outer; ++o) {
        double* target = resized.data() + (o * axis.out + x) * view.inner;
        if (from.is_outside) std::fill(target, target + view.inner, outside);
        for (size_t e = 0; e < from.elements.size(); ++e) {
          const double* source = values.data() + (o * view.size + from.elements[e]) * view.inner;
          for (int64_t i = 0; i < view.inner; ++i) target[i] += from.weights[e] * source[i];
        }
      }
    }
    values = std::move(resized);
  }
  for (double& value : values) value = saturated(call.type(0), value);
  call.give(0, Array::of_doubles(call.type(0), output, values));
}

}  // namespace

void add_resize_operators(OperatorTable& table) {
  table.add(
      {.name = "Resize", .max_inputs = 4, .infer = infer_resize, .evaluate = evaluate_resize});
}

}  // namespace crema::onnx
