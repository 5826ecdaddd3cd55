#include "data/databases/image_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "crema/error.hpp"
#include "model/whole_file.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

/// `path` without a '/' at its end. Error unless it is new, or an empty folder.
fs::path new_folder(const std::string& path) {
  if (path.empty()) throw Error("the folder for the images has no name");
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "images/"
  std::error_code code;
  // A link stands for the folder that it leads to: a folder cannot take a link's name.
  if (fs::is_directory(folder, code)) {
    folder = fs::canonical(folder, code);
    if (folder == fs::current_path(code))
      throw Error("the images cannot take the place of the folder '", folder.string(),
                  "', which this command runs in; name a new one");
  }
  if (fs::exists(fs::symlink_status(folder, code)) &&
      !(fs::is_directory(folder, code) && fs::is_empty(folder, code)))
    throw Error("'", folder.string(),
                "' exists already and is not an empty folder; name a new one");
  return folder;
}

void check(const fs::path& path, int reason) {
  if (reason != 0)
    throw Error("cannot write '", path.string(), "': ", std::strerror(reason),
                hint_for_disk(reason));
}

}  // namespace

ImageWriter::ImageWriter(const std::string& path)
    : path_(new_folder(path)), folder_(path_, text("'", path_.string(), "'")) {}

ImageWriter::~ImageWriter() {
  std::error_code ignored;
  fs::remove_all(folder_.fresh(), ignored);
}

void ImageWriter::write(const std::string& name, std::string_view bytes) const {
  const fs::path file = folder_.fresh() / name;
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  check(path_ / name, failed.value());
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) check(path_ / name, errno);
  int reason = write_all(descriptor, bytes);
  if (::close(descriptor) != 0 && reason == 0) reason = errno;
  check(path_ / name, reason);
}

void ImageWriter::finish() {
  // All files of the disk at once: one by one takes longer than to write them.
  const int descriptor = ::open(folder_.fresh().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) check(path_, errno);
  const int reason = ::syncfs(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  check(path_, reason);
  std::error_code failed;
  folder_.take_name(failed);
  check(path_, failed.value());
  folder_.sync_name();
}

}  // namespace crema
