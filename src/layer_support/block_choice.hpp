// Choosing and sorting on the lanes of a block (layer_support/blocks.hpp): the first items by their
// keys, lists in order, greedy suppression. All lanes of a block call these functions, with the
// same arguments. Ties are broken by the number of the item, so that results do not depend on the
// number of lanes.
//
// Functions that say so use lanes.shared[0] to lanes.shared[lanes.count - 1].
#pragma once

#include <bit>
#include <cstdint>

#include "core/functor.hpp"
#include "layer_support/boxes.hpp"
#include "layer_support/suppression.hpp"

namespace crema {

/// Lanes that a block has at most, and so what shared values functions of this file use.
inline constexpr int64_t kMostLanes = 256;

/// Rises with the value, which is no NaN; above 0. -0 is 0.
CREMA_FUNCTOR uint32_t rising_key(float value) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0F);
  return bits >> 31 != 0 ? ~bits : bits | uint32_t{1} << 31;
}
CREMA_FUNCTOR uint64_t rising_key(double value) {
  const auto bits = std::bit_cast<uint64_t>(value + 0.0);
  return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
}
template <class T>
using RisingKey = decltype(rising_key(T{}));

/// The items of a lane, which lie side by side.
struct LanePart {
  int64_t begin, end;
};
template <class Lanes>
CREMA_FUNCTOR LanePart part_of_lane(const Lanes& lanes, int64_t count) {
  const int64_t each = (count + lanes.count - 1) / lanes.count, begin = lanes.first * each;
  return {begin < count ? begin : count, begin + each < count ? begin + each : count};
}

/// The sums of a number over the lanes before this one, and over all. Uses lanes.shared.
struct LaneSums {
  int64_t before, all;
};
template <class Lanes>
CREMA_FUNCTOR LaneSums sums_of_lanes(const Lanes& lanes, int64_t number) {
  lanes.wait();  // everybody has read what was shared before
  lanes.shared[lanes.first] = static_cast<double>(number);
  lanes.wait();
  LaneSums sums{0, 0};
  for (int64_t lane = 0; lane < lanes.count; ++lane) {
    const double of_lane = lanes.shared[lane];
    if (lane < lanes.first) sums.before += static_cast<int64_t>(of_lane);
    sums.all += static_cast<int64_t>(of_lane);
  }
  return sums;
}

/// Calls take(i, place) for the items of [0, count) that has(i) is true of, `place` being their
/// number among these. Returns how many they are. Uses lanes.shared.
template <class Lanes, class Has, class Take>
CREMA_FUNCTOR int64_t take_items(const Lanes& lanes, int64_t count, const Has& has,
                                 const Take& take) {
  const LanePart own = part_of_lane(lanes, count);
  int64_t number = 0;
  for (int64_t i = own.begin; i < own.end; ++i) number += has(i) ? 1 : 0;
  const LaneSums sums = sums_of_lanes(lanes, number);
  int64_t place = sums.before;
  for (int64_t i = own.begin; i < own.end && place < sums.before + number; ++i) {
    if (has(i)) take(i, place++);
  }
  return sums.all;
}

/// Divides items by their keys: those above `key` are chosen, and the first `equal` of those that
/// have this one.
template <class Key>
struct KeyCut {
  Key key;
  int64_t equal;
};

/// The cut that chooses the `wanted` items of [0, count) with the greatest keys, or all of them.
/// Items of key 0 are never chosen.
template <class Key, class Lanes, class KeyOf>
CREMA_FUNCTOR KeyCut<Key> find_cut(const Lanes& lanes, int64_t count, int64_t wanted,
                                   const KeyOf& key_of) {
  const auto reach = [&](Key least) {
    int64_t number = 0;
    for (int64_t i = lanes.first; i < count; i += lanes.count) number += key_of(i) >= least ? 1 : 0;
    return static_cast<int64_t>(lanes.sum(static_cast<double>(number)));
  };
  constexpr Key kMost = ~Key{0};
  if (wanted <= 0) return {kMost, 0};
  if (reach(1) <= wanted) return {0, 0};
  // More than are wanted reach `low`, and fewer reach a key above `high`.
  Key low = 1, high = kMost;
  int64_t above = 0;
  while (low < high) {
    const Key middle = low + (high - low) / 2 + (high - low) % 2;
    const int64_t number = reach(middle);
    if (number == wanted) return {static_cast<Key>(middle - 1), 0};
    if (number > wanted) {
      low = middle;
    } else {
      high = middle - 1;
      above = number;
    }
  }
  return {low, wanted - above};
}

