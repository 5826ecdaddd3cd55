// Pooling and what undoes it. Windows of Caffe may reach over the border: sizes are computed here,
// and pads at the ends are written out, so that no runtime rounds them another way.
#include <algorithm>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

enum class Method { maximum, average, average_of_inside, stochastic };

/// One spatial axis.
struct PooledAxis {
  int64_t size = 0, kernel = 1, stride = 1, pad = 0, out = 0;

  /// Windows that have a cell inside; behind them, all is 0.
  int64_t inside() const {
    const int64_t first_beyond = (size + pad + stride - 1) / stride;
    return std::min(out, first_beyond);
  }
  /// Cells that the last of them needs behind the border; not negative.
  int64_t end_pad() const {
    return std::max<int64_t>(0, (inside() - 1) * stride + kernel - size - pad);
  }
};

std::vector<int64_t> pads_of(const std::vector<PooledAxis>& axes) {
  std::vector<int64_t> pads;
  for (const PooledAxis& axis : axes) pads.push_back(axis.pad);
  for (const PooledAxis& axis : axes) pads.push_back(axis.end_pad());
  return pads;
}

Attributes pool_attributes(const std::vector<PooledAxis>& axes, const std::vector<int64_t>& pads) {
  std::vector<int64_t> kernel, stride;
  for (const PooledAxis& axis : axes) {
    kernel.push_back(axis.kernel);
    stride.push_back(axis.stride);
  }
  return {{"kernel_shape", kernel}, {"strides", stride}, {"pads", pads}};
}

/// Zeros for the axes N and C before the pads of spatial axes.
std::vector<int64_t> with_outer_axes(std::vector<int64_t> pads) {
  const auto half = static_cast<ptrdiff_t>(pads.size() / 2);
  pads.insert(pads.begin() + half, 2, 0);
  pads.insert(pads.begin(), 2, 0);
  return pads;
}

/// The factor of the kernel's size over the cells that Caffe divides by: a window is cut off where
/// the padding ends. Of shape (1, 1, windows...).
std::string divisor_correction(GraphBuilder& graph, const std::vector<PooledAxis>& axes) {
  std::vector<int64_t> dims{1, 1};
  std::vector<double> factors{1};
  for (const PooledAxis& axis : axes) {
    std::vector<double> next;
    for (const double outer : factors) {
      for (int64_t i = 0; i < axis.inside(); ++i) {
        const int64_t begin = i * axis.stride - axis.pad;
        const int64_t end = std::min(begin + axis.kernel, axis.size + axis.pad);
        next.push_back(outer * static_cast<double>(axis.kernel) / static_cast<double>(end - begin));
      }
    }
    factors = std::move(next);
    dims.push_back(axis.inside());
  }
  return graph.floats(Shape(std::move(dims)), factors, "cells");
}

std::string average(GraphBuilder& graph, const std::string& x, const std::vector<PooledAxis>& axes,
                    bool counts_padding) {
  const std::vector<int64_t> pads = pads_of(axes);
  if (!counts_padding) return graph.add("AveragePool", {x}, pool_attributes(axes, pads));
  const bool overhangs =
      std::ranges::any_of(axes, [](const PooledAxis& axis) { return axis.end_pad() > axis.pad; });
  if (!overhangs) {
    Attributes attributes = pool_attributes(axes, pads);
    attributes.emplace_back("count_include_pad", 1);
    return graph.add("AveragePool", {x}, attributes);
  }
  // Runtimes differ in what they divide by at the border: zeros are added first, and what is
  // divided by too much is corrected.
  const std::string padded = graph.pad(x, with_outer_axes(pads));
  const std::string means = graph.add("AveragePool", {padded},
                                      pool_attributes(axes, std::vector<int64_t>(pads.size(), 0)));
  return graph.add("Mul", {means, divisor_correction(graph, axes)});
}

/// The sum of squares over the sum, 0 where all are 0.
std::string expected(GraphBuilder& graph, const std::string& x,
                     const std::vector<PooledAxis>& axes) {
  Attributes attributes = pool_attributes(axes, pads_of(axes));
  attributes.emplace_back("count_include_pad", 1);
  const std::string sum = graph.add("AveragePool", {x}, attributes);
  const std::string squares = graph.add("AveragePool", {graph.add("Mul", {x, x})}, attributes);
  const std::string is_zero = graph.add("Equal", {sum, graph.number(0)});
  const std::string divisor = graph.add("Where", {is_zero, graph.number(1), sum});
  return graph.add("Div", {squares, divisor});
}

struct Pooled {
  std::string values, places;  // places "": not wanted
};

