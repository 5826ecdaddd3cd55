#include <utility>

#include "crema/error.hpp"
#include "data/converters/converters.hpp"
#include "data/converters/image_records.hpp"
#include "data/records/image_list.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

/// Labels that may be an error in training.
class LabelWarnings {
 public:
  LabelWarnings(std::string list, const std::vector<ListedImage>& images)
      : list_(std::move(list)), images_(images) {}

  void look(int64_t index) {
    ++accepted_;
    const ListedImage& listed = images_[static_cast<size_t>(index)];
    if (!listed.floats.empty()) return;
    if (listed.label < 0 && negative_++ == 0) first_negative_ = index;
    const bool exact = static_cast<int64_t>(static_cast<float>(listed.label)) == listed.label;
    if (!exact && inexact_++ == 0) first_inexact_ = index;
  }

  void add_to(ConvertReport& report) const {
    if (negative_ > 0)
      report.warnings.push_back(text(negative_, " of ", accepted_,
                                     " labels are below 0, the first one ", of(first_negative_),
                                     "; losses over classes take one such label, given as "
                                     "ignore_label"));
    if (inexact_ > 0)
      report.warnings.push_back(
          text(inexact_, " of ", accepted_, " labels have no exact value in f32, the first one ",
               of(first_inexact_), "; nets in f32 refuse them: number the labels from 0"));
  }

 private:
  std::string of(int64_t index) const {
    const ListedImage& listed = images_[static_cast<size_t>(index)];
    return text(listed.label, " of '", listed.file, "' (", list_, ":", listed.line, ")");
  }

  std::string list_;
  const std::vector<ListedImage>& images_;
  int64_t accepted_ = 0, negative_ = 0, inexact_ = 0;
  int64_t first_negative_ = 0, first_inexact_ = 0;
};

}  // namespace

ConvertReport convert_imageset(const ConvertImagesetOptions& options) {
  const ImageRecords records({.gray = options.gray,
                              .resize_height = options.resize_height,
                              .resize_width = options.resize_width,
                              .encoded = options.encoded,
                              .encode_type = options.encode_type,
                              .keep_depth = options.keep_depth,
                              .interpolation = interpolation_named(options.interp, "--interp=")});
  std::vector<ListedImage> images = read_image_list(options.list);
  if (options.shuffle) shuffle_lines(images, options.seed);
  LabelWarnings labels(options.list, images);
  const auto listed = [&](int64_t index) {
    const ListedImage& image = images[static_cast<size_t>(index)];
    return ListedFile{image.file, image_path(options.root, image.file),
                      text(options.list, ":", image.line)};
  };
  ConvertReport report =
      convert_list({.list = options.list,
                    .output = options.output,
                    .backend = options.backend,
                    .overwrite = options.overwrite,
                    .check_only = options.check_only,
                    .check_size = options.check_size,
                    .skip_bad = options.skip_bad,
                    .encoded = records.encoded(),
                    .progress = options.progress,
                    .count = static_cast<int64_t>(images.size()),
                    .listed = listed,
                    .convert =
                        [&](int64_t index, ImageDecoder& decoder, ConvertedImage& converted) {
                          const ListedImage& image = images[static_cast<size_t>(index)];
                          std::string file;
                          read_file_bytes(image_path(options.root, image.file), file);
                          Datum datum;
                          set_labels(image, datum);
                          converted.take(records.fill(file, decoder, datum));
                          if (!options.check_only && !datum.SerializeToString(&converted.record))
                            throw Error("it cannot be made a record");
                        },
                    .accepted = [&](int64_t index) { labels.look(index); }});
  labels.add_to(report);
  return report;
}

}  // namespace crema
