// Memory: bytes with a copy on the host, on the device or on both, and the record of which copy is
// current.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "crema/tensor.hpp"

namespace crema {

class StagedUpload;

/// A piece of memory with a host copy, a device copy or both. Each is allocated at its first
/// access.
class Memory : public std::enable_shared_from_this<Memory> {
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
  /// Declares that earlier writable pointers (Tensor::change(), overwrite()) are no longer used.
  void seal() { exposed_ = false; }
  /// Declares that a writable pointer exists.
  void expose() { exposed_ = true; }
  /// Contents may change between the two calls. Calls may be nested.
  void begin_writing() { ++writers_; }
  void end_writing();

  /// A pointer to the contents on the device, or on the host if `device` is null.
  void* access(Access how, DeviceBackend* device = nullptr);
  /// Sets bytes [offset, offset + bytes) to zero, in the current copy; nothing is copied.
  void zero(size_t offset, size_t bytes);

  /// The host overwrites the contents for the device in turn with it, as a source of data does:
  /// they go there without a wait (core/staged_upload.hpp), unless *stop is not 0. The memory is no
  /// piece, and has one tensor. A pointer of an earlier overwrite is of no use after a later one.
  void stage(DeviceBackend& device, const int32_t* stop);
  bool is_staged() const { return stop_ != nullptr; }
  /// The copy on the device counts, whatever the host has written since.
  void trust_device();
  /// The contents of this version are used in another form.
  void note_derived(uint64_t version);
  /// The contents on the device; null if there is no memory there.
  const void* on_device() const;

 private:
  /// Before the host overwrites staged contents.
  void turn_staged();
  // Null means the host.
  void* pointer(DeviceBackend* device);
  /// Copies the contents from the other side if that copy is newer.
  void fetch(DeviceBackend* device);
  /// Of this memory and its segments.
  void mark_written(bool on_device);
  /// The device that has had the contents; null: none.
  DeviceBackend* known_device() const { return parent_ ? parent_->backend_ : backend_; }

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
  const int32_t* stop_ = nullptr;         // of stage()
  std::unique_ptr<StagedUpload> staged_;  // has the host copy; null: host_ is that
};

}  // namespace crema
