// The checksum of a file's contents: XXH3 with 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace crema {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(const void* bytes, size_t count);
  /// Of all bytes added so far.
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws the Error for a file whose contents are not those that its checksum belongs to. `how`
/// says what differs.
[[noreturn]] void throw_changed(const std::string& path, const std::string& how);

}  // namespace crema
