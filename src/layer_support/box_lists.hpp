// Detections on a device: for each list of boxes, such as those of a class of an image, the
// candidates, without those that overlap better ones; of several lists together the best ones; and
// rows of those that are left. The results are those of layer_support/suppression.hpp.
//
// A source says what the boxes are:
//
//   struct Source {
//     static constexpr bool kRefusesInfinite;  // a candidate whose box is no number is refused
//     // Item i of a list: whether it is a candidate, with its score, or what is refused.
//     template <class T> Candidacy candidacy(int64_t list, int64_t i, T& score) const;
//     BoundingBox<T> box(int64_t list, int64_t i) const;
//   };
//
// For sources that include layer_support/passes.hpp.
#pragma once

#include <algorithm>
#include <cstddef>

#include "layer_support/block_choice.hpp"
#include "layer_support/blocks.hpp"
#include "layer_support/detection_rows.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"

namespace crema {

enum class Candidacy : uint8_t { none, candidate, refused };

/// Lists in the memory of a device: each has room for `limit` boxes.
template <class T>
struct ListsThere {
  int64_t items = 0, limit = 0;
  Candidate<T>* found = nullptr;    // (lists, items): the candidates
  Candidate<T>* best = nullptr;     // (lists, limit): the first of them, in order
  BoundingBox<T>* boxes = nullptr;  // (lists, limit)
  T* overlaps = nullptr;            // (lists, limit): scratch memory
  int32_t* kept = nullptr;          // (lists, limit): numbers in `best`
  int32_t* counts = nullptr;        // (lists): of the kept ones
  int32_t* refused = nullptr;       // (lists): 1 where something is
};

/// Item `list`: chooses its boxes.
template <class T, class Source>
struct ChooseBoxes {
  Source source;
  Suppression suppression;
  int64_t most;    // boxes to keep
  T more;          // see suppress_block()
  int64_t shared;  // values
  ListsThere<T> lists;

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t list, const Lanes& lanes) const {
    Candidate<T>* const found = lists.found + list * lists.items;
    Candidate<T>* const best = lists.best + list * lists.limit;
    BoundingBox<T>* const boxes = lists.boxes + list * lists.limit;
    double refused = 0;
    int64_t count = take_items(
        lanes, lists.items,
        [&](int64_t i) {
          T score{};
          const Candidacy is = source.candidacy(list, i, score);
          if (is == Candidacy::refused) refused = 1;
          return is == Candidacy::candidate;
        },
        [&](int64_t i, int64_t place) {
          T score{};
          source.candidacy(list, i, score);
          found[place] = {score, static_cast<int32_t>(i)};
        });
    lanes.wait();
    if (count > lists.limit) {
      const auto key_of = [&](int64_t i) { return rising_key(found[i].score); };
      const auto cut = find_cut<RisingKey<T>>(lanes, count, lists.limit, key_of);
      count = take_cut(lanes, count, cut, key_of,
                       [&](int64_t i, int64_t place) { best[place] = found[i]; });
    } else if (best != found) {
      for (int64_t i = lanes.first; i < count; i += lanes.count) best[i] = found[i];
    }
    sort_block(lanes, shared, count, best);
    for (int64_t k = lanes.first; k < count; k += lanes.count) {
      boxes[k] = source.box(list, best[k].index);
      const BoundingBox<T> box = boxes[k];
      if (Source::kRefusesInfinite &&
          !(box.xmin * 0 + box.ymin * 0 + box.xmax * 0 + box.ymax * 0 == 0))
        refused = 1;
    }
    lanes.wait();
    const int64_t number =
        suppress_block(lanes, suppression, count, most, boxes, more,
                       lists.overlaps + list * lists.limit, lists.kept + list * lists.limit);
    refused = lanes.max(refused);
    if (lanes.first != 0) return;
    lists.counts[list] = static_cast<int32_t>(number);
    lists.refused[list] = refused > 0 ? 1 : 0;
  }
};

