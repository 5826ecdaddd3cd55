// Tensor: shape, element type, memory format, and memory that host and device share on demand.
//
// A Tensor is a small value: copying one makes another view of the same memory. Memory is taken at
// the first access, 64-byte aligned and zeroed. Threads: any number may read one memory on the host
// at once when it has been accessed there before; writing, and moving between host and device,
// needs the caller's own ordering. A device's backend has to outlive the memory that it holds.
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

class DeviceBackend;  // src/backend/device.hpp

/// A piece of memory with a host copy, a device copy or both, made when first asked for.
class Memory {
 public:
  explicit Memory(size_t bytes);
  /// A piece of `parent` with a state and version of its own, beside which the parent may still be
  /// used: an access to the parent is one to all of its segments. Nothing outside of segments may be
  /// written. Segments do not overlap.
  static std::shared_ptr<Memory> segment(const std::shared_ptr<Memory>& parent, size_t offset,
                                         size_t bytes);
  /// A piece of `parent` that keeps it alive. It starts with the parent's state, and from then on
  /// tracks by itself which of its two copies is current: use a piece or its parent, not both.
  Memory(std::shared_ptr<Memory> parent, size_t offset, size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  size_t bytes() const { return bytes_; }
  /// A piece of another memory.
  bool is_piece() const { return parent_ != nullptr; }
  /// Nobody has accessed it yet: it is zero.
  bool is_untouched() const { return current_ == Current::neither; }
  /// Changes at every access that may write: what was derived from the contents and remembered
  /// (weights in a library's layout) is current while this stays the same. While somebody may still
  /// write through a pointer, each call returns another number. No two memories of a process ever
  /// have the same version.
  uint64_t version();
  /// Declares that nobody writes through pointers of host_mut(), host_overwrite() and their device
  /// counterparts any more.
  void seal() { exposed_ = false; }
  /// The opposite.
  void expose() { exposed_ = true; }
  /// Between the two, contents may change. Calls may be nested.
  void begin_writing() { ++writers_; }
  void end_writing();

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

  /// Also of segments.
  void mark_written(bool on_device);

  enum class Current : uint8_t { neither, host, device, both };
  std::shared_ptr<Memory> parent_;
  std::vector<Memory*> segments_;
  bool is_segment_ = false;
  bool exposed_ = false;  // a pointer for writing was given away
  int writers_ = 0;
  size_t offset_ = 0;
  size_t bytes_ = 0;
  std::atomic<uint64_t> version_;
  Current current_ = Current::neither;
  void* host_ = nullptr;
  void* device_ = nullptr;
  DeviceBackend* backend_ = nullptr;
};

/// A host pointer for writing that ends with this object: what is derived from the contents is made
/// anew after it, and trusted again.
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
  /// For reading and writing. Since the pointer may be kept, nothing derived from the values is
  /// remembered any more, until seal(); what is written often and read often uses writing().
  template <class T>
  T* host_mut() {
    T* const pointer = static_cast<T*>(host_mut_raw(dtype_of<T>()));
    memory_->expose();
    return pointer;
  }
  /// For callers that overwrite every element: skips fetching.
  template <class T>
  T* host_overwrite() {
    T* const pointer = static_cast<T*>(host_overwrite_raw(dtype_of<T>()));
    memory_->expose();
    return pointer;
  }
  /// As host_mut, for as long as the returned object lives.
  template <class T>
  Writing<T> writing() {
    T* const pointer = static_cast<T*>(host_mut_raw(dtype_of<T>()));
    return {memory_, pointer};
  }
  /// Declares that nobody writes through earlier pointers any more.
  void seal() {
    if (memory_) memory_->seal();
  }
  /// All elements as they lie in memory, with the padding of blocked formats.
  template <class T>
  std::span<const T> values() const {
    return {host<T>(), static_cast<size_t>(storage())};
  }
  /// Untyped host access, for copies and libraries.
  const void* host_bytes() const { return host_raw(dtype_); }
  void* host_bytes_mut() {
    void* const pointer = host_mut_raw(dtype_);
    memory_->expose();
    return pointer;
  }

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
