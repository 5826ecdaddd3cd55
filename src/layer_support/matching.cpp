#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layer_support/matching.cpp"
#include "layer_support/matching.hpp"

#include <algorithm>
#include <bit>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "core/simd.hpp"

#ifndef CREMA_KIT_MATCHING_TYPES
#define CREMA_KIT_MATCHING_TYPES
namespace crema::matching_kernels {

constexpr double kLeastOverlap = 1e-6;

template <class T>
struct Boxes {
  const T *xmin, *ymin, *xmax, *ymax, *area;
  int64_t count;

  explicit Boxes(const BoxColumns<T>& boxes)
      : xmin(boxes.column(0)),
        ymin(boxes.column(1)),
        xmax(boxes.column(2)),
        ymax(boxes.column(3)),
        area(boxes.column(4)),
        count(boxes.size()) {}
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

/// The overlaps of a vector of boxes, those from `i` on, with `truth`.
template <class T>
HWY_INLINE void overlap_vector(const Boxes<T>& boxes, const BoundingBox<T>& truth, T area,
                               int64_t i, const Kept<T>& kept, Best<T>& found) {
  const hn::ScalableTag<T> d;
  const auto zero = hn::Zero(d);
  const auto width = hn::Sub(hn::Min(hn::LoadU(d, boxes.xmax + i), hn::Set(d, truth.xmax)),
                             hn::Max(hn::LoadU(d, boxes.xmin + i), hn::Set(d, truth.xmin)));
  const auto height = hn::Sub(hn::Min(hn::LoadU(d, boxes.ymax + i), hn::Set(d, truth.ymax)),
                              hn::Max(hn::LoadU(d, boxes.ymin + i), hn::Set(d, truth.ymin)));
  const auto meet = hn::And(hn::Gt(width, zero), hn::Gt(height, zero));
  if (hn::AllFalse(d, meet)) return;
  const auto both = hn::Mul(width, height);
  const auto all = hn::Sub(hn::Add(hn::LoadU(d, boxes.area + i), hn::Set(d, area)), both);
  const auto share = hn::IfThenElseZero(hn::And(meet, hn::Gt(all, zero)), hn::Div(both, all));
  const auto overlap = hn::Mul(share, hn::LoadU(d, kept.free + i));
  const auto most = hn::LoadU(d, kept.most + i), best = hn::LoadU(d, kept.best + i);
  const auto better = hn::Gt(overlap, most);
  hn::StoreU(hn::IfThenElse(better, overlap, most), d, kept.most + i);
  hn::StoreU(hn::IfThenElse(better, hn::Set(d, kept.number), best), d, kept.best + i);
  if (hn::AllFalse(d, hn::Gt(overlap, hn::Set(d, found.overlap)))) return;
  const auto largest = hn::MaxOfLanes(d, overlap);
  found = {hn::GetLane(largest), i + hn::FindFirstTrue(d, hn::Eq(overlap, largest))};
}

/// Bit i: whether the edges of run first + i meet `truth`, for the runs of a vector.
template <class T, class Lanes>
HWY_INLINE uint64_t meeting_runs(const Boxes<T>& around, const BoundingBox<T>& truth, int64_t first,
                                 Lanes lanes) {
  const hn::ScalableTag<T> d;
  const auto right = hn::Lt(load(d, lanes, around.xmin + first), hn::Set(d, truth.xmax));
  const auto left = hn::Gt(load(d, lanes, around.xmax + first), hn::Set(d, truth.xmin));
  const auto below = hn::Lt(load(d, lanes, around.ymin + first), hn::Set(d, truth.ymax));
  const auto above = hn::Gt(load(d, lanes, around.ymax + first), hn::Set(d, truth.ymin));
  return bits_of(d, hn::And(hn::And(right, left), hn::And(below, above)));
}

template <class T>
HWY_INLINE void overlap_boxes(Boxes<T> boxes, const Boxes<T>& around, BoundingBox<T> truth,
                              Kept<T> kept, Best<T>& result) {
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  static_assert(kBoxRun % kLanes == 0);
  Best<T> found = result;
  const T area = (truth.xmax - truth.xmin) * (truth.ymax - truth.ymin);
  const hn::ScalableTag<T> d;
  for (int64_t k = 0; k < around.count; k += 64) {
    const int64_t runs = HWY_MIN(int64_t{64}, around.count - k);
    uint64_t meet = 0;
    each_vector(d, runs, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
      meet |= meeting_runs(around, truth, k + i, lanes) << i;
    });
    meet &= ~uint64_t{0} >> (64 - runs);
    for (; meet != 0; meet &= meet - 1) {
      const int64_t first = (k + std::countr_zero(meet)) * kBoxRun;
      for (int64_t i = first; i < first + kBoxRun; i += kLanes)
        overlap_vector(boxes, truth, area, i, kept, found);
    }
  }
  result = found;
}

void overlap_f32(const Boxes<float>& boxes, const Boxes<float>& around,
                 const BoundingBox<float>& truth, const Kept<float>& kept, Best<float>& found) {
  overlap_boxes(boxes, around, truth, kept, found);
}
void overlap_f64(const Boxes<double>& boxes, const Boxes<double>& around,
                 const BoundingBox<double>& truth, const Kept<double>& kept, Best<double>& found) {
  overlap_boxes(boxes, around, truth, kept, found);
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

using namespace matching_kernels;

/// Boxes without a match get their best true box, if they overlap it by `threshold`.
template <class T>
[[gnu::always_inline]] inline void match_rest(int64_t count, T threshold, const T* most,
                                              const T* best, T* overlaps, int32_t* matches) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const int32_t match = matches[i];
    const T overlap = most[i], usual = overlap > T(kLeastOverlap) ? overlap : T{0};
    const bool free = match == kUnmatched;
    const bool enough = (usual > T{0}) & (usual >= threshold);
    overlaps[i] = free ? usual : overlap;
    matches[i] = free & enough ? static_cast<int32_t>(best[i]) : match;
  }
}