/// take_items() of those that the cut chooses. Uses lanes.shared.
template <class Key, class Lanes, class KeyOf, class Take>
CREMA_FUNCTOR int64_t take_cut(const Lanes& lanes, int64_t count, const KeyCut<Key>& cut,
                               const KeyOf& key_of, const Take& take) {
  const LanePart own = part_of_lane(lanes, count);
  int64_t equal = 0, chosen = 0;
  for (int64_t i = own.begin; i < own.end; ++i) {
    const Key key = key_of(i);
    equal += key == cut.key ? 1 : 0;
    chosen += key > cut.key ? 1 : 0;
  }
  int64_t left = cut.equal - sums_of_lanes(lanes, equal).before;
  left = left < 0 ? 0 : left < equal ? left : equal;
  const LaneSums sums = sums_of_lanes(lanes, chosen + left);
  int64_t place = sums.before;
  for (int64_t i = own.begin; i < own.end; ++i) {
    const Key key = key_of(i);
    if (key > cut.key || (key == cut.key && left-- > 0)) take(i, place++);
  }
  return sums.all;
}

// Sorting: a network of comparisons of two items each, of which each step is one of pairs that do
// not meet. Items from `count` on count as the last ones: their comparisons change nothing.

/// Pair p of the first step that merges sorted runs of size / 2: the first item of a run with the
/// last one of the next, and so on. `size`: 1 << bits.
struct SortedPair {
  int64_t first, second;
};
CREMA_FUNCTOR SortedPair mirrored_pair(int64_t p, int bits) {
  const int64_t half = int64_t{1} << (bits - 1), run = p >> (bits - 1) << bits;
  const int64_t at = p & (half - 1);
  return {run + at, run + 2 * half - 1 - at};
}
/// Pair p of a later step: of items 1 << bits apart.
CREMA_FUNCTOR SortedPair distant_pair(int64_t p, int bits) {
  const int64_t distance = int64_t{1} << bits;
  const int64_t first = (p >> bits << (bits + 1)) + (p & (distance - 1));
  return {first, first + distance};
}

/// Sorts [0, count): order(i, j) puts items i < j into order.
template <class Lanes, class Order>
CREMA_FUNCTOR void sort_items(const Lanes& lanes, int64_t count, const Order& order) {
  int64_t pairs = 1;
  while (2 * pairs < count) pairs *= 2;
  for (int bits = 1; int64_t{1} << (bits - 1) < count; ++bits) {
    lanes.wait();
    for (int64_t p = lanes.first; p < pairs; p += lanes.count) {
      const SortedPair pair = mirrored_pair(p, bits);
      if (pair.second < count) order(pair.first, pair.second);
    }
    for (int distance = bits - 2; distance >= 0; --distance) {
      lanes.wait();
      for (int64_t p = lanes.first; p < pairs; p += lanes.count) {
        const SortedPair pair = distant_pair(p, distance);
        if (pair.second < count) order(pair.first, pair.second);
      }
    }
  }
  lanes.wait();
}

/// The order of suppression.hpp.
CREMA_FUNCTOR bool comes_first(double score_a, int64_t a, double score_b, int64_t b) {
  return score_a > score_b || (score_a == score_b && a < b);
}

