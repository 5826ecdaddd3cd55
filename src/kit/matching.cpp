#include "kit/matching.hpp"

#include <algorithm>

#include "core/simd.hpp"

namespace crema {
namespace {

constexpr double kLeastOverlap = 1e-6;

template <class T>
struct Columns {
  const T *xmin, *ymin, *xmax, *ymax, *area;

  explicit Columns(const BoxColumns<T>& boxes)
      : xmin(boxes.column(0)),
        ymin(boxes.column(1)),
        xmax(boxes.column(2)),
        ymax(boxes.column(3)),
        area(boxes.column(4)) {}
};

template <class T>
[[gnu::always_inline]] inline T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
[[gnu::always_inline]] inline T larger(T a, T b) {
  return a > b ? a : b;
}

/// row[i] = the overlap of `truth` with box i, or 0 if the box is not free; *largest = the largest.
template <class T>
[[gnu::always_inline]] inline void overlap_row(Columns<T> boxes, int64_t count,
                                               BoundingBox<T> truth, T area, const int32_t* matches,
                                               T* row, T* largest) {
  T most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < count; ++i) {
    const T width = smaller(boxes.xmax[i], truth.xmax) - larger(boxes.xmin[i], truth.xmin);
    const T height = smaller(boxes.ymax[i], truth.ymax) - larger(boxes.ymin[i], truth.ymin);
    const T both = larger(width, T{0}) * larger(height, T{0});
    const T all = boxes.area[i] + area - both;
    // Of boxes of size 0, `all` may be 0.
    const T overlap = both / (all > T{0} ? all : T{1});
    const T free = matches[i] == kUnmatched ? overlap : T{0};
    row[i] = free;
    most = free > most ? free : most;
  }
  *largest = most;
}

/// Keeps the true box that each box overlaps most so far.
template <class T>
[[gnu::always_inline]] inline void keep_best(const T* row, int64_t count, int32_t truth, T* most,
                                             int32_t* best) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const bool better = row[i] > most[i];
    best[i] = better ? truth : best[i];
    most[i] = better ? row[i] : most[i];
  }
}

}  // namespace

template <class T>
void BoxMatcher<T>::find_best(const BoxColumns<T>& boxes, const BoundingBox<T>& truth,
                              const int32_t* matches, Open& open) {
  vectorized<overlap_row<T>>(Columns<T>(boxes), boxes.size(), truth, area(truth), matches,
                             row_.data(), &open.overlap);
  if (!(open.overlap > T(kLeastOverlap))) {
    open.box = -1;
    return;
  }
  const auto end = row_.begin() + boxes.size();
  open.box = static_cast<int32_t>(std::find(row_.begin(), end, open.overlap) - row_.begin());
}

template <class T>
void BoxMatcher<T>::give_each_truth_a_box(const BoxColumns<T>& boxes,
                                          std::span<const BoundingBox<T>> truths, int32_t* matches,
                                          T* overlaps) {
  const auto has_none = [](const Open& open) { return open.box < 0; };
  std::erase_if(open_, has_none);
  while (!open_.empty()) {
    const auto first =
        std::min_element(open_.begin(), open_.end(), [](const Open& a, const Open& b) {
          if (a.overlap != b.overlap) return a.overlap > b.overlap;
          return a.box != b.box ? a.box < b.box : a.truth < b.truth;
        });
    const Open taken = *first;
    matches[taken.box] = taken.truth;
    overlaps[taken.box] = taken.overlap;
    open_.erase(first);
    for (Open& open : open_) {
      if (open.box == taken.box) {
        find_best(boxes, truths[static_cast<size_t>(open.truth)], matches, open);
      }
    }
    std::erase_if(open_, has_none);
  }
}

template <class T>
void BoxMatcher<T>::match(const Matching& settings, const BoxColumns<T>& boxes,
                          std::span<const BoundingBox<T>> truths, int32_t* matches, T* overlaps) {
  const int64_t count = boxes.size();
  for (int64_t i = 0; i < count; ++i) {
    const bool outside = settings.leaves_out_crossing && crosses_border(boxes[i]);
    matches[i] = outside ? kOutside : kUnmatched;
  }
  std::fill_n(overlaps, count, T{0});
  row_.resize(static_cast<size_t>(count));
  best_.resize(static_cast<size_t>(count));
  open_.clear();
  for (size_t t = 0; t < truths.size(); ++t) {
    const auto truth = static_cast<int32_t>(t);
    open_.push_back({.truth = truth, .box = -1, .overlap = 0});
    find_best(boxes, truths[t], matches, open_.back());
    vectorized<keep_best<T>>(row_.data(), count, truth, overlaps, best_.data());
  }
  give_each_truth_a_box(boxes, truths, matches, overlaps);
  const T threshold = settings.bipartite ? T(2) : static_cast<T>(settings.threshold);
  for (int64_t i = 0; i < count; ++i) {
    if (matches[i] != kUnmatched) continue;
    if (!(overlaps[i] > T(kLeastOverlap))) {
      overlaps[i] = 0;
    } else if (overlaps[i] >= threshold) {
      matches[i] = best_[static_cast<size_t>(i)];
    }
  }
}

template class BoxMatcher<float>;
template class BoxMatcher<double>;

}  // namespace crema
