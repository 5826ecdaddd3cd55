// What a net is, as text and as pictures: the tables and drawings of the program, for Python.
#include "python/analysis.hpp"

#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "analysis/draw.hpp"
#include "model/source_map.hpp"
#include "proto/net.pb.h"
#include "python/messages.hpp"
#include "python/net.hpp"
#include "tools/summary.hpp"

namespace crema::python {
namespace {

std::string net_summary(const SharedNet& self) {
  return self.holder->alone([&] {
    self.holder->net().reshape();
    return tools::summary_of(self.holder->net());
  });
}

nb::tuple tuple_of(const Shape& shape) {
  nb::list dims;
  for (const int64_t dim : shape.dims()) dims.append(dim);
  return nb::tuple(dims);
}

/// A dict a layer of the prototxt.
nb::list net_rows(const SharedNet& self) {
  std::vector<NetValue> values;
  const std::vector<LayerSummary> rows = self.holder->alone([&] {
    self.holder->net().reshape();
    values = self.holder->net().values();
    return self.holder->net().summary();
  });
  nb::list all;
  for (const LayerSummary& row : rows) {
    nb::list tops;
    size_t bytes = 0;
    for (const int top : row.tops) {
      const NetValue& value = values[static_cast<size_t>(top)];
      tops.append(tuple_of(value.shape));
      bytes += value.bytes;
    }
    nb::dict made;
    made["name"] = row.name;
    made["type"] = row.type;
    made["tops"] = tops;
    made["params"] = row.params;
    made["flops"] = row.flops.forward;
    made["bytes"] = bytes;
    made["format"] = row.top_format;
    made["engine"] = row.engine;
    made["detail"] = row.detail;
    made["fused_into"] = row.fused_into;
    all.append(made);
  }
  return all;
}

std::string drawing(const NetParameter& param, const DrawOptions& options, bool dot) {
  return dot ? draw_net(param, options) : draw_net_as_svg(param, options);
}

std::string draw(const SharedNet& self, bool expand, bool dot) {
  return self.holder->alone([&] {
    Net& net = self.holder->net();
    net.reshape();
    NetParameter param;
    param.set_name(net.name());
    for (const Layer* layer : net.layers()) {
      LayerParameter& drawn = *param.add_layer();
      drawn = layer->param();
      // The layers are those of one phase.
      drawn.clear_blobs();
      drawn.clear_phase();
      drawn.clear_include();
      drawn.clear_exclude();
    }
    return drawing(param, {.net = &net, .expand = expand}, dot);
  });
}

std::string draw_message(const nb::bytes& source, const std::string& kind, bool expand, bool dot) {
  const std::string bytes = string_of(source);
  const nb::gil_scoped_release release;
  NetParameter param;
  SourceMap map;
  read_message(bytes, kind, param, map);
  return drawing(param, {.expand = expand}, dot);
}

}  // namespace

void bind_analysis(nb::module_& module) {
  module.def("net_summary", net_summary, nb::arg("net"),
             "The table of `crema summary`: a line a layer, then totals, memory and notes.");
  module.def("net_rows", net_rows, nb::arg("net"), "The rows of that table: a dict a layer.");
  module.def("draw_net", draw, nb::arg("net"), nb::arg("expand"), nb::arg("dot"),
             "The net with the shapes of its blobs, as an SVG or in the language of Graphviz.");
  module.def("draw_message", draw_message, nb::arg("source"), nb::arg("kind"), nb::arg("expand"),
             nb::arg("dot"), "A NetParameter, likewise, without shapes.");
}

}  // namespace crema::python