/// Item `group`: of `each` lists that follow each other, keeps the `keep` boxes of the greatest
/// scores; among equal ones those of the lower list, then the lower ones of the list.
template <class T>
struct KeepBest {
  int64_t each, keep;
  ListsThere<T> lists;
  int32_t* equal;  // (lists): scratch memory

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t group, const Lanes& lanes) const {
    const int64_t first = group * each, limit = lists.limit;
    const auto score_of = [&](int64_t list, int64_t k) {
      return lists.best[list * limit + lists.kept[list * limit + k]].score;
    };
    const auto key_of = [&](int64_t i) {
      const int64_t list = first + i / limit, k = i % limit;
      return k < lists.counts[list] ? rising_key(score_of(list, k)) : RisingKey<T>{0};
    };
    const auto cut = find_cut<RisingKey<T>>(lanes, each * limit, keep, key_of);
    lanes.wait();
    if (cut.key == 0 && cut.equal == 0) return;  // all
    for (int64_t list = first + lanes.first; list < first + each; list += lanes.count) {
      int32_t above = 0, all = 0;
      while (all < lists.counts[list]) {
        const auto key = rising_key(score_of(list, all));
        if (key < cut.key) break;
        above += key > cut.key ? 1 : 0;
        ++all;
      }
      equal[list] = all - above;
      lists.counts[list] = above;
    }
    lanes.wait();
    int64_t left = cut.equal;
    for (int64_t list = first; lanes.first == 0 && list < first + each; ++list) {
      const int64_t more = equal[list] < left ? equal[list] : left;
      lists.counts[list] += static_cast<int32_t>(more);
      left -= more;
    }
  }
};

/// What the host has to know: the number of rows, and whether something is refused.
struct ListTotals {
  int64_t rows, refused;
};

/// One item: where the rows of each list begin, and the totals.
struct PlaceRows {
  int64_t count;  // of the lists
  const int32_t *counts, *refused;
  int64_t* begins;     // (lists)
  ListTotals* totals;  // one

  template <class Lanes>
  CREMA_FUNCTOR void operator()(int64_t, const Lanes& lanes) const {
    const LanePart own = part_of_lane(lanes, count);
    int64_t rows = 0;
    double bad = 0;
    for (int64_t list = own.begin; list < own.end; ++list) {
      rows += counts[list];
      if (refused[list] != 0) bad = 1;
    }
    const LaneSums sums = sums_of_lanes(lanes, rows);
    bad = lanes.max(bad);
    int64_t at = sums.before;
    for (int64_t list = own.begin; list < own.end; ++list) {
      begins[list] = at;
      at += counts[list];
    }
    if (lanes.first == 0) *totals = {sums.all, bad > 0 ? 1 : 0};
  }
};

/// Box k of a list, for all lists and k < limit: calls row(number of the row, list, candidate,
/// box).
template <class T, class Row>
struct WriteRows {
  ListsThere<T> lists;
  const int64_t* begins;
  Row row;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t list = i / lists.limit, k = i % lists.limit;
    if (k >= lists.counts[list]) return;
    const int64_t at = list * lists.limit + lists.kept[i];
    row(begins[list] + k, list, lists.best[at], lists.boxes[at]);
  }
};

/// Row: image, label, confidence, edges. Lists are those of `labels` labels of each image.
template <class T>
struct DetectionRow {
  int64_t labels, first;  // the label of list 0
  T* to;
  CREMA_FUNCTOR void operator()(int64_t number, int64_t list, const Candidate<T>& one,
                                const BoundingBox<T>& box) const {
    T* const row = to + number * kDetectionRow;
    row[0] = static_cast<T>(list / labels);
    row[1] = static_cast<T>(list % labels + first);
    row[2] = one.score;
    box.store(row + 3);
  }
};

/// Where there is no box: a row an image, its number and six times -1.
template <class T>
struct EmptyRow {
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    to[i] = i % kDetectionRow == 0 ? static_cast<T>(i / kDetectionRow) : T{-1};
  }
};

/// The memory of lists and the passes over them. It is kept from pass to pass.
template <class T>
class BoxLists {
 public:
  struct Problem {
    int64_t lists = 0, items = 0;
    Suppression suppression;  // of its top_k boxes of a list
    int64_t most = -1;        // boxes to keep in a list; -1: all
    T more = 0;               // see suppress_block()
  };

