// What the converters of lists of images share: an image file as a Datum, and one pass over all of
// a list on all threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crema/random.hpp"
#include "data/converters/converters.hpp"
#include "data/images/image_decoder.hpp"

namespace crema {

class Datum;  // proto/datum.proto

struct ImageRecordOptions {
  bool gray = false;                            // one channel instead of three
  int64_t resize_height = 0, resize_width = 0;  // both or neither
  /// The aspect ratio stays: the shorter side becomes min_dim where it is shorter, then the longer
  /// one max_dim where it is longer. 0: none.
  int64_t min_dim = 0, max_dim = 0;
  bool encoded = false;     // keep images compressed
  std::string encode_type;  // "jpg", "png"...: implies encoded; else as the file
  bool keep_depth = false;  // images of more than 8 bits a channel become records of floats
  /// How images are resized, exactly; none: averages where they shrink, else bilinear.
  std::optional<Interpolation> interpolation;
};

/// Safe to use from several threads.
class ImageRecords {
 public:
  /// Error for sizes that contradict each other or do not fit into a record.
  explicit ImageRecords(ImageRecordOptions options);

  /// Whether records hold compressed images.
  bool encoded() const { return encoded_; }
  struct Filled {
    Shape shape;              // (C, H, W) of the record
    ImageSize original;       // of the image in its file, upright
    bool sideways = false;    // its rows are columns of the upright image
    bool has_floats = false;  // the record has floats, not bytes
    ImageLoss loss;           // of what the file has
  };
  /// Writes the image of a file's bytes to `datum`: sizes and pixels, or a file.
  Filled fill(const std::string& bytes, ImageDecoder& decoder, Datum& datum) const;

 private:
  Image decode(const std::string& bytes, ImageDecoder& decoder, Filled& filled) const;
  std::optional<ImageSize> resized(ImageSize size) const;
  Filled keep_raw(const std::string& bytes, ImageDecoder& decoder, Datum& datum) const;
  Filled keep_encoded(const std::string& bytes, ImageDecoder& decoder, Datum& datum) const;
  std::optional<Image> decode_as_stored(const std::string& bytes, ImageDecoder& decoder) const;

  ImageRecordOptions options_;
  bool encoded_, resizes_;
  ColorMode mode_;
};

/// The lines of a list in an order drawn by `seed`.
template <class Line>
void shuffle_lines(std::vector<Line>& lines, uint64_t seed) {
  Random random(seed, stream_id("convert_imageset"));
  for (size_t i = lines.size() - 1; i > 0; --i) {
    std::swap(lines[i], lines[static_cast<size_t>(random.below(i + 1))]);
  }
}

/// An image of a list.
struct ListedFile {
  std::string name;   // the end of its record's key
  std::string path;   // of its file
  std::string place;  // where it is listed, for messages: "list.txt:3"
};

struct ConvertedImage {
  std::string record;
  std::string problem;  // not empty: there is no record
  Shape shape{0, 0, 0};
  bool has_floats = false;
  ImageLoss loss;

  void take(const ImageRecords::Filled& filled) {
    shape = filled.shape;
    has_floats = filled.has_floats;
    loss = filled.loss;
  }
};

/// A list of images that become a database.
struct ListConversion {
  std::string list;              // its file, for messages
  std::string output;            // the database's folder
  std::string backend = "lmdb";  // or "leveldb"
  bool overwrite = false;
  std::vector<std::string> class_names = {};  // of the database, by label
  bool check_only = false;                    // convert everything, write nothing
  bool check_size = false;                    // all images must have one size
  bool skip_bad = false;                      // leave out and count what is bad
  bool sizes_may_vary = false;                // without a warning
  bool encoded = false;                       // for warnings
  ConvertProgress progress;

  int64_t count = 0;
  std::function<ListedFile(int64_t index)> listed;
  /// The record of an image; an exception is a problem of it. Called in several threads, each with
  /// its own decoder.
  std::function<void(int64_t index, ImageDecoder& decoder, ConvertedImage& converted)> convert;
  /// Told of each image that becomes a record, in order, in the caller's thread. May be empty.
  std::function<void(int64_t index)> accepted;
};

/// Keys are the image's number in 8 digits, '_' and its name. Images are converted on all OpenMP
/// threads and written in order. Error, with place and file, at the first bad image, unless
/// check_only or skip_bad is set; and if there is no good one.
ConvertReport convert_list(const ListConversion& conversion);

}  // namespace crema
