// What a record of an image database is, for people and for checks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/boxes/annotation.hpp"
#include "data/records/datum.hpp"

namespace crema {

struct RecordInfo {
  std::string key;   // printable
  size_t bytes = 0;  // of the record
  Shape shape;       // (C, H, W)
  bool encoded = false, floats = false;
  /// image_type() of a compressed image.
  std::string file_type;
  int bits = 8;  // of a channel of a compressed image
  bool has_label = false;
  int64_t label = 0;
  std::vector<float> float_labels;
  /// Of an AnnotatedDatum with boxes, relative to its image: in place of labels.
  bool has_boxes = false;
  std::vector<LabeledBox> boxes;
  /// The file of a compressed image; empty for others.
  std::string file;
  /// The pixels, valid until the decoder decodes another record.
  Image image;

  /// "raw", "floats", or the kind of compressed image, with its bits if there are more than 8 a
  /// channel.
  std::string kind() const;
  /// The labels, with `separator` between them, or "N boxes"; "" if there is none.
  std::string labels(std::string_view separator) const;
};

/// Decodes the record. Error, with its key, if it cannot be decoded, or has values that are not
/// finite.
RecordInfo inspect_record(const Record& record, DatumDecoder& decoder);

}  // namespace crema
