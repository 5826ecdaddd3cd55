// Rows of bytes, and elements in another order, on the device.
#include "backend/cuda/kernels.cuh"
#include "core/fast_division.hpp"
#include "core/strided.hpp"

namespace crema {
namespace {

/// The rows in units of E; lengths and strides are counted in them.
template <class E>
struct CopyRows {
  FastDivision row;
  int64_t from_stride, to_stride;
  const E* from;
  E* to;
  __device__ void operator()(int64_t i) const {
    const auto at = row.divide(i);
    to[at.quotient * to_stride + at.remainder] = from[at.quotient * from_stride + at.remainder];
  }
};

/// Bytes in units of E, unless *stop is not 0.
template <class E>
struct CopyUnless {
  const int32_t* stop;
  const E* from;
  E* to;
  __device__ void operator()(int64_t i) const {
    if (*stop == 0) to[i] = from[i];
  }
};

constexpr int kMostAxes = 32;  // of a simplified box: more than blobs have

template <class E>
struct GatherElement {
  int rank;
  FastDivision extents[kMostAxes];
  int64_t strides[kMostAxes], offset;
  const E* from;
  E* to;
  __device__ void operator()(int64_t i) const {
    int64_t rest = i, at = offset;
    for (int a = rank - 1; a >= 0; --a) {
      const auto by = extents[a].divide(rest);
      at += by.remainder * strides[a];
      rest = by.quotient;
    }
    to[i] = from[at];
  }
};

}  // namespace

void CudaBackend::gather(const StridedGather& box, size_t element_bytes, const void* from,
                         void* to) {
  activate();
  if (box.rank() > kMostAxes)
    throw Error("CUDA gathers along ", kMostAxes, " axes at most, not ", box.rank());
  const auto gather_as = [&](auto element) {
    using E = decltype(element);
    const int64_t count = box.count();
    GatherElement<E> body{box.rank(),         {}, {}, box.offset, static_cast<const E*>(from),
                          static_cast<E*>(to)};
    std::transform(box.extents.begin(), box.extents.end(), body.extents,
                   [=](int64_t extent) { return FastDivision(extent, count + 1); });
    std::copy(box.strides.begin(), box.strides.end(), body.strides);
    if (count > 0) cuda_for_each(*this, count, body);
  };
  switch (element_bytes) {
    case 1:
      return gather_as(int8_t{});
    case 2:
      return gather_as(int16_t{});
    case 4:
      return gather_as(int32_t{});
    default:
      return gather_as(int64_t{});
  }
}

void CudaBackend::copy_unless(const int32_t* stop, void* to, const void* from, size_t bytes) {
  activate();
  // Both begin on pages or on the units of memory pools; what is left over is copied by itself.
  constexpr size_t kUnit = sizeof(int4);
  const size_t whole = bytes / kUnit * kUnit;
  cuda_for_each(*this, static_cast<int64_t>(whole / kUnit),
                CopyUnless<int4>{stop, static_cast<const int4*>(from), static_cast<int4*>(to)});
  cuda_for_each(*this, static_cast<int64_t>(bytes - whole),
                CopyUnless<char>{stop, static_cast<const char*>(from) + whole,
                                 static_cast<char*>(to) + whole});
}

void CudaBackend::copy_rows(const RowCopy& copy, const void* from, void* to) {
  activate();
  const int64_t all = copy.bytes | copy.from_stride | copy.to_stride |
                      static_cast<int64_t>(reinterpret_cast<uintptr_t>(from)) |
                      static_cast<int64_t>(reinterpret_cast<uintptr_t>(to));
  const auto copy_as = [&](auto unit) {
    using E = decltype(unit);
    constexpr auto kBytes = static_cast<int64_t>(sizeof(E));
    if (all % kBytes != 0) return false;
    const int64_t row = copy.bytes / kBytes;
    const int64_t count = copy.rows * row;
    if (count == 0) return true;
    cuda_for_each(
        *this, count,
        CopyRows<E>{FastDivision(row, count), copy.from_stride / kBytes, copy.to_stride / kBytes,
                    static_cast<const E*>(from), static_cast<E*>(to)});
    return true;
  };
  // The widest unit in which all is whole.
  static_cast<void>(copy_as(int4{}) || copy_as(int2{}) || copy_as(int32_t{}) ||
                    copy_as(int16_t{}) || copy_as(int8_t{}));
}

}  // namespace crema
