#include "kit/matching.hpp"

#include <algorithm>

#include "core/simd.hpp"

namespace crema {
namespace {

constexpr double kLeastOverlap = 1e-6;
constexpr int64_t kTogether = 32;  // boxes that one test may pass over

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

/// What a true box finds.
template <class T>
struct Found {
  T overlap;    // the largest
  int64_t box;  // the first that has it; -1: none overlaps by more than `overlap` was before
};

/// Finds the largest overlap of `truth`, of that number, with a free box. Keeps the true box that
/// each box overlaps most so far, and by how much. `around`: of boxes together.
template <class T>
[[gnu::always_inline]] inline void overlap_boxes(Columns<T> boxes, int64_t count,
                                                 const BoundingBox<T>* around, BoundingBox<T> truth,
                                                 int32_t number, const int32_t* matches, T* most,
                                                 int32_t* best, Found<T>* found) {
  const T area = (truth.xmax - truth.xmin) * (truth.ymax - truth.ymin);
  T row[kTogether];
  for (int64_t first = 0; first < count; first += kTogether, ++around) {
    if (!(around->xmin < truth.xmax && truth.xmin < around->xmax && around->ymin < truth.ymax &&
          truth.ymin < around->ymax))
      continue;
    const int64_t end = first + kTogether < count ? first + kTogether : count;
    T largest = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t i = first; i < end; ++i) {
      const T width = smaller(boxes.xmax[i], truth.xmax) - larger(boxes.xmin[i], truth.xmin);
      const T height = smaller(boxes.ymax[i], truth.ymax) - larger(boxes.ymin[i], truth.ymin);
      const T both = larger(width, T{0}) * larger(height, T{0});
      const T all = boxes.area[i] + area - both;
      // Of boxes of size 0, `all` may be 0.
      const T overlap = both / (all > T{0} ? all : T{1});
      const T free = matches[i] == kUnmatched ? overlap : T{0};
      row[i - first] = free;
      largest = free > largest ? free : largest;
      const bool better = free > most[i];
      best[i] = better ? number : best[i];
      most[i] = better ? free : most[i];
    }
    if (!(largest > found->overlap)) continue;
    found->overlap = largest;
    int64_t at = 0;
    while (row[at] != largest) ++at;
    found->box = first + at;
  }
}

/// Edges around the boxes [first, end).
template <class T>
[[gnu::always_inline]] inline void bound(Columns<T> boxes, int64_t first, int64_t end,
                                         BoundingBox<T>* around) {
  T xmin = boxes.xmin[first], ymin = boxes.ymin[first];
  T xmax = boxes.xmax[first], ymax = boxes.ymax[first];
#pragma omp simd reduction(min : xmin, ymin) reduction(max : xmax, ymax)
  for (int64_t i = first; i < end; ++i) {
    xmin = smaller(boxes.xmin[i], xmin);
    ymin = smaller(boxes.ymin[i], ymin);
    xmax = larger(boxes.xmax[i], xmax);
    ymax = larger(boxes.ymax[i], ymax);
  }
  *around = {xmin, ymin, xmax, ymax};
}

/// Boxes without a match get their best true box, if they overlap it by `threshold`.
template <class T>
[[gnu::always_inline]] inline void match_rest(int64_t count, T threshold, const int32_t* best,
                                              T* overlaps, int32_t* matches) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const int32_t match = matches[i];
    const T overlap = overlaps[i], usual = overlap > T(kLeastOverlap) ? overlap : T{0};
    const bool free = match == kUnmatched;
    const bool enough = (usual > T{0}) & (usual >= threshold);
    overlaps[i] = free ? usual : overlap;
    matches[i] = free & enough ? best[i] : match;
  }
}

}  // namespace

template <class T>
void BoxMatcher<T>::find_best(const BoxColumns<T>& boxes, const BoundingBox<T>& truth,
                              const int32_t* matches, T* overlaps, Open& open) {
  Found<T> found{T(kLeastOverlap), -1};
  vectorized<overlap_boxes<T>>(Columns<T>(boxes), boxes.size(),
                               static_cast<const BoundingBox<T>*>(around_.data()), truth,
                               open.truth, matches, overlaps, best_.data(), &found);
  open.overlap = found.overlap;
  open.box = static_cast<int32_t>(found.box);
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
        find_best(boxes, truths[static_cast<size_t>(open.truth)], matches, overlaps, open);
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
  best_.resize(static_cast<size_t>(count));
  around_.resize(static_cast<size_t>((count + kTogether - 1) / kTogether));
  for (size_t k = 0; k < around_.size(); ++k) {
    const int64_t first = static_cast<int64_t>(k) * kTogether;
    vectorized<bound<T>>(Columns<T>(boxes), first, std::min(first + kTogether, count), &around_[k]);
  }
  open_.clear();
  for (size_t t = 0; t < truths.size(); ++t) {
    open_.push_back({.truth = static_cast<int32_t>(t), .box = -1, .overlap = 0});
    find_best(boxes, truths[t], matches, overlaps, open_.back());
  }
  give_each_truth_a_box(boxes, truths, matches, overlaps);
  const T threshold = settings.bipartite ? T(2) : static_cast<T>(settings.threshold);
  vectorized<match_rest<T>>(count, threshold, static_cast<const int32_t*>(best_.data()), overlaps,
                            matches);
}

template class BoxMatcher<float>;
template class BoxMatcher<double>;

}  // namespace crema
