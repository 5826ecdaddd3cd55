#include "data/databases/open_source.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "crema/error.hpp"
#include "data/databases/database_folder.hpp"
#include "data/databases/tar_source.hpp"
#include "data/records/image_folder.hpp"
#include "data/records/image_list.hpp"
#include "data/records/text_list.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

constexpr std::pair<const char*, SourceKind> kKinds[] = {{"lmdb", SourceKind::lmdb},
                                                         {"leveldb", SourceKind::leveldb},
                                                         {"image_list", SourceKind::image_list},
                                                         {"folder", SourceKind::folder},
                                                         {"tar", SourceKind::tar}};

bool has_folders(const fs::path& folder) {
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && !at->path().filename().native().starts_with('.')) return true;
  }
  return false;
}

bool has_tar_mark(const std::string& path) {
  constexpr std::string_view kMark = "ustar";
  std::string mark(kMark.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(257).read(mark.data(), static_cast<std::streamsize>(mark.size()));
  return mark == kMark;
}

bool lists_tar_files(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (const std::string_view text = trimmed(line); !text.empty()) return text.ends_with(".tar");
  }
  return false;
}

}  // namespace

SourceKind source_kind(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::vector<std::string> names;
  for (const auto& [known, kind] : kKinds) {
    if (lower == known) return kind;
    names.emplace_back(known);
  }
  throw Error("backend '", name, "' is unknown", did_you_mean(lower, names, "there are"));
}

SourceKind guess_source_kind(const std::string& path) {
  std::error_code code;
  const fs::path place = path;
  if (fs::is_directory(place, code)) {
    if (fs::exists(place / "data.mdb", code)) return SourceKind::lmdb;
    if (fs::exists(place / "CURRENT", code)) return SourceKind::leveldb;
    return has_folders(place) ? SourceKind::folder : SourceKind::lmdb;
  }
  // open_tar() says how to unpack compressed ones.
  const std::string name = place.filename().string();
  if (name.ends_with(".tar") || name.ends_with(".tgz") || name.find(".tar.") != std::string::npos)
    return SourceKind::tar;
  if (!fs::is_regular_file(place, code) || is_database_file(name)) return SourceKind::lmdb;
  const FileKind kind = kind_of_file(path);
  refuse_stand_in(path, "data source");
  if (has_tar_mark(path)) return SourceKind::tar;
  if (kind != FileKind::text && kind != FileKind::empty) return SourceKind::lmdb;
  return lists_tar_files(path) ? SourceKind::tar : SourceKind::image_list;
}

std::shared_ptr<RecordSource> open_source(const SourceOptions& options) {
  const SourceKind kind = options.kind;
  if (!options.root_folder.empty() && kind != SourceKind::image_list)
    throw Error("root_folder is for lists of images, and '", options.path,
                "' is opened as another kind of source; remove it");
  if (!options.class_names.file.empty() && kind != SourceKind::folder && kind != SourceKind::tar &&
      kind != SourceKind::image_list)
    throw Error("class_names is for folders of classes, lists and tar files, and '", options.path,
                "' is opened as another kind of source; remove it");
  switch (kind) {
    case SourceKind::image_list:
      return open_image_list(options.path, options.root_folder, options.class_names.file);
    case SourceKind::folder:
      return open_image_folder(options.path, options.class_names, options.logger);
    case SourceKind::tar:
      return open_tar(options.path, options.class_names, options.logger);
    case SourceKind::lmdb:
    case SourceKind::leveldb:
      break;
  }
  return open_database(
      {.path = options.path,
       .kind = kind == SourceKind::leveldb ? DatabaseKind::leveldb : DatabaseKind::lmdb,
       .lock = options.lock,
       .logger = options.logger});
}

}  // namespace crema
