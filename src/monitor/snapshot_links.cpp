#include "monitor/snapshot_links.hpp"

#include <filesystem>

#include "crema/error.hpp"
#include "model/whole_file.hpp"
#include "monitor/run_folder.hpp"

namespace crema {
namespace fs = std::filesystem;

void link_snapshot(const std::string& folder, const std::string& name, const std::string& file) {
  const fs::path links = file_of_run(folder, kRunSnapshots);
  std::error_code failed, ignored;
  fs::create_directories(links, failed);
  const fs::path to = failed ? fs::path() : fs::relative(file, links, failed);
  const std::string path = (links / name).string(), beside = unfinished_path(path);
  fs::remove(beside, ignored);
  if (!failed) fs::create_symlink(to.empty() ? fs::absolute(file) : to, beside, failed);
  if (!failed) fs::rename(beside, path, failed);
  if (!failed) return;
  fs::remove(beside, ignored);
  throw Error("cannot make '", path, "' a link to '", file, "': ", failed.message()).about(path);
}

void unlink_snapshot(const std::string& folder, const std::string& name) {
  const fs::path path = fs::path(file_of_run(folder, kRunSnapshots)) / name;
  std::error_code ignored;
  if (fs::is_symlink(path, ignored)) fs::remove(path, ignored);
}

std::string weights_beside(const std::string& state) {
  constexpr std::string_view kState = ".solverstate";
  const size_t at = state.rfind(kState);
  if (at == std::string::npos) return {};
  return state.substr(0, at) + ".caffemodel" + state.substr(at + kState.size());
}

std::string path_in_run(const std::string& folder, const std::string& file) {
  std::error_code failed;
  const fs::path from = fs::relative(file, folder, failed);
  if (failed || from.empty() || *from.begin() == "..") return file;
  return from.string();
}

}  // namespace crema
