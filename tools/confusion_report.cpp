#include "tools/confusion_report.hpp"

#include <algorithm>
#include <cstdio>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

/// Up to this many classes, all counts fit a screen.
constexpr int64_t kMostColumns = 20;
/// Columns of a screen that names at the head of the counts may take.
constexpr size_t kMostWidth = 100;
/// Of the classes that one was taken for, the most frequent ones are named.
constexpr size_t kMostTaken = 3;
constexpr size_t kLongestName = 24;

std::string share_or_dash(const std::optional<double>& share) {
  return share ? percent(*share) : "-";
}

std::string json_share(const std::optional<double>& share) {
  return share ? json_number(*share) : "null";
}

std::string at_right(const std::string& word, size_t width) {
  return std::string(width - std::min(width, columns_of(word)), ' ') + word;
}

std::string at_left(const std::string& word, size_t width) {
  return word + std::string(width - std::min(width, columns_of(word)), ' ');
}

/// "dog (12), bee (2)": classes that this one was taken for, the most frequent first.
std::string taken_for(const ConfusionReport& report, int64_t label) {
  const ConfusionMatrix& confusion = report.confusion;
  std::vector<int64_t> others;
  for (int64_t c = 0; c < confusion.classes(); ++c) {
    if (c != label && confusion.count(label, c) != 0) others.push_back(c);
  }
  std::ranges::stable_sort(others, [&](int64_t a, int64_t b) {
    return confusion.count(label, a) > confusion.count(label, b);
  });
  if (others.size() > kMostTaken) others.resize(kMostTaken);
  std::vector<std::string> words;
  for (const int64_t c : others)
    words.push_back(text(class_label(report.names, c), " (", confusion.count(label, c), ")"));
  return joined(words);
}

/// The labels of all classes, and the columns of the longest one.
std::pair<std::vector<std::string>, size_t> class_labels(const ConfusionReport& report) {
  std::vector<std::string> labels;
  size_t width = 5;  // of "class"
  for (int64_t c = 0; c < report.confusion.classes(); ++c) {
    labels.push_back(class_label(report.names, c));
    width = std::max(width, columns_of(labels.back()));
  }
  return {labels, width};
}

}  // namespace

std::string class_label(const std::vector<std::string>& names, int64_t label) {
  if (names.empty()) return std::to_string(label);
  const std::string name = printable(names[static_cast<size_t>(label)]);
  if (columns_of(name) <= kLongestName) return name;
  std::string begin;
  for (size_t at = 0, columns = 0; columns + 3 < kLongestName; ++columns) {
    const size_t bytes = std::max<size_t>(1, utf8_length(std::string_view(name).substr(at)));
    begin += name.substr(at, bytes);
    at += bytes;
  }
  return begin + "...";
}

void ConfusionReport::log_shares() const {
  const std::optional<double> top = confusion.top_k();
  say(text("Of ", confusion.positions(), " labels: accuracy ", share_or_dash(confusion.accuracy()),
           top ? text(", of the best ", ConfusionMatrix::kTop, " ", share_or_dash(top)) : "",
           ", mean of the classes ", share_or_dash(confusion.mean_accuracy()), ", mean F1 ",
           share_or_dash(confusion.mean_f1()), ", mean IoU ", share_or_dash(confusion.mean_iou()),
           confusion.ignored() != 0 ? text("; ", confusion.ignored(), " ignored") : "",
           confusion.undecided() != 0
               ? text("; ", confusion.undecided(), " have scores of NaN alone")
               : ""));
  if (confusion.unknown_samples() != 0) {
    say(Severity::warning,
        text("Samples that count here though they are no records of their own, such as those "
             "that fill the last batch: ",
             confusion.unknown_samples(),
             "; the scores and "
             "labels do not have the samples along their first axis; give the data layer a "
             "batch_size that divides its records"));
  }
}

