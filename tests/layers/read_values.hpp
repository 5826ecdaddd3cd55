// The table of what layers read beside values: labels, indices, places, indicators, lengths,
// counts, and sizes of other layers.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/layer_test.hpp"

namespace crema::test {

inline std::string layer(const std::string& type, const std::string& settings = "") {
  return text("layer { type: '", type, "' ", settings, " }");
}

/// Whole numbers in [0, classes), in turn.
inline Input whole(const Shape& shape, int64_t classes) {
  Input input{shape, {}};
  for (int64_t i = 0; i < shape.count(); ++i)
    input.values.push_back(static_cast<double>(i % classes));
  return input;
}

/// A bottom that has to be an Error.
struct BadBottom {
  size_t bottom;
  Input input;       // in place of the good one
  std::string part;  // of the message
};

struct Reads {
  LayerCase good;
  std::vector<BadBottom> bad;
  /// Bottoms without a gradient of which no value is read, or any value is right.
  std::set<int> any_values = {};
};

/// By type.
using ReadTable = std::multimap<std::string, Reads>;
ReadTable read_values_table();

}  // namespace crema::test
