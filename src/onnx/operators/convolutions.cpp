// Convolutions and Col2Im. The layers Convolution and Deconvolution compute most of them; what
// stands here is plain, for constants and for forms that the layers do not have.
#include <algorithm>
#include <cmath>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"
#include "onnx/operators/convolve.hpp"

namespace crema::onnx {

ConvolutionShape convolution_shape(const Call& call, size_t weights, size_t bias) {
  need_rank(call, 0, "X", 3, kMaxSpatialAxes + 2);
  need_rank(call, weights, "W", call.shape(0).rank(), call.shape(0).rank());
  const Shape& x = call.shape(0);
  const Shape& w = call.shape(weights);
  ConvolutionShape shape;
  shape.batch = x[0];
  shape.in_channels = x[1];
  shape.out_channels = w[0];
  shape.group = call.get_int("group", 1);
  if (shape.group < 1 || x[1] % shape.group != 0 || w[0] % shape.group != 0)
    call.fail("group ", shape.group, " does not divide ", x[1], " input and ", w[0],
              " output channels");
  if (w[1] != x[1] / shape.group)
    call.fail("W ", w.str(), " takes ", w[1], " channels; each of ", shape.group, " groups of X ",
              x.str(), " has ", x[1] / shape.group);
  if (call.has(bias)) need_shape(call, bias, "the bias", {w[0]});
  const std::span<const int64_t> of_weights = std::span(w.dims()).subspan(2);
  shape.axes = window_axes(call, kernel_shape(call, of_weights, of_weights.size()));
  checked_count(call, shape.output());
  return shape;
}

std::vector<double> convolve(const ConvolutionShape& s, const std::vector<double>& x,
                             const std::vector<double>& w) {
  const int64_t in_count = input_count(s.axes);
  const int64_t out_count = output_count(s.axes);
  const int64_t taps_of_kernel = kernel_count(s.axes);
  const int64_t group_in = s.in_channels / s.group;
  const int64_t group_out = s.out_channels / s.group;
  std::vector<double> y(static_cast<size_t>(s.output().count()), 0);
  if (y.empty()) return y;
  const std::vector<int64_t> sizes = output_sizes(s.axes);
  std::vector<int64_t> place(sizes.size(), 0);
  std::vector<Tap> taps;
  for (int64_t p = 0; p < out_count; ++p) {
    find_taps(s.axes, place, taps);
    next_index(place, sizes);
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t m = 0; m < s.out_channels; ++m) {
        double sum = 0;
        for (int64_t c = 0; c < group_in; ++c) {
          const double* input =
              x.data() + (n * s.in_channels + m / group_out * group_in + c) * in_count;
          const double* kernel = w.data() + (m * group_in + c) * taps_of_kernel;
          for (const Tap& tap : taps) sum += input[tap.input] * kernel[tap.kernel];
        }
        y[static_cast<size_t>((n * s.out_channels + m) * out_count + p)] = sum;
      }
    }
  }
  return y;
}

std::vector<double> zero_points(const Call& call, size_t i, std::string_view what,
                                int64_t channels) {
  if (!call.has(i)) return std::vector<double>(static_cast<size_t>(channels), 0);
  std::vector<double> values = numbers(call, i, what);
  if (values.size() == 1) values.assign(static_cast<size_t>(channels), values.front());
  if (static_cast<int64_t>(values.size()) != channels)
    call.fail(what, " has ", values.size(), " values for ", channels, " channels");
  return values;
}

namespace {

void infer_conv(Call& call) { call.give(0, call.type(0), convolution_shape(call, 1, 2).output()); }

void add_channel_bias(std::vector<double>& y, const std::vector<double>& bias, int64_t inner) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i / static_cast<size_t>(inner) % bias.size()];
}

void evaluate_conv(Call& call) {
  const ConvolutionShape shape = convolution_shape(call, 1, 2);
  std::vector<double> y = convolve(shape, numbers(call, 0, "X"), numbers(call, 1, "W"));
  if (call.has(2)) add_channel_bias(y, numbers(call, 2, "B"), output_count(shape.axes));
  call.give(0, Array::of_doubles(call.type(0), shape.output(), y));
}

void infer_conv_integer(Call& call) {
  call.give(0, TensorProto::INT32, convolution_shape(call, 1, kAny).output());
}

