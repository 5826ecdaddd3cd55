#include "model/text_file.hpp"

#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/sync_folder.hpp"
#include "crema/error.hpp"
#include "model/binary_format.hpp"

namespace crema {

std::string text_of_proto(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(false);
  printer.SetPrintMessageFieldsInIndexOrder(false);
  std::string text;
  if (!printer.PrintToString(message, &text)) throw Error("a message cannot be written as text");
  return text;
}

void write_text_atomically(const std::string& path, std::string_view text) {
  const std::string beside = unfinished_path(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const auto fail = [&](int reason) {
    if (file >= 0) {
      ::close(file);
      ::unlink(beside.c_str());
    }
    throw Error(
        "cannot write '", path, "': ", std::strerror(reason),
        reason == ENOENT ? concat("; create the folder '", folder.string(), "' first") : "");
  };
  if (file < 0) fail(errno);
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  if (::fsync(file) != 0) fail(errno);
  if (::rename(beside.c_str(), path.c_str()) != 0) fail(errno);
  ::close(file);
  sync_folder(folder);
}

}  // namespace crema
