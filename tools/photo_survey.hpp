// A look at the images that a new net is for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace crema::tools {

struct PhotoSurvey {
  int64_t shorter = 0;   // the median of their shorter sides
  int64_t smallest = 0;  // the least side
  std::string smallest_file;
  bool is_gray = false;  // all of them
  double mean[3] = {0};  // blue, green, red, of 0 to 255
  double deviation = 0;  // of all values
};

/// Error, with the names of some, for files that do not begin as images, or are cut off.
void check_photos(const std::vector<std::string>& files);

/// Of these files, or of some hundred of them. Error for one that cannot be decoded, and if there
/// is none.
PhotoSurvey survey_photos(const std::vector<std::string>& files);

/// "mean_value: 103.5  mean_value: 116.3  mean_value: 123.7  scale: 0.017": pixels of mean 0 and
/// variance 1 of these images.
std::string pixel_settings(const PhotoSurvey& survey);

/// The names of images below a folder, relative to it, sorted; hidden ones are passed over.
std::vector<std::string> images_below(const std::string& folder);

/// Files that are for training and those for tests.
struct Division {
  std::vector<std::string> train, tests;
  std::vector<std::string> others;  // outside of the two folders
  bool by_folder = false;
};
/// Those of divided_folders(root) by their first folder, if there are such; else every fifth, drawn
/// by the seed, is for tests.
Division divide(std::vector<std::string> files, const std::string& root, uint64_t seed);
/// One fifth, and at least one of two, drawn by the seed.
Division divide_at_random(std::vector<std::string> files, uint64_t seed, const std::string& of);

/// Says how many are outside of the two folders.
std::string left_out(const Division& division);

/// "train", and the folder of tests beside it, the first of val, valid, validation and test, where
/// `folder` has both; else two empty texts.
std::pair<std::string, std::string> divided_folders(const std::string& folder);

/// "photos" -> "photos/". Error for a folder that is not there, and for one whose name cannot stand
/// in a prototxt.
std::string checked_folder(const char* flag, const std::string& folder);

}  // namespace crema::tools
