#include "model/file_kind.hpp"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/wire_format_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <system_error>
#include <vector>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "proto/blob.pb.h"
#include "proto/datum.pb.h"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using namespace std::string_view_literals;

struct Mark {
  std::string_view bytes;
  size_t offset;
  FileKind kind;
  std::string_view image = {};  // as names of such images end
};

constexpr std::string_view kZip = "PK\x03\x04"sv;

constexpr Mark kMarks[] = {
    {"\x89HDF\r\n\x1A\n"sv, 0, FileKind::hdf5},
    {"\xFF\xD8\xFF"sv, 0, FileKind::image, "jpg"},
    {"\x89PNG\r\n\x1A\n"sv, 0, FileKind::image, "png"},
    {"GIF8"sv, 0, FileKind::image, "gif"},
    {"BM"sv, 0, FileKind::image, "bmp"},
    {"II*\0"sv, 0, FileKind::image, "tif"},
    {"MM\0*"sv, 0, FileKind::image, "tif"},
    {"WEBP"sv, 8, FileKind::image, "webp"},
    {"\0\0\0\x0CjP  "sv, 0, FileKind::image, "jp2"},
    {"\xFF\x4F\xFF\x51"sv, 0, FileKind::image, "jp2"},
    {"\x1F\x8B"sv, 0, FileKind::compressed},
    {"BZh"sv, 0, FileKind::compressed},
    {"\xFD\x37zXZ"sv, 0, FileKind::compressed},
    {"\x28\xB5\x2F\xFD"sv, 0, FileKind::compressed},
    {kZip, 0, FileKind::compressed},
    {"7z\xBC\xAF"sv, 0, FileKind::compressed},
    {"\xDE\xC0\xEF\xBE"sv, 16, FileKind::lmdb},
    {"\x80\x02\x8A\x0Al\xFC\x9C\x46\xF9 j\xA8P\x19"sv, 0, FileKind::pytorch},  // up to 1.5
    {"\xFF\xFE"sv, 0, FileKind::wide_text},
    {"\xFE\xFF"sv, 0, FileKind::wide_text},
};

// The mark that the file begins with, or null.
const Mark* find_mark(std::string_view head) {
  const auto* found = std::find_if(std::begin(kMarks), std::end(kMarks), [&](const Mark& mark) {
    return head.size() > mark.offset && head.substr(mark.offset).starts_with(mark.bytes);
  });
  return found != std::end(kMarks) ? found : nullptr;
}

std::string_view without_blank(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n\f\v");
  return first == std::string_view::npos ? "" : text.substr(first);
}

bool begins_with_word(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         std::equal(lower_case.begin(), lower_case.end(), text.begin(), [](char lower, char c) {
           return lower == static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
         });
}

// Whether a text is what a server sends a browser, or that there is no such file.
bool is_web_page(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text = without_blank(text);
  if (text.starts_with("404: Not Found")) return true;
  if (begins_with_word(text, "<?xml")) {
    text = without_blank(text.substr(std::min(text.find('>'), text.size() - 1) + 1));
    if (begins_with_word(text, "<error>")) return true;  // of stores of files
  }
  while (text.starts_with("<!--")) {
    const size_t end = text.find("-->");
    if (end == std::string_view::npos) return false;
    text = without_blank(text.substr(end + 3));
  }
  constexpr std::string_view kBegins[] = {"<!doctype html", "<html", "<head", "<body", "<script"};
  return std::ranges::any_of(kBegins,
                             [&](std::string_view begin) { return begins_with_word(text, begin); });
}

// Of a file without binary bytes.
FileKind kind_of_text(std::string_view head) {
  if (head.starts_with("version https://git-lfs.github.com/spec/")) return FileKind::lfs_pointer;
  return is_web_page(head) ? FileKind::web_page : FileKind::text;
}

// Whether the byte is a control character that no text file holds.
bool is_binary(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  const bool white_space = code >= '\t' && code <= '\r';
  return code < 0x20 && !white_space;
}

