#include "tools/confusion_svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/utf8.hpp"
#include "core/xml.hpp"
#include "crema/error.hpp"
#include "tools/confusion_report.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

constexpr int64_t kMostCounted = 25;  // classes whose counts are written
constexpr int64_t kMostTitled = 60;   // classes whose cells say what they are under the pointer
constexpr int kFont = 12, kMargin = 16, kHead = 58;
constexpr int kGap = 4;             // between upright labels of columns
constexpr double kCharacter = 0.6;  // mean width of one, in font sizes
/// From this share on, a count stands on a strong colour.
constexpr double kStrong = 0.55;

constexpr const char* kStyle = R"(<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
.paper { fill: #ffffff } .cells { fill: #f6f8fa } .grid { stroke: #d0d7de; stroke-width: 1; fill: none }
.title { font-size: 15px; font-weight: 600 } .faint { fill: #59636e }
.right { fill: #0969da } .wrong { fill: #cf222e } .on { fill: #ffffff }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .paper { fill: #0d1117 } .cells { fill: #161b22 } .grid { stroke: #30363d }
.faint { fill: #9198a1 } .right { fill: #388bfd } .wrong { fill: #f85149 } .on { fill: #ffffff }
}
</style>
)";

std::string xml(const std::string& words) { return xml_escaped(drawable(words)); }

/// With one decimal where it needs one.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string all = text;
  if (all.ends_with(".0")) all.resize(all.size() - 2);
  return all;
}

class Drawing {
 public:
  Drawing(const ConfusionMatrix& confusion, const std::vector<std::string>& names)
      : confusion_(confusion), classes_(confusion.classes()) {
    for (int64_t c = 0; c < classes_; ++c) {
      labels_.push_back(class_label(names, c));
      label_width_ = std::max(label_width_, width_of(labels_.back()));
    }
    counts_ = classes_ <= kMostCounted;
    cell_ = classes_ <= 12 ? 44 : counts_ ? 32 : classes_ <= 60 ? 16 : 8;
    int64_t most = 0;
    for (int64_t row = 0; row < classes_; ++row) {
      for (int64_t c = 0; c < classes_; ++c) most = std::max(most, confusion_.count(row, c));
    }
    if (counts_)
      cell_ = std::max(cell_, kCharacter * kFont * static_cast<double>(text(most).size()) + 10);
    // Names on small cells lie on each other; every so many of them are written.
    step_ = static_cast<int64_t>(std::ceil((kFont + 2) / cell_));
    left_ = kMargin + label_width_ + 8;
    double head = kFont;  // height of the columns' labels
    for (int64_t c = 0; c < classes_; c += step_) {
      const std::string& label = labels_[static_cast<size_t>(c)];
      if (!is_upright(label)) head = std::max(head, width_of(label));
    }
    top_ = kHead + head + 8;
  }

  std::string svg() {
    const double side = cell_ * static_cast<double>(classes_);
    // The title may be wider than the cells.
    const double width = std::max(left_ + side + kMargin, 2 * kMargin + 400.0);
    const double height = top_ + side + kMargin;
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(width), "\" height=\"",
        number(height), "\" viewBox=\"0 0 ", number(width), " ", number(height),
        "\" role=\"img\">\n");
    add("<title>Confusion of ", classes_, " classes</title>\n", kStyle);
    add("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
    write_head();
    add("<rect class=\"cells\" x=\"", number(left_), "\" y=\"", number(top_), "\" width=\"",
        number(side), "\" height=\"", number(side), "\"/>\n");
    write_cells();
    write_grid(side);
    write_labels();
    add("</svg>\n");
    return std::move(all_);
  }

 private:
  static double width_of(const std::string& label) {
    return kCharacter * kFont * static_cast<double>(columns_of(label));
  }

  /// Whether a label fits above its column, up to the next one that is written.
  bool is_upright(const std::string& label) const {
    return width_of(label) + kGap <= cell_ * static_cast<double>(step_);
  }

  template <class... Parts>
  void add(const Parts&... parts) {
    all_ += text(parts...);
  }

  void write_head() {
    const auto accuracy = confusion_.accuracy();
    add("<text class=\"title\" x=\"", kMargin, "\" y=\"28\">Accuracy ",
        accuracy ? percent(*accuracy, 1) : "-", " of ", confusion_.positions(),
        " labels</text>\n<text class=\"faint\" x=\"", kMargin,
        "\" y=\"46\">Rows: labels. Columns: predictions. Colour: share of the row.</text>\n");
  }

  void write_cells() {
    for (int64_t row = 0; row < classes_; ++row) {
      for (int64_t c = 0; c < classes_; ++c) {
        const int64_t count = confusion_.count(row, c);
        if (count != 0) write_cell(row, c, count);
      }
    }
  }

  void write_cell(int64_t row, int64_t c, int64_t count) {
    const double share = static_cast<double>(count) / static_cast<double>(confusion_.labelled(row));
    const double x = left_ + cell_ * static_cast<double>(c);
    const double y = top_ + cell_ * static_cast<double>(row);
    char opacity[16];
    // A single mistake among many is to be seen, too.
    std::snprintf(opacity, sizeof opacity, "%.2f", 0.1 + 0.9 * share);
    add("<rect class=\"", row == c ? "right" : "wrong", "\" x=\"", number(x), "\" y=\"", number(y),
        "\" width=\"", number(cell_), "\" height=\"", number(cell_), "\" fill-opacity=\"", opacity,
        "\"");
    if (classes_ <= kMostTitled) {
      add("><title>", xml(labels_[static_cast<size_t>(row)]), " taken for ",
          xml(labels_[static_cast<size_t>(c)]), ": ", count, " of ", confusion_.labelled(row), ", ",
          percent(share, 1), "</title></rect>\n");
    } else {
      add("/>\n");
    }
    if (!counts_) return;
    add("<text", share >= kStrong ? " class=\"on\"" : "", " x=\"", number(x + cell_ / 2), "\" y=\"",
        number(y + cell_ / 2 + 4), "\" text-anchor=\"middle\" pointer-events=\"none\">", count,
        "</text>\n");
  }

  void write_grid(double side) {
    if (cell_ < 12) return;
    std::string path;
    for (int64_t i = 0; i <= classes_; ++i) {
      const double at = cell_ * static_cast<double>(i);
      path += text("M", number(left_), " ", number(top_ + at), "h", number(side), "M",
                   number(left_ + at), " ", number(top_), "v", number(side));
    }
    add("<path class=\"grid\" d=\"", path, "\"/>\n");
  }

  void write_labels() {
    for (int64_t c = 0; c < classes_; c += step_) {
      const double middle = cell_ * (static_cast<double>(c) + 0.5);
      const std::string name = xml(labels_[static_cast<size_t>(c)]);
      add("<text x=\"", number(left_ - 6), "\" y=\"", number(top_ + middle + 4),
          "\" text-anchor=\"end\">", name, "</text>\n");
      const double y = top_ - 6;
      if (is_upright(labels_[static_cast<size_t>(c)])) {
        add("<text x=\"", number(left_ + middle), "\" y=\"", number(y),
            "\" text-anchor=\"middle\">", name, "</text>\n");
        continue;
      }
      const double x = left_ + middle + 4;
      add("<text x=\"", number(x), "\" y=\"", number(y), "\" transform=\"rotate(-90 ", number(x),
          " ", number(y), ")\">", name, "</text>\n");
    }
  }

  const ConfusionMatrix& confusion_;
  int64_t classes_;
  std::vector<std::string> labels_;
  bool counts_ = false;
  int64_t step_ = 1;
  double label_width_ = 0, cell_ = 0, left_ = 0, top_ = 0;
  std::string all_;
};

}  // namespace

std::string confusion_svg(const ConfusionMatrix& confusion, const std::vector<std::string>& names) {
  return Drawing(confusion, names).svg();
}

}  // namespace crema::tools
