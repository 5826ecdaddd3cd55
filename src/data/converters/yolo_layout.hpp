// Where data sets of YOLO have their files: images in a folder "images", and the boxes of
// images/.../a.jpg in labels/.../a.txt beside it.
#pragma once

#include <string>
#include <vector>

namespace crema {

/// Where the boxes of an image are: in a text file of its name, beside it, or in a folder "labels"
/// beside the last folder "images" of its path.
std::string yolo_labels(const std::string& image);

/// Whether the path of an image has a folder "images".
bool is_below_images(const std::string& image);

/// Whether the folder has the folders "images" and "labels".
bool is_yolo_folder(const std::string& folder);

/// The images of a folder: those below its folder "images" if it has one, else all below it. Paths
/// are relative to the folder, in their order (bytes compared); what is hidden is passed over.
/// Error without images, and for several sets, such as train and val, in one folder.
std::vector<std::string> yolo_images(const std::string& folder);

}  // namespace crema
