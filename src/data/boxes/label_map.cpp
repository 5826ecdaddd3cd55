#include "data/boxes/label_map.hpp"

#include "crema/error.hpp"
#include "model/text_format.hpp"
#include "proto/detection.pb.h"

namespace crema {

LabelNames LabelNames::read(const std::string& path) {
  LabelMap map;
  read_text_proto(path, map);
  return {map, path};
}

LabelNames::LabelNames(const LabelMap& map, std::string source) : source_(std::move(source)) {
  if (map.item_size() == 0)
    throw Error("label map '", source_, "' has no item; give item { name: \"cat\" label: 1 }");
  for (int i = 0; i < map.item_size(); ++i) {
    const LabelMapItem& item = map.item(i);
    const auto refuse = [&](const auto&... why) {
      throw Error("label map '", source_, "': item ", i + 1, " ", why...);
    };
    if (!item.has_label()) refuse("has no label; give each item one");
    if (item.name().empty()) refuse("(label ", item.label(), ") has no name; give each item one");
    if (item.label() < 0)
      refuse("'", item.name(), "' has the label ", item.label(), "; labels count from 0");
    const auto [by_label, fresh] = items_.emplace(
        item.label(),
        Item{item.name(), item.display_name().empty() ? item.name() : item.display_name()});
    if (!fresh)
      refuse("'", item.name(), "' has the label ", item.label(), ", which is that of '",
             by_label->second.name, "' already");
    const auto [by_name, first] = by_name_.emplace(item.name(), item.label());
    if (!first)
      refuse("'", item.name(), "' has the label ", item.label(), ", but that name has the label ",
             by_name->second, " already");
  }
}

const LabelNames::Item& LabelNames::item(int32_t label) const {
  const auto found = items_.find(label);
  if (found == items_.end())
    throw Error("label map '", source_, "' has no label ", label,
                "; give an item for each class of the net");
  return found->second;
}

int32_t LabelNames::label(const std::string& name) const {
  if (const auto found = find(name)) return *found;
  std::vector<std::string> known;
  for (const auto& [other, number] : by_name_) known.push_back(other);
  throw Error("label map '", source_, "' has no class '", name, "'", did_you_mean(name, known));
}

std::optional<int32_t> LabelNames::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> LabelNames::find_displayed(const std::string& name) const {
  if (const auto found = find(name)) return found;
  std::optional<int32_t> one;
  for (const auto& [label, item] : items_) {
    if (item.display_name != name) continue;
    if (one) return std::nullopt;
    one = label;
  }
  return one;
}

void LabelNames::check(int32_t label) const {
  if (empty() || has(label)) return;
  throw Error("label ", label, " is not in the label map '", source_, "', which has ",
              items_.size(), " labels from ", items_.begin()->first, " to ", items_.rbegin()->first,
              "; give the label map that the data were written with");
}

std::vector<int32_t> LabelNames::labels() const {
  std::vector<int32_t> all;
  for (const auto& [label, item] : items_) all.push_back(label);
  return all;
}

std::vector<std::string> LabelNames::names_by_label() const {
  constexpr int32_t kMost = 100000;
  std::vector<std::string> names;
  for (const auto& [label, item] : items_) {
    if (label >= kMost) break;
    names.resize(static_cast<size_t>(label) + 1);
    names.back() = item.display_name;
  }
  return names;
}

}  // namespace crema
