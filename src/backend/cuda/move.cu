// Rows of bytes on the device.
#include "backend/cuda/kernels.cuh"

namespace crema {
namespace {

/// The rows in units of E; lengths and strides are counted in them.
template <class E>
struct CopyRows {
  int64_t row, from_stride, to_stride;
  const E* from;
  E* to;
  __device__ void operator()(int64_t i) const {
    to[i / row * to_stride + i % row] = from[i / row * from_stride + i % row];
  }
};

}  // namespace

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
    cuda_for_each(*this, copy.rows * row,
                  CopyRows<E>{row, copy.from_stride / kBytes, copy.to_stride / kBytes,
                              static_cast<const E*>(from), static_cast<E*>(to)});
    return true;
  };
  // The widest unit in which all is whole.
  static_cast<void>(copy_as(int4{}) || copy_as(int2{}) || copy_as(int32_t{}) ||
                    copy_as(int16_t{}) || copy_as(int8_t{}));
}

}  // namespace crema
