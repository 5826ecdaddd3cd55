// Side: the host or a device, for code that is the same for both; and functions that move data
// there.
//
// Elements have any type, except for add() and fill(). All tensors of a call have the same format;
// padding is moved, added and cleared like other elements.
#pragma once

#include <span>

#include "core/device.hpp"
#include "crema/tensor.hpp"

namespace crema {

class Side {
 public:
  /// The host: the threads of the calling thread's ThreadScope.
  Side() = default;
  explicit Side(DeviceBackend& device) : device_(&device) {}

  /// Null: the host.
  DeviceBackend* device() const { return device_; }

  /// A pointer into the memory of the side, for reading. Copies from the other side if that copy is
  /// newer.
  template <class T>
  const T* read(const Tensor& tensor) const {
    return device_ != nullptr ? tensor.device<T>(*device_) : tensor.host<T>();
  }
  /// For reading and writing.
  template <class T>
  T* change(Tensor& tensor) const {
    return device_ != nullptr ? tensor.device_mut<T>(*device_) : tensor.host_mut<T>();
  }
  /// For callers that overwrite every element: nothing is copied.
  template <class T>
  T* overwrite(Tensor& tensor) const {
    return device_ != nullptr ? tensor.device_overwrite<T>(*device_) : tensor.host_overwrite<T>();
  }
  /// The same for a tensor of any type.
  const std::byte* read_bytes(const Tensor& tensor) const {
    return static_cast<const std::byte*>(tensor.read_bytes(device_));
  }
  std::byte* overwrite_bytes(Tensor& tensor) const {
    return static_cast<std::byte*>(tensor.overwrite_bytes(device_));
  }

 private:
  DeviceBackend* device_ = nullptr;
};

/// to = from. Both have the same type and size; shapes may differ. Does nothing if both use the
/// same memory.
void copy(const Side& side, const Tensor& from, Tensor& to);

/// sum = the sum of the terms, in their order. All have the same type (f32, f64 or bf16) and size.
/// Sums of bf16 are rounded once for each DeviceBackend::kMostTerms terms. `sum` may be the first
/// term.
void add(const Side& side, std::span<const Tensor* const> terms, Tensor& sum);

void fill_zero(const Side& side, Tensor& to);

/// Sets every element of a contiguous tensor of f32 or f64 to `value`, or adds it to each.
void fill(const Side& side, Tensor& to, double value, bool adds);

/// The pointers are in the memory of the side.
void copy_rows(const Side& side, const RowCopy& copy, const std::byte* from, std::byte* to);

/// The number of rows if memory is seen as (rows, elements of `axis` and of the axes inside it).
/// Tensors that differ in `axis` only are joined along it by joining their rows. Blocked formats
/// along axis 1 need channels without padding.
int64_t rows_around(const Shape& shape, Format format, int axis);

}  // namespace crema
