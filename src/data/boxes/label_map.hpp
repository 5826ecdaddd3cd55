// Label maps: the names of the classes of a detector, in a text file with a message LabelMap.
//
//   item { name: "none_of_the_above" label: 0 display_name: "background" }
//   item { name: "aeroplane" label: 1 display_name: "Aeroplane" }
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace crema {

class LabelMap;  // proto/detection.proto

class LabelNames {
 public:
  LabelNames() = default;
  /// Error with the path and the number of the item for a file that is none, has no item, an item
  /// without name or label, a negative label, or a label or a name twice.
  static LabelNames read(const std::string& path);
  /// The same for a message; `source` is for messages.
  LabelNames(const LabelMap& map, std::string source);

  /// Of no map: every label is known, and has no name.
  bool empty() const { return items_.empty(); }
  bool has(int32_t label) const { return items_.contains(label); }
  /// Error if the map lacks the label or the name.
  const std::string& name(int32_t label) const { return item(label).name; }
  /// The name, if the item has no name for display.
  const std::string& display_name(int32_t label) const { return item(label).display_name; }
  int32_t label(const std::string& name) const;
  /// None if the map lacks the name.
  std::optional<int32_t> find(const std::string& name) const;
  /// The same, or else by the name for display, where one item alone has it.
  std::optional<int32_t> find_displayed(const std::string& name) const;
  /// Error, with the labels that there are, for one that the map lacks.
  void check(int32_t label) const;
  /// Rising.
  std::vector<int32_t> labels() const;
  /// The names for display, each at the place of its label; "" for a label that the map lacks. Of
  /// labels below 100,000 alone: one above would need the memory of all names below it.
  std::vector<std::string> names_by_label() const;
  const std::string& source() const { return source_; }

 private:
  struct Item {
    std::string name, display_name;
  };
  const Item& item(int32_t label) const;

  std::string source_;
  std::map<int32_t, Item> items_;
  std::map<std::string, int32_t> by_name_;
};

}  // namespace crema
