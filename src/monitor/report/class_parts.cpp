#include <algorithm>
#include <cmath>
#include <cstdio>

#include "crema/error.hpp"
#include "monitor/report/page.hpp"
#include "monitor/report/parts.hpp"

namespace crema {
namespace {

constexpr int kMostCounted = 25;  // classes whose counts are written into the cells
constexpr int kMostCurves = 12;   // of precision over recall
constexpr size_t kLongestClass = 24;

std::string place(double value) {
  char words[32];
  std::snprintf(words, sizeof words, "%.1f", value);
  std::string all = words;
  if (all.ends_with(".0")) all.resize(all.size() - 2);
  return all;
}

/// The beginning of a long name.
std::string cut_name(const std::string& name) {
  if (name.size() <= kLongestClass) return name;
  size_t end = kLongestClass - 1;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return name.substr(0, end) + "…";
}

std::string share_cell(bool has, double value) {
  return has ? number_cell(value, share_words(value)) : number_cell(std::nullopt, "");
}

/// "12%", "<1%".
std::string percent_of(double share) {
  return share < 0.005 ? "&lt;1%" : text(std::lround(100 * share), "%");
}

/// The counts as a drawing, the colour a share of the row.
std::string confusion_svg_of(const Evaluation::Classes& of, const ClassLabels& names) {
  const int n = of.classes_size();
  if (n == 0 || of.counts_size() != n * n) return "";
  const auto count = [&](int row, int column) { return of.counts(row * n + column); };
  const double cell = n <= 12 ? 46 : n <= kMostCounted ? 34 : n <= 60 ? 16 : 8;
  const int step = std::max(1, static_cast<int>(std::ceil(14 / cell)));
  double widest = 0;
  for (int c = 0; c < n; ++c)
    widest = std::max(widest, 7.2 * static_cast<double>(cut_name(names(c)).size()));
  const double left = widest + 26, top = std::max(30.0, widest * 0.75 + 36), side = cell * n;
  const double width = left + side + widest * 0.75 + 10, height = top + side + 8;
  std::string all = text(
      "<div class=\"confusion\" role=\"region\" tabindex=\"0\" aria-label=\"Confusion "
      "matrix\"><svg width=\"",
      place(width), "\" height=\"", place(height), "\" viewBox=\"0 0 ", place(width), " ",
      place(height), "\" role=\"img\"", n <= 12 ? " class=\"fits\"" : "", "><title>Confusion of ",
      n, " classes: rows are labels, columns predictions</title>", "<rect class=\"cells\" x=\"",
      place(left), "\" y=\"", place(top), "\" width=\"", place(side), "\" height=\"", place(side),
      "\" />\n");
  // Numbers of many pixels do not fit, and shares do.
  const int64_t most = *std::ranges::max_element(of.counts());
  const bool writes_counts = 7.2 * static_cast<double>(std::to_string(most).size()) + 4 <= cell;
  for (int row = 0; row < n; ++row) {
    int64_t sum = 0;
    for (int c = 0; c < n; ++c) sum += count(row, c);
    for (int c = 0; c < n; ++c) {
      const int64_t here = count(row, c);
      if (here == 0) continue;
      const double share = static_cast<double>(here) / static_cast<double>(sum);
      const double x = left + cell * c, y = top + cell * row;
      char opacity[16];
      std::snprintf(opacity, sizeof opacity, "%.2f", 0.1 + 0.9 * share);
      all += text("<rect class=\"", row == c ? "right" : "wrong", "\" x=\"", place(x), "\" y=\"",
                  place(y), "\" width=\"", place(cell), "\" height=\"", place(cell),
                  "\" fill-opacity=\"", opacity, "\"");
      all += n <= 60 ? text("><title>", html(names(row)), " taken for ", html(names(c)), ": ", here,
                            " of ", sum, "</title></rect>")
                     : "/>";
      if (n <= kMostCounted)
        all += text("<text", share >= 0.5 ? " class=\"on\"" : "", " x=\"", place(x + cell / 2),
                    "\" y=\"", place(y + cell / 2 + 4),
                    "\" text-anchor=\"middle\" pointer-events=\"none\">",
                    writes_counts ? std::to_string(here) : percent_of(share), "</text>");
    }
    all += "\n";
  }
  std::string lines;
  for (int i = 0; cell >= 12 && i <= n; ++i)
    lines += text("M", place(left), " ", place(top + cell * i), "h", place(side), "M",
                  place(left + cell * i), " ", place(top), "v", place(side));
  all += text("<path class=\"lines\" d=\"", lines, "\" />\n");
  // All names lie, or all stand.
  const bool is_upright = widest + 4 <= cell * step;
  for (int c = 0; c < n; c += step) {
    const std::string name = html(cut_name(names(c)));
    const double middle = cell * (c + 0.5), y = top - 6;
    all += text("<text x=\"", place(left - 6), "\" y=\"", place(top + middle + 4),
                "\" text-anchor=\"end\">", name, "</text>");
    const double x = left + middle;
    all += is_upright
               ? text("<text x=\"", place(x), "\" y=\"", place(y), "\" text-anchor=\"middle\">",
                      name, "</text>\n")
               : text("<text x=\"", place(x), "\" y=\"", place(y), "\" transform=\"rotate(-45 ",
                      place(x), " ", place(y), ")\">", name, "</text>\n");
  }
  all += text("<text x=\"14\" y=\"", place(top + side / 2), "\" transform=\"rotate(-90 14 ",
              place(top + side / 2), ")\" text-anchor=\"middle\">label</text><text x=\"",
              place(left + side / 2), "\" y=\"13\" text-anchor=\"middle\">prediction</text>");
  return all + "</svg></div>\n";
}

std::string confusions_table(const Evaluation::Classes& of, const ClassLabels& names) {
  if (of.confusions_size() == 0) return "";
  std::string rows;
  for (const auto& one : of.confusions()) {
    int64_t support = 0;
    for (const auto& c : of.classes()) {
      if (c.label() == one.label()) support = c.support();
    }
    const auto count = static_cast<double>(one.count());
    rows +=
        text("<tr>", text_cell(names(one.label())), text_cell(names(one.prediction())),
             number_cell(count, count_words(one.count())),
             share_cell(support > 0, count / static_cast<double>(std::max<int64_t>(1, support))),
             "</tr>\n");
  }
  return "<details><summary>The most frequent confusions</summary>\n" +
         table("The most frequent confusions", {"label", "taken for", "#times", "#of the label"},
               rows) +
         "</details>\n";
}

/// Precision over recall: of all classes together, and of those with the least area.
std::string precision_recall(const google::protobuf::RepeatedPtrField<Evaluation::Curve>& curves,
                             const ClassLabels& names) {
  if (curves.empty()) return "";
  std::vector<const Evaluation::Curve*> shown;
  for (const auto& curve : curves) shown.push_back(&curve);
  std::ranges::stable_sort(shown, [](const auto* a, const auto* b) {
    if ((a->label() < 0) != (b->label() < 0)) return a->label() < 0;
    return a->average_precision() < b->average_precision();
  });
  const size_t all_curves = shown.size();
  if (shown.size() > kMostCurves) shown.resize(kMostCurves);
  std::string lines, legend;
  for (size_t k = 0; k < shown.size(); ++k) {
    const Evaluation::Curve& curve = *shown[k];
    const int points = std::min(curve.recall_size(), curve.precision_size());
    const std::string kinds = text("k", k % 8 + 1, k >= 8 ? " dash" : "");
    const std::string name = curve.label() < 0 ? "all classes" : names(curve.label());
    std::string path;
    for (int i = 0; i < points; ++i) {
      path += text(path.empty() ? "M" : "L", place(1000 * static_cast<double>(curve.recall(i))),
                   " ", place(300 - 300 * static_cast<double>(curve.precision(i)) / 1.02));
    }
    if (points == 1) path += "h0";
    lines += text("<g class=\"line ", kinds, "\"><path class=\"plain\" d=\"", path, "\"><title>",
                  html(name), "</title></path></g>");
    legend += text("<li class=\"", kinds, "\"><i></i>", html(name), " <output>AP ",
                   value_words(curve.average_precision()), "</output></li>");
  }
  std::string grid, ys, xs;
  for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    grid += text("M0 ", place(300 - 300 * tick / 1.02), "H1000");
    ys += text("<span style=\"top:", place(100 - 100 * tick / 1.02), "%\">", tick, "</span>");
    xs += text("<span style=\"left:", place(100 * tick), "%\">", tick, "</span>");
  }
  return text(
      "<figure class=\"pr\"><figcaption><h3>Precision over recall</h3>",
      all_curves > shown.size()
          ? text("<span class=\"faint\">All together, and the ", kMostCurves - 1,
                 " classes of the least area of ", all_curves - 1, "</span>")
          : "",
      "</figcaption><div class=\"plot\" role=\"img\" aria-label=\"Precision over recall of ",
      shown.size(), " classes\"><svg viewBox=\"0 0 1000 300\" preserveAspectRatio=\"none\">",
      "<path class=\"grid\" d=\"", grid, "\" />", lines, "</svg><div class=\"ys\">", ys,
      "</div><div class=\"xs\">", xs,
      "</div><span class=\"x-name\">recall</span><span class=\"y-name\">precision</span></div><ul "
      "class=\"legend\">",
      legend, "</ul></figure>\n");
}

std::string tile(const std::string& value, const std::string& what) {
  return text("<li><b>", html(value), "</b><span>", html(what), "</span></li>");
}

std::string share_tile(bool has, double value, const std::string& what) {
  return has ? tile(share_words(value), what) : "";
}

}  // namespace