/// Sorts candidates, in lanes.shared if its `shared` values have room for them.
template <class T, class Lanes>
CREMA_FUNCTOR void sort_block(const Lanes& lanes, int64_t shared, int64_t count,
                              Candidate<T>* candidates) {
  if (2 * count > shared) {
    return sort_items(lanes, count, [&](int64_t i, int64_t j) {
      const Candidate<T> a = candidates[i], b = candidates[j];
      if (comes_first(static_cast<double>(a.score), a.index, static_cast<double>(b.score), b.index))
        return;
      candidates[i] = b;
      candidates[j] = a;
    });
  }
  lanes.wait();
  for (int64_t i = lanes.first; i < count; i += lanes.count) {
    lanes.shared[i] = static_cast<double>(candidates[i].score);
    lanes.shared[count + i] = static_cast<double>(candidates[i].index);
  }
  sort_items(lanes, count, [&](int64_t i, int64_t j) {
    const double score_a = lanes.shared[i], score_b = lanes.shared[j];
    const double a = lanes.shared[count + i], b = lanes.shared[count + j];
    if (comes_first(score_a, static_cast<int64_t>(a), score_b, static_cast<int64_t>(b))) return;
    lanes.shared[i] = score_b;
    lanes.shared[j] = score_a;
    lanes.shared[count + i] = b;
    lanes.shared[count + j] = a;
  });
  for (int64_t i = lanes.first; i < count; i += lanes.count) {
    const double score = lanes.shared[i], index = lanes.shared[count + i];
    candidates[i] = {static_cast<T>(score), static_cast<int32_t>(index)};
  }
  lanes.wait();
}

/// suppress() of layer_support/suppression.hpp: writes the numbers of the boxes that are kept, at
/// most `most`, to `kept`, and returns how many they are. `overlaps` is scratch memory of `count`
/// values: the largest overlap with a kept box that was found. `more` is added to xmax and ymax.
/// Uses lanes.shared.
///
/// Boxes are taken in tiles. Lanes find which pairs of a tile overlap too much, as bits; each lane
/// then knows what is kept of it, and they share out the boxes behind. While the threshold still
/// changes from box to box, a tile is one box.
template <class T, class Lanes>
CREMA_FUNCTOR int64_t suppress_block(const Lanes& lanes, const Suppression& settings, int64_t count,
                                     int64_t most, const BoundingBox<T>* boxes, T more, T* overlaps,
                                     int32_t* kept) {
  constexpr int64_t kTile = 32;
  const auto box_of = [&](int64_t k) {
    BoundingBox<T> box = boxes[k];
    box.xmax += more;
    box.ymax += more;
    return box;
  };
  for (int64_t k = lanes.first; k < count; k += lanes.count) overlaps[k] = T{0};
  lanes.wait();
  auto threshold = static_cast<T>(settings.threshold);
  int64_t number = 0;
  for (int64_t begin = 0, end = 0; begin < count && number < most; begin = end) {
    const bool changes = settings.eta < 1 && threshold > T(0.5);
    const int64_t behind = begin + (changes ? 1 : kTile);
    end = behind < count ? behind : count;
    // Which boxes of the tile, before this one, overlap it too much; -1: one of another tile does.
    for (int64_t k = begin + lanes.first; k < end; k += lanes.count) {
      const BoundingBox<T> box = box_of(k);
      const T own = area(box);
      uint32_t before = 0;
      for (int64_t i = begin; i < k; ++i) {
        const BoundingBox<T> other = box_of(i);
        if (overlap(box, own, other, area(other)) > threshold) before |= uint32_t{1} << (i - begin);
      }
      lanes.shared[k - begin] = overlaps[k] > threshold ? -1.0 : static_cast<double>(before);
    }
    lanes.wait();
    uint32_t kept_here = 0;
    for (int64_t k = begin; k < end && number < most; ++k) {
      const double before = lanes.shared[k - begin];
      if (before < 0 || (static_cast<uint32_t>(before) & kept_here) != 0) continue;
      kept_here |= uint32_t{1} << (k - begin);
      if (lanes.first == 0) kept[number] = static_cast<int32_t>(k);
      ++number;
    }
    if (changes && kept_here != 0) threshold *= static_cast<T>(settings.eta);
    for (int64_t i = end + lanes.first; i < count && kept_here != 0; i += lanes.count) {
      const BoundingBox<T> box = box_of(i);
      const T own = area(box);
      T largest = overlaps[i];
      for (int64_t k = begin; k < end && !(largest > threshold); ++k) {
        if ((kept_here >> (k - begin) & 1) == 0) continue;
        const BoundingBox<T> other = box_of(k);
        const T share = overlap(box, own, other, area(other));
        if (share > largest) largest = share;
      }
      overlaps[i] = largest;
    }
    lanes.wait();
  }
  lanes.wait();
  return number;
}

}  // namespace crema
