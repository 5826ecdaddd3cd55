// Moving data on the device: what core/move.hpp asks of the backend.
#include "backend/cuda/kernels.cuh"
#include "core/half.hpp"

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

__device__ inline float number(bfloat16 value) { return bfloat16_value(value.bits); }
template <class T>
__device__ T number(T value) {
  return value;
}

__device__ inline void store(float sum, bfloat16& to) { to.bits = bfloat16_bits(sum); }
template <class T>
__device__ void store(T sum, T& to) {
  to = sum;
}

template <class T>
struct AddTerms {
  const T* terms[DeviceBackend::kMostTerms];
  int count;
  T* sum;
  __device__ void operator()(int64_t i) const {
    auto total = number(terms[0][i]);
    for (int k = 1; k < count; ++k) total += number(terms[k][i]);
    store(total, sum[i]);
  }
};

template <class T>
void add_as(CudaBackend& backend, int64_t count, std::span<const void* const> terms, void* sum) {
  AddTerms<T> body{{}, static_cast<int>(terms.size()), static_cast<T*>(sum)};
  for (size_t k = 0; k < terms.size(); ++k) body.terms[k] = static_cast<const T*>(terms[k]);
  cuda_for_each(backend, count, body);
}

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
  static_cast<void>(copy_as(int4{}) || copy_as(int2{}) || copy_as(int32_t{}) || copy_as(int16_t{}) ||
                    copy_as(int8_t{}));
}

void CudaBackend::add(int64_t count, DType dtype, std::span<const void* const> terms, void* sum) {
  require(!terms.empty() && terms.size() <= kMostTerms, "cannot add ", terms.size(),
          " arrays at once on the device; give 1 to ", kMostTerms);
  activate();
  if (dtype == DType::f32) return add_as<float>(*this, count, terms, sum);
  if (dtype == DType::f64) return add_as<double>(*this, count, terms, sum);
  require(dtype == DType::bf16, "cannot add elements of ", to_string(dtype),
          " on the device; use f32, f64 or bf16");
  add_as<bfloat16>(*this, count, terms, sum);
}

}  // namespace crema
