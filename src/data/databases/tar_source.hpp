// Images in tar files. Built without libarchive, opening them throws an Error that says so.
#pragma once

#include <memory>
#include <string>

#include "data/records/class_names.hpp"
#include "data/records/record_source.hpp"

namespace crema {

/// The images of tar files, in the order of the files and of their members. `source` is a pattern
/// (file_pattern.hpp) or a text file with the paths of tar files, one a line. Each file is read
/// through once, for the places of its members; is_image_name() (image_name.hpp) tells which are
/// images. Of a member that comes twice the later one counts. Hard links stand for their targets.
///
/// Labels are members that have the name of the image before its first dot, and the extension cls,
/// or txt if numbers are in it, as WebDataset writes them: "a/7.jpg" and "a/7.cls". If there is
/// none in all files, the folders that the images are in are their classes (see class_names.hpp).
///
/// What looks like a part of a sample and is not used is counted in a warning: symbolic links,
/// hidden images, kinds of images that are not decoded, further images of a sample, and labels
/// without an image.
///
/// Error for a file that is no tar, is compressed, damaged or cut off; for an image without label;
/// and if there is no image.
std::shared_ptr<RecordSource> open_tar(const std::string& source, const ClassRule& classes,
                                       const Logger& logger);

}  // namespace crema
