// Indices of nodes and of values, as two types, and vectors that are indexed by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <vector>

namespace crema {

template <class Tag>
class Id {
 public:
  /// An invalid index: no node, or no value.
  constexpr Id() = default;
  constexpr explicit Id(size_t index) : index_(static_cast<int32_t>(index)) {}

  constexpr size_t index() const { return static_cast<size_t>(index_); }
  constexpr bool valid() const { return index_ >= 0; }
  auto operator<=>(const Id&) const = default;

 private:
  int32_t index_ = -1;
};

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;

template <class Key, class T>
class IdVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;

  typename std::vector<T>::reference operator[](Key id) {
    return std::vector<T>::operator[](id.index());
  }
  typename std::vector<T>::const_reference operator[](Key id) const {
    return std::vector<T>::operator[](id.index());
  }
  Key push_back(T item) {
    std::vector<T>::push_back(std::move(item));
    return Key(this->size() - 1);
  }
};

/// The indices from 0 to `count` - 1, for loops.
template <class Key>
auto id_range(size_t count) {
  return std::views::iota(size_t{0}, count) |
         std::views::transform([](size_t index) { return Key(index); });
}

}  // namespace crema
