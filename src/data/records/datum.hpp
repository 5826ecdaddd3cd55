// Records of the published image databases: a Datum, with raw pixels, floats, or a compressed
// image; or an AnnotatedDatum, which has one, with boxes on it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "data/images/image.hpp"
#include "data/images/image_decoder.hpp"
#include "data/records/record_source.hpp"

namespace crema {

class AnnotatedDatum;  // proto/detection.proto
class Datum;           // proto/datum.proto

/// A key with backslashes and bytes that are unprintable or no UTF-8 written as \xhh, which
/// unprintable_key() (record_range.hpp) reads.
std::string escaped_key(std::string_view key);
/// The same as it can stand in a message: cut to a sensible length, which is more for paths.
std::string printable_key(std::string_view key);

/// Whether a record holds an AnnotatedDatum, and not a Datum. Its first field says so.
bool is_annotated(std::string_view record);

/// Of a record for whose pixels the memory does not suffice.
Error memory_error(std::string_view key);

/// Decodes records one by one and keeps its memory for the next; one a thread.
class DatumDecoder {
 public:
  /// Compressed images are resized, unless `size` is none; where they shrink, by averages. `jpeg`
  /// as that of JpegDecoder.
  explicit DatumDecoder(ColorMode mode, ImageSize size = {}, Depth depth = Depth::bytes,
                        std::unique_ptr<DeviceJpeg> jpeg = nullptr);
  ~DatumDecoder();

  /// The record's sizes, and its pixels unless they are still to be decoded. It must stay until
  /// pixels(). Error, with the key, if the record is no Datum, if its sizes and bytes disagree, if
  /// its image cannot be decoded, if the memory does not suffice, or if it is raw and has another
  /// number of channels than the mode.
  Image open(const Record& record);
  /// Whether the record opened last can be decoded at a fraction of its size.
  bool is_scalable() const { return !opened_.has_pixels(); }
  /// Of the record opened last, at least the window; Image::top and left say where the pixels
  /// begin. Valid until the next call. Error, with the key, if its image is damaged. If the record
  /// is scalable, its sides are first multiplied by eighths / 8 (1, 2, 4 or 8), rounded up; the
  /// window lies in the image of that size.
  Image pixels(const ImageWindow& window, int eighths = 8);
  /// The whole record: open() and pixels().
  Image decode(const Record& record);
  /// Of the record decoded last.
  int label() const { return label_; }
  /// Whether it has a label of either kind.
  bool has_labels() const;
  /// Its float_label, or its label, which is 0 where it has neither. Error, with the key, if it has
  /// both, or a label that is not finite.
  void labels(std::vector<double>& labels) const;
  bool was_encoded() const { return was_encoded_; }
  /// What the pixels of the record opened last lack of its compressed image.
  ImageLoss loss() const { return was_encoded_ ? images_.loss() : ImageLoss(); }
  /// The size of the record opened last, before it was resized.
  ImageSize original() const { return original_; }
  /// The record opened last, if it is an AnnotatedDatum; else null.
  const AnnotatedDatum* annotated() const { return is_annotated_ ? annotated_.get() : nullptr; }

 private:
  void parse(std::string_view record);
  /// Of the record opened last.
  const Datum& datum() const;
  Image open_datum();
  Image open_raw();

  ColorMode mode_;
  Depth depth_;
  ImageSize size_, original_;
  std::unique_ptr<Datum> datum_;
  std::unique_ptr<AnnotatedDatum> annotated_;
  ImageDecoder images_;
  Image opened_;
  std::string_view key_;  // of the record opened last
  int label_ = 0;
  bool was_encoded_ = false;
  bool is_annotated_ = false;
};

}  // namespace crema
