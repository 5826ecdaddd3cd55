#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layer_support/suppression.cpp"
#include "layer_support/suppression.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "backend/cpu/highway.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::suppression_kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Writes the indices of scores above `least` to `indices`, which has room for a vector more than
/// `count`. Returns their number.
template <class T>
HWY_INLINE int64_t find(const T* scores, int64_t count, T least, int32_t* indices) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto least_v = hn::Set(d, least);
  int64_t found = 0, i = 0;
  const auto take = [&](int64_t k) HWY_ATTR {
    indices[found] = static_cast<int32_t>(k);
    found += scores[k] > least ? 1 : 0;
  };
  // Most scores are below: one test passes over four vectors.
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto above = [&](int64_t k) HWY_ATTR {
      return hn::Gt(hn::LoadU(d, scores + i + k * lanes), least_v);
    };
    const auto any = hn::Or(hn::Or(above(0), above(1)), hn::Or(above(2), above(3)));
    if (hn::AllFalse(d, any)) continue;
    for (int64_t k = i; k < i + 4 * lanes; ++k) take(k);
  }
  for (; i < count; ++i) take(i);
  return found;
}

/// See overlaps_any(). Columns: xmin, ymin, xmax, ymax, area.
template <class T>
HWY_INLINE bool any_above(const std::array<const T*, 5>& columns, int64_t count,
                          const BoundingBox<T>& box, T area, T threshold) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d), limit = hn::Set(d, threshold), own = hn::Set(d, area);
  const auto xmin = hn::Set(d, box.xmin), ymin = hn::Set(d, box.ymin);
  const auto xmax = hn::Set(d, box.xmax), ymax = hn::Set(d, box.ymax);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto width = hn::Sub(hn::Min(xmax, hn::LoadU(d, columns[2] + i)),
                               hn::Max(xmin, hn::LoadU(d, columns[0] + i)));
    const auto height = hn::Sub(hn::Min(ymax, hn::LoadU(d, columns[3] + i)),
                                hn::Max(ymin, hn::LoadU(d, columns[1] + i)));
    const auto both = hn::Mul(hn::Max(width, zero), hn::Max(height, zero));
    const auto all = hn::Sub(hn::Add(own, hn::LoadU(d, columns[4] + i)), both);
    const auto above = hn::And(hn::Gt(both, zero), hn::Gt(hn::Div(both, all), limit));
    // Behind the last box lies what other calls left there.
    const auto valid = hn::FirstN(d, static_cast<size_t>(count - i));
    if (!hn::AllFalse(d, hn::And(above, valid))) return true;
  }
  return false;
}

int64_t find_f32(const float* scores, int64_t count, float least, int32_t* indices) {
  return find(scores, count, least, indices);
}
int64_t find_f64(const double* scores, int64_t count, double least, int32_t* indices) {
  return find(scores, count, least, indices);
}
bool any_f32(const std::array<const float*, 5>& columns, int64_t count,
             const BoundingBox<float>& box, float area, float threshold) {
  return any_above(columns, count, box, area, threshold);
}
bool any_f64(const std::array<const double*, 5>& columns, int64_t count,
             const BoundingBox<double>& box, double area, double threshold) {
  return any_above(columns, count, box, area, threshold);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema::suppression_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace suppression_kernels {
namespace {
HWY_EXPORT(find_f32);
HWY_EXPORT(find_f64);
HWY_EXPORT(any_f32);
HWY_EXPORT(any_f64);

// Room for the widest vectors behind the last box.
constexpr size_t kRoom = 64;

int64_t find_in(const float* scores, int64_t count, float least, int32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(find_f32)(scores, count, least, indices);
}
int64_t find_in(const double* scores, int64_t count, double least, int32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(find_f64)(scores, count, least, indices);
}
bool any_of_columns(const std::array<const float*, 5>& columns, int64_t count,
                    const BoundingBox<float>& box, float area, float threshold) {
  return HWY_DYNAMIC_DISPATCH(any_f32)(columns, count, box, area, threshold);
}
bool any_of_columns(const std::array<const double*, 5>& columns, int64_t count,
                    const BoundingBox<double>& box, double area, double threshold) {
  return HWY_DYNAMIC_DISPATCH(any_f64)(columns, count, box, area, threshold);
}

// Classes of scores: sign, exponent and three bits of the mantissa.
constexpr uint32_t kScoreClasses = 4096;

/// Rises with the score.
template <class T>
uint32_t score_class(T score) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(score) + 0.0F);  // no -0
  return ((bits >> 31) != 0 ? ~bits : bits | 0x80000000U) / (0xFFFFFFFFU / kScoreClasses + 1);
}

/// Drops candidates that `top_k` others are certain to come before. No branch depends on a score:
/// a tenth of the time of sorting them.
template <class T>
void drop_low(std::vector<Candidate<T>>& candidates, int64_t top_k) {
  std::array<int32_t, kScoreClasses> counts{};
  for (const Candidate<T>& one : candidates) ++counts[score_class(one.score)];
  uint32_t lowest = kScoreClasses - 1;
  for (int64_t above = counts[lowest]; above < top_k; above += counts[lowest]) --lowest;
  size_t kept = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate<T> one = candidates[i];
    candidates[kept] = one;
    kept += score_class(one.score) >= lowest ? 1 : 0;
  }
  candidates.resize(kept);
}

}  // namespace
}  // namespace suppression_kernels