  /// Chooses the boxes of all lists.
  template <class Source>
  void choose(const ComputeDevice& device, const Problem& problem, const Source& source) {
    const int64_t top_k = problem.suppression.top_k;
    lists_ = problem.lists;
    there_.items = problem.items;
    there_.limit = top_k < 0 ? problem.items : std::min(top_k, problem.items);
    const int64_t room = lists_ * there_.limit;
    there_.found = some<Candidate<T>>(device, found_, lists_ * problem.items);
    there_.best =
        there_.limit == problem.items ? there_.found : some<Candidate<T>>(device, best_, room);
    there_.boxes = some<BoundingBox<T>>(device, boxes_, room);
    there_.overlaps = some<T>(device, overlaps_, room);
    there_.kept = some<int32_t>(device, kept_, room);
    there_.counts = some<int32_t>(device, counts_, lists_);
    there_.refused = some<int32_t>(device, refused_, lists_);
    const int64_t in_order = 2 * std::min<int64_t>(there_.limit, kMostShared / 2);
    const int64_t shared = std::max(kMostLanes, in_order);
    for_each_block(device, lists_, std::min(problem.items, kMostLanes), shared,
                   ChooseBoxes<T, Source>{source, problem.suppression,
                                          problem.most < 0 ? there_.limit : problem.most,
                                          problem.more, shared, there_});
  }
  /// Of `each` lists that follow each other, keeps the best `keep`.
  void keep_best(const ComputeDevice& device, int64_t each, int64_t keep) {
    for_each_block(device, lists_ / each, kMostLanes, kMostLanes,
                   KeepBest<T>{each, keep, there_, some<int32_t>(device, equal_, lists_)});
  }
  /// Waits for the device.
  ListTotals totals(const ComputeDevice& device) {
    begins_there_ = some<int64_t>(device, begins_, lists_);
    for_each_block(device, 1, std::min(lists_, kMostLanes), kMostLanes,
                   PlaceRows{lists_, there_.counts, there_.refused, begins_there_,
                             some<ListTotals>(device, totals_, 1)});
    const auto* const bytes = totals_.template read<uint8_t>();
    return *reinterpret_cast<const ListTotals*>(bytes);
  }
  /// Behind totals().
  template <class Row>
  void write(const ComputeDevice& device, const Row& row) const {
    for_each(device, lists_ * there_.limit, kPassGrain,
             WriteRows<T, Row>{there_, begins_there_, row});
  }
  /// write_detections() of layer_support/detection_rows.hpp, for totals().rows boxes.
  void write_detections(const ComputeDevice& device, Blob& top, Shape& shape, int64_t images,
                        int64_t labels, int64_t rows, int64_t first = 0) const {
    shape.set(2, rows == 0 ? images : rows);
    top.reshape(shape);
    T* const to = device.overwrite<T>(top.data);
    if (rows == 0) return for_each(device, images * kDetectionRow, kPassGrain, EmptyRow<T>{to});
    write(device, DetectionRow<T>{labels, first, to});
  }
  size_t bytes() const {
    size_t sum = 0;
    for (const Bytes* tensor : {&found_, &best_, &boxes_, &overlaps_, &kept_, &counts_, &refused_,
                                &equal_, &begins_, &totals_})
      sum += tensor->bytes();
    return sum;
  }

 private:
  template <class V>
  static V* some(const ComputeDevice& device, Tensor& tensor, int64_t count) {
    const int64_t bytes = std::max<int64_t>(count, 1) * int64_t{sizeof(V)};
    return reinterpret_cast<V*>(overwrite<uint8_t>(device, tensor, bytes));
  }

  int64_t lists_ = 0;
  ListsThere<T> there_;
  int64_t* begins_there_ = nullptr;
  struct Bytes : Tensor {
    Bytes() : Tensor(Shape{0}, DType::u8) {}
  };
  Bytes found_, best_, boxes_, overlaps_, kept_, counts_, refused_, equal_, begins_, totals_;
};

}  // namespace crema