void evaluate_conv_integer(Call& call) {
  const ConvolutionShape shape = convolution_shape(call, 1, kAny);
  std::vector<double> x = numbers(call, 0, "x");
  std::vector<double> w = numbers(call, 1, "w");
  const double x_zero = call.has(2) ? number(call, 2, "x_zero_point") : 0;
  const std::vector<double> w_zeros = zero_points(call, 3, "w_zero_point", shape.out_channels);
  for (double& value : x) value -= x_zero;
  for (size_t i = 0; i < w.size(); ++i) w[i] -= w_zeros[i / (w.size() / w_zeros.size())];
  const std::vector<double> y = convolve(shape, x, w);
  // Sums of products of 8 bits are integers that a double has exactly; they wrap as those of int32.
  std::vector<int64_t> sums(y.size());
  std::transform(y.begin(), y.end(), sums.begin(), [](double v) { return std::llround(v); });
  call.give(0, Array::of_integers(TensorProto::INT32, shape.output(), sums));
}

// ConvTranspose: the axes are those of the convolution that goes back, from its output (here the
// greater one, `in`) to its input.

ConvolutionShape transposed_shape(const Call& call) {
  need_rank(call, 0, "X", 3, kMaxSpatialAxes + 2);
  need_rank(call, 1, "W", call.shape(0).rank(), call.shape(0).rank());
  const Shape& x = call.shape(0);
  const Shape& w = call.shape(1);
  ConvolutionShape shape;
  shape.batch = x[0];
  shape.out_channels = x[1];
  shape.group = call.get_int("group", 1);
  if (w[0] != x[1] || shape.group < 1 || x[1] % shape.group != 0)
    call.fail("X ", x.str(), ", W ", w.str(), " and group ", shape.group, " do not fit");
  shape.in_channels = Shape{w[1], shape.group}.count();
  if (call.has(2)) need_shape(call, 2, "the bias", {shape.in_channels});
  const size_t count = static_cast<size_t>(x.rank()) - 2;
  const std::vector<int64_t> kernel = kernel_shape(call, std::span(w.dims()).subspan(2), count);
  const std::vector<int64_t> strides = spatial_ints(call, "strides", count, 1, 1);
  const std::vector<int64_t> dilations = spatial_ints(call, "dilations", count, 1, 1);
  const std::vector<int64_t> added = spatial_ints(call, "output_padding", count, 0, 0);
  const std::string auto_pad = call.get_string("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  const bool has_sizes = !call.get_ints("output_shape").empty();
  const std::vector<int64_t> sizes = spatial_ints(call, "output_shape", count, 0, 0);
  const std::vector<int64_t> pads = auto_pad == "VALID" || same || has_sizes
                                        ? std::vector<int64_t>(2 * count, 0)
                                        : spatial_pads(call, count);
  for (size_t i = 0; i < count; ++i) {
    WindowAxis axis{.kernel = kernel[i], .stride = strides[i], .dilation = dilations[i]};
    axis.out = x[static_cast<int>(i) + 2];
    if (axis.out < 1) call.fail("X ", x.str(), " has an empty spatial axis");
    const int64_t full = axis.stride * (axis.out - 1) + axis.extent() + added[i];
    axis.begin = pads[i];
    axis.end = pads[count + i];
    if (has_sizes || same) {
      const int64_t size = has_sizes ? sizes[i] : axis.out * axis.stride;
      // What exceeds the full size is zeros behind it.
      const int64_t total = std::max<int64_t>(0, full - size);
      axis.begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.in = size;
    } else {
      axis.in = full - axis.begin - axis.end;
    }
    need_within(call, "the size of the output", axis.in, 1);
    shape.axes.push_back(axis);
  }
  return shape;
}

Shape transposed_output(const Call& call, const ConvolutionShape& shape) {
  std::vector<int64_t> dims{shape.batch, shape.in_channels};
  for (const WindowAxis& axis : shape.axes) dims.push_back(axis.in);
  checked_count(call, Shape(dims));
  return Shape(dims);
}

void infer_conv_transpose(Call& call) {
  call.give(0, call.type(0), transposed_output(call, transposed_shape(call)));
}

void evaluate_conv_transpose(Call& call) {
  const ConvolutionShape s = transposed_shape(call);
  const Shape output = transposed_output(call, s);
  const std::vector<double> x = numbers(call, 0, "X");
  const std::vector<double> w = numbers(call, 1, "W");
  const int64_t large = input_count(s.axes);
  const int64_t small = output_count(s.axes);
  const int64_t taps_of_kernel = kernel_count(s.axes);
  const int64_t group_small = s.out_channels / s.group;
  const int64_t group_large = s.in_channels / s.group;
  std::vector<double> y(checked_count(call, output), 0);
  const std::vector<int64_t> sizes = output_sizes(s.axes);
  std::vector<int64_t> place(sizes.size(), 0);
  std::vector<Tap> taps;
  for (int64_t p = 0; p < small && !y.empty(); ++p) {
    find_taps(s.axes, place, taps);
    next_index(place, sizes);
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t c = 0; c < s.out_channels; ++c) {
        const double value = x[static_cast<size_t>((n * s.out_channels + c) * small + p)];
        for (int64_t m = 0; m < group_large; ++m) {
          const double* kernel = w.data() + (c * group_large + m) * taps_of_kernel;
          double* target =
              y.data() + (n * s.in_channels + c / group_small * group_large + m) * large;
          for (const Tap& tap : taps) target[tap.input] += value * kernel[tap.kernel];
        }
      }
    }
  }
  if (call.has(2)) add_channel_bias(y, numbers(call, 2, "B"), large);
  call.give(0, Array::of_doubles(call.type(0), output, y));
}