Pooled pool(GraphBuilder& graph, const std::string& x, const std::vector<PooledAxis>& axes,
            Method method, bool places) {
  Pooled result;
  if (method == Method::maximum) {
    const Names found = graph.add_many("MaxPool", {x}, places ? Names{"", ""} : Names{""},
                                       pool_attributes(axes, pads_of(axes)));
    result.values = found[0];
    if (places) {
      // Places within a channel: ONNX numbers the elements of the whole tensor.
      int64_t area = 1;
      for (const PooledAxis& axis : axes) area *= axis.size;
      const std::string in_channel = graph.add("Mod", {found[1], graph.index(area)});
      result.places = graph.cast(in_channel, TensorProto::FLOAT);
    }
  } else if (method == Method::stochastic) {
    result.values = expected(graph, x, axes);
  } else {
    result.values = average(graph, x, axes, method == Method::average);
  }
  std::vector<int64_t> beyond(2 * axes.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) beyond[axes.size() + i] = axes[i].out - axes[i].inside();
  if (std::ranges::any_of(beyond, [](int64_t count) { return count > 0; })) {
    const std::vector<int64_t> pads = with_outer_axes(beyond);
    result.values = graph.pad(result.values, pads);
    if (places) result.places = graph.pad(result.places, pads, -1);
  }
  return result;
}

void export_pooled(const ExportedLayer& layer, GraphBuilder& graph,
                   const std::vector<PooledAxis>& axes, Method method) {
  const bool places = layer.tops() > 1;
  const bool is_global = std::ranges::all_of(axes, [](const PooledAxis& axis) {
    return axis.kernel == axis.size && axis.pad == 0 && axis.out == 1;
  });
  if (is_global && !places && method != Method::stochastic) {
    graph.add(method == Method::maximum ? "GlobalMaxPool" : "GlobalAveragePool", {layer.input()},
              {}, layer.output());
    return;
  }
  const Pooled made = pool(graph, layer.input(), axes, method, places);
  finish(layer, graph, made.values);
  if (places) finish(layer, graph, made.places, 1);
}

void export_pooling(const ExportedLayer& layer, GraphBuilder& graph) {
  const PoolingParameter& s = layer.param().pooling_param();
  const auto count = static_cast<size_t>(layer.bottom().rank() - 2);
  const auto setting = [&](const auto& each, std::optional<int64_t> both,
                           std::optional<int64_t> height, std::optional<int64_t> width,
                           int64_t otherwise) {
    return spatial_setting(each, height, width, count, both.value_or(otherwise));
  };
  const std::vector<int64_t> kernel = setting(
      s.kernel_size_3d(), set_value(s.has_kernel_size(), s.kernel_size()),
      set_value(s.has_kernel_h(), s.kernel_h()), set_value(s.has_kernel_w(), s.kernel_w()), 1);
  const std::vector<int64_t> stride = setting(s.stride_3d(), set_value(s.has_stride(), s.stride()),
                                              set_value(s.has_stride_h(), s.stride_h()),
                                              set_value(s.has_stride_w(), s.stride_w()), 1);
  const std::vector<int64_t> pad =
      setting(s.pad_3d(), set_value(s.has_pad(), s.pad()), set_value(s.has_pad_h(), s.pad_h()),
              set_value(s.has_pad_w(), s.pad_w()), 0);
  std::vector<PooledAxis> axes(count);
  for (size_t i = 0; i < count; ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t size = layer.bottom()[axis];
    axes[i] = s.global_pooling()
                  ? PooledAxis{size, size, 1, 0, 1}
                  : PooledAxis{size, kernel[i], stride[i], pad[i], layer.top()[axis]};
  }
  const Method method = s.pool() == PoolingParameter::MAX          ? Method::maximum
                        : s.pool() == PoolingParameter::STOCHASTIC ? Method::stochastic
                        : s.avg_include_pad()                      ? Method::average
                                                                   : Method::average_of_inside;
  export_pooled(layer, graph, axes, method);
}

void export_pooling3d(const ExportedLayer& layer, GraphBuilder& graph) {
  const Pooling3DParameter& s = layer.param().pooling3d_param();
  const Shape &from = layer.bottom(), &to = layer.top();
  const std::vector<PooledAxis> axes{{from[2], s.kernel_depth(), s.temporal_stride(), 0, to[2]},
                                     {from[3], s.kernel_size(), s.stride(), s.pad(), to[3]},
                                     {from[4], s.kernel_size(), s.stride(), s.pad(), to[4]}};
  export_pooled(layer, graph, axes,
                s.pool() == Pooling3DParameter::MAX   ? Method::maximum
                : s.pool() == Pooling3DParameter::AVE ? Method::average
                                                      : Method::stochastic);
}

