// Lists of image files with labels, a line each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "data/records/record_labels.hpp"
#include "data/records/record_source.hpp"

namespace crema {

struct ListedImage : RecordLabels {
  std::string file;
  int64_t line = 0;  // in the list, from 1
};

/// Reads lines "file label...". The name ends at the last white space after trimming, so it may
/// hold blanks; where several words at the end are numbers, and the name before them has an
/// extension, all of them are labels. Empty lines are passed over. Error, naming the line, for one
/// without a number at its end, or with another number of labels than the first; and for a list
/// that is missing or has no line.
std::vector<ListedImage> read_image_list(const std::string& path);

/// The path of an image: `root` and its name, with one slash in between at least.
std::string image_path(const std::string& root, const std::string& file);

/// Reads a whole file into `bytes`. Error with the system's reason.
void read_file_bytes(const std::string& path, std::string& bytes);

/// Runs `body`, which reads the image at `path`, of `line` of the file `list`, or of none for 0.
/// Its Error says so.
template <class Body>
decltype(auto) in_image(const std::string& path, const std::string& list, int64_t line,
                        const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    Error told("image '", path, "': ", error.message());
    told.about(error.path());
    if (line > 0) told.at({list, static_cast<int>(line), 0});
    throw told;
  }
}

/// Files of images with their labels.
struct ImageFiles {
  std::string name;  // of the source, for messages
  std::string list;  // the file that lists them, if one does
  std::string root;  // goes before every name
  std::vector<ListedImage> images;
  std::vector<std::string> class_names = {};  // by label, where there are some
};

/// Names the classes of a list's images by a file with their names in the order of the labels.
/// Error, with the line, for an image whose label is not the number of one name.
void name_classes(ImageFiles& files, const std::string& class_names);

/// Files as records: a Datum each, with the bytes of the file and its labels. A file is opened when
/// its record is read; the Error of one that cannot be names the file, and its line.
std::shared_ptr<RecordSource> open_image_files(ImageFiles files);

/// The images of a list, with name_classes() unless `class_names` is "".
std::shared_ptr<RecordSource> open_image_list(const std::string& list, const std::string& root,
                                              const std::string& class_names = {});

}  // namespace crema
