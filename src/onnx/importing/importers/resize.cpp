// Resize and Upsample: layers Resize, where these compute the same numbers.
#include <algorithm>
#include <cmath>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

// Each place of an axis is looked at.
constexpr int64_t kMaxSide = 1 << 16;

struct ResizeAxis {
  int64_t in = 0, out = 0;
  double scale = 1;  // as the model has it
};

struct ResizeForm {
  std::string mode, coordinates, rounding;
  double cubic = -0.75;
  bool excludes_outside = false, antialias = false;
};

double place_of(const ResizeAxis& axis, const std::string& coordinates, int64_t i) {
  const auto at = static_cast<double>(i);
  if (coordinates == "asymmetric") return at / axis.scale;
  if (coordinates == "align_corners")
    return axis.out == 1
               ? 0
               : at * static_cast<double>(axis.in - 1) / static_cast<double>(axis.out - 1);
  if (coordinates == "pytorch_half_pixel" && axis.out == 1) return 0;
  if (coordinates == "tf_half_pixel_for_nn") return (at + 0.5) / axis.scale;
  return (at + 0.5) / axis.scale - 0.5;
}

int64_t nearest_of(double place, const std::string& rounding, int64_t size) {
  double nearest = std::floor(place);
  if (rounding == "ceil") nearest = std::ceil(place);
  if (rounding == "round_prefer_ceil") nearest = std::floor(place + 0.5);
  if (rounding == "round_prefer_floor") nearest = std::ceil(place - 0.5);
  return std::clamp<int64_t>(static_cast<int64_t>(nearest), 0, size - 1);
}

// The element that a layer takes in each mode without interpolation.
int64_t taken_by_layer(const ResizeAxis& axis, int64_t i, ResizeLayerParameter::Mode mode,
                       bool aligns) {
  const auto in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  const auto at = static_cast<double>(i);
  double place = std::floor(at * in / out);
  if (mode == ResizeLayerParameter::NEAREST_EXACT) place = std::floor((at + 0.5) * in / out);
  if (aligns) place = axis.out == 1 ? 0 : std::round(at * (in - 1) / (out - 1));
  return std::clamp<int64_t>(static_cast<int64_t>(place), 0, axis.in - 1);
}

bool is_same_nearest(const std::vector<ResizeAxis>& axes, const ResizeForm& form,
                     ResizeLayerParameter::Mode mode, bool aligns) {
  for (const ResizeAxis& axis : axes) {
    for (int64_t i = 0; i < axis.out; ++i) {
      const int64_t wanted =
          nearest_of(place_of(axis, form.coordinates, i), form.rounding, axis.in);
      if (taken_by_layer(axis, i, mode, aligns) != wanted) return false;
    }
  }
  return true;
}

// Gives up where no mode of the layer gives the model's numbers.
void set_mode(const std::vector<ResizeAxis>& axes, const ResizeForm& form,
              ResizeLayerParameter& settings) {
  if (form.mode == "nearest") {
    settings.set_mode(ResizeLayerParameter::NEAREST);
    if (is_same_nearest(axes, form, ResizeLayerParameter::NEAREST, false)) return;
    if (is_same_nearest(axes, form, ResizeLayerParameter::NEAREST_EXACT, false))
      return settings.set_mode(ResizeLayerParameter::NEAREST_EXACT);
    if (!is_same_nearest(axes, form, ResizeLayerParameter::NEAREST, true))
      give_up("the nearest elements of ", form.coordinates, " and ", form.rounding);
    return settings.set_align_corners(true);
  }
  const bool is_cubic = form.mode == "cubic";
  if (is_cubic && (form.excludes_outside || std::abs(form.cubic + 0.75) > 1e-6))
    give_up("another cubic kernel");
  const bool shrinks =
      std::ranges::any_of(axes, [](const ResizeAxis& axis) { return axis.out < axis.in; });
  if (form.antialias && shrinks) give_up("antialias");
  settings.set_mode(is_cubic ? ResizeLayerParameter::BICUBIC : ResizeLayerParameter::BILINEAR);
  if (form.coordinates == "align_corners") return settings.set_align_corners(true);
  if (form.coordinates != "half_pixel" && form.coordinates != "pytorch_half_pixel" &&
      form.coordinates != "half_pixel_symmetric")
    give_up("interpolation at coordinates ", form.coordinates);
  for (const ResizeAxis& axis : axes) {
    const double exact = static_cast<double>(axis.out) / static_cast<double>(axis.in);
    if (std::abs(exact - axis.scale) > 1e-6 * exact)
      give_up("scale ", axis.scale, " for an axis of ", axis.in, " that becomes ", axis.out);
    if (form.coordinates == "pytorch_half_pixel" && axis.out == 1 && axis.in > 1)
      give_up("one element of pytorch_half_pixel");
  }
}

