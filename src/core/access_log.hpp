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

/// What is made from other values and kept, such as a copy of weights in another order. Records do
/// not make it again: it is brought up to date in front of each launch of a record that reads it.
class Follower {
 public:
  virtual ~Follower() = default;
  virtual bool is_current() const = 0;
  /// Brings it up to date.
  virtual void follow() = 0;
  /// The values and what is made from them have been written together.
  virtual void note_written() = 0;
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

  /// Each follower is noted once.
  struct Followed {
    std::weak_ptr<Follower> follower;
    bool writes;  // the work writes it along with the values
  };

  void note(Memory& memory, Access how, const void* contents);
  void note_derived(Memory& memory, uint64_t version);
  /// Recorded work reads it, or `writes` it along with the values.
  void note_follower(const std::weak_ptr<Follower>& follower, bool writes = false);
  /// The host accesses it: an Error.
  [[noreturn]] static void refuse_host(const Memory& memory);

  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Derived>& derived() const { return derived_; }
  const std::vector<Followed>& followers() const { return followers_; }

 private:
  std::vector<Entry> entries_;
  std::vector<Derived> derived_;
  std::vector<Followed> followers_;
};

}  // namespace crema
