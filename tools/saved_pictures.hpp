// --save_images: copies of images with what a net sees in them.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/images/image_decoder.hpp"
#include "data/images/picture_marks.hpp"

namespace crema::tools {

class SavedPictures {
 public:
  /// Of the flag --save_images; none are saved where it is not given. Error where this build cannot
  /// draw.
  SavedPictures();

  bool wanted() const { return !folder_.empty(); }
  /// Writes the image at `path` to the folder, under its own name; a number is added where another
  /// image has that name, and images of kinds other than jpg, png, bmp, tif and webp become png.
  /// Error if the file exists, but with --overwrite, or if the folder cannot be made.
  void save(const std::string& path, std::span<const PictureMark> marks,
            const std::vector<std::string>& lines);

 private:
  std::string new_name(const std::string& path);

  std::string folder_;
  std::set<std::string> names_;
  ImageDecoder decoder_;
  std::string bytes_;
};

}  // namespace crema::tools
