#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kit/matching.cpp"
#include "kit/matching.hpp"

#include <algorithm>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "core/simd.hpp"

#ifndef CREMA_KIT_MATCHING_TYPES
#define CREMA_KIT_MATCHING_TYPES
namespace crema::matching_kernels {

constexpr double kLeastOverlap = 1e-6;
constexpr int64_t kTogether = 64;  // boxes that one test may pass over

template <class T>
struct Boxes {
  const T *xmin, *ymin, *xmax, *ymax, *area;
  int64_t count;
  const BoundingBox<T>* around;  // edges around each kTogether of them

  Boxes(const BoxColumns<T>& boxes, const BoundingBox<T>* edges)
      : xmin(boxes.column(0)),
        ymin(boxes.column(1)),
        xmax(boxes.column(2)),
        ymax(boxes.column(3)),
        area(boxes.column(4)),
        count(boxes.size()),
        around(edges) {}
};

/// Of each box: 1 if it is free, else 0; its largest overlap so far, and with which true box.
/// `number` is that of the present one. Numbers are T, as the lanes are.
template <class T>
struct Kept {
  T number;
  const T* free;
  T *most, *best;
};

/// The largest overlap of a true box, and the first box that has it; -1: none has more than
/// `overlap` was before.
template <class T>
struct Best {
  T overlap;
  int64_t box;
};

}  // namespace crema::matching_kernels
#endif  // CREMA_KIT_MATCHING_TYPES

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

using matching_kernels::Best;
using matching_kernels::Boxes;
using matching_kernels::Kept;
using matching_kernels::kTogether;

/// The overlaps of a vector of boxes, those from `i` on, with `truth`.
template <class T, class Lanes>
HWY_INLINE void overlap_vector(const Boxes<T>& boxes, const BoundingBox<T>& truth, T area,
                               int64_t i, Lanes lanes, const Kept<T>& kept, Best<T>& found) {
  const hn::ScalableTag<T> d;
  const auto zero = hn::Zero(d);
  const auto width = hn::Sub(hn::Min(load(d, lanes, boxes.xmax + i), hn::Set(d, truth.xmax)),
                             hn::Max(load(d, lanes, boxes.xmin + i), hn::Set(d, truth.xmin)));
  const auto height = hn::Sub(hn::Min(load(d, lanes, boxes.ymax + i), hn::Set(d, truth.ymax)),
                              hn::Max(load(d, lanes, boxes.ymin + i), hn::Set(d, truth.ymin)));
  const auto meet = hn::And(hn::Gt(width, zero), hn::Gt(height, zero));
  if (hn::AllFalse(d, meet)) return;  // as most boxes
  const auto both = hn::Mul(width, height);
  const auto all = hn::Sub(hn::Add(load(d, lanes, boxes.area + i), hn::Set(d, area)), both);
  const auto share = hn::IfThenElseZero(hn::And(meet, hn::Gt(all, zero)), hn::Div(both, all));
  const auto overlap = hn::Mul(share, load(d, lanes, kept.free + i));
  const auto most = load(d, lanes, kept.most + i);
  const auto better = hn::Gt(overlap, most);
  store(d, lanes, hn::IfThenElse(better, overlap, most), kept.most + i);
  store(d, lanes, hn::IfThenElse(better, hn::Set(d, kept.number), load(d, lanes, kept.best + i)),
        kept.best + i);
  if (hn::AllFalse(d, hn::Gt(overlap, hn::Set(d, found.overlap)))) return;
  const auto largest = hn::MaxOfLanes(d, overlap);
  found = {hn::GetLane(largest), i + hn::FindFirstTrue(d, hn::Eq(overlap, largest))};
}

template <class T>
HWY_INLINE void overlap_boxes(Boxes<T> boxes, BoundingBox<T> truth, Kept<T> kept, Best<T>& result) {
  const hn::ScalableTag<T> d;
  Best<T> found = result;
  const T area = (truth.xmax - truth.xmin) * (truth.ymax - truth.ymin);
  const BoundingBox<T>* around = boxes.around;
  for (int64_t first = 0; first < boxes.count; first += kTogether, ++around) {
    if (!(around->xmin < truth.xmax && truth.xmin < around->xmax && around->ymin < truth.ymax &&
          truth.ymin < around->ymax))
      continue;
    const int64_t together = HWY_MIN(kTogether, boxes.count - first);
    each_vector(d, together, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      overlap_vector(boxes, truth, area, first + i, lanes, kept, found);
    });
  }
  result = found;
}