ClassLabels::ClassLabels(const Classes& classes) {
  for (const auto& one : classes) names_[one.label()] = class_words(one.name(), one.label());
}

std::string ClassLabels::operator()(int label) const {
  const auto found = names_.find(label);
  return found != names_.end() ? found->second : std::to_string(label);
}

std::string evaluation_head(const Evaluation& evaluation) {
  std::string all;
  if (evaluation.has_seconds()) {  // it ran
    const int64_t records = evaluation.records(), of = evaluation.records_of_data();
    all = text(
        "<p class=\"faint\">Of ", evaluation.is_best() ? "the best weights" : "the last weights",
        evaluation.has_iteration() ? text(" (iteration ", count_words(evaluation.iteration()), ")")
                                   : "",
        records == 0   ? ", over some batches, whose records cannot be counted,"
        : of > records ? text(", over ", count_words(records), " of ", count_words(of),
                              " records, spread over the data")
                       : text(", over ", count_words(records), " records"),
        " of test net ", evaluation.net(), ".",
        evaluation.is_cut() ? " It ended when its time was over; `crema report` takes more." : "",
        of > records ? " The tests of the run may have taken other records, and differ." : "",
        "</p>\n");
  }
  for (const std::string& note : evaluation.notes())
    all += "<p class=\"note\">" + html(note) + "</p>\n";
  return all;
}

