#include "data/records/image_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "data/images/image_name.hpp"
#include "data/records/image_list.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLayout = "it has to hold a folder of images for each class";

/// What is passed over: how many, and the first of them.
struct Passed {
  int64_t count = 0;
  std::string first;
  void add(const std::string& name) {
    if (++count == 1 || name < first) first = name;
  }
  void tell(const Logger& logger, const std::string& source, const char* what) const {
    if (count > 0 && logger)
      logger(Severity::warning, text(source, ": ", count, " ", what, ", such as '", first, "'"));
  }
};

/// Calls body(entry, name) for what is in a folder and not hidden.
template <class Body>
void each_entry(const fs::path& folder, const Body& body) {
  std::error_code code;
  fs::directory_iterator at(folder, code);
  for (; !code && at != fs::directory_iterator(); at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with('.')) body(*at, name);
  }
  if (code)
    throw Error("cannot read the folder '", folder.string(), "': ", code.message())
        .about(folder.string());
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

void check_folder(const std::string& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code))
    throw Error("data source '", folder, "' is no folder", code ? ": " + code.message() : "",
                path_advice(folder, kLayout))
        .about(folder);
}

}  // namespace

std::vector<std::string> folders_of_classes(const std::string& folder) {
  check_folder(folder);
  std::vector<std::string> names;
  each_entry(folder, [&](const fs::directory_entry& entry, const std::string& name) {
    if (is_folder(entry)) names.push_back(name);
  });
  std::ranges::sort(names);
  return names;
}

ImageFiles list_image_folder(const std::string& folder, const ClassRule& rule,
                             const Logger& logger) {
  const std::string source = "folder '" + folder + "'";
  check_folder(folder);
  Passed outside, nested, others, empty;
  std::map<std::string, std::vector<std::string>> files;  // of each class
  each_entry(folder, [&](const fs::directory_entry& entry, const std::string& name) {
    if (!is_folder(entry)) return outside.add(name);
    std::vector<std::string> images;
    each_entry(entry.path(), [&](const fs::directory_entry& inner, const std::string& file) {
      const std::string path = name + "/" + file;
      if (is_folder(inner)) {
        nested.add(path);
      } else if (is_image_name(file)) {
        images.push_back(path);
      } else {
        others.add(path);
      }
    });
    std::ranges::sort(images);
    if (images.empty()) empty.add(name);
    files.emplace(name, std::move(images));
  });
  outside.tell(logger, source, "files lie outside of the classes' folders and are not read");
  nested.tell(logger, source, "folders lie in a class's folder and are not read");
  others.tell(logger, source, "files are no images by their names and are not read");
  empty.tell(logger, source, "classes have no image");

  std::set<std::string> classes;
  for (const auto& [name, images] : files) classes.insert(name);
  if (empty.count == static_cast<int64_t>(classes.size()))
    throw Error(source, classes.empty() ? " has no folders" : " has no image in its folders", "; ",
                kLayout);
  ImageFiles all{.name = source, .list = {}, .root = folder, .images = {}};
  all.class_names = classes_in_order(classes, rule, source, logger);
  const auto labels = labels_by_name(all.class_names);
  for (auto& [name, images] : files) {
    for (std::string& file : images) {
      ListedImage& image = all.images.emplace_back();
      image.file = std::move(file);
      image.label = labels.at(name);
    }
  }
  return all;
}

std::shared_ptr<RecordSource> open_image_folder(const std::string& folder, const ClassRule& rule,
                                                const Logger& logger) {
  return open_image_files(list_image_folder(folder, rule, logger));
}

}  // namespace crema