// Col2Im: (N, C * kernel, places) to (N, C, image).

std::vector<WindowAxis> column_axes(const Call& call) {
  need_rank(call, 0, "input", 3, 3);
  const std::vector<int64_t> image = integers(call, 1, "image_shape");
  const std::vector<int64_t> block = integers(call, 2, "block_shape");
  const size_t count = image.size();
  if (count == 0 || count > kMaxSpatialAxes || block.size() != count)
    call.fail("image_shape has ", count, " and block_shape ", block.size(),
              " values; they need as many, at most ", kMaxSpatialAxes);
  const std::vector<int64_t> strides = spatial_ints(call, "strides", count, 1, 1);
  const std::vector<int64_t> dilations = spatial_ints(call, "dilations", count, 1, 1);
  const std::vector<int64_t> pads = spatial_pads(call, count);
  std::vector<WindowAxis> axes;
  int64_t kernel = 1;
  for (size_t i = 0; i < count; ++i) {
    need_within(call, "image_shape", image[i], 0);
    need_within(call, "block_shape", block[i], 1);
    kernel *= block[i];
    need_within(call, "the number of elements of a block", kernel, 1);
    WindowAxis axis{.in = image[i],
                    .kernel = block[i],
                    .stride = strides[i],
                    .dilation = dilations[i],
                    .begin = pads[i],
                    .end = pads[count + i]};
    const int64_t room = axis.in + axis.begin + axis.end - axis.extent();
    if (room < 0)
      call.fail("a block of ", axis.extent(), " exceeds the padded image of ",
                axis.in + axis.begin + axis.end);
    axis.out = room / axis.stride + 1;
    axes.push_back(axis);
  }
  const Shape& columns = call.shape(0);
  if (columns[1] % kernel != 0 || columns[2] != output_count(axes))
    call.fail("input ", columns.str(), " does not fit ", output_count(axes), " blocks of ", kernel,
              " elements");
  return axes;
}

Shape image_output(const Call& call, std::span<const WindowAxis> axes) {
  std::vector<int64_t> dims{call.shape(0)[0], call.shape(0)[1] / kernel_count(axes)};
  for (const WindowAxis& axis : axes) dims.push_back(axis.in);
  return Shape(dims);
}

void infer_col2im(Call& call) {
  const Shape output = image_output(call, column_axes(call));
  checked_count(call, output);
  call.give(0, call.type(0), output);
}

void evaluate_col2im(Call& call) {
  const std::vector<WindowAxis> axes = column_axes(call);
  const Shape output = image_output(call, axes);
  const std::vector<double> columns = numbers(call, 0, "input");
  const int64_t blocks = output_count(axes);
  const int64_t kernel = kernel_count(axes);
  std::vector<double> image(checked_count(call, output), 0);
  const int64_t size = output.count(2);
  const std::vector<int64_t> sizes = output_sizes(axes);
  std::vector<int64_t> place(sizes.size(), 0);
  std::vector<Tap> taps;
  for (int64_t p = 0; p < blocks; ++p) {
    find_taps(axes, place, taps);
    next_index(place, sizes);
    for (int64_t plane = 0; plane < output.count(0, 2); ++plane)
      for (const Tap& tap : taps)
        image[static_cast<size_t>(plane * size + tap.input)] +=
            columns[static_cast<size_t>((plane * kernel + tap.kernel) * blocks + p)];
  }
  call.give(0, Array::of_doubles(call.type(0), output, image));
}

// DeformConv: inputs X, W, offset, B, mask.

ConvolutionShape deformed_shape(const Call& call) {
  ConvolutionShape shape = convolution_shape(call, 1, 3);
  const int64_t groups = call.get_int("offset_group", 1);
  if (groups < 1 || shape.in_channels % groups != 0)
    call.fail("offset_group ", groups, " does not divide ", shape.in_channels, " channels");
  const int64_t kernel = kernel_count(shape.axes);
  std::vector<int64_t> dims = shape.output().dims();
  dims[1] = Shape{groups, kernel, static_cast<int64_t>(shape.axes.size())}.count();
  need_shape(call, 2, "offset", Shape(dims));
  dims[1] = Shape{groups, kernel}.count();
  if (call.has(4)) need_shape(call, 4, "mask", Shape(dims));
  return shape;
}