void set_sizes(const std::vector<ResizeAxis>& axes, bool by_scales,
               ResizeLayerParameter& settings) {
  const auto whole = [](const ResizeAxis& axis) {
    return axis.scale * static_cast<double>(axis.in);
  };
  const bool is_exact = std::ranges::all_of(
      axes, [&](const ResizeAxis& axis) { return whole(axis) == static_cast<double>(axis.out); });
  if (!by_scales || !is_exact) {
    settings.set_height(as_setting(axes[0].out));
    settings.set_width(as_setting(axes[1].out));
    return;
  }
  if (axes[0].scale == axes[1].scale) {
    settings.set_scale(static_cast<float>(axes[0].scale));
    return;
  }
  settings.set_scale_h(static_cast<float>(axes[0].scale));
  settings.set_scale_w(static_cast<float>(axes[1].scale));
}

ResizeForm form_of(const Node& node) {
  const Call call = node.call();
  ResizeForm form;
  form.mode = call.get_string("mode", "nearest");
  if (node.op() == "Upsample" || node.opset < 11) {
    form.coordinates = "asymmetric";
    form.rounding = "floor";
    return form;
  }
  form.coordinates = call.get_string("coordinate_transformation_mode", "half_pixel");
  form.rounding = call.get_string("nearest_mode", "round_prefer_floor");
  form.cubic = call.get_float("cubic_coeff_a", -0.75);
  form.excludes_outside = call.get_int("exclude_outside", 0) != 0;
  form.antialias = call.get_int("antialias", 0) != 0;
  if (form.coordinates == "tf_crop_and_resize") give_up("a region of the input");
  return form;
}

// The scales of all axes where the model gives them.
std::vector<double> scales_of(const Node& node) {
  const Call call = node.call();
  const int rank = node.input(0)->shape().rank();
  std::vector<double> given;
  if (node.op() == "Upsample" && node.opset < 9) {
    given = call.get_floats("scales");
  } else {
    const size_t place = node.op() == "Upsample" || node.opset < 11 ? 1 : 2;
    if (call.has(place) && call.shape(place).count() > 0)
      given = call.constant(place, "scales").doubles();
  }
  if (given.empty()) return {};
  std::vector<int64_t> axes = call.get_ints("axes");
  if (axes.empty()) {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  if (axes.size() != given.size()) give_up("scales that are not one an axis");
  std::vector<double> scales(static_cast<size_t>(rank), 1);
  for (size_t i = 0; i < axes.size(); ++i)
    scales[static_cast<size_t>(call.canonical(axes[i], rank))] = given[i];
  return scales;
}

void import_resize(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Shape &x = node.input(0)->shape(), &out = node.output()->shape();
  if (x.count() == 0 || out.count() == 0) give_up("an empty tensor");
  if (x.rank() != 4) give_up("a tensor of ", x.rank(), " axes");
  if (x[0] != out[0] || x[1] != out[1]) give_up("axes that are not of a map");
  if (std::max(out[2], out[3]) > kMaxSide) give_up("a map of ", out[2], "x", out[3]);
  const ResizeForm form = form_of(node);
  const std::vector<double> scales = scales_of(node);
  // Its coordinates follow from a scale that is not the quotient of the sizes.
  if (scales.empty() && node.call().get_string("keep_aspect_ratio_policy", "stretch") != "stretch")
    give_up("keep_aspect_ratio_policy");
  std::vector<ResizeAxis> axes;
  for (const int axis : {2, 3}) {
    ResizeAxis& added = axes.emplace_back(ResizeAxis{.in = x[axis], .out = out[axis]});
    added.scale = scales.empty() ? static_cast<double>(out[axis]) / static_cast<double>(x[axis])
                                 : scales[static_cast<size_t>(axis)];
    if (!(added.scale > 0)) give_up("scale ", added.scale);
  }
  const bool is_same = x == out && axes[0].scale == 1 && axes[1].scale == 1;
  if (is_same && form.mode != "nearest" && form.coordinates != "asymmetric")
    return writer.alias(*node.input(0), *node.output());
  ResizeLayerParameter settings;
  set_sizes(axes, !scales.empty(), settings);
  set_mode(axes, form, settings);
  *writer.add(node, "Resize", {node.input(0)}, {node.output()}).mutable_resize_param() = settings;
}

}  // namespace

void add_resize_importers(ImporterTable& table) {
  table.add("Resize", import_resize);
  table.add("Upsample", import_resize);
}

}  // namespace crema::onnx