std::string classes_part(const Evaluation& evaluation) {
  if (!evaluation.has_classes()) return "";
  const Evaluation::Classes& of = evaluation.classes();
  const ClassLabels names(of.classes());
  const bool has_areas = std::ranges::any_of(
      of.classes(), [](const Evaluation::Class& one) { return one.has_average_precision(); });
  std::string rows;
  for (const auto& one : of.classes()) {
    rows += text("<tr><th scope=\"row\">", html(names(one.label())), "</th>",
                 number_cell(static_cast<double>(one.support()), count_words(one.support())),
                 number_cell(static_cast<double>(one.predicted()), count_words(one.predicted())),
                 share_cell(one.has_recall(), one.recall()),
                 share_cell(one.has_precision(), one.precision()),
                 share_cell(one.has_f1(), one.f1()), share_cell(one.has_iou(), one.iou()));
    if (has_areas) rows += share_cell(one.has_average_precision(), one.average_precision());
    rows += "</tr>\n";
  }
  std::vector<std::string> head = {"class",      of.of_pixels() ? "#pixels" : "#labels",
                                   "#predicted", "#accuracy (recall)",
                                   "#precision", "#F1",
                                   "#IoU"};
  if (has_areas) head.push_back("#AP");
  std::string all = "<ul class=\"tiles\">";
  all += share_tile(of.has_accuracy(), of.accuracy(),
                    of.of_pixels() ? "accuracy of pixels" : "accuracy");
  all += share_tile(of.has_top5_accuracy(), of.top5_accuracy(), "among the best five");
  all += share_tile(of.has_mean_accuracy(), of.mean_accuracy(), "mean accuracy of the classes");
  all += share_tile(of.has_mean_f1(), of.mean_f1(), "mean F1");
  all += share_tile(of.has_mean_iou(), of.mean_iou(), "mean IoU");
  all += tile(count_words(of.positions()), of.of_pixels() ? "pixels" : "labels");
  all += "</ul>\n";
  if (of.undecided() > 0)
    all += text("<p class=\"fail\">", count_words(of.undecided()),
                " labels have scores of NaN alone, and count as misses.</p>\n");
  if (of.ignored() > 0)
    all += text("<p class=\"faint\">", count_words(of.ignored()),
                " labels are the ignored one, and do not count.</p>\n");
  all += "<div class=\"curves2\"><div>" + confusion_svg_of(of, names) +
         confusions_table(of, names) + "</div>" + precision_recall(of.curves(), names) + "</div>\n";
  return all + "<h3>Each class</h3>\n" + table("Classes", head, rows);
}

std::string detections_part(const Evaluation& evaluation) {
  std::string all;
  for (const auto& one : evaluation.detections()) {
    const ClassLabels names(one.classes());
    std::string rows;
    int64_t boxes = 0;
    for (const auto& c : one.classes()) {
      boxes += c.support();
      rows += text("<tr><th scope=\"row\">", html(names(c.label())), "</th>",
                   number_cell(static_cast<double>(c.support()), count_words(c.support())),
                   number_cell(static_cast<double>(c.predicted()), count_words(c.predicted())),
                   share_cell(c.has_recall(), c.recall()),
                   share_cell(c.has_average_precision(), c.average_precision()), "</tr>\n");
    }
    all += "<ul class=\"tiles\">" +
           share_tile(one.has_mean_average_precision(), one.mean_average_precision(),
                      text("mean average precision, ", one.ap_version())) +
           tile(count_words(boxes), "true boxes") +
           tile(count_words(one.classes_size()), "classes") + "</ul>\n";
    all += "<div class=\"curves2\"><div>" +
           table("Average precision of classes",
                 {"class", "#true boxes", "#detections", "#greatest recall", "#AP"}, rows) +
           "</div>" + precision_recall(one.curves(), names) + "</div>\n";
  }
  return all;
}

}  // namespace crema
