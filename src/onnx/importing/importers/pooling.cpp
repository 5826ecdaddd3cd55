// MaxPool, AveragePool and their global forms.
#include <algorithm>
#include <limits>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

// What a layer Pooling with this padding gives along an axis; 0 if the kernel does not fit.
int64_t pooled_size(int64_t size, int64_t kernel, int64_t stride, int64_t pad, bool round_up,
                    bool is_padded) {
  const int64_t extent = size + 2 * pad - kernel;
  if (extent < 0) return 0;
  int64_t out = (round_up ? (extent + stride - 1) / stride : extent / stride) + 1;
  if (is_padded && (out - 1) * stride >= size + pad) --out;
  return out;
}

void set_pooling_windows(const Windows& windows, PoolingParameter& settings) {
  const auto set = [](const std::vector<int64_t>& values, int64_t otherwise, auto set_one,
                      auto set_pair, auto add) {
    const bool is_one = std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
    if (is_one) {
      if (values[0] != otherwise) set_one(as_setting(values[0]));
    } else if (values.size() == 2) {
      set_pair(as_setting(values[0]), as_setting(values[1]));
    } else {
      for (const int64_t value : values) add(as_setting(value));
    }
  };
  set(
      windows.kernel, 0, [&](uint32_t size) { settings.set_kernel_size(size); },
      [&](uint32_t h, uint32_t w) {
        settings.set_kernel_h(h);
        settings.set_kernel_w(w);
      },
      [&](uint32_t size) { settings.add_kernel_size_3d(size); });
  set(
      windows.stride, 1, [&](uint32_t size) { settings.set_stride(size); },
      [&](uint32_t h, uint32_t w) {
        settings.set_stride_h(h);
        settings.set_stride_w(w);
      },
      [&](uint32_t size) { settings.add_stride_3d(size); });
  set(
      windows.begin, 0, [&](uint32_t size) { settings.set_pad(size); },
      [&](uint32_t h, uint32_t w) {
        settings.set_pad_h(h);
        settings.set_pad_w(w);
      },
      [&](uint32_t size) { settings.add_pad_3d(size); });
}

// Whether a layer with the padding of the begins gives these sizes.
bool gives_sizes(const Windows& windows, const Shape& x, const Shape& out, bool round_up) {
  const bool is_padded = std::ranges::any_of(windows.begin, [](int64_t pad) { return pad > 0; });
  for (size_t i = 0; i < windows.kernel.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    if (windows.begin[i] < 0 || windows.begin[i] >= windows.kernel[i]) return false;
    if (pooled_size(x[axis], windows.kernel[i], windows.stride[i], windows.begin[i], round_up,
                    is_padded) != out[axis])
      return false;
  }
  return true;
}

// Whether some window reaches beyond the padding at the end.
bool overhangs(const Windows& windows, const Shape& x, const Shape& out) {
  for (size_t i = 0; i < windows.kernel.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t reach = (out[axis] - 1) * windows.stride[i] + windows.kernel[i];
    if (reach > windows.begin[i] + x[axis] + windows.end[i]) return true;
  }
  return false;
}

void add_pooling(const Node& node, LayerWriter& writer, const LayerEnd& x, const Windows& windows,
                 bool is_max, bool round_up, bool counts_padding) {
  PoolingParameter& settings =
      *writer.add(node, "Pooling", {x}, {node.output()}).mutable_pooling_param();
  settings.set_pool(is_max ? PoolingParameter::MAX : PoolingParameter::AVE);
  set_pooling_windows(windows, settings);
  if (!round_up) settings.set_round_mode(PoolingParameter::FLOOR);
  if (!is_max && !counts_padding) settings.set_avg_include_pad(false);
}

void import_pool(const Node& node, LayerWriter& writer) {
  need_floats(node);
  need_one_output(node, writer);
  const Shape &x = node.input(0)->shape(), &out = node.output()->shape();
  if (x.count() == 0 || x.rank() > 5) give_up("windows over ", x.str());
  const bool is_max = node.op() == "MaxPool";
  Windows windows = windows_of(node, x, node.call().get_ints("kernel_shape"));
  if (std::ranges::any_of(windows.dilation, [](int64_t step) { return step != 1; }))
    give_up("dilations");
  const bool is_padded = std::ranges::any_of(windows.begin, [](int64_t pad) { return pad != 0; }) ||
                         std::ranges::any_of(windows.end, [](int64_t pad) { return pad != 0; });
  const bool counts = !is_padded || node.call().get_int("count_include_pad", 0) != 0;
  // Padding that does not count need not be the same at the end, if the sizes are.
  const bool any_end = is_max || !counts || !is_padded;
  for (const bool round_up : {false, true}) {
    if (!any_end && !windows.is_symmetric()) break;
    if (!gives_sizes(windows, x, out, round_up)) continue;
    return add_pooling(node, writer, node.input(0), windows, is_max, round_up, counts);
  }
  if (!is_max && (!counts || overhangs(windows, x, out)))
    give_up("an average without padding, of sizes that are those of another padding");
  std::vector<int64_t> end;
  for (size_t i = 0; i < windows.kernel.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t reach = (out[axis] - 1) * windows.stride[i] + windows.kernel[i];
    end.push_back(std::max<int64_t>(reach - x[axis] - windows.begin[i], 0));
    const int64_t padded = windows.begin[i] + x[axis] + end.back();
    if ((padded - windows.kernel[i]) / windows.stride[i] + 1 != out[axis])
      give_up("windows that give ", out.str());
  }
  const double value = is_max ? -static_cast<double>(std::numeric_limits<float>::max()) : 0;
  const std::string padded =
      add_spatial_pad(node, writer, node.input(0), windows.begin, end, value);
  windows.begin.assign(windows.begin.size(), 0);
  add_pooling(node, writer, padded, windows, is_max, false, true);
}

void import_global_pool(const Node& node, LayerWriter& writer) {
  need_floats(node);
  const Shape& x = node.input(0)->shape();
  if (x.rank() < 3 || x.rank() > 5 || x.count() == 0) give_up("a global window over ", x.str());
  PoolingParameter& settings =
      *writer.add(node, "Pooling", {node.input(0)}, {node.output()}).mutable_pooling_param();
  settings.set_pool(node.op() == "GlobalMaxPool" ? PoolingParameter::MAX : PoolingParameter::AVE);
  settings.set_global_pooling(true);
}

}  // namespace

void add_pooling_importers(ImporterTable& table) {
  table.add("MaxPool", import_pool);
  table.add("AveragePool", import_pool);
  table.add("GlobalMaxPool", import_global_pool);
  table.add("GlobalAveragePool", import_global_pool);
}

}  // namespace crema::onnx
