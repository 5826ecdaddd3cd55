#include "tools/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "crema/error.hpp"

extern char** environ;

namespace crema::tools {
namespace {

std::string shortened(std::string line) {
  constexpr size_t kMost = 160;
  return line.size() > kMost ? line.substr(0, kMost) + "..." : line;
}

}  // namespace

ChildResult run_child(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error("cannot run ", words[0], ": ", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  ChildResult result;
  result.reason =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::array<char, 4096> block{};
  for (ssize_t got = 1; result.reason == 0 && got != 0;) {
    got = ::read(ends[0], block.data(), block.size());
    if (got > 0) result.said.append(block.data(), static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  ::close(ends[0]);
  if (result.reason != 0) return result;
  while (::waitpid(child, &result.status, 0) < 0 && errno == EINTR) {
  }
  return result;
}

std::string first_line(const std::string& text) {
  return shortened(text.substr(0, text.find('\n')));
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t at = text.rfind('\n');
  return shortened(at == std::string::npos ? text : text.substr(at + 1));
}

}  // namespace crema::tools
