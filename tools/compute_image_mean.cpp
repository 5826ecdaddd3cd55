// crema compute-image-mean: the mean image of a database. The published name and flags work too.

#include "data/transform/image_mean.hpp"
#include "model/binary_format.hpp"
#include "model/file_kind.hpp"
#include "model/whole_file.hpp"
#include "proto/blob.pb.h"
#include "tools/command.hpp"
#include "tools/convert_report.hpp"
#include "tools/database_flags.hpp"
#include "tools/output_file.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {
namespace {

int compute_image_mean(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 2)
    throw Error("compute-image-mean takes INPUT_DB [OUTPUT_FILE]; got ", arguments.size(),
                " arguments");
  if (arguments.size() > 1) {
    check_output_file(arguments[1], "the mean image");
    check_replaced(arguments[1], {arguments[0]}, {"mean file", [](const std::string& path) {
                                                    return guess_message(path) ==
                                                           BlobProto::descriptor();
                                                  }});
  }
  const auto source = open_database_argument(arguments[0]);
  ConvertProgress progress = show_progress();
  const ImageMean mean = image_mean(*source, color_flag(), progress);
  progress = {};  // ends its line
  if (arguments.size() > 1) {
    BlobProto blob;
    mean.save(blob);
    write_binary_proto_atomically(arguments[1], blob);
    say(text("Write to ", arguments[1]));
  }
  if (mean.deep > 0)
    say(Severity::warning,
        text(mean.deep, " of ", mean.records,
             " images have more than 8 bits a channel, of which the upper 8 count"));
  say(text("Number of records: ", mean.records, ", each of ", mean.shape.str()));
  say(text("Number of channels: ", mean.channel_means.size()));
  for (size_t c = 0; c < mean.channel_means.size(); ++c) {
    say(text("mean_value channel [", c, "]: ", mean.channel_means[c]));
  }
  return 0;
}

}  // namespace

extern const Command kComputeImageMean = {
    "compute-image-mean",
    "computes the mean image of a database",
    "  crema compute-image-mean [FLAGS] INPUT_DB [OUTPUT_FILE]\n"
    "\n"
    "Writes the mean of all images to OUTPUT_FILE, for transform_param { mean_file }, and prints\n"
    "the mean of each channel, for mean_value. All images have to be of one size. The sums are\n"
    "exact.\n"
    "\n"
    "An OUTPUT_FILE that exists is replaced with --overwrite only. By the published name,\n"
    "compute_image_mean, an earlier mean file is, too.",
    {"backend", "root_folder", "class_names", "force_color", "force_gray", "overwrite", "threads"},
    compute_image_mean};

}  // namespace crema::tools
