#include "layers/convolution/geometry.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/checked.hpp"
#include "crema/error.hpp"
#include "layers/convolution/convolution.pb.h"

namespace crema {
namespace {

int64_t product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

template <class Repeated>
std::vector<int64_t> to_vector(const Repeated& values) {
  return {values.begin(), values.end()};
}

}  // namespace

ConvolutionGeometry::ConvolutionGeometry(const ConvolutionParameter& param, Kind of)
    : kind(of),
      groups(param.group()),
      bias(param.bias_term()),
      axis(param.axis()),
      group_a_channel_(of == Kind::depthwise && !param.has_group()) {
  (transposed() ? channels : outputs) = param.num_output();
  if (top_channels() <= 0)
    throw Error("num_output is ", top_channels(), "; set it to the number of output channels");
  if (groups <= 0) throw Error("group is 0; use 1 for an ordinary convolution");
  split_outputs();

  const auto take = [](const char* name, const auto& list, bool has_h, int64_t h, bool has_w,
                       int64_t w) {
    Given given;
    given.name = name;
    given.values = to_vector(list);
    if (!has_h && !has_w) return given;
    const std::string short_name = given.name.substr(0, given.name.find('_'));
    if (!given.values.empty())
      throw Error(name, " and ", short_name, "_h / ", short_name,
                  "_w both given; keep one of them");
    given.values = {h, w};
    given.by_image_axes = true;
    return given;
  };
  given_kernel_ = take("kernel_size", param.kernel_size(), param.has_kernel_h(), param.kernel_h(),
                       param.has_kernel_w(), param.kernel_w());
  given_stride_ = take("stride", param.stride(), param.has_stride_h(),
                       param.has_stride_h() ? param.stride_h() : 1, param.has_stride_w(),
                       param.has_stride_w() ? param.stride_w() : 1);
  given_pad_ =
      take("pad", param.pad(), param.has_pad_h(), param.pad_h(), param.has_pad_w(), param.pad_w());
  given_dilation_ = take("dilation", param.dilation(), false, 0, false, 0);
  if (given_kernel_.by_image_axes) {
    if (!param.has_kernel_h() || !param.has_kernel_w())
      throw Error("kernel_h and kernel_w go together, ",
                  param.has_kernel_h() ? "kernel_w" : "kernel_h", " is missing");
  }
}

void ConvolutionGeometry::split_outputs() const {
  if (top_channels() % groups != 0)
    throw Error("num_output ", top_channels(), " is not a multiple of group ", groups,
                group_a_channel_ ? ", the number of channels" : "",
                "; each group makes as many outputs");
}

std::vector<int64_t> ConvolutionGeometry::per_axis(const Given& given, int64_t otherwise,
                                                   int64_t least) const {
  const auto axes = static_cast<size_t>(rank - axis - 1);
  if (given.by_image_axes && axes != 2)
    throw Error(given.name.substr(0, given.name.find('_')),
                "_h and _w are for 2 spatial axes, the bottom has ", axes, "; use ", given.name);
  if (given.values.size() > 1 && given.values.size() != axes)
    throw Error(given.name, " is given ", given.values.size(), " times for ", axes,
                " spatial axes; give it once, or ", axes, " times");
  std::vector<int64_t> values = given.values;
  if (values.empty()) values = {otherwise};
  if (values.size() == 1) values.resize(axes, values[0]);
  for (const int64_t value : values) {
    if (value < least) throw Error(given.name, " is ", value, "; use ", least, " or more");
  }
  return values;
}

void ConvolutionGeometry::set_up(const Shape& bottom) {
  rank = bottom.rank();
  axis = bottom.canonical_axis(axis);
  if (given_kernel_.values.empty() && axis != rank - 1)
    throw Error("kernel_size is not set; set kernel_size, or kernel_h and kernel_w");
  kernel = per_axis(given_kernel_, 1, 1);
  stride = per_axis(given_stride_, 1, 1);
  pad = per_axis(given_pad_, 0, 0);
  dilation = per_axis(given_dilation_, 1, 1);
  int64_t& own = transposed() ? outputs : channels;
  own = bottom[axis];
  if (own <= 0) throw Error("the bottom, ", bottom.str(), ", has no channels at axis ", axis);
  if (group_a_channel_) {
    groups = channels;
    split_outputs();
  }
  if (own % groups != 0)
    throw Error("the bottom's ", own, " channels are not a multiple of group ", groups,
                "; each group sees as many channels");
}

void ConvolutionGeometry::fit(const Shape& bottom) {
  if (bottom.rank() != rank)
    throw Error("the bottom, ", bottom.str(), ", has ", bottom.rank(),
                " axes, the weights are for ", rank);
  const int64_t own = transposed() ? outputs : channels;
  if (bottom[axis] != own)
    throw Error("the bottom, ", bottom.str(), ", has ", bottom[axis],
                " channels, the weights are for ", own);
  batch = bottom.count(0, axis);
  input.clear();
  output.clear();
  for (int i = 0; i < spatial_axes(); ++i) {
    const int64_t extent = bottom[axis + 1 + i], other = top_extent(bottom, i);
    input.push_back(transposed() ? other : extent);
    output.push_back(transposed() ? extent : other);
  }
}

int64_t ConvolutionGeometry::top_extent(const Shape& bottom, int spatial_axis) const {
  const auto s = static_cast<size_t>(spatial_axis);
  const int along = axis + 1 + spatial_axis;
  const int64_t extent = bottom[along];
  // Settings are of 32 bits, their products are not.
  const int64_t reach =
      checked_add(checked_multiply(dilation[s], kernel[s] - 1, "dilation and kernel_size"), 1,
                  "reach of the kernel");
  if (transposed()) {
    const int64_t padded =
        extent > 0 ? checked_add(checked_multiply(stride[s], extent - 1, "stride and extent"),
                                 reach, "extent of the top")
                   : 0;
    if (padded <= 2 * pad[s])
      throw Error("pad ", pad[s], " leaves nothing of the ", padded, " outputs along axis ", along,
                  " of ", bottom.str(), "; reduce pad");
    return padded - 2 * pad[s];
  }
  const int64_t padded = extent + 2 * pad[s];
  if (reach > padded)
    throw Error(
        "kernel ", kernel[s],
        dilation[s] > 1 ? text(" with dilation ", dilation[s], " reaches ", reach, " and") : "",
        " exceeds the padded input ", padded, " along axis ", along, " of ", bottom.str(),
        "; reduce kernel_size or add pad");
  return (padded - reach) / stride[s] + 1;
}

Shape ConvolutionGeometry::weights() const {
  std::vector<int64_t> dims = {outputs, channels / groups};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  return Shape(std::move(dims));
}

Shape ConvolutionGeometry::top(const Shape& bottom) const {
  std::vector<int64_t> dims(bottom.dims().begin(), bottom.dims().begin() + axis);
  const std::vector<int64_t>& extents = transposed() ? input : output;
  dims.push_back(top_channels());
  dims.insert(dims.end(), extents.begin(), extents.end());
  return Shape(std::move(dims));
}

int64_t ConvolutionGeometry::taps() const { return product(kernel); }
int64_t ConvolutionGeometry::elements() const { return product(input); }
int64_t ConvolutionGeometry::positions() const { return product(output); }

bool ConvolutionGeometry::is_pointwise() const {
  const auto all = [](const std::vector<int64_t>& values, int64_t value) {
    return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v == value; });
  };
  return all(kernel, 1) && all(stride, 1) && all(pad, 0);
}

}  // namespace crema
