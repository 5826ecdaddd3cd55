#include "data/converters/yolo_layout.hpp"

#include <algorithm>
#include <filesystem>

#include "core/split_list.hpp"
#include "crema/error.hpp"
#include "data/images/image_name.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

/// The folders in a folder that are named as parts of a data set, sorted.
std::vector<std::string> sets_in(const fs::path& folder) {
  std::vector<std::string> sets;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    const bool is_set =
        name.starts_with("train") || name.starts_with("val") || name.starts_with("test");
    if (is_set && at->is_directory(ignored)) sets.push_back("'" + name + "'");
  }
  std::ranges::sort(sets);
  return sets;
}

}  // namespace

std::string yolo_labels(const std::string& image) {
  fs::path path = fs::path(image).replace_extension(".txt");
  std::vector<fs::path> parts(path.begin(), path.end());
  const auto last = std::ranges::find(parts.rbegin(), parts.rend(), fs::path("images"));
  if (last == parts.rend()) return path.string();
  *last = "labels";
  fs::path moved;
  for (const fs::path& part : parts) moved /= part;
  return moved.string();
}

bool is_below_images(const std::string& image) {
  return std::ranges::count(fs::path(image).parent_path(), fs::path("images")) > 0;
}

bool is_yolo_folder(const std::string& folder) {
  std::error_code ignored;
  return fs::is_directory(fs::path(folder) / "images", ignored) &&
         fs::is_directory(fs::path(folder) / "labels", ignored);
}

std::vector<std::string> yolo_images(const std::string& folder) {
  std::error_code code;
  const fs::path below = fs::path(folder) / "images";
  const fs::path base = fs::is_directory(below, code) ? below : fs::path(folder);
  if (const auto sets = sets_in(base); sets.size() > 1)
    throw Error("folder '", base.string(), "' has several sets, ", joined(sets),
                "; give the folder of one, such as '",
                (base / sets.front().substr(1, sets.front().size() - 2)).string(), "'");
  std::vector<std::string> images;
  code.clear();
  for (fs::recursive_directory_iterator at(base, code), end; !code && at != end;
       at.increment(code)) {
    std::error_code ignored;
    if (is_hidden(at->path())) {
      if (at->is_directory(ignored)) at.disable_recursion_pending();
    } else if (is_image_name(at->path().native()) && !at->is_directory(ignored)) {
      images.push_back(at->path().lexically_relative(folder).string());
    }
  }
  if (code)
    throw Error("cannot read the folder '", base.string(), "': ", code.message())
        .about(base.string());
  if (images.empty())
    throw Error("folder '", base.string(), "' has no image files (.jpg, .png, ...)");
  std::ranges::sort(images);
  return images;
}

}  // namespace crema
