#include "data/converters/gzip_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "model/file_kind.hpp"

namespace crema {

GzipFile::GzipFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
  if (file_ == nullptr) {
    throw Error("cannot open '", path, "': ", std::strerror(errno), path_advice(path)).about(path);
  }
  refuse_stand_in(path, "file of a data set");
}

size_t GzipFile::read(std::span<uint8_t> bytes) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // zlib counts in int
  size_t done = 0;
  while (done < bytes.size()) {
    const size_t wanted = std::min(bytes.size() - done, kMostAtOnce);
    const int got = gzread(file_.get(), bytes.data() + done, static_cast<unsigned>(wanted));
    int code = Z_OK;
    std::string text = gzerror(file_.get(), &code);
    if (text.starts_with(path_ + ": ")) text.erase(0, path_.size() + 2);
    // A cut gzip stream reads as far as it goes, and says Z_BUF_ERROR.
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
      throw Error("'", path_, "' is damaged (", text, "); get the file again");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

std::string plain_or_gzip(const std::string& folder, const std::string& name,
                          std::string_view way_out) {
  const std::string plain = std::filesystem::path(folder) / name;
  for (const char* ending : {"", ".gz"}) {
    if (std::filesystem::exists(plain + ending)) return plain + ending;
  }
  throw Error("there is neither '", plain, "' nor '", name, ".gz'", way_out, path_advice(folder))
      .about(plain);
}

}  // namespace crema