bool contains(std::string_view head, std::string_view part) {
  return head.find(part) != std::string_view::npos;
}

// Of a zip file: its first entries tell whose it is.
FileKind kind_of_zip(std::string_view head) {
  if (contains(head, "/data.pkl") || contains(head, "/constants.pkl")) return FileKind::pytorch;
  const bool is_keras = contains(head, "metadata.json") && contains(head, "keras_version");
  return is_keras ? FileKind::keras : FileKind::compressed;
}

// Eight bytes with the size of a header in JSON, which names types of tensors.
bool is_safetensors(std::string_view head) {
  constexpr size_t kSizeBytes = 8;
  return head.size() > kSizeBytes && head[kSizeBytes] == '{' && head[kSizeBytes - 1] == '\0' &&
         (contains(head, "\"dtype\"") || contains(head, "\"__metadata__\""));
}

// One top-level field of a binary message.
using Field = std::pair<int, WireFormatLite::WireType>;

// The top-level fields of a binary message; empty when it is none.
std::set<Field> top_level_fields(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  google::protobuf::io::FileInputStream stream(file);
  stream.SetCloseOnDelete(true);
  google::protobuf::io::CodedInputStream input(&stream);
  input.SetTotalBytesLimit(std::numeric_limits<int>::max());
  std::set<Field> fields;
  while (const uint32_t tag = input.ReadTag()) {
    fields.emplace(WireFormatLite::GetTagFieldNumber(tag), WireFormatLite::GetTagWireType(tag));
    if (!WireFormatLite::SkipField(&input, tag)) return {};
  }
  return input.ConsumedEntireMessage() ? fields : std::set<Field>();
}

// Whether all of the fields are the message's own.
bool fits(const std::set<Field>& fields, const Descriptor& message) {
  return std::all_of(fields.begin(), fields.end(), [&](const Field& field) {
    const FieldDescriptor* own = message.FindFieldByNumber(field.first);
    if (own == nullptr) return false;
    const auto type = static_cast<WireFormatLite::FieldType>(own->type());
    const bool packed = own->is_packable() && own->is_repeated() &&
                        field.second == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    return packed || WireFormatLite::WireTypeForFieldType(type) == field.second;
  });
}

bool has(const std::set<Field>& fields, int number) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const Field& field) { return field.first == number; });
}

// The names of what lies in a folder, in order; none when it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string advice_for_folder(const std::string& path, std::string_view extension) {
  for (const std::string& name : names_in(path)) {
    if (name.ends_with(extension))
      return "name a file, such as '" + (path / fs::path(name)).string() + "'";
  }
  return text("name a file; this folder has none that ends in ", extension);
}

std::string advice_for_missing(const fs::path& path, std::string_view elsewhere) {
  const std::string written = path_advice(path.string());
  if (!written.empty()) return written;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return text("; there is no folder '", folder.string(), "'", elsewhere);
  }
  const std::string near = nearest_name(path.filename().string(), names_in(folder));
  if (!near.empty()) return "; did you mean '" + path.parent_path().append(near).string() + "'?";
  return text("; relative paths start from '", fs::current_path(error).string(), "'", elsewhere);
}

}  // namespace

std::string_view image_type(std::string_view head) {
  if (const Mark* mark = find_mark(head)) return mark->image;
  // A letter, a digit and white space are no mark: many texts begin so.
  const bool is_pnm = head.size() > 2 && head[0] == 'P' && head[1] >= '1' && head[1] <= '6' &&
                      std::isspace(static_cast<unsigned char>(head[2])) != 0;
  return is_pnm ? "pnm" : "";
}

FileKind kind_of(std::string_view head) {
  if (head.empty()) return FileKind::empty;
  // Every marked kind has control characters too, while a text may begin with a mark's letters.
  if (std::none_of(head.begin(), head.end(), is_binary)) return kind_of_text(head);
  if (head.starts_with(kZip)) return kind_of_zip(head);
  if (const Mark* mark = find_mark(head)) return mark->kind;
  return is_safetensors(head) ? FileKind::safetensors : FileKind::binary;
}