void export_spp(const ExportedLayer& layer, GraphBuilder& graph) {
  const SPPParameter& s = layer.param().spp_param();
  const Shape& shape = layer.bottom();
  const Method method = s.pool() == SPPParameter::MAX   ? Method::maximum
                        : s.pool() == SPPParameter::AVE ? Method::average
                                                        : Method::stochastic;
  Names levels;
  for (uint32_t level = 0; level < s.pyramid_height(); ++level) {
    const int64_t bins = int64_t{1} << level;
    const auto axis = [&](int64_t size) {
      const int64_t kernel = (size + bins - 1) / bins;
      return PooledAxis{size, kernel, kernel, (kernel * bins - size + 1) / 2, bins};
    };
    const std::vector<PooledAxis> axes{axis(shape[2]), axis(shape[3])};
    const std::string y = pool(graph, layer.input(), axes, method, false).values;
    levels.push_back(
        s.pyramid_height() == 1 ? y : graph.reshape(y, Shape{shape[0], shape[1] * bins * bins}));
  }
  finish(layer, graph, levels.size() == 1 ? levels[0] : graph.concat(levels, 1));
}

/// (N, C, H, W) of zeros, with x at its places.
void export_placed(const ExportedLayer& layer, GraphBuilder& graph) {
  const Shape &from = layer.bottom(), &to = layer.top();
  const int64_t area = to.count(2);
  const std::string x = graph.reshape(layer.input(0), Shape{from[0], from[1], from.count(2)});
  const std::string places = graph.cast(
      graph.reshape(layer.input(1), Shape{from[0], from[1], from.count(2)}), TensorProto::INT64);
  // One column of x tells the batch.
  const std::string column = graph.slice(x, {2}, {0}, {1});
  const std::string zero = graph.add("Sub", {column, column});
  const std::string zeros = graph.add("Expand", {zero, graph.ints({1, 1, area})});
  const std::string y = graph.add("ScatterElements", {zeros, places, x}, {{"axis", 2}});
  graph.reshape(y, to, layer.output());
}

void export_unpooling(const ExportedLayer& layer, GraphBuilder& graph) {
  const UnpoolingParameter& s = layer.param().unpooling_param();
  if (s.unpool() == UnpoolingParameter::MAX) return export_placed(layer, graph);
  const Shape &from = layer.bottom(), &to = layer.top();
  const auto axis = [&](int i, int64_t kernel, int64_t stride, int64_t pad) {
    return PooledAxis{to[i], kernel, stride, pad, from[i]};
  };
  const std::vector<PooledAxis> axes{
      axis(2, s.has_kernel_h() ? s.kernel_h() : s.kernel_size(),
           s.has_stride_h() ? s.stride_h() : s.stride(), s.has_pad_h() ? s.pad_h() : s.pad()),
      axis(3, s.has_kernel_w() ? s.kernel_w() : s.kernel_size(),
           s.has_stride_w() ? s.stride_w() : s.stride(), s.has_pad_w() ? s.pad_w() : s.pad())};
  std::string x = layer.input();
  if (s.unpool() == UnpoolingParameter::AVE) {
    std::vector<double> shares;
    for (int64_t i = 0; i < from[2]; ++i) {
      for (int64_t j = 0; j < from[3]; ++j) {
        double cells = 1;
        for (size_t k = 0; k < 2; ++k) {
          const int64_t begin = (k == 0 ? i : j) * axes[k].stride - axes[k].pad;
          const int64_t end = std::min(begin + axes[k].kernel, axes[k].size + axes[k].pad);
          cells *= static_cast<double>(std::max<int64_t>(end - begin, 1));
        }
        shares.push_back(1 / cells);
      }
    }
    x = graph.add("Mul", {x, graph.floats(Shape{1, 1, from[2], from[3]}, shares, "shares")});
  }
  // Each value spreads over its window, then the map is cut or filled up to its size.
  const std::vector<double> ones(static_cast<size_t>(from[1] * axes[0].kernel * axes[1].kernel),
                                 1.0);
  const std::string weights =
      graph.floats(Shape{from[1], 1, axes[0].kernel, axes[1].kernel}, ones, "window");
  Attributes attributes = pool_attributes(axes, std::vector<int64_t>(4, 0));
  attributes.emplace_back("group", from[1]);
  std::string y = graph.add("ConvTranspose", {x, weights}, attributes);
  std::vector<int64_t> pads(8, 0);
  for (size_t k = 0; k < 2; ++k) {
    const int64_t covered = (from[static_cast<int>(k) + 2] - 1) * axes[k].stride + axes[k].kernel;
    pads[2 + k] = -axes[k].pad;
    pads[6 + k] = axes[k].size - (covered - axes[k].pad);
  }
  if (std::ranges::any_of(pads, [](int64_t count) { return count != 0; })) y = graph.pad(y, pads);
  finish(layer, graph, y);
}

}  // namespace

void add_pooling_exporters(ExporterTable& table) {
  table.add("Pooling", export_pooling);
  table.add("Pooling3D", export_pooling3d);
  table.add("SPP", export_spp);
  table.add("Unpooling", export_unpooling);
}

void export_by_places(const ExportedLayer& layer, GraphBuilder& graph) {
  export_placed(layer, graph);
}

}  // namespace crema::onnx
