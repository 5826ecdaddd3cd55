#include <array>
#include <cstdio>
#include <span>

#include "crema/error.hpp"
#include "data/converters/converters.hpp"
#include "data/converters/gzip_file.hpp"
#include "data/databases/database_writer.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

constexpr uint32_t kImages = 2051, kLabels = 2049;  // magic numbers: unsigned bytes of rank 3, 1
constexpr int64_t kLargestSide = 1 << 14;

/// An IDX file, read from front to back.
class IdxFile {
 public:
  IdxFile(const std::string& path, uint32_t magic) : file_(path) {
    const uint32_t found = number();
    if (found != magic) {
      const bool swapped = found == kImages || found == kLabels;
      throw Error("'", path, "' is no IDX file of ", magic == kImages ? "images" : "labels",
                  ": it begins with ", found, " instead of ", magic,
                  swapped ? "; images and labels are exchanged" : "; get the file again");
    }
  }

  /// A dimension of the header.
  uint32_t number() {
    std::array<uint8_t, 4> bytes;
    read(bytes);
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void read(std::span<uint8_t> bytes) {
    if (file_.read(bytes) != bytes.size())
      throw Error("'", file_.path(), "' ends before what its header promises; get the file again");
  }

  void expect_end() {
    std::array<uint8_t, 1> more;
    if (file_.read(more) != 0)
      throw Error("'", file_.path(), "' holds more than its header says; get the file again");
  }

 private:
  GzipFile file_;
};

}  // namespace

ConvertReport convert_mnist(const ConvertMnistOptions& options) {
  IdxFile images(options.images, kImages);
  IdxFile labels(options.labels, kLabels);
  const int64_t count = images.number();
  const int64_t height = images.number(), width = images.number();
  const int64_t label_count = labels.number();
  if (count <= 0) throw Error("'", options.images, "' holds no image");
  if (height <= 0 || width <= 0 || height > kLargestSide || width > kLargestSide)
    throw Error("'", options.images, "' says that images have ", height, " x ", width,
                " pixels; sides are 1 to ", kLargestSide);
  if (count != label_count)
    throw Error("'", options.images, "' holds ", count, " images and '", options.labels, "' ",
                label_count, " labels; take two files that belong together");

  const auto writer =
      make_database_writer(database_kind(options.backend), options.output, options.overwrite);
  Datum datum;
  datum.set_channels(1);
  datum.set_height(static_cast<int>(height));
  datum.set_width(static_cast<int>(width));
  std::string& pixels = *datum.mutable_data();
  pixels.resize(static_cast<size_t>(height * width));
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(pixels.data()), pixels.size());
  std::string record;
  for (int64_t i = 0; i < count; ++i) {
    uint8_t label;
    images.read(bytes);
    labels.read({&label, 1});
    datum.set_label(label);
    if (!datum.SerializeToString(&record))
      throw Error("image ", i, " of '", options.images, "' cannot be made a record");
    std::array<char, 24> key;
    std::snprintf(key.data(), key.size(), "%08lld", static_cast<long long>(i));
    writer->put(key.data(), record);
    if (options.progress) options.progress(i + 1, count);
  }
  images.expect_end();
  labels.expect_end();
  writer->finish();
  ConvertReport report;
  report.written = count;
  return report;
}

}  // namespace crema
