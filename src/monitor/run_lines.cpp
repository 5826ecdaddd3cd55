#include "monitor/run_lines.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "crema/error.hpp"
#include "model/open_file.hpp"

namespace crema {
namespace {

constexpr size_t kPiece = size_t{1} << 18;
constexpr int64_t kMark = 64;  // bytes of LinePlace::before

/// A file of lines, open for reading.
class LinesFile {
 public:
  explicit LinesFile(const std::string& path) : file_(path, O_RDONLY | O_NONBLOCK) {
    if (file_.is_open() && ::fstat(file_.get(), &status_) != 0) status_ = {};
  }

  bool is_open() const { return file_.is_open(); }
  bool is_regular() const { return S_ISREG(status_.st_mode); }  // a device has no end
  uint64_t inode() const { return status_.st_ino; }
  /// Reads at most so many bytes; -1 with an errno.
  ssize_t read(char* to, size_t bytes, int64_t offset) const {
    ssize_t count = 0;
    do {
      count = ::pread(file_.get(), to, bytes, offset);
    } while (count < 0 && errno == EINTR);
    return count;
  }

 private:
  OpenFile file_;
  struct stat status_ {};
};

}  // namespace

void read_lines(const std::string& path, LinePlace& place,
                const std::function<void(std::string_view)>& body) {
  const LinesFile file(path);
  if (!file.is_open() && errno == ENOENT) return;
  if (!file.is_open()) throw Error("cannot read '", path, "': ", std::strerror(errno)).about(path);
  if (!file.is_regular()) return;
  if (place.file != 0 && file.inode() != place.file)
    return;  // is_another_file() of the next call says so
  place.file = file.inode();
  std::string piece;
  size_t filled = 0;
  while (true) {
    piece.resize(std::max(piece.size(), filled + kPiece));
    const ssize_t count = file.read(piece.data() + filled, piece.size() - filled,
                                    place.offset + static_cast<int64_t>(filled));
    if (count < 0) throw Error("cannot read '", path, "': ", std::strerror(errno)).about(path);
    if (count == 0) return;
    filled += static_cast<size_t>(count);
    const std::string_view all(piece.data(), filled);
    const size_t last = all.rfind('\n');
    if (last == std::string_view::npos) continue;
    for (size_t begin = 0; begin <= last;) {
      const size_t end = all.find('\n', begin);
      ++place.lines;
      body(all.substr(begin, end - begin));
      begin = end + 1;
    }
    place.before += all.substr(0, last + 1).substr(last + 1 - std::min<size_t>(last + 1, kMark));
    place.before.erase(0, place.before.size() - std::min<size_t>(place.before.size(), kMark));
    place.offset += static_cast<int64_t>(last) + 1;
    piece.erase(0, last + 1);
    filled -= last + 1;
  }
}

bool is_another_file(const std::string& path, const LinePlace& place) {
  if (place.file == 0) return false;
  const LinesFile file(path);
  if (!file.is_open() || !file.is_regular() || file.inode() != place.file) return true;
  std::string before(place.before.size(), '\0');
  const ssize_t count =
      file.read(before.data(), before.size(), place.offset - static_cast<int64_t>(before.size()));
  return count != static_cast<ssize_t>(before.size()) || before != place.before;
}

bool goes_back(const RunRecord& record) {
  return record.kind() == RunRecord::START || record.kind() == RunRecord::RESUME;
}

bool makes_void(const RunRecord& later, RunRecord::Kind kind, int iteration) {
  if (later.kind() == RunRecord::START) return true;
  if (later.kind() != RunRecord::RESUME) return false;
  switch (kind) {
    case RunRecord::START:
    case RunRecord::RESUME:
    case RunRecord::NOTE:
      return false;
    case RunRecord::END:
      return true;
    case RunRecord::TEST:
      return iteration >= later.iteration();
    default:
      return iteration > later.iteration();
  }
}

}  // namespace crema
