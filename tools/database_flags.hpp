// What the commands that read a database share.
#pragma once

#include <gflags/gflags.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/boxes/label_map.hpp"
#include "data/images/image.hpp"
#include "data/records/record_source.hpp"

DECLARE_string(backend);
DECLARE_bool(force_color);
DECLARE_bool(force_gray);

namespace crema::tools {

/// Opens the database, or other source of images, at `path` for reading; --backend says what the
/// caller takes it for, and without it a look at the path. Sets the number of threads that
/// --threads asks for.
std::shared_ptr<RecordSource> open_database_argument(const std::string& path);

/// " (NAME)", to stand behind a label; "" for one without a name. Names are those of the map of
/// --label_map_file; without one, those of the database's classes.
std::string name_behind(int64_t label, const LabelNames& map,
                        const std::vector<std::string>& classes);

/// Channels that --force_color and --force_gray ask for.
ColorMode color_flag();

}  // namespace crema::tools
