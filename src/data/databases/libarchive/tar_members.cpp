#include "data/databases/libarchive/tar_members.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

constexpr int64_t kBlock = 512;  // of tar files

struct Close {
  void operator()(archive* file) const { archive_read_free(file); }
};

/// Opens a tar file and takes its size and time.
int open_file(const std::string& path, TarFile& file) {
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (number < 0 || ::fstat(number, &status) != 0) {
    const int code = errno;
    if (number >= 0) ::close(number);
    throw Error("cannot open the tar file '", path, "': ", std::strerror(code), path_advice(path))
        .about(path);
  }
  file = {.path = path,
          .bytes = status.st_size,
          .changed = status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
  return number;
}

/// A path in the locale's encoding, or in UTF-8 where that is not possible; "" for none.
std::string path_of(const char* local, const char* utf8) {
  std::string path = local != nullptr ? local : utf8 != nullptr ? utf8 : "";
  while (path.starts_with("./")) path.erase(0, 2);
  return path;
}

TarMember member_of(archive_entry* entry) {
  TarMember member;
  member.path = path_of(archive_entry_pathname(entry), archive_entry_pathname_utf8(entry));
  member.hard_link = path_of(archive_entry_hardlink(entry), archive_entry_hardlink_utf8(entry));
  member.size = archive_entry_size(entry);
  member.has_holes = archive_entry_sparse_reset(entry) > 0;
  member.is_symbolic_link = archive_entry_filetype(entry) == AE_IFLNK;
  return member;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error("tar file '", path, "' is damaged (", why, "); copy it again, or write it anew");
}

/// Error for a file that is evidently of another kind.
void refuse_kind(const std::string& path) {
  const FileKind kind = kind_of_file(path);
  if (kind == FileKind::compressed)
    throw Error("tar file '", path,
                "' is compressed; unpack it (gunzip, unxz, zstd -d), since images are read at "
                "their places in it");
  if (kind != FileKind::binary)
    throw Error("'", path, "' is ", describe(kind), ", and no tar file", way_out_of(kind));
}

/// A tar file ends with blocks of zeros; one that is cut off between two members lacks them.
void check_end(const TarBytes& bytes, const std::string& path, int64_t end) {
  std::string block;
  try {
    bytes.read(end, kBlock, block);
  } catch (const Error&) {
    refuse(path, text("its end mark is missing behind byte ", end, ": it is cut off"));
  }
}

}  // namespace

TarFile list_tar(const std::string& path, const std::function<void(const TarMember&)>& body) {
  TarFile file;
  const int number = open_file(path, file);
  ::close(number);
  const std::unique_ptr<archive, Close> tar(archive_read_new());
  archive_read_support_format_tar(tar.get());
  archive_read_set_option(tar.get(), "tar", "read_concatenated_archives", "1");
  const auto check = [&](int code, bool first) {
    if (code == ARCHIVE_OK || code == ARCHIVE_WARN) return;
    const char* text = archive_error_string(tar.get());
    if (first) refuse_kind(path);
    refuse(path, text == nullptr ? "its format is not known" : text);
  };
  check(archive_read_open_filename(tar.get(), path.c_str(), size_t{1} << 16), true);

  int64_t end = 0;
  archive_entry* entry = nullptr;
  for (bool first = true;; first = false) {
    const int code = archive_read_next_header(tar.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    check(code, first);
    TarMember member = member_of(entry);
    member.offset = archive_filter_bytes(tar.get(), 0);
    const bool is_link = member.is_symbolic_link || !member.hard_link.empty();
    const bool is_file = archive_entry_filetype(entry) == AE_IFREG && !is_link;
    if (is_file && !member.has_holes) {
      // The padding to whole blocks belongs to the file, too.
      const int64_t room = (file.bytes - member.offset) / kBlock * kBlock;
      if (member.size < 0 || member.size > room)
        refuse(path, text("'", member.path, "' of ", member.size, " bytes reaches beyond its end"));
      end = member.offset + (member.size + kBlock - 1) / kBlock * kBlock;
    } else {
      check(archive_read_data_skip(tar.get()), false);
      end = archive_filter_bytes(tar.get(), 0);
    }
    if (is_file || is_link) body(member);
  }
  check_end(TarBytes(file), path, end);
  return file;
}

TarBytes::TarBytes(const TarFile& file) : path_(file.path) {
  TarFile now;
  file_ = open_file(path_, now);
  if (now.bytes == file.bytes && now.changed == file.changed) return;
  ::close(file_);
  throw Error("tar file '", path_, "' was changed while it is read; start again");
}

TarBytes::~TarBytes() { ::close(file_); }

void TarBytes::read(int64_t offset, int64_t size, std::string& bytes) const {
  bytes.resize(static_cast<size_t>(size));
  int64_t done = 0;
  while (done < size) {
    const auto rest = static_cast<size_t>(size - done);
    const ssize_t got = ::pread(file_, bytes.data() + done, rest, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error("cannot read tar file '", path_,
                  "': ", got < 0 ? std::strerror(errno) : "it ends too early");
    done += got;
  }
}

}  // namespace crema