void ConfusionReport::print_classes() const {
  const auto [labels, width] = class_labels(*this);
  const auto line = [&, width = width](const std::string& name,
                                       const std::vector<std::string>& columns,
                                       const std::string& last) {
    std::string all = at_left(name, width);
    for (const std::string& column : columns) all += at_right(column, 11);
    if (!last.empty()) all += "  " + last;
    std::printf("%s\n", all.c_str());
  };
  line("class", {"support", "predicted", "precision", "recall", "F1", "IoU"},
       confusion.has_pairs() ? "taken for" : "");
  for (int64_t c = 0; c < confusion.classes(); ++c) {
    line(labels[static_cast<size_t>(c)],
         {std::to_string(confusion.labelled(c)), std::to_string(confusion.predicted(c)),
          share_or_dash(confusion.precision(c)), share_or_dash(confusion.accuracy(c)),
          share_or_dash(confusion.f1(c)), share_or_dash(confusion.iou(c))},
         confusion.has_pairs() ? taken_for(*this, c) : "");
  }
  line("mean",
       {std::to_string(confusion.positions()), "", share_or_dash(confusion.mean_precision()),
        share_or_dash(confusion.mean_accuracy()), share_or_dash(confusion.mean_f1()),
        share_or_dash(confusion.mean_iou())},
       "");
}

void ConfusionReport::print_pairs() const {
  const int64_t classes = confusion.classes();
  if (classes > kMostColumns) return;
  const auto [labels, width] = class_labels(*this);
  const size_t count_width = std::max<size_t>(5, std::to_string(confusion.positions()).size() + 1);
  size_t named_width = width;
  for (const std::string& label : labels)
    named_width += std::max(count_width, columns_of(label) + 2);
  // Numbers at the head stand for names that do not fit.
  const bool heads_names = names.empty() || named_width <= kMostWidth;
  std::vector<size_t> widths;
  std::string head;
  for (int64_t c = 0; c < classes; ++c) {
    const std::string& label = labels[static_cast<size_t>(c)];
    const bool names_it = heads_names && !names.empty();
    widths.push_back(names_it ? std::max(count_width, columns_of(label) + 2) : count_width);
    head += at_right(names_it ? label : std::to_string(c), widths.back());
  }
  const auto row_label = [&, &labels = labels](int64_t c) {
    const std::string& label = labels[static_cast<size_t>(c)];
    return heads_names ? label : text(c < 10 ? " " : "", c, " ", label);
  };
  const size_t row_width = heads_names ? width : width + 3;
  std::printf("\nrows: labels, columns: predictions\n%s%s\n", std::string(row_width, ' ').c_str(),
              head.c_str());
  for (int64_t label = 0; label < classes; ++label) {
    std::string line = at_left(row_label(label), row_width);
    for (int64_t c = 0; c < classes; ++c)
      line += at_right(std::to_string(confusion.count(label, c)), widths[static_cast<size_t>(c)]);
    std::printf("%s\n", line.c_str());
  }
}

std::string ConfusionReport::json(const ScoredLabels& of, bool pairs) const {
  std::vector<std::string> classes, rows;
  for (int64_t c = 0; c < confusion.classes(); ++c) {
    classes.push_back(
        text("{\"label\": ", c,
             names.empty() ? "" : ", \"name\": " + json_string(names[static_cast<size_t>(c)]),
             ", \"support\": ", confusion.labelled(c), ", \"predicted\": ", confusion.predicted(c),
             ", \"precision\": ", json_share(confusion.precision(c)), ", \"recall\": ",
             json_share(confusion.accuracy(c)), ", \"f1\": ", json_share(confusion.f1(c)),
             ", \"iou\": ", json_share(confusion.iou(c)), "}"));
    if (!pairs) continue;
    std::vector<int64_t> row(static_cast<size_t>(confusion.classes()));
    for (int64_t p = 0; p < confusion.classes(); ++p) {
      row[static_cast<size_t>(p)] = confusion.count(c, p);
    }
    rows.push_back(text("[", joined(row), "]"));
  }
  const std::optional<double> top = confusion.top_k();
  return text(", \"scores\": ", json_string(of.scores), ", \"labels\": ", json_string(of.labels),
              ", \"positions\": ", confusion.positions(), ", \"ignored\": ", confusion.ignored(),
              ", \"undecided\": ", confusion.undecided(),
              ", \"accuracy\": ", json_share(confusion.accuracy()),
              top ? ", \"top5_accuracy\": " + json_share(top) : "",
              ", \"mean_precision\": ", json_share(confusion.mean_precision()),
              ", \"mean_accuracy\": ", json_share(confusion.mean_accuracy()),
              ", \"mean_f1\": ", json_share(confusion.mean_f1()),
              ", \"mean_iou\": ", json_share(confusion.mean_iou()), ", \"classes\": [",
              joined(classes), "]", pairs ? text(", \"confusion\": [", joined(rows), "]") : "");
}

}  // namespace crema::tools