FileKind kind_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error("cannot open '", path, "': ", std::strerror(errno), path_advice(path)).about(path);
  std::string head(kFileHeadSize, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return kind_of(head);
}

std::string_view describe(FileKind kind) {
  switch (kind) {
    case FileKind::empty:
      return "an empty file";
    case FileKind::text:
      return "a text file";
    case FileKind::wide_text:
      return "a text in UTF-16";
    case FileKind::hdf5:
      return "an HDF5 file";
    case FileKind::image:
      return "an image";
    case FileKind::compressed:
      return "a compressed file";
    case FileKind::pytorch:
      return "a file of PyTorch";
    case FileKind::safetensors:
      return "a safetensors file";
    case FileKind::keras:
      return "a model of Keras";
    case FileKind::lmdb:
      return "the data file of an LMDB";
    case FileKind::lfs_pointer:
      return "a Git LFS pointer in the place of the file";
    case FileKind::web_page:
      return "a web page";
    case FileKind::binary:
      return "a binary file";
  }
  return "";
}

bool is_foreign(FileKind kind) {
  return kind == FileKind::pytorch || kind == FileKind::safetensors || kind == FileKind::keras;
}

std::string_view way_to_convert() {
  return "; scripts/from_torchvision.py converts those of torchvision's nets, also from a .pth of "
         "yours (--weights); others are copied in Python, array by array, as by "
         "net.params['conv1'][0].data[...] = weights, and written by net.save('x.caffemodel')";
}

std::string way_out_of(FileKind kind) {
  if (kind == FileKind::lfs_pointer)
    return "; fetch the file itself: git lfs pull in its repository, or download it again";
  if (kind == FileKind::web_page)
    return "; download it again: the address led to a page, and not to the file itself (of a file "
           "on GitHub, take the raw one)";
  return "";
}

void refuse_stand_in(const std::string& path, std::string_view wanted) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return;
  const FileKind kind = kind_of_file(path);
  if (const std::string way_out = way_out_of(kind); !way_out.empty())
    throw Error("'", path, "' is not a ", wanted, " but ", describe(kind), way_out);
}

std::string_view describe(const Descriptor& message) {
  if (&message == NetParameter::descriptor()) return "weights file";
  if (&message == SolverState::descriptor()) return "solver's state";
  if (&message == BlobProto::descriptor()) return "mean file";
  if (&message == Datum::descriptor()) return "record of a database";
  return "binary protocol buffer";
}

const Descriptor* guess_message(const std::string& path) {
  const std::set<Field> fields = top_level_fields(path);
  if (fields.empty()) return nullptr;
  const bool has_layers =
      has(fields, NetParameter::kLayerFieldNumber) || has(fields, NetParameter::kLayersFieldNumber);
  if (has_layers && fits(fields, *NetParameter::descriptor())) return NetParameter::descriptor();
  for (const Descriptor* message :
       {SolverState::descriptor(), BlobProto::descriptor(), Datum::descriptor()}) {
    if (fits(fields, *message)) return message;
  }
  return nullptr;
}

void require_file(const std::string& path, std::string_view wanted, std::string_view extension,
                  std::string_view elsewhere) {
  if (path.empty()) throw Error("no ", wanted, " is named: the path is empty");
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) {
    const int reason = errno;
    throw Error("cannot open ", wanted, " '", path, "': ", std::strerror(reason),
                reason == ENOENT ? advice_for_missing(path, elsewhere) : std::string())
        .about(path);
  }
  if (S_ISDIR(status.st_mode)) {
    throw Error("cannot open ", wanted, " '", path, "': it is a folder; ",
                advice_for_folder(path, extension))
        .about(path);
  }
}

}  // namespace crema
