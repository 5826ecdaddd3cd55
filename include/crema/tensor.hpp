// Tensor: shape, element type, memory format, and memory that host and device share on demand.
//
// A Tensor is a small value: copying one makes another view of the same memory. Memory is taken at
// the first access, 64-byte aligned and zeroed. Threads: any number may read one memory on the host
// at once when it has been accessed there before; writing, and moving between host and device,
// needs the caller's own ordering. A device's backend has to outlive the memory that it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "crema/error.hpp"
#include "crema/shape.hpp"

namespace crema {

class DeviceBackend;  // src/backend/device.hpp

enum class DType : uint8_t { f32, f64, bf16, f16, u8, i32, i64 };

/// Bytes of one element.
size_t size_of(DType dtype);
std::string_view to_string(DType dtype);

/// 16-bit brain float: the upper half of an f32, rounded to nearest even.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  explicit operator float() const;
};

/// IEEE 754 half precision, rounded to nearest even; overflow becomes infinity.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};

/// How the elements of a logical (N, C, spatial...) shape lie in memory. Formats other than
/// `contiguous` exist for rank 3 and up only.
///   contiguous     N, C, spatial...
///   channels_last  N, spatial..., C
///   blocked8/16    N, ceil(C/b), spatial..., b: channels in blocks of b = 8 or 16, the last block
///                  padded with zeros. What vector convolution kernels like. Whoever writes a
///                  blocked tensor keeps the padding zero.
enum class Format : uint8_t { contiguous, channels_last, blocked8, blocked16 };

std::string_view to_string(Format format);
/// Channels a block: 8 or 16, and 1 for the other formats.
int64_t block_of(Format format);
/// Elements of memory that `shape` takes in `format`, padding included. Overflow is an Error.
int64_t storage_count(const Shape& shape, Format format);

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<bfloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<float16>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}

/// A piece of memory with a host copy, a device copy or both, made when first asked for.
class Memory {
 public:
  explicit Memory(size_t bytes);
  /// A piece of `parent` that keeps it alive. It starts with the parent's state, and from then on
  /// tracks by itself which of its two copies is current: use a piece or its parent, not both.
  Memory(std::shared_ptr<Memory> parent, size_t offset, size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  size_t bytes() const { return bytes_; }
  /// A piece of another memory.
  bool is_piece() const { return parent_ != nullptr; }
  /// Changes at every access that may write: what was derived from the contents and remembered
  /// (weights in a library's layout) is current while this stays the same. No two memories of a
  /// process ever have the same version.
  uint64_t version() const { return version_; }

  const void* host();
  void* host_mut();
  /// As host_mut, for callers that overwrite all of it: nothing is copied from the device.
  void* host_overwrite();
  const void* device(DeviceBackend& backend);
  void* device_mut(DeviceBackend& backend);
  void* device_overwrite(DeviceBackend& backend);
  /// Zeroes a part in place, on whichever side is current: nothing moves.
  void zero(size_t offset, size_t bytes);

 private:
  void* host_pointer();
  void* device_pointer(DeviceBackend& backend);
  void to_host();
  void to_device(DeviceBackend& backend);

  enum class Current : uint8_t { neither, host, device, both };
  std::shared_ptr<Memory> parent_;
  size_t offset_ = 0;
  size_t bytes_ = 0;
  uint64_t version_;
  Current current_ = Current::neither;
  void* host_ = nullptr;
  void* device_ = nullptr;
  DeviceBackend* backend_ = nullptr;
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Shape shape, DType dtype = DType::f32, Format format = Format::contiguous);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Format format() const { return format_; }
  /// Logical elements; padding of blocked formats not counted.
  int64_t count() const { return shape_.count(); }
  /// Elements in memory, padding counted.
  int64_t storage() const { return storage_count(shape_, format_); }
  size_t bytes() const { return static_cast<size_t>(storage()) * size_of(dtype_); }

  /// Changes the shape. Memory is kept while it is large enough, else dropped; contents are then
  /// zero. Rank below 3 makes the format contiguous.
  void reshape(const Shape& shape);
  /// Changes type and format; the contents are lost.
  void set_layout(DType dtype, Format format);

  /// Makes this a view of `memory` from byte `offset` on. Error when it is too small.
  void bind(std::shared_ptr<Memory> memory, size_t offset = 0);
  /// Forgets the memory; the next access takes new, zeroed memory.
  void unbind();
  bool has_memory() const { return memory_ != nullptr; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  size_t offset() const { return offset_; }
  bool same_memory(const Tensor& other) const {
    return memory_ && memory_ == other.memory_ && offset_ == other.offset_;
  }
  /// The same memory seen with another shape of equal count; contiguous tensors only.
  Tensor view(const Shape& shape) const;

  /// Host access; T must be the element type. The device copy is fetched where it is the newer one.
  template <class T>
  const T* host() const {
    return static_cast<const T*>(host_raw(dtype_of<T>()));
  }
  template <class T>
  T* host_mut() {
    return static_cast<T*>(host_mut_raw(dtype_of<T>()));
  }
  /// For callers that overwrite every element: skips fetching.
  template <class T>
  T* host_overwrite() {
    return static_cast<T*>(host_overwrite_raw(dtype_of<T>()));
  }
  /// All elements as they lie in memory, with the padding of blocked formats.
  template <class T>
  std::span<const T> values() const {
    return {host<T>(), static_cast<size_t>(storage())};
  }
  /// Untyped host access, for copies and libraries.
  const void* host_bytes() const { return host_raw(dtype_); }
  void* host_bytes_mut() { return host_mut_raw(dtype_); }

  template <class T>
  const T* device(DeviceBackend& backend) const {
    return static_cast<const T*>(device_raw(dtype_of<T>(), backend));
  }
  template <class T>
  T* device_mut(DeviceBackend& backend) {
    return static_cast<T*>(device_mut_raw(dtype_of<T>(), backend));
  }
  template <class T>
  T* device_overwrite(DeviceBackend& backend) {
    return static_cast<T*>(device_overwrite_raw(dtype_of<T>(), backend));
  }

  /// Copies the values of `source`, which has the same shape, converting type and format on the
  /// host.
  void copy_from(const Tensor& source);
  /// A copy in another type or format.
  Tensor to(DType dtype, Format format) const;
  /// This tensor when it is contiguous already, else a contiguous copy.
  Tensor contiguous() const;
  /// Sets every element (padding stays zero).
  void fill(double value);
  /// Element `index` in logical (contiguous) order, as a double; for tests and messages.
  double at(int64_t index) const;

 private:
  const void* host_raw(DType as) const;
  void* host_mut_raw(DType as);
  void* host_overwrite_raw(DType as);
  const void* device_raw(DType as, DeviceBackend& backend) const;
  void* device_mut_raw(DType as, DeviceBackend& backend);
  void* device_overwrite_raw(DType as, DeviceBackend& backend);
  void check_access(DType as) const;
  void need_memory() const;

  Shape shape_{0};
  DType dtype_ = DType::f32;
  Format format_ = Format::contiguous;
  mutable std::shared_ptr<Memory> memory_;
  mutable size_t offset_ = 0;
};

}  // namespace crema
