#include "monitor/fingerprint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <optional>
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

// What a fingerprint may read: the start of a run waits for it.
constexpr off_t kWhole = off_t{4} << 20U;  // bytes of a file that is read as a whole, as lists are
constexpr size_t kRead = 16;               // files of a folder
constexpr size_t kMostEntries = 4000;      // of a folder and of those in it, together

/// Size, and all bytes of a file that is not large, as a list; of others pieces of the beginning,
/// the middle and the end. False if it cannot be read. `left`: bytes that may be read as a whole.
bool add_file(Checksum& sum, const std::string& path, off_t& left) {
  constexpr off_t kPiece = 16384;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat is {};
  const bool known = ::fstat(file, &is) == 0;
  const uint64_t size = static_cast<uint64_t>(is.st_size);
  sum.add(&size, sizeof size);
  std::array<char, kPiece> buffer;
  const auto add_piece = [&](off_t begin) {
    const ssize_t count = ::pread(file, buffer.data(), buffer.size(), std::max<off_t>(begin, 0));
    if (count > 0) sum.add(buffer.data(), static_cast<size_t>(count));
    return count > 0;
  };
  if (is.st_size <= left) {
    left -= is.st_size;
    for (off_t begin = 0; begin < is.st_size && add_piece(begin); begin += kPiece) {
    }
  } else {
    for (const off_t begin : {off_t{0}, (is.st_size - kPiece) / 2, is.st_size - kPiece})
      add_piece(begin);
  }
  ::close(file);
  return known;
}

/// Files that readers of a database write: locks and logs.
bool changes_by_reading(const std::string& name) {
  return name == "lock.mdb" || name == "LOCK" || name.starts_with("LOG");
}

/// Of the names within a folder, in any order; none where there are more than `left`, which falls.
std::optional<uint64_t> sum_within(const std::string& folder, size_t& left) {
  uint64_t all = 0;
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         failed);
  for (const fs::recursive_directory_iterator end; !failed && entry != end;
       entry.increment(failed)) {
    if (left-- == 0) return {};
    Checksum one;
    add_text(one, std::string_view(entry->path().native()).substr(folder.size()));
    all += one.value();
  }
  return all;
}

/// False where the folder itself has too many entries.
bool add_folder(Checksum& sum, const std::string& folder) {
  std::vector<fs::path> files, folders;
  size_t left = kMostEntries;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (left-- == 0) return false;
    std::error_code none;
    (entry->is_directory(none) ? folders : files).push_back(entry->path());
  }
  std::ranges::sort(files);
  std::ranges::sort(folders);
  off_t bytes = kWhole;
  size_t read = 0;
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    if (changes_by_reading(name)) continue;
    add_text(sum, name);
    if (read++ < kRead) add_file(sum, file.string(), bytes);
  }
  for (const fs::path& one : folders) add_text(sum, one.filename().string());
  for (const fs::path& one : folders) {
    const std::optional<uint64_t> within = sum_within(one.string(), left);
    if (!within) break;  // the same folders of the same data give up at the same place
    sum.add(&*within, sizeof *within);
  }
  return true;
}

}  // namespace

std::string data_fingerprint(const std::string& path) {
  std::error_code unknown;
  Checksum sum;
  if (fs::is_directory(path, unknown)) {
    if (!add_folder(sum, path)) return {};
  } else {
    off_t bytes = kWhole;
    if (!fs::is_regular_file(path, unknown) || !add_file(sum, path, bytes)) return {};
  }
  std::array<char, 17> digits;
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64, sum.value());
  return digits.data();
}

}  // namespace crema
