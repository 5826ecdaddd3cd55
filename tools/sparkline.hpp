// Sparkline: the course of a value as a few signs of a line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace crema::tools {

/// Of all values that were added, however many they are: each sign is the mean of a part of them.
class Sparkline {
 public:
  /// Of at most so many signs.
  explicit Sparkline(size_t signs) : signs_(signs) {}

  /// Values that are not finite are left out.
  void add(double value);
  /// In UTF-8, from the least value (the lowest bar) to the greatest one; "" for fewer than two
  /// signs, and where all values are equal.
  std::string text() const;

 private:
  struct Part {
    double sum = 0;
    size_t count = 0;
  };

  size_t signs_;
  size_t size_ = 1;  // values in a part
  std::vector<Part> parts_;
};

}  // namespace crema::tools
