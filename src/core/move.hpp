// ComputeDevice: the host or a device, for code that is the same for both; and functions that move
// data there.
//
// Elements have any type, except for add() and fill(). All tensors of a call have the same format;
// padding is moved, added and cleared like other elements.
#pragma once

#include <span>

#include "core/device.hpp"
#include "crema/tensor.hpp"

namespace crema {

class ComputeDevice {
 public:
  /// The host: the threads of the calling thread's ThreadScope.
  ComputeDevice() = default;
  explicit ComputeDevice(DeviceBackend& backend) : backend_(&backend) {}

  bool on_host() const { return backend_ == nullptr; }
  /// Null on the host.
  DeviceBackend* backend() const { return backend_; }

  /// Tensor::read(), change() and overwrite() with a pointer into the memory of this device.
  template <class T>
  const T* read(const Tensor& tensor) const {
    return tensor.read<T>(backend_);
  }
  template <class T>
  T* change(Tensor& tensor) const {
    return tensor.change<T>(backend_);
  }
  template <class T>
  T* overwrite(Tensor& tensor) const {
    return tensor.overwrite<T>(backend_);
  }
  /// The same for a tensor of any type.
  const std::byte* read_bytes(const Tensor& tensor) const {
    return static_cast<const std::byte*>(tensor.read_bytes(backend_));
  }
  std::byte* overwrite_bytes(Tensor& tensor) const {
    return static_cast<std::byte*>(tensor.overwrite_bytes(backend_));
  }

 private:
  DeviceBackend* backend_ = nullptr;
};

/// to = from. Both have the same type and size; shapes may differ. Does nothing if both use the
/// same memory.
void copy(const ComputeDevice& device, const Tensor& from, Tensor& to);

/// sum = the sum of the terms, in their order. All have the same floating point type and size. Sums
/// of bf16 and f16 are rounded once for each DeviceBackend::kMostTerms terms. `sum` may be the
/// first term.
void add(const ComputeDevice& device, std::span<const Tensor* const> terms, Tensor& sum);

void fill_zero(const ComputeDevice& device, Tensor& to);

/// Sets every element of a contiguous tensor of f32 or f64 to `value`, or adds it to each.
void fill(const ComputeDevice& device, Tensor& to, double value, bool adds);

/// The pointers are in the memory of the device.
void copy_rows(const ComputeDevice& device, const RowCopy& copy, const std::byte* from,
               std::byte* to);

/// The number of rows if memory is seen as (rows, elements of `axis` and of the axes inside it).
/// Tensors that differ in `axis` only are joined along it by joining their rows. Blocked formats
/// along axis 1 need channels without padding.
int64_t rows_around(const Shape& shape, Format format, int axis);

}  // namespace crema
