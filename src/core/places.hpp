// Places: values that are positions in a map, as in the mask of maximum pooling. A layer that makes
// them derives from MakesPlaces, a layer that puts values at them from ReadsPlaces, and both from
// Layer. The net finds them with dynamic_cast, follows places through layers that move values
// (core/moves_values.hpp), and asks the reader whenever shapes are set: a place is one number, so
// that in a map of another width it means another position without being out of range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace crema {

/// A map whose positions are numbered row by row: row * width + column.
struct PlacedMap {
  int64_t height = 0, width = 0;
  int64_t rows = 0;  // all places are in the first `rows` rows; at most `height`
};

class MakesPlaces {
 public:
  virtual ~MakesPlaces() = default;

  /// The map in which the values of top t are places, in the present shapes. None if they are
  /// something else.
  virtual std::optional<PlacedMap> places_of(int t) const = 0;
};

class ReadsPlaces {
 public:
  virtual ~ReadsPlaces() = default;

  /// Error, in the present shapes, if the values of bottom b are not the same positions here as in
  /// the `map` of the layer that made them. `maker` names that layer: "layer 'pool1' (Pooling)".
  virtual void check_places(int b, const PlacedMap& map, const std::string& maker) const = 0;
};

}  // namespace crema
