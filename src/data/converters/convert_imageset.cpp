#include <utility>

#include "crema/error.hpp"
#include "data/converters/converters.hpp"
#include "data/converters/image_records.hpp"
#include "data/records/image_folder.hpp"
#include "data/records/image_list.hpp"
#include "proto/datum.pb.h"

namespace crema {
namespace {

ImageFiles files_of(const ConvertImagesetOptions& options) {
  if (options.list.empty())
    return list_image_folder(options.root, ClassRule(options.class_names), options.logger);
  ImageFiles files{.name = options.list,
                   .list = options.list,
                   .root = options.root,
                   .images = read_image_list(options.list)};
  if (!options.class_names.empty()) name_classes(files, options.class_names);
  return files;
}

/// Where an image is named: the line of a list, or the folder.
std::string place_of(const ImageFiles& files, const ListedImage& image) {
  return files.list.empty() ? files.name : text(files.list, ":", image.line);
}

/// Labels that may be an error in training.
class LabelWarnings {
 public:
  explicit LabelWarnings(const ImageFiles& files) : files_(files) {}

  void look(int64_t index) {
    ++accepted_;
    const ListedImage& listed = files_.images[static_cast<size_t>(index)];
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
    const ListedImage& listed = files_.images[static_cast<size_t>(index)];
    return text(listed.label, " of '", listed.file, "' (", place_of(files_, listed), ")");
  }

  const ImageFiles& files_;
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
  ImageFiles files = files_of(options);
  std::vector<ListedImage>& images = files.images;
  if (options.shuffle) shuffle_lines(images, options.seed);
  LabelWarnings labels(files);
  const auto listed = [&](int64_t index) {
    const ListedImage& image = images[static_cast<size_t>(index)];
    return ListedFile{image.file, image_path(options.root, image.file), place_of(files, image)};
  };
  ConvertReport report =
      convert_list({.list = options.list.empty() ? options.root : options.list,
                    .output = options.output,
                    .backend = options.backend,
                    .overwrite = options.overwrite,
                    .class_names = files.class_names,
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
