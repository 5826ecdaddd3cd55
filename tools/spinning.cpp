#include "tools/spinning.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#if defined(__GNUC__) && !defined(__clang__)

namespace {

// Loops of LeNet's layers take 50 us and more.
constexpr char kSpins[] = "3000";
constexpr char kSpinName[] = "GOMP_SPINCOUNT";
// Set before constructors run.
constinit bool has_asked = false;

/// What the environment has for a name of `length` characters, or null.
char* value_of(const char* name, size_t length) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
      return *entry + length + 1;
  }
  return nullptr;
}

}  // namespace

/// Stands before that of the C library, whose answers it gives but for the limit of spinning.
extern "C" char* getenv(const char* name) noexcept {
  if (char* const value = value_of(name, std::strlen(name))) return value;
  if (std::strcmp(name, kSpinName) != 0 || value_of("OMP_WAIT_POLICY", 15) != nullptr)
    return nullptr;
  has_asked = true;
  return const_cast<char*>(kSpins);
}

#endif

namespace crema::tools {

void limit_spinning(char** argv) {
#if defined(__GNUC__) && !defined(__clang__)
  if (has_asked || value_of(kSpinName, sizeof kSpinName - 1) != nullptr ||
      value_of("OMP_WAIT_POLICY", 15) != nullptr)
    return;
  // /proc/self/exe is the loader if it was started with this program as an argument. It then has
  // no interpreter of its own, so AT_BASE is 0.
  if (getauxval(AT_BASE) == 0) return;
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed || setenv(kSpinName, kSpins, 0) != 0) return;
  execv(program.c_str(), argv);
#else
  static_cast<void>(argv);
#endif
}

}  // namespace crema::tools
