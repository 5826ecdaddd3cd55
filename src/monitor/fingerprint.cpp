#include "monitor/fingerprint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "model/checksum.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

void add_text(Checksum& sum, std::string_view text) {
  const uint64_t size = text.size();
  sum.add(&size, sizeof size);
  sum.add(text.data(), text.size());
}

/// Size, and pieces of the beginning, the middle and the end. False if it cannot be read.
bool add_file(Checksum& sum, const std::string& path) {
  constexpr off_t kPiece = 16384;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat is {};
  const bool known = ::fstat(file, &is) == 0;
  const uint64_t size = static_cast<uint64_t>(is.st_size);
  sum.add(&size, sizeof size);
  std::array<char, kPiece> buffer;
  for (const off_t begin : {off_t{0}, (is.st_size - kPiece) / 2, is.st_size - kPiece}) {
    const ssize_t count = ::pread(file, buffer.data(), buffer.size(), std::max<off_t>(begin, 0));
    if (count > 0) sum.add(buffer.data(), static_cast<size_t>(count));
  }
  ::close(file);
  return known;
}

/// Files that readers of a database write: locks and logs.
bool changes_by_reading(const std::string& name) {
  return name == "lock.mdb" || name == "LOCK" || name.starts_with("LOG");
}

/// Of a folder within: a sum over names, in any order, and over the size of one in 64.
uint64_t sum_within(const fs::path& folder) {
  uint64_t all = 0;
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         failed);
  for (const fs::recursive_directory_iterator end; !failed && entry != end;
       entry.increment(failed)) {
    Checksum one;
    add_text(one, entry->path().lexically_relative(folder).string());
    const uint64_t name = one.value();
    all += name;
    if (name % 64 != 0) continue;
    std::error_code none;
    const uint64_t size = entry->is_regular_file(none) ? entry->file_size(none) : 0;
    one.add(&size, sizeof size);
    all += one.value();
  }
  return all;
}

void add_folder(Checksum& sum, const std::string& folder) {
  std::vector<fs::path> files, folders;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code none;
    (entry->is_directory(none) ? folders : files).push_back(entry->path());
  }
  std::ranges::sort(files);
  std::ranges::sort(folders);
  constexpr size_t kRead = 64;  // files
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = files[i].filename().string();
    if (changes_by_reading(name)) continue;
    add_text(sum, name);
    if (i < kRead) add_file(sum, files[i].string());
  }
  for (const fs::path& one : folders) {
    add_text(sum, one.filename().string());
    const uint64_t within = sum_within(one);
    sum.add(&within, sizeof within);
  }
}

}  // namespace

std::string data_fingerprint(const std::string& path) {
  std::error_code unknown;
  Checksum sum;
  if (fs::is_directory(path, unknown)) {
    add_folder(sum, path);
  } else if (!fs::is_regular_file(path, unknown) || !add_file(sum, path)) {
    return {};
  }
  std::array<char, 17> digits;
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64, sum.value());
  return digits.data();
}

}  // namespace crema
