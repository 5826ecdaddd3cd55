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

#include <atomic>
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

/// A piece of memory with a host copy, a device copy or both. Each is allocated at its first
/// access.
class Memory {
 public:
  explicit Memory(size_t bytes);
  /// A segment: a piece of `parent`, in bytes, with its own version and its own record of which
  /// copy is current. The parent stays usable; an access to it counts as an access to all segments.
  /// Only memory inside segments may be written. Segments must not overlap.
  static std::shared_ptr<Memory> segment(const std::shared_ptr<Memory>& parent, size_t offset,
                                         size_t bytes);
  /// A piece of `parent`, in bytes, which keeps the parent alive. The piece starts with the
  /// parent's record of which copy is current, and then keeps its own. Use either the pieces or the
  /// parent, not both.
  Memory(std::shared_ptr<Memory> parent, size_t offset, size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  size_t bytes() const { return bytes_; }
  /// This memory is a piece or a segment of another one.
  bool is_piece() const { return parent_ != nullptr; }
  /// There was no access yet, so the contents are zero.
  bool is_untouched() const { return current_ == Current::neither; }
  /// A number that changes at every access that may write. Data derived from the contents, such as
  /// weights in the layout of a library, are valid while the version is the same. While a writable
  /// pointer exists (expose(), begin_writing()), each call returns a new number. Two memories of a
  /// process never have the same version.
  uint64_t version();
  /// Declares that earlier writable pointers (host_mut(), host_overwrite()) are no longer used.
  void seal() { exposed_ = false; }
  /// Declares that a writable pointer exists.
  void expose() { exposed_ = true; }
  /// Contents may change between the two calls. Calls may be nested.
  void begin_writing() { ++writers_; }
  void end_writing();

  /// What a caller does with the contents. They are copied from the other side if that copy is
  /// newer, except for a caller that overwrites all of them.
  enum class Access : uint8_t { read, change, overwrite };
  /// A pointer to the contents on the device, or on the host if `device` is null.
  void* access(Access access, DeviceBackend* device = nullptr);
  /// Sets bytes [offset, offset + bytes) to zero, in the current copy; nothing is copied.
  void zero(size_t offset, size_t bytes);

 private:
  // Null means the host.
  void* pointer(DeviceBackend* device);
  /// Copies the contents from the other side if that copy is newer.
  void fetch(DeviceBackend* device);
  /// Of this memory and its segments.
  void mark_written(bool on_device);

  enum class Current : uint8_t { neither, host, device, both };
  std::shared_ptr<Memory> parent_;
  std::vector<Memory*> segments_;
  bool is_segment_ = false;
  bool exposed_ = false;  // a writable pointer exists
  int writers_ = 0;
  size_t offset_ = 0;
  size_t bytes_ = 0;
  std::atomic<uint64_t> version_;
  Current current_ = Current::neither;
  void* host_ = nullptr;
  void* device_ = nullptr;
  DeviceBackend* backend_ = nullptr;
};

/// A writable host pointer that is valid during the life of this object. Derived data are
/// recomputed once after its destruction; they are not cached during its life.
template <class T>
class Writing {
 public:
  Writing(std::shared_ptr<Memory> memory, T* data) : memory_(std::move(memory)), data_(data) {
    memory_->begin_writing();
  }
  ~Writing() { memory_->end_writing(); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  T* data() const { return data_; }
  operator T*() const { return data_; }  // NOLINT: as the pointer

 private:
  std::shared_ptr<Memory> memory_;
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
  /// Releases the memory. The next access allocates new, zeroed memory.
  void unbind();
  bool has_memory() const { return memory_ != nullptr; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  size_t offset() const { return offset_; }
  bool same_memory(const Tensor& other) const {
    return memory_ && memory_ == other.memory_ && offset_ == other.offset_;
  }
  /// A view of the same memory with another shape of the same count. Contiguous tensors only.
  Tensor view(const Shape& shape) const;

  /// Host access for reading. T must be the element type. Copies from the device if that copy is
  /// newer.
  template <class T>
  const T* host() const {
    return values_of<T>(Memory::Access::read);
  }
  /// Host access for reading and writing. The caller may keep the pointer, so data derived from the
  /// values are not cached until seal(). For repeated writes, writing() is faster.
  template <class T>
  T* host_mut() {
    T* const pointer = values_of<T>(Memory::Access::change);
    memory_->expose();
    return pointer;
  }
  /// Host access for callers that overwrite every element: nothing is copied from the device.
  template <class T>
  T* host_overwrite() {
    T* const pointer = values_of<T>(Memory::Access::overwrite);
    memory_->expose();
    return pointer;
  }
  /// As host_mut(), but the pointer is valid only during the life of the returned object.
  template <class T>
  Writing<T> writing() {
    T* const pointer = values_of<T>(Memory::Access::change);
    return {memory_, pointer};
  }
  /// Declares that earlier writable pointers are no longer used.
  void seal() {
    if (memory_) memory_->seal();
  }
  /// All elements in the order of memory, with the padding of blocked formats.
  template <class T>
  std::span<const T> values() const {
    return {host<T>(), static_cast<size_t>(storage())};
  }
  /// Access without a type, for copies and libraries; on the host if `device` is null.
  /// A caller of overwrite_bytes() overwrites all bytes at once. It must not keep the pointer: data
  /// derived from the values do not follow later writes.
  const void* read_bytes(DeviceBackend* device = nullptr) const {
    return bytes_of(Memory::Access::read, device);
  }
  void* overwrite_bytes(DeviceBackend* device = nullptr) {
    return bytes_of(Memory::Access::overwrite, device);
  }

  /// Device access, as host(), host_mut() and host_overwrite().
  template <class T>
  const T* device(DeviceBackend& backend) const {
    return values_of<T>(Memory::Access::read, &backend);
  }
  template <class T>
  T* device_mut(DeviceBackend& backend) {
    return values_of<T>(Memory::Access::change, &backend);
  }
  template <class T>
  T* device_overwrite(DeviceBackend& backend) {
    return values_of<T>(Memory::Access::overwrite, &backend);
  }

  /// Copies the values of `source`, of the same shape, and converts type and format. Runs on the
  /// host.
  void copy_from(const Tensor& source);
  /// A copy in another type or format.
  Tensor to(DType dtype, Format format) const;
  /// This tensor if it is contiguous, else a contiguous copy.
  Tensor contiguous() const;
  /// Sets every element. Padding stays zero.
  void fill(double value);
  /// Element `index` in the order of the contiguous format, as a double. For tests and messages.
  double at(int64_t index) const;

 private:
  void* bytes_of(Memory::Access access, DeviceBackend* device = nullptr) const;
  /// The same. Error unless T is the element type.
  template <class T>
  T* values_of(Memory::Access access, DeviceBackend* device = nullptr) const {
    check_access(dtype_of<T>());
    return static_cast<T*>(bytes_of(access, device));
  }
  void check_access(DType as) const;
  void need_memory() const;

  Shape shape_{0};
  DType dtype_ = DType::f32;
  Format format_ = Format::contiguous;
  mutable std::shared_ptr<Memory> memory_;
  mutable size_t offset_ = 0;
};

}  // namespace crema
