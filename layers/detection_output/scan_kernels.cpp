#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/detection_output/scan_kernels.cpp"
#include "layers/detection_output/scan_kernels.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "backend/cpu/highway.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::detection_scan {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// `limits`: of `classes` classes, repeated up to a vector behind the first ones.
template <class T>
HWY_INLINE int64_t scan(const T* scores, int64_t count, const T* limits, int64_t classes,
                        int32_t* indices) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t step = lanes % classes;
  int64_t found = 0, i = 0, at = 0;  // at: the class of score i
  const auto next = [&](int64_t by) HWY_ATTR {
    at += by;
    if (at >= classes) at -= classes;
  };
  for (; i + lanes <= count; i += lanes, next(step)) {
    // Not `greater`: NaN is to be found.
    const auto above = hn::Not(hn::Le(hn::LoadU(d, scores + i), hn::LoadU(d, limits + at)));
    if (hn::AllFalse(d, above)) continue;
    uint64_t bits = 0;
    uint8_t bytes[sizeof(bits)] = {};
    hn::StoreMaskBits(d, above, bytes);
    std::memcpy(&bits, bytes, sizeof(bits));
    for (; bits != 0; bits &= bits - 1) {
      indices[found++] = static_cast<int32_t>(i + std::countr_zero(bits));
    }
  }
  for (; i < count; ++i, next(1)) {
    indices[found] = static_cast<int32_t>(i);
    found += scores[i] <= limits[at] ? 0 : 1;
  }
  return found;
}

int64_t scan_f32(const float* scores, int64_t count, const float* limits, int64_t classes,
                 int32_t* indices) {
  return scan(scores, count, limits, classes, indices);
}
int64_t scan_f64(const double* scores, int64_t count, const double* limits, int64_t classes,
                 int32_t* indices) {
  return scan(scores, count, limits, classes, indices);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema::detection_scan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace detection_scan {
namespace {

HWY_EXPORT(scan_f32);
HWY_EXPORT(scan_f64);

// Values of the widest vectors.
constexpr int64_t kMostLanes = 64;

int64_t run_scan(const float* scores, int64_t count, const float* limits, int64_t classes,
                 int32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(scan_f32)(scores, count, limits, classes, indices);
}
int64_t run_scan(const double* scores, int64_t count, const double* limits, int64_t classes,
                 int32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(scan_f64)(scores, count, limits, classes, indices);
}

}  // namespace
}  // namespace detection_scan

template <class T>
ConfidenceScan<T>::ConfidenceScan(int64_t classes, int64_t background, T least)
    : classes_(classes) {
  for (int64_t i = 0; i < classes + detection_scan::kMostLanes; ++i) {
    limits_.push_back(i % classes == background ? std::numeric_limits<T>::infinity() : least);
  }
}

template <class T>
int64_t ConfidenceScan<T>::run(const T* scores, int64_t rows, int32_t* indices) const {
  return detection_scan::run_scan(scores, rows * classes_, limits_.data(), classes_, indices);
}

template class ConfidenceScan<float>;
template class ConfidenceScan<double>;

}  // namespace crema
#endif
