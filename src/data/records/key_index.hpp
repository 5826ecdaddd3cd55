// Keys of every kStride-th record of a database that finds records by key: enough to reach any
// record by its number in a few steps, at a small part of the memory that all keys would take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

class KeyIndex {
 public:
  static constexpr int64_t kStride = 16;

  void add(std::string_view key) {
    text_ += key;
    ends_.push_back(text_.size());
  }
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  /// Key of record `i * kStride`.
  std::string_view key(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    const size_t begin = at == 0 ? 0 : ends_[at - 1];
    return std::string_view(text_).substr(begin, ends_[at] - begin);
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

}  // namespace crema
