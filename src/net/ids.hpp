// Indices of nodes and of values, as two types, and vectors that are indexed by them.
#pragma once

#include <cstddef>
#include <cstdint>
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
class IdVector {
 public:
  IdVector() = default;
  IdVector(size_t count, const T& value) : items_(count, value) {}

  typename std::vector<T>::reference operator[](Key id) { return items_[id.index()]; }
  typename std::vector<T>::const_reference operator[](Key id) const { return items_[id.index()]; }
  size_t size() const { return items_.size(); }
  /// The index of the element that the next push_back() adds.
  Key next() const { return Key(items_.size()); }
  Key push_back(T item) {
    items_.push_back(std::move(item));
    return Key(items_.size() - 1);
  }
  void resize(size_t count) { items_.resize(count); }

  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<T> items_;
};

/// The indices from 0 to `count` - 1, for loops.
template <class Key>
class IdRange {
 public:
  explicit IdRange(size_t count) : count_(count) {}
  struct Iterator {
    size_t at;
    Key operator*() const { return Key(at); }
    void operator++() { ++at; }
    bool operator!=(const Iterator& other) const { return at != other.at; }
  };
  Iterator begin() const { return {0}; }
  Iterator end() const { return {count_}; }

 private:
  size_t count_;
};

}  // namespace crema
