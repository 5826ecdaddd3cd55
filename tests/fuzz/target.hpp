// What fuzz targets share. A target is one file with LLVMFuzzerTestOneInput(): libFuzzer calls it
// with mutated inputs, replay.cpp with those of the corpus.
//
// Whatever the input is, a target ends without an exception, or with an Error that says something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>

#include "crema/context.hpp"
#include "crema/error.hpp"
#include "support/temp_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count);

namespace crema::fuzz {

inline std::string_view text_of(const uint8_t* bytes, size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}

/// Ends the program with a message, which libFuzzer reports with the input.
[[noreturn]] void fail(std::string_view why);

/// Calls body(). An Error is fine if it has a message. Returns whether there was none.
template <class Body>
bool attempt(const Body& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    if (error.message().empty()) fail("an Error without a message");
    return false;
  }
}

/// As long as it lives, the process gets so much more memory and not a byte beyond.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

/// attempt() with little memory: a net with 10^9 parameters is none that a fuzzer has to wait for.
/// The lack of memory is no finding.
template <class Body>
bool attempt_in_little_memory(const Body& body) {
  try {
    const MemoryLimit limit(size_t{64} << 20);
    return attempt(body);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

/// A context of one thread that measures nothing and logs nothing.
Context& quiet_context();

/// A folder for the target's files, gone in the end.
const TempFolder& working_folder();

/// Writes the input to the file of that name in working_folder(). Returns its path.
std::string write_input(const std::string& name, const uint8_t* bytes, size_t count);

}  // namespace crema::fuzz