using namespace suppression_kernels;  // this file's own

template <class T>
void find_candidates(const T* scores, int64_t count, T least,
                     std::vector<Candidate<T>>& candidates) {
  // Pieces, so that the indices take no memory worth keeping.
  constexpr int64_t kPiece = 2048;
  std::array<int32_t, kPiece + 1> indices;  // find() writes one behind the last
  candidates.clear();
  for (int64_t from = 0; from < count; from += kPiece) {
    const int64_t found =
        find_in(scores + from, std::min(kPiece, count - from), least, indices.data());
    for (int64_t k = 0; k < found; ++k) {
      const auto index = from + indices[static_cast<size_t>(k)];
      candidates.push_back({scores[index], static_cast<int32_t>(index)});
    }
  }
}

template <class T>
void sort_candidates(std::vector<Candidate<T>>& candidates, int64_t top_k) {
  const auto count = static_cast<int64_t>(candidates.size());
  if (top_k >= 0 && count > kScoreClasses / 4 && count > 2 * top_k) drop_low(candidates, top_k);
  if (top_k >= 0 && top_k < static_cast<int64_t>(candidates.size())) {
    std::nth_element(candidates.begin(), candidates.begin() + top_k, candidates.end());
    candidates.resize(static_cast<size_t>(top_k));
  }
  std::sort(candidates.begin(), candidates.end());
}

template <class T>
void BoxColumns<T>::reserve(int64_t count) {
  for (auto& column : columns_) {
    if (column.size() < static_cast<size_t>(count) + kRoom)
      column.resize(static_cast<size_t>(count) + kRoom);
  }
}

template <class T>
void BoxColumns<T>::add(const BoundingBox<T>& box) {
  const auto at = static_cast<size_t>(size_);
  const std::array<T, 5> values = {box.xmin, box.ymin, box.xmax, box.ymax, crema::area(box)};
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].size() < at + kRoom) columns_[c].resize(2 * at + kRoom);
    columns_[c][at] = values[c];
  }
  ++size_;
}

template <class T>
bool overlaps_any(const BoxColumns<T>& boxes, const BoundingBox<T>& box, T threshold) {
  std::array<const T*, 5> columns;
  for (size_t c = 0; c < columns.size(); ++c) columns[c] = boxes.column(c);
  return any_of_columns(columns, boxes.size(), box, area(box), threshold);
}

template void find_candidates(const float*, int64_t, float, std::vector<Candidate<float>>&);
template void find_candidates(const double*, int64_t, double, std::vector<Candidate<double>>&);
template void sort_candidates(std::vector<Candidate<float>>&, int64_t);
template void sort_candidates(std::vector<Candidate<double>>&, int64_t);
template class BoxColumns<float>;
template class BoxColumns<double>;
template bool overlaps_any(const BoxColumns<float>&, const BoundingBox<float>&, float);
template bool overlaps_any(const BoxColumns<double>&, const BoundingBox<double>&, double);

}  // namespace crema
#endif
