// Records of the published image databases: a Datum, with raw pixels, floats, or a compressed
// image.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/image.hpp"
#include "data/image_codec.hpp"
#include "data/record_source.hpp"

namespace crema {

class Datum;  // proto/datum.proto

/// A key as it can stand in a message: cut to a sensible length, unprintable bytes written as \xhh.
std::string printable_key(std::string_view key);

/// Decodes records one by one and keeps its memory for the next; one a thread.
class DatumDecoder {
 public:
  /// Compressed images are resized, unless `size` is none.
  explicit DatumDecoder(ColorMode mode, ImageSize size = {});
  ~DatumDecoder();

  /// The pixels of the record, valid until the next call. Error, with the key, if the record is no
  /// Datum, if its sizes and bytes disagree, if its image cannot be decoded, or if it is raw and
  /// has another number of channels than the mode.
  Image decode(const Record& record);
  /// Of the record decoded last.
  int label() const { return label_; }
  bool was_encoded() const { return was_encoded_; }

 private:
  Image image_of_datum();

  ColorMode mode_;
  ImageSize size_;
  std::unique_ptr<Datum> datum_;
  ImageCodec codec_;
  int label_ = 0;
  bool was_encoded_ = false;
};

}  // namespace crema
