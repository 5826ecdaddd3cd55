// crema convert-imageset: a database from a list of images. The published name and flags work
// too.
#include <glog/logging.h>

#include "tools/command.hpp"
#include "tools/convert_report.hpp"
#include "tools/database_flags.hpp"
#include "tools/flags.hpp"

DEFINE_bool(gray, false, "Read images as grayscale.");
DEFINE_bool(shuffle, false, "Shuffle the list.");
DEFINE_int32(resize_width, 0, "Resize images to this width; needs --resize_height.");
DEFINE_int32(resize_height, 0, "Resize images to this height; needs --resize_width.");
DEFINE_string(resize, "", "WIDTHxHEIGHT, in one flag.");
DEFINE_bool(check_size, false, "Error unless all images have one size.");
DEFINE_bool(encoded, false, "Keep images compressed in the database.");
DEFINE_string(encode_type, "", "Compress as jpg, png, ...; implies --encoded.");
DEFINE_bool(check, false, "Decode all images and report bad ones, but write nothing.");
DEFINE_bool(skip_bad, false, "Leave out and count images that cannot be read.");

namespace crema::tools {
namespace {

void read_resize(ConvertImagesetOptions& options) {
  options.resize_width = FLAGS_resize_width;
  options.resize_height = FLAGS_resize_height;
  if (FLAGS_resize.empty()) return;
  if (FLAGS_resize_width != 0 || FLAGS_resize_height != 0)
    throw Error("--resize and --resize_width or --resize_height exclude each other");
  const auto [width, height] = parse_size("resize", FLAGS_resize);
  options.resize_width = width;
  options.resize_height = height;
}

int convert_imageset(const std::vector<std::string>& arguments) {
  const size_t wanted = FLAGS_check ? 2 : 3;
  if (arguments.size() != wanted && arguments.size() != 3)
    throw Error(
        "convert-imageset takes ROOT_FOLDER LIST_FILE OUTPUT (with --check no output); got ",
        arguments.size(), " arguments");
  ConvertImagesetOptions options;
  options.root = arguments[0];
  options.list = arguments[1];
  if (arguments.size() == 3) options.output = arguments[2];
  options.backend = FLAGS_backend;
  options.gray = FLAGS_gray;
  options.shuffle = FLAGS_shuffle;
  options.seed = seed_flag().value_or(options.seed);
  read_resize(options);
  options.check_size = FLAGS_check_size;
  options.encoded = FLAGS_encoded;
  options.encode_type = FLAGS_encode_type;
  options.check_only = FLAGS_check;
  options.skip_bad = FLAGS_skip_bad;
  options.overwrite = FLAGS_overwrite;
  options.progress = show_progress();
  const ConvertReport result = crema::convert_imageset(options);
  options.progress = {};  // ends its line
  if (!FLAGS_check) {
    report(result, options.output);
    return 0;
  }
  for (const auto& problem : result.problems) LOG(WARNING) << problem;
  for (const auto& warning : result.warnings) LOG(WARNING) << warning;
  LOG(INFO) << result.bad << " bad images";
  return result.bad ? 1 : 0;
}

}  // namespace

const Command kConvertImageset = {
    "convert-imageset",
    "makes a database from a list of images",
    "  crema convert-imageset [FLAGS] ROOT_FOLDER/ LIST_FILE OUTPUT\n"
    "\n"
    "Each line of LIST_FILE is a file name (put behind ROOT_FOLDER), white space and a label, or\n"
    "several numbers; names may hold spaces. The database appears under its name when it is\n"
    "whole.",
    {"gray", "shuffle", "seed", "backend", "resize", "resize_width", "resize_height", "check_size",
     "encoded", "encode_type", "check", "skip_bad", "overwrite"},
    convert_imageset};

}  // namespace crema::tools
