// Images of a database as files, with a list that convert_imageset() reads; with boxes, each has a
// text file beside it, and convert_annotations() reads them.
#pragma once

#include <string>

#include "data/records/convert_report.hpp"
#include "data/records/record_range.hpp"
#include "data/records/record_source.hpp"

namespace crema {

struct ExportOptions {
  RecordRange range;
  std::string folder;  // for the images and list.txt; new or empty
  /// "png" or "jpg", for all images. "": compressed images stay as they are, raw ones become PNG.
  std::string encode_type;
  bool rgb = false;       // raw records have channels red, green, blue, instead of blue, green, red
  bool skip_bad = false;  // leave out and count what cannot be exported
  ConvertProgress progress;
};

/// Names of files are the keys, with _ for what a file name cannot have, and for blanks where a
/// file of boxes is beside. Where the source names its classes, so does class_names.txt. The folder
/// appears under its name when it is whole. Error when it exists and is not empty, when it cannot
/// be written, and, unless skip_bad is set, at the first record that is no image of 1 or 3 channels
/// of bytes.
ConvertReport export_images(RecordSource& source, const ExportOptions& options);

}  // namespace crema
