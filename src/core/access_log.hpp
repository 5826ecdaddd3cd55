// AccessLog: the memory that recorded work uses, and what the host has to know of it when the
// record runs in place of the work.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/memory.hpp"
#include "crema/error.hpp"

namespace crema {

/// A record would repeat what the host has to do anew: values that follow from others have to be
/// made first. A plain pass does that; the one behind it can be recorded.
class StaleRecord : public Error {
 public:
  using Error::Error;
};

/// Notes accesses on the device while work is recorded (DeviceBackend::set_access_log). Accesses on
/// the host to memory that the device uses too are an Error meanwhile: the record would not repeat
/// them.
class AccessLog {
 public:
  struct Entry {
    std::weak_ptr<Memory> memory;
    const Memory* place;   // the same, for comparisons
    Access first;          // the first access
    bool writes;           // any of them
    const void* contents;  // on the device
  };
  /// Memory whose values were taken in another form, in this version, by
  /// ParameterStorage::derived() or by a kernel that computes on the host from them. The record
  /// holds for that version alone.
  struct Derived {
    std::weak_ptr<Memory> memory;
    uint64_t version;
  };

  void note(Memory& memory, Access how, const void* contents);
  void note_derived(Memory& memory, uint64_t version);
  /// The host accesses it: an Error.
  [[noreturn]] static void refuse_host(const Memory& memory);

  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Derived>& derived() const { return derived_; }

 private:
  std::vector<Entry> entries_;
  std::vector<Derived> derived_;
};

}  // namespace crema
