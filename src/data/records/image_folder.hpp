// A folder with a folder of images for each class.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/records/class_names.hpp"
#include "data/records/image_list.hpp"
#include "data/records/record_source.hpp"

namespace crema {

/// The images, class by class and in the order of their names (bytes compared), which
/// image_extension() tells from other files. Hidden files and folders (".name") are passed over;
/// other files that are no images, folders in the folders of classes and classes without images are
/// warned of. Error if there is no image.
ImageFiles list_image_folder(const std::string& folder, const ClassRule& classes,
                             const Logger& logger);
/// The same as records.
std::shared_ptr<RecordSource> open_image_folder(const std::string& folder, const ClassRule& classes,
                                                const Logger& logger);

/// The names of the folders that are classes, in the order of their bytes.
std::vector<std::string> folders_of_classes(const std::string& folder);

}  // namespace crema
