#include "tools/database_flags.hpp"

#include <omp.h>

#include <iterator>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "data/databases/open_source.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"

DEFINE_string(backend, "lmdb",
              "Kind of the database: lmdb or leveldb. Commands that read also take image_list, "
              "folder and tar; without this flag they look what is there.");
DEFINE_string(root_folder, "", "Of an image list: goes before every path.");
DEFINE_string(class_names, "",
              "Of a folder of classes, tar files or boxes of YOLO: file with the names of the "
              "classes in the order of their labels, a line each, or as `names` of a YAML file.");
DEFINE_bool(force_color, false, "Decode compressed images to three channels.");
DEFINE_bool(force_gray, false, "Decode compressed images to one channel.");

namespace crema::tools {

std::shared_ptr<RecordSource> open_database_argument(const std::string& path) {
  if (const int threads = threads_flag(); threads > 0) omp_set_num_threads(threads);
  return open_source(
      {.path = path,
       .kind = is_given("backend") ? source_kind(FLAGS_backend) : guess_source_kind(path),
       .root_folder = FLAGS_root_folder,
       .class_names = FLAGS_class_names,
       .logger = [](Severity severity, const std::string& message) { say(severity, message); }});
}

std::string name_behind(int64_t label, const LabelNames& map,
                        const std::vector<std::string>& classes) {
  std::string name;
  if (!map.empty()) {
    const auto number = static_cast<int32_t>(label);
    if (map.has(number)) name = map.name(number);
  } else if (label >= 0 && label < std::ssize(classes)) {
    name = classes[static_cast<size_t>(label)];
  }
  return name.empty() ? "" : " (" + printable(name) + ")";
}

ColorMode color_flag() {
  exclusive_flags("force_color", FLAGS_force_color, "force_gray", FLAGS_force_gray);
  if (FLAGS_force_color) return ColorMode::color;
  return FLAGS_force_gray ? ColorMode::gray : ColorMode::as_stored;
}

}  // namespace crema::tools
