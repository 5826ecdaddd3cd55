#include "tools/known_classes.hpp"

#include <algorithm>
#include <set>

#include "analysis/confusion.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

constexpr size_t kMostMistakes = 10;
constexpr int64_t kMostClasses = 40;  // with a line each
constexpr int64_t kNone = -1;

/// The labels by the names of folders: the whole names of the classes, and first words that no
/// other class begins with.
std::map<std::string, int64_t> labels_of_folders(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> labels, words;
  for (size_t c = 0; c < names.size(); ++c) {
    const auto label = static_cast<int64_t>(c);
    labels.emplace(names[c], label);
    const auto [word, fresh] = words.emplace(names[c].substr(0, names[c].find(' ')), label);
    if (!fresh) word->second = kNone;
  }
  std::erase_if(words, [](const auto& word) { return word.second == kNone; });
  labels.merge(words);
  return labels;
}

std::string shares(int64_t right, int64_t images) {
  return text(right, " of ", images, " (",
              percent(static_cast<double>(right) / static_cast<double>(images)), ")");
}

}  // namespace

KnownClasses::KnownClasses(const NamedImages& images, const std::vector<std::string>& names,
                           int64_t classes)
    : names_(names), classes_(classes) {
  for (const auto& [place, label] : images.labels) {
    if (label < 0 || label >= classes)
      throw Error("--list=", FLAGS_list, ": label ", label, " of '", images.paths[place],
                  "' is none of the net's ", classes, " classes, 0 to ", classes - 1);
    labels_[place] = label;
  }
  const std::map<std::string, int64_t> by_folder = labels_of_folders(names);
  std::set<std::string> others;
  bool any = false;
  for (const auto& [place, folder] : images.folders) {
    const auto found = by_folder.find(folder);
    if (found == by_folder.end()) {
      others.insert(folder);
      continue;
    }
    labels_.emplace(place, found->second);
    any = true;
  }
  if (any && !others.empty())
    say(Severity::warning,
        text("folder '", printable(*others.begin()), "'",
             others.size() > 1 ? text(" and ", others.size() - 1, " more are") : std::string(" is"),
             " no class of the net: the images there do not count"));
}

std::string KnownClasses::name(int64_t label) const {
  return names_.empty() ? std::to_string(label) : printable(names_[static_cast<size_t>(label)]);
}

std::optional<int64_t> KnownClasses::of(const ReadImage& image) const {
  const auto found = labels_.find(image.place);
  if (found == labels_.end()) return std::nullopt;
  return found->second;
}

void KnownClasses::count(const ReadImage& image, const std::vector<int>& ranked) {
  const std::optional<int64_t> label = of(image);
  if (!label || ranked.empty()) return;
  Counts& counts = counts_[*label];
  ++counts.images;
  const auto top = ranked.begin() +
                   std::min<int64_t>(ConfusionMatrix::kTop, static_cast<int64_t>(ranked.size()));
  in_top_ += std::find(ranked.begin(), top, *label) != top ? 1 : 0;
  if (ranked[0] == *label) {
    ++counts.right;
  } else if (mistakes_.size() < kMostMistakes) {
    mistakes_.push_back(
        text(printable(image.path), " is '", name(*label), "', taken for '", name(ranked[0]), "'"));
  }
}

void KnownClasses::report() const {
  if (counts_.empty()) return;
  Counts all;
  for (const auto& [label, counts] : counts_) {
    all.images += counts.images;
    all.right += counts.right;
    if (static_cast<int64_t>(counts_.size()) <= kMostClasses)
      say(text(name(label), ": ", shares(counts.right, counts.images), " right"));
  }
  for (const std::string& mistake : mistakes_) say(mistake);
  if (all.images - all.right > static_cast<int64_t>(mistakes_.size()))
    say(text("and ", all.images - all.right - static_cast<int64_t>(mistakes_.size()), " more"));
  say(text(shares(all.right, all.images), " images whose class is known are right",
           classes_ >= ConfusionMatrix::kTopClasses
               ? text("; the class of ", shares(in_top_, all.images), " is among the best ",
                      ConfusionMatrix::kTop)
               : ""));
}

}  // namespace crema::tools
