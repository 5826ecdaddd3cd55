// A drawing as an SVG. Blocks are laid out by themselves, and are nodes of the whole. No font is
// embedded: the widths of texts are those of Helvetica and a little more, which Arial and
// Liberation Sans share.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include "analysis/draw.hpp"
#include "analysis/layered_layout.hpp"
#include "analysis/net_drawing.hpp"
#include "core/utf8.hpp"
#include "core/xml.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

constexpr double kFont = 11, kSmallFont = 9;  // pixels
constexpr double kPad = 7;                    // beside a text in its node
// Below a node: the label and the head of an arrow, or the arrow alone.
constexpr double kLabelGap = 15, kGap = 12;
// Beside a label an edge goes straight down, so that it passes behind none; it then needs room to
// turn to the side.
constexpr double kLabelHeight = 11, kTurn = 11;
constexpr double kHeader = 15, kFramePad = 8;
constexpr double kMargin = 10, kTitle = 24;
constexpr double kPageShort = 718, kPageLong = 1047;  // A4 without 10 mm at each side, in pixels
constexpr size_t kLongestText = 90;

/// In a font of 1 pixel.
double width_of(char c) {
  constexpr std::string_view kNarrow = "ijl'|.,:;!I/ ft()[]r-", kThin = "sckvxyzJ",
                             kWide = "mwMW%@";
  if (kNarrow.find(c) != std::string_view::npos) return 0.31;
  if (kThin.find(c) != std::string_view::npos) return 0.5;
  if (kWide.find(c) != std::string_view::npos) return 0.86;
  return c >= 'A' && c <= 'Z' ? 0.70 : 0.56;
}

/// Of XML, at most kLongestText characters.
std::string shown(std::string_view text) {
  std::string all = drawable(text);
  size_t end = 0;
  for (size_t letters = 0; end < all.size() && letters < kLongestText; ++letters)
    end += std::max<size_t>(1, utf8_length(std::string_view(all).substr(end)));
  if (end < all.size()) all = all.substr(0, end) + "\xE2\x80\xA6";
  return all;
}