void infer_deform_conv(Call& call) { call.give(0, call.type(0), deformed_shape(call).output()); }

/// The value at a place between elements, linear in each axis; elements outside are 0.
double value_between(const double* values, std::span<const WindowAxis> axes,
                     std::span<const double> place) {
  double sum = 0;
  for (uint32_t corner = 0; corner < (1U << axes.size()); ++corner) {
    double weight = 1;
    int64_t index = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      const double low = std::floor(place[i]);
      const bool upper = (corner >> i & 1U) != 0;
      weight *= upper ? place[i] - low : 1 - (place[i] - low);
      const double at = upper ? low + 1 : low;
      // Also false for NaN.
      if (!(at >= 0 && at < static_cast<double>(axes[i].in))) {
        weight = 0;
        break;
      }
      index = index * axes[i].in + static_cast<int64_t>(at);
    }
    if (weight != 0) sum += weight * values[index];
  }
  return sum;
}

void evaluate_deform_conv(Call& call) {
  const ConvolutionShape s = deformed_shape(call);
  const std::vector<double> x = numbers(call, 0, "X");
  const std::vector<double> w = numbers(call, 1, "W");
  const std::vector<double> offsets = numbers(call, 2, "offset");
  std::vector<double> mask;
  if (call.has(4)) mask = numbers(call, 4, "mask");
  const int64_t in_count = input_count(s.axes);
  const int64_t out_count = output_count(s.axes);
  const int64_t kernel = kernel_count(s.axes);
  const auto axes = static_cast<int64_t>(s.axes.size());
  const int64_t group_in = s.in_channels / s.group;
  const int64_t group_out = s.out_channels / s.group;
  const int64_t offset_groups = call.get_int("offset_group", 1);
  const int64_t channels_an_offset = s.in_channels / offset_groups;
  std::vector<double> y(checked_count(call, s.output()), 0);
  std::vector<int64_t> kernel_sizes;
  for (const WindowAxis& axis : s.axes) kernel_sizes.push_back(axis.kernel);
  const std::vector<int64_t> sizes = output_sizes(s.axes);
  std::vector<double> place(s.axes.size());
  for (int64_t n = 0; n < s.batch && !y.empty(); ++n) {
    for (int64_t c = 0; c < s.in_channels; ++c) {
      const int64_t offset_group = n * offset_groups + c / channels_an_offset;
      std::vector<int64_t> tap(s.axes.size(), 0);
      for (int64_t k = 0; k < kernel; ++k) {
        std::vector<int64_t> out(s.axes.size(), 0);
        for (int64_t p = 0; p < out_count; ++p) {
          const int64_t row = offset_group * kernel + k;
          for (size_t i = 0; i < s.axes.size(); ++i) {
            const WindowAxis& axis = s.axes[i];
            const auto at =
                static_cast<size_t>((row * axes + static_cast<int64_t>(i)) * out_count + p);
            place[i] =
                static_cast<double>(out[i] * axis.stride - axis.begin + tap[i] * axis.dilation) +
                offsets[at];
          }
          next_index(out, sizes);
          double value =
              value_between(x.data() + (n * s.in_channels + c) * in_count, s.axes, place);
          if (!mask.empty()) value *= mask[static_cast<size_t>(row * out_count + p)];
          for (int64_t m = 0; m < group_out; ++m) {
            const int64_t target = c / group_in * group_out + m;
            y[static_cast<size_t>((n * s.out_channels + target) * out_count + p)] +=
                value * w[static_cast<size_t>((target * group_in + c % group_in) * kernel + k)];
          }
        }
        next_index(tap, kernel_sizes);
      }
    }
  }
  if (call.has(3)) add_channel_bias(y, numbers(call, 3, "B"), out_count);
  call.give(0, Array::of_doubles(call.type(0), s.output(), y));
}

}  // namespace

void add_convolution_operators(OperatorTable& table) {
  table.add({.name = "Conv",
             .min_inputs = 2,
             .max_inputs = 3,
             .infer = infer_conv,
             .evaluate = evaluate_conv});
  table.add({.name = "ConvInteger",
             .min_inputs = 2,
             .max_inputs = 4,
             .infer = infer_conv_integer,
             .evaluate = evaluate_conv_integer});
  table.add({.name = "ConvTranspose",
             .min_inputs = 2,
             .max_inputs = 3,
             .infer = infer_conv_transpose,
             .evaluate = evaluate_conv_transpose});
  table.add({.name = "DeformConv",
             .min_inputs = 3,
             .max_inputs = 5,
             .infer = infer_deform_conv,
             .evaluate = evaluate_deform_conv});
  table.add({.name = "Col2Im",
             .min_inputs = 3,
             .max_inputs = 3,
             .infer = infer_col2im,
             .evaluate = evaluate_col2im});
}

}  // namespace crema::onnx