HWY_EXPORT(overlap_f32);
HWY_EXPORT(overlap_f64);

void overlap_boxes(const Boxes<float>& boxes, const Boxes<float>& around,
                   const BoundingBox<float>& truth, const Kept<float>& kept, Best<float>& best) {
  HWY_DYNAMIC_DISPATCH(overlap_f32)(boxes, around, truth, kept, best);
}
void overlap_boxes(const Boxes<double>& boxes, const Boxes<double>& around,
                   const BoundingBox<double>& truth, const Kept<double>& kept, Best<double>& best) {
  HWY_DYNAMIC_DISPATCH(overlap_f64)(boxes, around, truth, kept, best);
}

}  // namespace

template <class T>
void find_box_runs(const BoxColumns<T>& boxes, BoxColumns<T>& around) {
  around.clear();
  for (int64_t first = 0; first < boxes.size(); first += kBoxRun) {
    BoundingBox<T> edges = boxes[first];
    for (int64_t i = first + 1; i < std::min(first + kBoxRun, boxes.size()); ++i) {
      const BoundingBox<T> box = boxes[i];
      edges = {std::min(edges.xmin, box.xmin), std::min(edges.ymin, box.ymin),
               std::max(edges.xmax, box.xmax), std::max(edges.ymax, box.ymax)};
    }
    around.add(edges);
  }
}

template <class T>
void BoxMatcher<T>::find_best(const Problem& problem, Open& open) {
  Best<T> best{T(kLeastOverlap), -1};
  overlap_boxes(Boxes<T>(problem.boxes), Boxes<T>(problem.around),
                problem.truths[static_cast<size_t>(open.truth)],
                {static_cast<T>(open.truth), free_.data(), most_.data(), best_.data()}, best);
  open.overlap = best.overlap;
  open.box = static_cast<int32_t>(best.box);
}

template <class T>
void BoxMatcher<T>::give_each_truth_a_box(const Problem& problem, int32_t* matches) {
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
    most_[static_cast<size_t>(taken.box)] = taken.overlap;
    open_.erase(first);
    for (Open& open : open_) {
      if (open.box == taken.box) find_best(problem, open);
    }
    std::erase_if(open_, has_none);
  }
}

template <class T>
void BoxMatcher<T>::match(const Matching& settings, const BoxColumns<T>& boxes,
                          const BoxColumns<T>& around, std::span<const BoundingBox<T>> truths,
                          int32_t* matches, T* overlaps) {
  const int64_t count = boxes.size();
  const auto room = static_cast<size_t>(around.size() * kBoxRun);
  free_.assign(room, T{0});
  most_.assign(room, T{0});
  best_.resize(room);
  std::fill_n(free_.begin(), count, T{1});
  std::fill_n(matches, count, kUnmatched);
  for (int64_t i = 0; settings.leaves_out_crossing && i < count; ++i) {
    if (!crosses_border(boxes[i])) continue;
    matches[i] = kOutside;
    free_[static_cast<size_t>(i)] = 0;
  }
  const Problem problem{boxes, around, truths};
  open_.clear();
  for (size_t t = 0; t < truths.size(); ++t) {
    open_.push_back({.truth = static_cast<int32_t>(t), .box = -1, .overlap = 0});
    find_best(problem, open_.back());
  }
  give_each_truth_a_box(problem, matches);
  const T threshold = settings.bipartite ? T(2) : static_cast<T>(settings.threshold);
  vectorized<match_rest<T>>(count, threshold, static_cast<const T*>(most_.data()),
                            static_cast<const T*>(best_.data()), overlaps, matches);
}

template void find_box_runs(const BoxColumns<float>&, BoxColumns<float>&);
template void find_box_runs(const BoxColumns<double>&, BoxColumns<double>&);
template class BoxMatcher<float>;
template class BoxMatcher<double>;

}  // namespace crema
#endif  // HWY_ONCE
