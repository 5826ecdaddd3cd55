// Every kind of source of images, opened by one call.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/databases/open_database.hpp"
#include "data/records/class_names.hpp"

namespace crema {

/// As DataParameter::DB has them.
enum class SourceKind : uint8_t { lmdb, leveldb, image_list, folder, tar };

/// Of "lmdb", "leveldb", "image_list", "folder" and "tar", in any case. Error for others.
SourceKind source_kind(std::string_view name);

/// What is at a path: LMDB or LevelDB (a folder or file of one); a folder that has folders, the
/// classes; a tar file, a pattern of tar files, or a text file with paths of tar files; another
/// text file, a list of images. LMDB where it is none of these, or nothing is there.
SourceKind guess_source_kind(const std::string& path);

struct SourceOptions {
  std::string path;
  SourceKind kind = SourceKind::lmdb;
  std::string root_folder;  // of an image list
  ClassRule class_names;    // of a folder or tar file
  LockMode lock = LockMode::automatic;
  Logger logger;  // receives warnings
};

/// Error for what open_database(), open_image_list(), open_image_folder() and open_tar() refuse,
/// and for settings of another kind of source.
std::shared_ptr<RecordSource> open_source(const SourceOptions& options);

}  // namespace crema
