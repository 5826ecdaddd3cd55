#include "tools/time_tables.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/utf8.hpp"

namespace crema::tools {
namespace {

/// All that is pointwise or a reduction is left out.
constexpr const char* kProducts[] = {"Convolution",
                                     "ConvolutionDepthwise",
                                     "DepthwiseConvolution",
                                     "Convolution3D",
                                     "Deconvolution",
                                     "DeformableConvolution",
                                     "LocallyConnected",
                                     "Local",
                                     "InnerProduct",
                                     "MarginInnerProduct",
                                     "MatMul",
                                     "Attention",
                                     "LSTM",
                                     "GRU",
                                     "RNN"};

}  // namespace

Flops product_flops(const Net& net, bool with_backward) {
  Flops flops;
  for (const NetStep& step : net.steps()) {
    if (std::ranges::find(kProducts, step.type) == std::end(kProducts)) continue;
    flops.forward += step.flops.forward;
    if (with_backward) flops.backward += step.flops.backward;
  }
  return flops;
}

double planned_mb(const Net& net) {
  const MemoryPlan memory = net.memory();
  return static_cast<double>(memory.activations + memory.parameters + memory.engines) / 1e6;
}

NameWidths name_widths(const Net& net) {
  NameWidths widths;
  for (const NetStep& step : net.steps()) {
    widths.name = std::max(widths.name, static_cast<int>(printable(step.name).size()));
    widths.type = std::max(widths.type, static_cast<int>(step.type.size()));
  }
  return widths;
}

void print_types(const Net& net, const StepTimes& times, const char* unit, double unit_rate,
                 const std::function<std::string(double rate)>& more) {
  struct Row {
    std::string type;
    int layers = 0;
    double forward = 0, backward = 0, flops = 0;
    double both() const { return forward + backward; }
  };
  std::map<std::string, Row> by_type;
  double total = 0;
  for (size_t s = 0; s < net.steps().size(); ++s) {
    const NetStep& step = net.steps()[s];
    Row& row = by_type[step.type];
    row.type = step.type;
    ++row.layers;
    row.forward += times.forward[s];
    row.backward += times.backward[s];
    row.flops += step.flops.forward + (times.backward[s] > 0 ? step.flops.backward : 0);
    total += times.forward[s] + times.backward[s];
  }
  std::vector<Row> rows;
  size_t width = 16;
  for (const auto& [type, row] : by_type) {
    rows.push_back(row);
    width = std::max(width, type.size());
  }
  const int type_width = static_cast<int>(width);
  std::ranges::stable_sort(rows, std::ranges::greater(), &Row::both);
  std::printf("\n%-*s %6s %10s %10s %6s %9s\n", type_width, "type", "layers", "forward ms",
              "backward", "share", unit);
  for (const Row& row : rows) {
    if (row.both() <= 0) continue;
    const double rate = row.flops / row.both() * 1e3;
    const std::string behind = more(rate);
    std::printf("%-*s %6d %10.3f %10.3f %5.1f%% %9.1f%s%s\n", type_width, row.type.c_str(),
                row.layers, row.forward, row.backward, 100 * row.both() / total, rate / unit_rate,
                behind.empty() ? "" : "  ", behind.c_str());
  }
}

}  // namespace crema::tools
