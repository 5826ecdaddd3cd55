// Tensor: shape, element type, memory format, and memory with a copy on the host, on the device or
// on both.
//
// Copying a Tensor makes another view of the same memory. The first access allocates the memory,
// 64-byte aligned and zeroed. An access on the host or the device copies the contents there if the
// other copy is newer.
//
// Threads: several threads may read a tensor on the host at the same time, after a first access
// there. The caller must synchronise writes, and copies between host and device. A DeviceBackend
// must outlive the memory that it allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "crema/error.hpp"
#include "crema/layout.hpp"
#include "crema/shape.hpp"

namespace crema {

class DeviceBackend;  // src/core/device.hpp
class Memory;         // src/core/memory.hpp

/// What a caller does with contents. They are copied from the other side (host or device) if that
/// copy is newer, except for a caller that overwrites all of them.
enum class Access : uint8_t { read, change, overwrite };

/// As long as it lives, nothing is cached of what is derived from the memory, since it may change.
class ChangeScope {
 public:
  explicit ChangeScope(std::shared_ptr<Memory> memory);
  ~ChangeScope();
  ChangeScope(const ChangeScope&) = delete;
  ChangeScope& operator=(const ChangeScope&) = delete;

 private:
  std::shared_ptr<Memory> memory_;
};

/// A writable host pointer that is valid during the life of this object. Derived data are
/// recomputed once after its destruction; they are not cached during its life.
template <class T>
class Changing {
 public:
  Changing(std::shared_ptr<Memory> memory, T* data) : scope_(std::move(memory)), data_(data) {}

  T* data() const { return data_; }
  operator T*() const { return data_; }  // NOLINT: as the pointer

 private:
  ChangeScope scope_;
  T* data_;
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Shape shape, DType dtype = DType::f32, Format format = Format::contiguous);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Format format() const { return format_; }
  Layout layout() const { return {dtype_, format_}; }
  /// Number of elements of the shape, without the padding of blocked formats.
  int64_t count() const { return shape_.count(); }
  /// Number of elements in memory, with padding.
  int64_t storage() const { return storage_count(shape_, format_); }
  size_t bytes() const { return static_cast<size_t>(storage()) * size_of(dtype_); }

  /// Changes the shape. Memory that is too small is replaced by new, zeroed memory at the next
  /// access. A rank below 3 makes the format contiguous.
  void reshape(const Shape& shape);
  /// Changes type and format. The contents are lost.
  void set_layout(DType dtype, Format format);

  /// Makes this a view of `memory` from byte `offset` on. Error if the memory is too small.
  void bind(std::shared_ptr<Memory> memory, size_t offset = 0);
  /// Makes this a range of the rows of a wider tensor: the elements, in their order, are `rows`
  /// rows of one length, which begin `stride` bytes apart in `memory`, the first at byte `offset`.
  /// Such a tensor is read by at(), to() and copy_from() of another one, and by what asks for
  /// row_stride(); all other access to its contents is an Error.
  void bind_rows(std::shared_ptr<Memory> memory, size_t offset, int64_t rows, size_t stride);
  /// Bytes from the beginning of a row to the next one's, of bind_rows(); 0: the tensor is dense.
  size_t row_stride() const { return row_stride_; }
  /// Releases the memory. The next access allocates new, zeroed memory.
  void unbind();
  bool has_memory() const { return memory_ != nullptr; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  size_t offset() const { return offset_; }
  bool same_memory(const Tensor& other) const {
    return memory_ && memory_ == other.memory_ && offset_ == other.offset_ &&
           row_stride_ == other.row_stride_;
  }
  /// A view of the same memory with another shape of the same count. Contiguous tensors only, and
  /// no ranges of rows.
  Tensor view(const Shape& shape) const;

  /// Access for reading; on the host if `backend` is null. T must be the element type. Copies from
  /// the other side if that copy is newer.
  template <class T>
  const T* read(DeviceBackend* backend = nullptr) const {
    return static_cast<const T*>(bytes_as(dtype_of<T>(), Access::read, backend));
  }
  /// Access for reading and writing. The caller may keep a host pointer, so data derived from the
  /// values are not cached until seal(). For repeated writes, changing() is faster.
  template <class T>
  T* change(DeviceBackend* backend = nullptr) {
    return static_cast<T*>(exposed_bytes_as(dtype_of<T>(), Access::change, backend));
  }
  /// Access for callers that overwrite every element: nothing is copied from the other side.
  template <class T>
  T* overwrite(DeviceBackend* backend = nullptr) {
    return static_cast<T*>(exposed_bytes_as(dtype_of<T>(), Access::overwrite, backend));
  }
  /// As change() on the host, but the pointer is valid only during the life of the returned object.
  template <class T>
  Changing<T> changing() {
    T* const pointer = static_cast<T*>(bytes_as(dtype_of<T>(), Access::change, nullptr));
    return {memory_, pointer};
  }
  /// Declares that earlier writable pointers are no longer used.
  void seal();
  /// All elements in the order of memory, with the padding of blocked formats.
  template <class T>
  std::span<const T> values() const {
    return {read<T>(), static_cast<size_t>(storage())};
  }
  /// Access without a type, for copies and libraries; on the host if `backend` is null.
  /// A caller of overwrite_bytes() overwrites all bytes at once. It must not keep the pointer: data
  /// derived from the values do not follow later writes.
  const void* read_bytes(DeviceBackend* backend = nullptr) const {
    return bytes_of(Access::read, backend);
  }
  void* overwrite_bytes(DeviceBackend* backend = nullptr) {
    return bytes_of(Access::overwrite, backend);
  }
  /// The same for callers that heed row_stride().
  const void* read_rows(DeviceBackend* backend = nullptr) const {
    return first_byte(Access::read, backend);
  }
  void* overwrite_rows(DeviceBackend* backend = nullptr) {
    return first_byte(Access::overwrite, backend);
  }

  /// Copies the values of `source`, of the same shape, and converts type and format. Runs on the
  /// host.
  void copy_from(const Tensor& source);
  /// A copy in another type or format.
  Tensor to(DType dtype, Format format) const;
  /// This tensor if it is contiguous and dense, else a contiguous copy.
  Tensor contiguous() const;
  /// Sets every element. Padding stays zero.
  void fill(double value);
  /// Element `index` in the order of the contiguous format, as a double. For tests and messages.
  double at(int64_t index) const;

 private:
  void* first_byte(Access access, DeviceBackend* backend) const;
  /// The same. Error for a range of rows.
  void* bytes_of(Access access, DeviceBackend* backend) const;
  /// The same. Error unless `as` is the element type.
  void* bytes_as(DType as, Access access, DeviceBackend* backend) const;
  /// The same for a host pointer that the caller may keep.
  void* exposed_bytes_as(DType as, Access access, DeviceBackend* backend);
  void need_memory() const;
  void need_dense(std::string_view what) const;
  /// This tensor if it is dense, else a copy on the host.
  Tensor dense() const;

  Shape shape_{0};
  DType dtype_ = DType::f32;
  Format format_ = Format::contiguous;
  mutable std::shared_ptr<Memory> memory_;
  mutable size_t offset_ = 0;
  int64_t rows_ = 1;       // of bind_rows()
  size_t row_stride_ = 0;  // 0: dense
};

}  // namespace crema
