#include "tools/confusion_report.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/json.hpp"
#include "crema/error.hpp"

namespace crema::tools {
namespace {

/// Up to this many classes, all counts fit a screen.
constexpr int64_t kMostColumns = 20;
/// Of the classes that one was taken for, the most frequent ones are named.
constexpr size_t kMostTaken = 3;

std::string percent(const std::optional<double>& share) {
  if (!share) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%%", 100 * *share);
  return text;
}

std::string json_share(const std::optional<double>& share) {
  return share ? json_number(*share) : "null";
}

/// "3 (12), 5 (2)": classes that this one was taken for, the most frequent first.
std::string taken_for(const ConfusionMatrix& confusion, int64_t label) {
  std::vector<int64_t> others;
  for (int64_t c = 0; c < confusion.classes(); ++c) {
    if (c != label && confusion.count(label, c) != 0) others.push_back(c);
  }
  std::ranges::stable_sort(others, [&](int64_t a, int64_t b) {
    return confusion.count(label, a) > confusion.count(label, b);
  });
  if (others.size() > kMostTaken) others.resize(kMostTaken);
  std::vector<std::string> words;
  for (const int64_t c : others) words.push_back(text(c, " (", confusion.count(label, c), ")"));
  return joined(words);
}

}  // namespace

void log_shares(const ConfusionMatrix& confusion) {
  LOG(INFO) << "Of " << confusion.positions() << " labels: accuracy "
            << percent(confusion.accuracy()) << ", mean of the classes "
            << percent(confusion.mean_accuracy()) << ", mean IoU " << percent(confusion.mean_iou())
            << (confusion.ignored() != 0 ? text("; ", confusion.ignored(), " ignored") : "")
            << (confusion.undecided() != 0
                    ? text("; ", confusion.undecided(), " have scores of NaN alone")
                    : "");
  if (confusion.unknown_samples() != 0) {
    LOG(WARNING)
        << "Samples that count here though they are no records of their own, such as those "
           "that fill the last batch: "
        << confusion.unknown_samples()
        << "; the scores and "
           "labels do not have the samples along their first axis; give the data layer a "
           "batch_size that divides its records";
  }
}

void print_confusion(const ConfusionMatrix& confusion) {
  std::printf("%5s %10s %10s %9s %9s  %s\n", "class", "labels", "predicted", "accuracy", "IoU",
              "taken for");
  const int64_t classes = confusion.classes();
  for (int64_t c = 0; c < classes; ++c) {
    std::printf("%5lld %10lld %10lld %9s %9s  %s\n", static_cast<long long>(c),
                static_cast<long long>(confusion.labelled(c)),
                static_cast<long long>(confusion.predicted(c)),
                percent(confusion.accuracy(c)).c_str(), percent(confusion.iou(c)).c_str(),
                taken_for(confusion, c).c_str());
  }
  if (classes > kMostColumns) return;
  const int width = std::max(5, static_cast<int>(std::to_string(confusion.positions()).size()) + 1);
  std::printf("\nrows: labels, columns: predictions\n%5s", "");
  for (int64_t c = 0; c < classes; ++c) std::printf("%*lld", width, static_cast<long long>(c));
  std::printf("\n");
  for (int64_t label = 0; label < classes; ++label) {
    std::printf("%5lld", static_cast<long long>(label));
    for (int64_t c = 0; c < classes; ++c) {
      std::printf("%*lld", width, static_cast<long long>(confusion.count(label, c)));
    }
    std::printf("\n");
  }
}

std::string json_of(const ConfusionMatrix& confusion, const ScoredLabels& of) {
  std::vector<std::string> classes, rows;
  for (int64_t c = 0; c < confusion.classes(); ++c) {
    classes.push_back(text("{\"label\": ", c, ", \"labels\": ", confusion.labelled(c),
                           ", \"predicted\": ", confusion.predicted(c),
                           ", \"accuracy\": ", json_share(confusion.accuracy(c)),
                           ", \"iou\": ", json_share(confusion.iou(c)), "}"));
    if (!confusion.has_pairs()) continue;
    std::vector<int64_t> row(static_cast<size_t>(confusion.classes()));
    for (int64_t p = 0; p < confusion.classes(); ++p) {
      row[static_cast<size_t>(p)] = confusion.count(c, p);
    }
    rows.push_back(text("[", joined(row), "]"));
  }
  return text(", \"scores\": ", json_string(of.scores), ", \"labels\": ", json_string(of.labels),
              ", \"positions\": ", confusion.positions(), ", \"ignored\": ", confusion.ignored(),
              ", \"undecided\": ", confusion.undecided(),
              ", \"accuracy\": ", json_share(confusion.accuracy()),
              ", \"mean_accuracy\": ", json_share(confusion.mean_accuracy()),
              ", \"mean_iou\": ", json_share(confusion.mean_iou()), ", \"classes\": [",
              joined(classes), "]",
              confusion.has_pairs() ? text(", \"confusion\": [", joined(rows), "]") : "");
}

}  // namespace crema::tools
