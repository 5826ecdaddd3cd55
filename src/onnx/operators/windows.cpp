#include "onnx/operators/windows.hpp"

#include <algorithm>

#include "onnx/operators/checks.hpp"

namespace crema::onnx {

std::vector<int64_t> spatial_ints(const Call& call, std::string_view name, size_t axes,
                                  int64_t otherwise, int64_t least) {
  std::vector<int64_t> values = call.get_ints(name);
  if (values.empty()) return std::vector<int64_t>(axes, otherwise);
  if (values.size() != axes)
    call.fail(name, " has ", values.size(), " values for ", axes, " spatial axes");
  for (const int64_t value : values) need_within(call, name, value, least);
  return values;
}

std::vector<int64_t> spatial_pads(const Call& call, size_t axes) {
  std::vector<int64_t> pads = call.get_ints("pads");
  if (pads.empty()) return std::vector<int64_t>(2 * axes, 0);
  if (pads.size() != 2 * axes)
    call.fail("pads has ", pads.size(), " values for ", axes, " spatial axes; it needs ", 2 * axes);
  for (const int64_t pad : pads) need_within(call, "a pad", pad, 0);
  return pads;
}

std::vector<int64_t> kernel_shape(const Call& call, std::span<const int64_t> of_weights,
                                  size_t axes) {
  std::vector<int64_t> kernel = call.get_ints("kernel_shape");
  if (of_weights.empty()) {
    if (kernel.empty()) call.fail("kernel_shape is missing");
    kernel = spatial_ints(call, "kernel_shape", axes, 1, 1);
  } else {
    if (!kernel.empty() &&
        !std::equal(kernel.begin(), kernel.end(), of_weights.begin(), of_weights.end()))
      call.fail("kernel_shape ", joined(kernel, "x"), " differs from that of the weights, ",
                joined(of_weights, "x"));
    kernel.assign(of_weights.begin(), of_weights.end());
  }
  // Products of kernel and dilation, and of all of a window, fit 64 bits.
  int64_t count = 1;
  for (const int64_t size : kernel) {
    need_within(call, "the size of a kernel", size, 1);
    count *= size;
    need_within(call, "the number of elements of a kernel", count, 1);
  }
  return kernel;
}

namespace {

void pad_axis_to_same(WindowAxis& axis, bool upper) {
  axis.out = (axis.in + axis.stride - 1) / axis.stride;
  const int64_t total =
      std::max<int64_t>(0, (axis.out - 1) * axis.stride + axis.extent() - axis.in);
  axis.begin = upper ? total / 2 : total - total / 2;
  axis.end = total - axis.begin;
}

void find_output_size(const Call& call, WindowAxis& axis, size_t number, bool ceil_mode) {
  const int64_t room = axis.in + axis.begin + axis.end - axis.extent();
  if (room < 0)
    call.fail("a window of ", axis.extent(), " exceeds the padded input of ",
              axis.in + axis.begin + axis.end, " in spatial axis ", number);
  axis.out = (room + (ceil_mode ? axis.stride - 1 : 0)) / axis.stride + 1;
  // The last window starts in the input or the padding in front of it.
  if (ceil_mode && (axis.out - 1) * axis.stride >= axis.in + axis.begin) --axis.out;
}

}  // namespace

std::vector<WindowAxis> window_axes(const Call& call, const std::vector<int64_t>& kernel) {
  const Shape& shape = call.shape(0);
  const size_t count = kernel.size();
  const std::vector<int64_t> strides = spatial_ints(call, "strides", count, 1, 1);
  const std::vector<int64_t> dilations = spatial_ints(call, "dilations", count, 1, 1);
  const std::string auto_pad = call.get_string("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty())
    call.fail("auto_pad '", auto_pad, "'; it has to be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  const bool explicit_pads = !same && auto_pad != "VALID";
  const std::vector<int64_t> pads =
      explicit_pads ? spatial_pads(call, count) : std::vector<int64_t>(2 * count, 0);
  const bool ceil_mode = explicit_pads && call.get_int("ceil_mode", 0) != 0;
  std::vector<WindowAxis> axes(count);
  for (size_t i = 0; i < count; ++i) {
    axes[i] = {.in = shape[static_cast<int>(i) + 2],
               .kernel = kernel[i],
               .stride = strides[i],
               .dilation = dilations[i],
               .begin = pads[i],
               .end = pads[count + i]};
    if (same)
      pad_axis_to_same(axes[i], auto_pad == "SAME_UPPER");
    else
      find_output_size(call, axes[i], i, ceil_mode);
  }
  return axes;
}

Shape window_output(int64_t batch, int64_t channels, std::span<const WindowAxis> axes) {
  std::vector<int64_t> dims{batch, channels};
  for (const WindowAxis& axis : axes) dims.push_back(axis.out);
  return Shape(dims);
}

std::vector<int64_t> output_sizes(std::span<const WindowAxis> axes) {
  std::vector<int64_t> sizes;
  for (const WindowAxis& axis : axes) sizes.push_back(axis.out);
  return sizes;
}

int64_t input_count(std::span<const WindowAxis> axes) {
  int64_t count = 1;
  for (const WindowAxis& axis : axes) count *= axis.in;
  return count;
}

int64_t kernel_count(std::span<const WindowAxis> axes) {
  int64_t count = 1;
  for (const WindowAxis& axis : axes) count *= axis.kernel;
  return count;
}

int64_t output_count(std::span<const WindowAxis> axes) { return Shape(output_sizes(axes)).count(); }

void find_taps(std::span<const WindowAxis> axes, std::span<const int64_t> place,
               std::vector<Tap>& taps) {
  taps.assign(1, Tap{});
  std::vector<Tap> extended;
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& axis = axes[i];
    const int64_t start = place[i] * axis.stride - axis.begin;
    const int64_t first = start < 0 ? (-start + axis.dilation - 1) / axis.dilation : 0;
    const int64_t last =
        start < axis.in ? std::min(axis.kernel - 1, (axis.in - 1 - start) / axis.dilation) : -1;
    extended.clear();
    for (const Tap& tap : taps)
      for (int64_t k = first; k <= last; ++k)
        extended.push_back(
            {tap.kernel * axis.kernel + k, tap.input * axis.in + start + k * axis.dilation});
    taps.swap(extended);
  }
}

}  // namespace crema::onnx