/// A coordinate, to a tenth of a pixel.
std::string at(double x) {
  char buffer[32];
  const double rounded = std::round(x * 10) / 10;
  std::snprintf(buffer, sizeof buffer, "%.1f", rounded == 0 ? 0.0 : rounded);
  std::string text = buffer;
  std::replace(text.begin(), text.end(), ',', '.');  // of the user's language
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

struct Colors {
  const char *name, *fill, *stroke, *dark_fill, *dark_stroke;
};

const Colors& colors_of(DrawnKind kind) {
  static constexpr Colors kConvolution = {"c", "#d7e5fc", "#5b86c9", "#1d3557", "#6f9fe8"};
  static constexpr Colors kInnerProduct = {"i", "#f0d9f7", "#a767bd", "#43274f", "#c78adb"};
  static constexpr Colors kPooling = {"p", "#ffe6bf", "#c58a2b", "#4d3914", "#e0a84a"};
  static constexpr Colors kLoss = {"l", "#fbd5d5", "#c96a6a", "#522626", "#e58c8c"};
  static constexpr Colors kData = {"d", "#dcefd2", "#6a9a50", "#28401d", "#8fc474"};
  static constexpr Colors kOther = {"o", "#eceff4", "#8b97a8", "#262d37", "#8895a7"};
  switch (kind) {
    case DrawnKind::convolution:
      return kConvolution;
    case DrawnKind::inner_product:
      return kInnerProduct;
    case DrawnKind::pooling:
      return kPooling;
    case DrawnKind::loss:
      return kLoss;
    case DrawnKind::data:
      return kData;
    case DrawnKind::other:
      break;
  }
  return kOther;
}

constexpr const char *kText = "#1b1f24", *kLine = "#6b7685", *kPaper = "#ffffff";
/// Of small texts, which lines may pass behind.
constexpr const char* kHalo =
    " font-size=\"9\" fill=\"#55606e\" stroke=\"#ffffff\" stroke-width=\"3\" "
    "paint-order=\"stroke\"";

std::string style(bool landscape) {
  std::string rules = text("@page{size:A4", landscape ? " landscape" : "",
                           ";margin:10mm}@media print{:root{width:100%;height:100%}}",
                           "@media screen and (prefers-color-scheme:dark){.b{fill:#0f1419}",
                           ".t{fill:#e8ecf1}.m{fill:#a3afbd}.e{stroke:#8b97a6}.h{fill:#8b97a6}",
                           ".f{stroke:#8b97a6}.m{stroke:#0f1419}");
  for (const DrawnKind kind : {DrawnKind::convolution, DrawnKind::inner_product, DrawnKind::pooling,
                               DrawnKind::loss, DrawnKind::data, DrawnKind::other}) {
    const Colors& c = colors_of(kind);
    rules += text(".", c.name, "{fill:", c.dark_fill, ";stroke:", c.dark_stroke, "}");
  }
  return "<style>" + rules + "}</style>\n";
}

/// The drawing with its nodes in one line of text each, or in two.
class Picture {
 public:
  Picture(const NetDrawing& drawing, const DrawOptions& options, bool two_lines)
      : drawing_(&drawing), letters_(options.letters), two_lines_(two_lines) {
    const size_t n = drawing.nodes.size();
    block_of_.assign(n, -1);
    for (size_t b = 0; b < drawing.blocks.size(); ++b) {
      for (int k = 0; k < drawing.blocks[b].size; ++k)
        block_of_[static_cast<size_t>(drawing.blocks[b].first + k)] = static_cast<int>(b);
    }
    from_x_.resize(n);
    for (size_t i = 0; i < n; ++i) boxes_.push_back(box_of(static_cast<int>(i)));
    for (size_t b = 0; b < drawing.blocks.size(); ++b)
      frames_.push_back(frame_of(static_cast<int>(b)));
    lay_out_whole();
  }

  double width() const {
    return std::max(whole_.layout.width, text_width(shown(drawing_->name), 14) * 1.1) + 2 * kMargin;
  }
  double height() const { return whole_.layout.height + kTitle + kLabelGap + 2 * kMargin; }
  /// How large it is on a page, 1 as on the screen.
  double scale() const {
    return std::max(std::min(kPageShort / width(), kPageLong / height()),
                    std::min(kPageLong / width(), kPageShort / height()));
  }

  std::string svg() const;

 private:
  /// A graph with what its nodes and edges stand for.
  struct Part {
    LayeredGraph graph;
    std::vector<int> nodes;   // of the drawing; -1 - b: block b; kBorder: an end at a frame
    std::vector<int> values;  // of the drawing, of each edge
    LayeredLayout layout;
  };
  struct Frame {
    Part part;
    std::map<int, double> entries, exits;  // values, and where they cross the border
    LayeredNode box;
  };
  static constexpr int kBorder = 1 << 30;

  LayeredNode box_of(int i);
  Frame frame_of(int block);
  void lay_out_whole();
  double text_width(std::string_view text, double font) const {
    return letters_ * drawn_text_width(text, font);
  }
  double label_width(const DrawnValue& value) const {
    return value.label.empty() ? 0 : text_width(shown(value.label), kSmallFont) + 5;
  }
  /// Where the edges of a value begin below a node that makes it, from the node's middle.
  double from_x(int node, int v) const {
    const std::map<int, double>& places = from_x_[static_cast<size_t>(node)];
    const auto found = places.find(v);
    return found == places.end() ? 0 : found->second;
  }
  int index_of(const Part& part, int node) const;
  void add_edge(Part& part, int v, int from, double from_x,
                const std::vector<std::pair<int, std::optional<double>>>& to) const;

  void draw(const Part& part, double x, double y, std::string& lines, std::string& boxes) const;
  void draw_node(int i, double x, double y, std::string& boxes) const;
  void draw_frame(int b, double x, double y, std::string& lines, std::string& boxes) const;

  const NetDrawing* drawing_;
  double letters_;  // DrawOptions::letters
  bool two_lines_;
  std::vector<int> block_of_;                  // of nodes; -1: none
  std::vector<LayeredNode> boxes_;             // of nodes
  std::vector<std::map<int, double>> from_x_;  // of nodes with several tops: see from_x()
  std::vector<Frame> frames_;
  Part whole_;
};

LayeredNode Picture::box_of(int i) {
  const DrawnNode& node = drawing_->nodes[static_cast<size_t>(i)];
  const double name = text_width(shown(node.name), kFont) * 1.07;
  const double what = text_width(shown(node.what), kFont);
  double width = two_lines_ ? std::max(name, what) : name + (node.what.empty() ? 0 : what + 6);
  width += 2 * kPad;
  double labels = 0;
  if (node.tops.size() > 1) {  // from left to right, each with its label beside it
    for (const int v : node.tops)
      labels += label_width(drawing_->values[static_cast<size_t>(v)]) + 14;
    width = std::max(width, labels);
    double x = -labels / 2 + 7;
    for (const int v : node.tops) {
      from_x_[static_cast<size_t>(i)][v] = x;
      x += label_width(drawing_->values[static_cast<size_t>(v)]) + 14;
    }
  } else if (!node.tops.empty()) {
    labels = label_width(drawing_->values[static_cast<size_t>(node.tops[0])]);
  }
  const bool forks = std::ranges::any_of(node.tops, [&](int v) {
    return drawing_->values[static_cast<size_t>(v)].readers.size() > 1;
  });
  return {.left = width / 2,
          .right = width / 2,
          .label = node.tops.size() > 1 ? 0 : labels,
          .height = two_lines_ && !node.what.empty() ? 30.0 : 17.0,
          .below = labels == 0 ? kGap
                   : forks     ? kLabelHeight + kTurn
                               : kLabelGap};
}

int Picture::index_of(const Part& part, int node) const {
  return static_cast<int>(std::ranges::find(part.nodes, node) - part.nodes.begin());
}

void Picture::add_edge(Part& part, int v, int from, double from_x,
                       const std::vector<std::pair<int, std::optional<double>>>& to) const {
  LayeredEdge edge{.from = from, .from_x = from_x, .to = {}};
  for (const auto& [node, x] : to) {
    if (node > from) edge.to.push_back({node, x});
  }
  if (edge.to.empty()) return;
  part.graph.edges.push_back(std::move(edge));
  part.values.push_back(v);
}

Picture::Frame Picture::frame_of(int b) {
  const DrawnBlock& block = drawing_->blocks[static_cast<size_t>(b)];
  Frame frame;
  Part& part = frame.part;
  const auto is_inside = [&](int node) { return block_of_[static_cast<size_t>(node)] == b; };
  std::vector<int> entries, exits;
  for (size_t v = 0; v < drawing_->values.size(); ++v) {
    const DrawnValue& value = drawing_->values[v];
    const bool made = is_inside(value.makers[0]);
    if (!made && std::ranges::any_of(value.readers, is_inside))
      entries.push_back(static_cast<int>(v));
    if (made && !std::ranges::all_of(value.readers, is_inside))
      exits.push_back(static_cast<int>(v));
  }
  const auto border = [&](LayeredNode::Border side) {
    LayeredNode end;
    end.border = side;
    end.below = kGap;
    part.graph.nodes.push_back(end);
    part.nodes.push_back(kBorder);
  };
  for (size_t k = 0; k < entries.size(); ++k) border(LayeredNode::Border::top);
  for (int i = block.first; i < block.first + block.size; ++i) {
    part.graph.nodes.push_back(boxes_[static_cast<size_t>(i)]);
    part.nodes.push_back(i);
  }
  const size_t first_exit = part.nodes.size();
  for (size_t k = 0; k < exits.size(); ++k) border(LayeredNode::Border::bottom);
  for (size_t k = 0; k < entries.size(); ++k) {
    std::vector<std::pair<int, std::optional<double>>> ends;
    for (const int reader : drawing_->values[static_cast<size_t>(entries[k])].readers) {
      if (is_inside(reader)) ends.emplace_back(index_of(part, reader), std::nullopt);
    }
    add_edge(part, entries[k], static_cast<int>(k), 0, ends);
  }
  for (int i = block.first; i < block.first + block.size; ++i) {
    for (const int v : drawing_->nodes[static_cast<size_t>(i)].tops) {
      std::vector<std::pair<int, std::optional<double>>> ends;
      for (const int reader : drawing_->values[static_cast<size_t>(v)].readers) {
        if (is_inside(reader)) ends.emplace_back(index_of(part, reader), std::nullopt);
      }
      const auto exit = std::ranges::find(exits, v) - exits.begin();
      if (exit < std::ssize(exits))
        ends.emplace_back(static_cast<int>(first_exit) + static_cast<int>(exit), 0.0);
      add_edge(part, v, index_of(part, i), from_x(i, v), ends);
    }
  }
  part.layout = layered_layout(part.graph);
  const double header = text_width(shown(block.label), kSmallFont) + 16;
  const double width = std::max(part.layout.width + 2 * kFramePad, header);
  frame.box = {
      .left = width / 2, .right = width / 2, .height = part.layout.height + kHeader, .below = kGap};
  const auto crossing = [&](size_t node) {
    return part.layout.nodes[node].x - part.layout.width / 2;
  };
  for (size_t k = 0; k < entries.size(); ++k) frame.entries[entries[k]] = crossing(k);
  for (size_t k = 0; k < exits.size(); ++k) frame.exits[exits[k]] = crossing(first_exit + k);
  return frame;
}

void Picture::lay_out_whole() {
  std::vector<int> places(drawing_->nodes.size());
  for (size_t i = 0; i < drawing_->nodes.size(); ++i) {
    const int b = block_of_[i];
    const bool is_new =
        b < 0 || drawing_->blocks[static_cast<size_t>(b)].first == static_cast<int>(i);
    if (is_new) {
      whole_.nodes.push_back(b < 0 ? static_cast<int>(i) : -1 - b);
      whole_.graph.nodes.push_back(b < 0 ? boxes_[i] : frames_[static_cast<size_t>(b)].box);
    }
    places[i] = static_cast<int>(whole_.nodes.size()) - 1;
  }
  for (size_t v = 0; v < drawing_->values.size(); ++v) {
    const DrawnValue& value = drawing_->values[v];
    for (const int maker : value.makers) {
      const int from = places[static_cast<size_t>(maker)];
      const int b = block_of_[static_cast<size_t>(maker)];
      std::vector<std::pair<int, std::optional<double>>> ends;
      std::set<int> seen;
      for (const int reader : value.readers) {
        const int to = places[static_cast<size_t>(reader)];
        if (!seen.insert(to).second) continue;
        const int inside = block_of_[static_cast<size_t>(reader)];
        std::optional<double> x;
        if (inside >= 0 && inside != b)
          x = frames_[static_cast<size_t>(inside)].entries.at(static_cast<int>(v));
        ends.emplace_back(to, x);
      }
      double begin = from_x(maker, static_cast<int>(v));
      if (b >= 0) {
        const auto& exits = frames_[static_cast<size_t>(b)].exits;
        const auto exit = exits.find(static_cast<int>(v));
        if (exit == exits.end()) continue;
        begin = exit->second;
      }
      add_edge(whole_, static_cast<int>(v), from, begin, ends);
    }
  }
  whole_.layout = layered_layout(whole_.graph);
}

/// `straight`: how far it goes straight down at first, where it turns and has the room.
std::string path_of(const std::vector<LayeredPoint>& line, double x, double y, double straight) {
  std::string path = text("M", at(line[0].x + x), " ", at(line[0].y + y));
  for (size_t k = 1; k < line.size(); ++k) {
    LayeredPoint from = {line[k - 1].x + x, line[k - 1].y + y};
    const bool turns = std::abs(line[k - 1].x - line[k].x) >= 0.05;
    if (k == 1 && turns && line[1].y - line[0].y >= straight + kTurn - 0.05 && straight > 0) {
      from.y += straight;
      path += text("V", at(from.y));
    }
    const LayeredPoint to = {line[k].x + x, line[k].y + y};
    if (std::abs(from.x - to.x) < 0.05) {
      path += text("V", at(to.y));
    } else {
      const std::string middle = at((from.y + to.y) / 2);
      path += text("C", at(from.x), " ", middle, " ", at(to.x), " ", middle, " ", at(to.x), " ",
                   at(to.y));
    }
  }
  return path;
}

void Picture::draw(const Part& part, double x, double y, std::string& lines,
                   std::string& boxes) const {
  for (size_t e = 0; e < part.graph.edges.size(); ++e) {
    for (size_t k = 0; k < part.graph.edges[e].to.size(); ++k) {
      const int end = part.nodes[static_cast<size_t>(part.graph.edges[e].to[k].node)];
      const bool is_node = end >= 0 && end != kBorder;
      const DrawnValue& value = drawing_->values[static_cast<size_t>(part.values[e])];
      const double straight = value.label.empty() ? 0 : kLabelHeight;
      lines += text("<path class=\"e\" d=\"", path_of(part.layout.lines[e][k], x, y, straight),
                    "\"", is_node ? " marker-end=\"url(#a)\"" : "", "/>\n");
    }
  }
  for (size_t k = 0; k < part.nodes.size(); ++k) {
    const LayeredPoint place = part.layout.nodes[k];
    if (part.nodes[k] == kBorder) continue;
    if (part.nodes[k] >= 0) {
      draw_node(part.nodes[k], x + place.x, y + place.y, boxes);
    } else {
      draw_frame(-1 - part.nodes[k], x + place.x, y + place.y, lines, boxes);
    }
  }
}

void Picture::draw_frame(int b, double x, double y, std::string& lines, std::string& boxes) const {
  const Frame& frame = frames_[static_cast<size_t>(b)];
  lines += text("<rect class=\"f\" rx=\"6\" stroke-dasharray=\"4 3\" x=\"", at(x - frame.box.left),
                "\" y=\"", at(y), "\" width=\"", at(2 * frame.box.left), "\" height=\"",
                at(frame.box.height), "\"/>\n");
  boxes += text("<text class=\"m\"", kHalo, " x=\"", at(x - frame.box.left + 6), "\" y=\"",
                at(y + 11), "\" font-weight=\"bold\">",
                xml_escaped(shown(drawing_->blocks[static_cast<size_t>(b)].label)), "</text>\n");
  for (const auto& [v, entry] : frame.entries)
    lines +=
        text("<path class=\"e\" d=\"M", at(x + entry), " ", at(y), "V", at(y + kHeader), "\"/>\n");
  draw(frame.part, x - frame.part.layout.width / 2, y + kHeader, lines, boxes);
}

void Picture::draw_node(int i, double x, double y, std::string& boxes) const {
  const DrawnNode& node = drawing_->nodes[static_cast<size_t>(i)];
  const LayeredNode& box = boxes_[static_cast<size_t>(i)];
  const Colors& colors = colors_of(node.kind);
  boxes += "<g>";
  if (!node.layers.empty()) {
    std::string about;
    for (const std::string& line : node.layers)
      about += text(about.empty() ? "" : "\n", xml_escaped(drawable(line)));
    boxes += text("<title>", about, "</title>");
  }
  boxes += text("<rect class=\"", colors.name, "\" fill=\"", colors.fill, "\" stroke=\"",
                colors.stroke, "\"", node.is_fused ? " stroke-dasharray=\"4 2\"" : "", " x=\"",
                at(x - box.left), "\" y=\"", at(y), "\" width=\"", at(2 * box.left), "\" height=\"",
                at(box.height), "\" rx=\"4\"/>");
  const std::string name = shown(node.name), what = shown(node.what);
  const auto words = [&](const std::string& content, double left, double base, bool bold) {
    boxes += text("<text class=\"t\" x=\"", at(left), "\" y=\"", at(base), "\"",
                  bold ? " font-weight=\"bold\"" : "", ">", xml_escaped(content), "</text>");
  };
  if (two_lines_) {
    const auto middle = [&](const std::string& content, double base, bool bold) {
      boxes +=
          text("<text class=\"t\" text-anchor=\"middle\" x=\"", at(x), "\" y=\"", at(base), "\"",
               bold ? " font-weight=\"bold\"" : "", ">", xml_escaped(content), "</text>");
    };
    middle(name, y + 12, true);
    if (!what.empty()) middle(what, y + 25, false);
  } else {
    const double name_width = text_width(name, kFont) * 1.07;
    const double all = name_width + (what.empty() ? 0 : text_width(what, kFont) + 6);
    words(name, x - all / 2, y + 12.5, true);
    if (!what.empty()) words(what, x - all / 2 + name_width + 6, y + 12.5, false);
  }
  boxes += "</g>\n";
  for (const int v : node.tops) {
    const DrawnValue& value = drawing_->values[static_cast<size_t>(v)];
    const double from = x + from_x(i, v), below = y + box.height;
    if (value.readers.empty())
      boxes += text("<path class=\"e\" fill=\"none\" stroke=\"", kLine, "\" d=\"M", at(from), " ",
                    at(below), "V", at(below + 12), "\"/>\n");
    if (value.label.empty() || value.makers[0] != i) continue;
    boxes += text("<text class=\"m\"", kHalo, " x=\"", at(from + 4), "\" y=\"", at(below + 9),
                  "\">", xml_escaped(shown(value.label)), "</text>\n");
  }
}

std::string Picture::svg() const {
  std::string lines, boxes;
  draw(whole_, kMargin + (width() - 2 * kMargin - whole_.layout.width) / 2, kMargin + kTitle, lines,
       boxes);
  const std::string w = at(std::ceil(width())), h = at(std::ceil(height()));
  const std::string title = xml_escaped(shown(drawing_->name));
  return text(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h,
      "\" viewBox=\"0 0 ", w, " ", h, "\" font-family=\"", kDrawnFonts, "\" font-size=\"", kFont,
      "\">\n<title>", title, "</title>\n", style(width() > height()),
      "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"6\"",
      " markerHeight=\"6\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"h\" "
      "fill=\"",
      kLine, "\" d=\"M0 0.5L8 4L0 7.5z\"/></marker></defs>\n<rect class=\"b\" width=\"", w,
      "\" height=\"", h, "\" fill=\"", kPaper, "\"/>\n<text class=\"t\" fill=\"", kText, "\" x=\"",
      at(kMargin), "\" y=\"", at(kMargin + 12), "\" font-size=\"14\" font-weight=\"bold\">", title,
      "</text>\n<g fill=\"none\" stroke=\"", kLine, "\">\n", lines, "</g>\n<g fill=\"", kText,
      "\">\n", boxes, "</g>\n</svg>\n");
}

}  // namespace

double drawn_text_width(std::string_view text, double font) {
  double width = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U)
      width += static_cast<unsigned char>(c) < 0x80 ? width_of(c) : 0.9;
  }
  return width * font * 1.04;
}

std::string draw_net_as_svg(const NetParameter& net, const DrawOptions& options) {
  const NetDrawing drawing = drawing_of(net, options);
  const Picture one(drawing, options, false), two(drawing, options, true);
  return two.scale() > one.scale() && one.scale() < 1 ? two.svg() : one.svg();
}

}  // namespace crema
