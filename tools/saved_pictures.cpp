#include "tools/saved_pictures.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "data/records/image_list.hpp"
#include "model/whole_file.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"

DEFINE_string(save_images, "",
              "Of classify: A folder for copies of the images with the names of their classes. Of "
              "detect: A folder for copies of the images with the boxes.");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// Of the file to write: that of the image where pictures of the kind can be written.
std::string extension_for(const fs::path& image) {
  constexpr std::array<std::string_view, 7> kWritten = {"jpg", "jpeg", "png", "bmp",
                                                        "tif", "tiff", "webp"};
  std::string extension = image.extension().string();
  if (extension.starts_with('.')) extension.erase(0, 1);
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::count(kWritten, extension) > 0 ? extension : "png";
}

}  // namespace

SavedPictures::SavedPictures() : folder_(FLAGS_save_images) {
  if (folder_.empty()) {
    if (FLAGS_overwrite) throw Error("--overwrite is for --save_images=FOLDER, which is not given");
    return;
  }
  if (!can_mark_pictures())
    throw Error("--save_images=", folder_,
                ": this build cannot draw on pictures: it was configured with CREMA_OPENCV=OFF; "
                "build with CREMA_OPENCV=ON, or leave the flag out");
  check_new_path(folder_);
}

std::string SavedPictures::new_name(const std::string& path) {
  const fs::path image(path);
  const std::string stem = image.stem().string(), extension = "." + extension_for(image);
  std::string name = stem + extension;
  for (int number = 2; !names_.insert(name).second; ++number)
    name = text(stem, "_", number, extension);
  return name;
}

void SavedPictures::save(const std::string& path, std::span<const PictureMark> marks,
                         const std::vector<std::string>& lines) {
  if (!wanted()) return;
  std::error_code why;
  fs::create_directories(folder_, why);
  if (why)
    throw Error("--save_images=", folder_, ": the folder cannot be made: ", why.message(),
                "; name another one");
  const std::string target = (fs::path(folder_) / new_name(path)).string();
  check_replaced(target, {path});
  read_file_bytes(path, bytes_);
  decoder_.open(bytes_, ColorMode::color);
  const std::string extension = fs::path(target).extension().string().substr(1);
  WholeFile file(target);
  file.append(marked_picture(decoder_.whole(), marks, lines, extension));
  file.finish();
}

}  // namespace crema::tools
