#include "solver/snapshot_files.hpp"

#include <algorithm>
#include <filesystem>

#include "core/sync_folder.hpp"
#include "crema/error.hpp"
#include "model/whole_file.hpp"
#include "solver/snapshot.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

/// Makes `name` lead to `file`, which is in the same folder.
void link_beside(const std::string& file, const std::string& name) {
  std::error_code failed, ignored;
  const std::string beside = unfinished_path(name);
  fs::remove(beside, ignored);
  fs::create_symlink(fs::path(file).filename(), beside, failed);
  // A copy would be written to where a link of this name leads: into an older snapshot.
  if (failed && !fs::is_symlink(name, ignored)) {
    WholeFile copy(name);
    copy.append_file(file);
    copy.finish();
    return;
  }
  // A link that is there is replaced by renaming, never followed.
  if (!failed) fs::rename(beside, name, failed);
  if (!failed) return;
  fs::remove(beside, ignored);
  throw Error("cannot make '", name, "' a link to '", file, "': ", failed.message()).about(name);
}

/// Whether the rest of a name, behind the prefix, is that of a file of snapshots.
bool is_of_snapshots(std::string_view rest) {
  const auto drop = [&](std::string_view begin) {
    if (!rest.starts_with(begin)) return false;
    rest.remove_prefix(begin.size());
    return true;
  };
  if (drop("_iter_")) {
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0) return false;
    rest.remove_prefix(digits);
  } else if (!drop("_best") && !drop("_last")) {
    return false;
  }
  drop("_ema");
  if (!drop(".caffemodel") && !drop(".solverstate")) return false;
  return rest.empty() || rest == ".h5";
}

}  // namespace

std::string best_file(const std::string& prefix, bool hdf5) {
  return prefix + "_best.caffemodel" + (hdf5 ? ".h5" : "");
}

void link_last_snapshot(const std::string& prefix, int iteration, bool hdf5, bool average) {
  const std::string stem = snapshot_stem(prefix, iteration), format = hdf5 ? ".h5" : "";
  std::vector<const char*> endings = {".caffemodel", ".solverstate"};
  if (average) endings.push_back("_ema.caffemodel");
  for (const char* ending : endings)
    link_beside(stem + ending + format, prefix + "_last" + ending + format);
  sync_folder(fs::path(prefix).parent_path());
}

bool takes_links(const std::string& prefix) {
  const std::string probe = unfinished_path(prefix + "_last.caffemodel");
  std::error_code failed, ignored;
  fs::remove(probe, ignored);
  fs::create_symlink("nothing", probe, failed);
  fs::remove(probe, ignored);
  return !failed;
}

std::vector<std::string> files_of_snapshots(const std::string& prefix) {
  const fs::path folder = fs::path(prefix).parent_path();
  const std::string stem = fs::path(prefix).filename().string();
  std::vector<std::string> files;
  std::error_code failed;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, failed), end; entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(stem) && is_of_snapshots(std::string_view(name).substr(stem.size())))
      files.push_back((folder / name).string());
  }
  std::ranges::sort(files);
  return files;
}

std::string free_prefix(const std::string& prefix) {
  for (int number = 2;; ++number) {
    std::string other = text(prefix, "_", number);
    if (files_of_snapshots(other).empty()) return other;
  }
}

void remove_unfinished(const std::string& prefix) {
  fs::path folder = fs::path(prefix).parent_path();
  if (folder.empty()) folder = ".";
  const std::string begin = fs::path(prefix).filename().string(), stem = begin + "_iter_";
  std::vector<std::string> links;
  std::error_code ignored;  // an unreadable folder, or another process removed the file first
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    for (const char* one : {"_best.caffemodel.", "_last.", "_last_ema."}) {
      if (name.starts_with(begin + one)) remove_abandoned(entry->path().string());
    }
    if (!name.starts_with(stem)) continue;
    const size_t ending = name.find_first_not_of("0123456789", stem.size());
    const std::string rest = ending == std::string::npos ? "" : name.substr(ending) + ".";
    if (!rest.starts_with(".caffemodel.") && !rest.starts_with("_ema.caffemodel.") &&
        !rest.starts_with(".solverstate.")) {
      continue;
    }
    const std::string path = entry->path().string();
    if (entry->is_symlink(ignored)) {
      links.push_back(path);
    } else {
      remove_abandoned(path);
    }
  }
  for (const std::string& link : links) remove_abandoned_of(link);
}

}  // namespace crema