void overlap_f32(const Boxes<float>& boxes, const BoundingBox<float>& truth,
                 const Kept<float>& kept, Best<float>& found) {
  overlap_boxes(boxes, truth, kept, found);
}
void overlap_f64(const Boxes<double>& boxes, const BoundingBox<double>& truth,
                 const Kept<double>& kept, Best<double>& found) {
  overlap_boxes(boxes, truth, kept, found);
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

using namespace matching_kernels;

template <class T>
[[gnu::always_inline]] inline T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
[[gnu::always_inline]] inline T larger(T a, T b) {
  return a > b ? a : b;
}

/// Edges around the boxes [first, end).
template <class T>
[[gnu::always_inline]] inline void bound(Boxes<T> boxes, int64_t first, int64_t end,
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
[[gnu::always_inline]] inline void match_rest(int64_t count, T threshold, const T* best,
                                              T* overlaps, int32_t* matches) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const int32_t match = matches[i];
    const T overlap = overlaps[i], usual = overlap > T(kLeastOverlap) ? overlap : T{0};
    const bool free = match == kUnmatched;
    const bool enough = (usual > T{0}) & (usual >= threshold);
    overlaps[i] = free ? usual : overlap;
    matches[i] = free & enough ? static_cast<int32_t>(best[i]) : match;
  }
}

HWY_EXPORT(overlap_f32);
HWY_EXPORT(overlap_f64);

void overlap_boxes(const Boxes<float>& boxes, const BoundingBox<float>& truth,
                   const Kept<float>& kept, Best<float>& best) {
  HWY_DYNAMIC_DISPATCH(overlap_f32)(boxes, truth, kept, best);
}
void overlap_boxes(const Boxes<double>& boxes, const BoundingBox<double>& truth,
                   const Kept<double>& kept, Best<double>& best) {
  HWY_DYNAMIC_DISPATCH(overlap_f64)(boxes, truth, kept, best);
}

}  // namespace

template <class T>
void BoxMatcher<T>::find_best(const BoxColumns<T>& boxes, const BoundingBox<T>& truth, T* overlaps,
                              Open& open) {
  Best<T> best{T(kLeastOverlap), -1};
  overlap_boxes(Boxes<T>(boxes, around_.data()), truth,
                {static_cast<T>(open.truth), free_.data(), overlaps, best_.data()}, best);
  open.overlap = best.overlap;
  open.box = static_cast<int32_t>(best.box);
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
    free_[static_cast<size_t>(taken.box)] = 0;
    overlaps[taken.box] = taken.overlap;
    open_.erase(first);
    for (Open& open : open_) {
      if (open.box == taken.box) {
        find_best(boxes, truths[static_cast<size_t>(open.truth)], overlaps, open);
      }
    }
    std::erase_if(open_, has_none);
  }
}

template <class T>
void BoxMatcher<T>::match(const Matching& settings, const BoxColumns<T>& boxes,
                          std::span<const BoundingBox<T>> truths, int32_t* matches, T* overlaps) {
  const int64_t count = boxes.size();
  free_.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const bool outside = settings.leaves_out_crossing && crosses_border(boxes[i]);
    matches[i] = outside ? kOutside : kUnmatched;
    free_[static_cast<size_t>(i)] = outside ? T{0} : T{1};
  }
  std::fill_n(overlaps, count, T{0});
  best_.resize(static_cast<size_t>(count));
  around_.resize(static_cast<size_t>((count + kTogether - 1) / kTogether));
  for (size_t k = 0; k < around_.size(); ++k) {
    const int64_t first = static_cast<int64_t>(k) * kTogether;
    vectorized<bound<T>>(Boxes<T>(boxes, nullptr), first, std::min(first + kTogether, count),
                         &around_[k]);
  }
  open_.clear();
  for (size_t t = 0; t < truths.size(); ++t) {
    open_.push_back({.truth = static_cast<int32_t>(t), .box = -1, .overlap = 0});
    find_best(boxes, truths[t], overlaps, open_.back());
  }
  give_each_truth_a_box(boxes, truths, matches, overlaps);
  const T threshold = settings.bipartite ? T(2) : static_cast<T>(settings.threshold);
  vectorized<match_rest<T>>(count, threshold, static_cast<const T*>(best_.data()), overlaps,
                            matches);
}

template class BoxMatcher<float>;
template class BoxMatcher<double>;

}  // namespace crema
#endif  // HWY_ONCE
