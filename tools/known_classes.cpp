#include "tools/known_classes.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "core/utf8.hpp"
#include "crema/error.hpp"

namespace crema::tools {
namespace {

constexpr size_t kMostMistakes = 10;
constexpr int64_t kMostClasses = 40;  // with a line each
/// The best classes that count with many of them, as of `crema test`.
constexpr int64_t kTopClasses = 10, kTop = 5;

/// The labels by the names of folders: the whole names of the classes, and their first words.
std::map<std::string, int64_t> labels_of_folders(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> labels;
  for (size_t c = 0; c < names.size(); ++c) labels.emplace(names[c], static_cast<int64_t>(c));
  for (size_t c = 0; c < names.size(); ++c) {
    const size_t end = names[c].find(' ');
    if (end != std::string::npos) labels.emplace(names[c].substr(0, end), static_cast<int64_t>(c));
  }
  return labels;
}

std::string shares(int64_t right, int64_t images) {
  char share[32];
  std::snprintf(share, sizeof share, " (%.2f%%)",
                100 * static_cast<double>(right) / static_cast<double>(images));
  return text(right, " of ", images, share);
}

}  // namespace

KnownClasses::KnownClasses(const NamedImages& images, const std::vector<std::string>& names,
                           int64_t classes)
    : names_(names), classes_(classes) {
  for (const auto& [path, label] : images.labels) {
    if (label < 0 || label >= classes)
      throw Error("--list=", FLAGS_list, ": label ", label, " of '", path,
                  "' is none of the net's ", classes, " classes, 0 to ", classes - 1);
    labels_[path] = label;
  }
  const std::map<std::string, int64_t> by_folder = labels_of_folders(names);
  std::set<std::string> others;
  bool any = false;
  for (const auto& [path, folder] : images.folders) {
    const auto found = by_folder.find(folder);
    if (found == by_folder.end()) {
      others.insert(folder);
      continue;
    }
    labels_.emplace(path, found->second);
    any = true;
  }
  if (any && !others.empty())
    LOG(WARNING) << "folder '" << printable(*others.begin()) << "'"
                 << (others.size() > 1 ? text(" and ", others.size() - 1, " more are")
                                       : std::string(" is"))
                 << " no class of the net: the images there do not count";
}

std::string KnownClasses::name(int64_t label) const {
  return names_.empty() ? std::to_string(label) : printable(names_[static_cast<size_t>(label)]);
}

std::optional<int64_t> KnownClasses::of(const std::string& path) const {
  const auto found = labels_.find(path);
  if (found == labels_.end()) return std::nullopt;
  return found->second;
}

void KnownClasses::count(const std::string& path, const std::vector<int>& ranked) {
  const std::optional<int64_t> label = of(path);
  if (!label || ranked.empty()) return;
  Counts& counts = counts_[*label];
  ++counts.images;
  const auto top = ranked.begin() + std::min<int64_t>(kTop, static_cast<int64_t>(ranked.size()));
  in_top_ += std::find(ranked.begin(), top, *label) != top ? 1 : 0;
  if (ranked[0] == *label) {
    ++counts.right;
  } else if (mistakes_.size() < kMostMistakes) {
    mistakes_.push_back(
        text(printable(path), " is '", name(*label), "', taken for '", name(ranked[0]), "'"));
  }
}

void KnownClasses::report() const {
  if (counts_.empty()) return;
  Counts all;
  for (const auto& [label, counts] : counts_) {
    all.images += counts.images;
    all.right += counts.right;
    if (static_cast<int64_t>(counts_.size()) <= kMostClasses)
      LOG(INFO) << name(label) << ": " << shares(counts.right, counts.images) << " right";
  }
  for (const std::string& mistake : mistakes_) LOG(INFO) << mistake;
  if (all.images - all.right > static_cast<int64_t>(mistakes_.size()))
    LOG(INFO) << "and " << all.images - all.right - static_cast<int64_t>(mistakes_.size())
              << " more";
  LOG(INFO) << shares(all.right, all.images) << " images whose class is known are right"
            << (classes_ >= kTopClasses ? text("; the class of ", shares(in_top_, all.images),
                                               " is among the best ", kTop)
                                        : "");
}

}  // namespace crema::tools
