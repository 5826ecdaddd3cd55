#include "tools/spinning.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace crema::tools {

void limit_spinning(char** argv) {
#if defined(__GNUC__) && !defined(__clang__)
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  // /proc/self/exe is the loader if it was started with this program as an argument. It then has
  // no interpreter of its own, so AT_BASE is 0.
  if (getauxval(AT_BASE) == 0) return;
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  // Loops of LeNet's layers take 50 us and more.
  if (failed || setenv("GOMP_SPINCOUNT", "3000", 0) != 0) return;
  execv(program.c_str(), argv);
#else
  static_cast<void>(argv);
#endif
}

}  // namespace crema::tools
