// Indices of nodes and of values, as two types, and vectors that are indexed by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
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

/// The indices from 0 to `count` - 1 as `Key`s, for loops. A class of ours, since Clang before 16
/// does not compile the views of libstdc++.
template <class Key>
class IdRange {
 public:
  class Iterator {
   public:
    explicit Iterator(size_t index) : index_(index) {}
    Key operator*() const { return Key(index_); }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    size_t index_;
  };

  explicit IdRange(size_t count) : count_(count) {}
  Iterator begin() const { return Iterator(0); }
  Iterator end() const { return Iterator(count_); }

 private:
  size_t count_;
};

}  // namespace crema
