#include "analysis/draw.hpp"

#include <algorithm>

#include "analysis/net_drawing.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

/// Lines in quotes. \N, \G and the like of Graphviz lose their meaning, and so does &amp; and the
/// like of HTML.
std::string dot_string(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) {
    if (!all.empty()) all += "\\n";
    for (const char c : drawable(line)) {
      if (c == '&') {
        all += "&amp;";
      } else if (c == '"' || c == '\\') {
        all += {'\\', c};
      } else {
        all += c;
      }
    }
  }
  return "\"" + all + "\"";
}
std::string dot_string(const std::string& line) { return dot_string(std::vector{line}); }

const char* color_of(DrawnKind kind) {
  switch (kind) {
    case DrawnKind::convolution:
      return "#8fb4f0";
    case DrawnKind::inner_product:
      return "#dd9cf0";
    case DrawnKind::pooling:
      return "#ffc266";
    case DrawnKind::loss:
      return "#f4a6a6";
    case DrawnKind::data:
      return "#b8d8a8";
    case DrawnKind::other:
      break;
  }
  return "#d8e4f4";
}

std::string dot_node(const DrawnNode& node, size_t i) {
  std::vector<std::string> label = {node.name};
  if (!node.what.empty()) label.push_back(node.what);
  return text("  node", i, " [shape=box style=\"filled,rounded", node.is_fused ? ",dashed" : "",
              "\" fillcolor=\"", color_of(node.kind), "\" label=", dot_string(label),
              " tooltip=", dot_string(node.layers), "];\n");
}

/// The edges of a value. One that no layer reads leads to its label.
std::string dot_edges(const DrawnValue& value, size_t v) {
  std::string content;
  const std::string label =
      value.label.empty() ? "" : text(" [label=", dot_string(value.label), "]");
  if (value.readers.empty() && !value.label.empty())
    content += text("  out", v, " [shape=plaintext label=", dot_string(value.label), "];\n");
  for (const int maker : value.makers) {
    for (const int reader : value.readers) {
      if (maker < reader) content += text("  node", maker, " -> node", reader, label, ";\n");
    }
    if (value.readers.empty() && !value.label.empty())
      content += text("  node", maker, " -> out", v, ";\n");
  }
  return content;
}

}  // namespace

void check_direction(const std::string& rankdir) {
  const std::vector<std::string> known = {"TB", "LR", "BT", "RL"};
  if (std::ranges::find(known, rankdir) == known.end())
    throw Error("rankdir '", rankdir, "' is not TB, LR, BT or RL");
}

std::string draw_net(const NetParameter& net, const DrawOptions& options) {
  check_direction(options.rankdir);
  const NetDrawing drawing = drawing_of(net, options);
  std::string content = text("digraph ", dot_string(drawing.name), " {\n",
                             "  rankdir=", options.rankdir, ";\n  label=", dot_string(drawing.name),
                             ";\n  labelloc=t;\n  nodesep=0.2;\n  ranksep=0.3;\n",
                             "  node [fontname=\"Helvetica\" fontsize=11 height=0.3];\n",
                             "  edge [fontname=\"Helvetica\" fontsize=9];\n");
  for (size_t i = 0; i < drawing.nodes.size(); ++i) content += dot_node(drawing.nodes[i], i);
  for (size_t b = 0; b < drawing.blocks.size(); ++b) {
    const DrawnBlock& block = drawing.blocks[b];
    content += text("  subgraph cluster", b, " {\n    style=\"dashed,rounded\"; fontname=",
                    "\"Helvetica\"; fontsize=11;\n    label=", dot_string(block.label), ";\n   ");
    for (int i = block.first; i < block.first + block.size; ++i) content += text(" node", i, ";");
    content += "\n  }\n";
  }
  for (size_t v = 0; v < drawing.values.size(); ++v) content += dot_edges(drawing.values[v], v);
  return content + "}\n";
}

}  // namespace crema
