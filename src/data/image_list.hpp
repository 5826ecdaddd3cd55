// Lists of image files with labels, a line each.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "data/record_source.hpp"

namespace crema {

struct ListedImage {
  std::string file;
  int32_t label = 0;
  int64_t line = 0;  // in the list, from 1
};

/// Reads lines "file label", split at the last white space after trimming, so names may hold
/// blanks; empty lines are passed over. Error, naming the line, for one without a whole number at
/// its end; and for a list that is missing or has no line.
std::vector<ListedImage> read_image_list(const std::string& path);

/// The path of an image: `root` and its name, with one slash in between at least.
std::string image_path(const std::string& root, const std::string& file);

/// Reads a whole file into `bytes`. Error with the system's reason.
void read_file_bytes(const std::string& path, std::string& bytes);

/// Runs `body`, which reads the image at `path`, of `line` of the file `list`. Its Error says so.
template <class Body>
decltype(auto) in_image(const std::string& path, const std::string& list, int64_t line,
                        const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error("image '", path, "': ", error.message()).at({list, static_cast<int>(line), 0});
  }
}

/// The images of a list as records: a Datum each, with the bytes of the image's file and its label.
/// A file is opened when its record is read; the Error of one that cannot be names the line.
std::shared_ptr<RecordSource> open_image_list(const std::string& list, const std::string& root);

}  // namespace crema
