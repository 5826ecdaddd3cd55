#include "monitor/git_state.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

extern char** environ;  // NOLINT: POSIX names it

namespace crema {
namespace fs = std::filesystem;
namespace {

/// The first line of a file; "" without one.
std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The folder with HEAD; a work tree beside the first one, and a submodule, have a file that names
/// it.
fs::path git_folder(fs::path folder) {
  std::error_code unknown;
  folder = fs::absolute(folder, unknown);
  for (;; folder = folder.parent_path()) {
    const fs::path git = folder / ".git";
    if (fs::is_directory(git, unknown)) return git;
    if (fs::is_regular_file(git, unknown)) {
      const std::string line = line_of(git);
      if (line.starts_with("gitdir: ")) return folder / line.substr(8);
    }
    if (!folder.has_relative_path()) return {};
  }
}

std::string commit_of(const fs::path& git, const std::string& reference) {
  fs::path shared = git;
  if (const std::string common = line_of(git / "commondir"); !common.empty()) shared = git / common;
  for (const fs::path& folder : {git, shared}) {
    if (const std::string found = line_of(folder / reference); !found.empty()) return found;
  }
  std::ifstream packed(shared / "packed-refs");
  for (std::string line; std::getline(packed, line);) {
    if (line.ends_with(" " + reference)) return line.substr(0, line.find(' '));
  }
  return {};
}

/// Whether git says that files differ; none where it cannot be asked.
std::optional<bool> has_changes(const std::string& folder) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words = {"git",         "--no-optional-locks", "-C", folder, "status",
                                    "--porcelain", "--untracked-files=no"};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, "git", &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  bool said = false;
  if (failed == 0) {
    std::array<char, 4096> buffer;
    for (;;) {
      const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
      if (count > 0) said = true;
      if (count == 0 || (count < 0 && errno != EINTR)) break;
    }
  }
  ::close(ends[0]);
  if (failed != 0) return {};
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return {};
  return said;
}

}  // namespace

std::optional<RunInfo::Git> git_state(const std::string& folder) {
  const fs::path git = git_folder(folder);
  if (git.empty()) return {};
  constexpr std::string_view kReference = "ref: ", kBranch = "refs/heads/";
  std::string head = line_of(git / "HEAD"), branch;
  if (head.starts_with(kReference)) {
    const std::string reference = head.substr(kReference.size());
    if (reference.starts_with(kBranch)) branch = reference.substr(kBranch.size());
    head = commit_of(git, reference);
  }
  if (head.empty()) return {};
  RunInfo::Git state;
  state.set_commit(head);
  if (!branch.empty()) state.set_branch(branch);
  if (const auto changed = has_changes(folder)) state.set_changed(*changed);
  return state;
}

}  // namespace crema
