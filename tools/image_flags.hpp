// The flags of the commands that make databases of images, and what they share.
#pragma once

#include <gflags/gflags.h>

#include "crema/error.hpp"
#include "data/converters/converters.hpp"
#include "tools/convert_report.hpp"
#include "tools/database_flags.hpp"
#include "tools/flags.hpp"

DECLARE_bool(gray);
DECLARE_bool(shuffle);
DECLARE_int32(resize_width);
DECLARE_int32(resize_height);
DECLARE_string(resize);
DECLARE_bool(check_size);
DECLARE_bool(encoded);
DECLARE_string(encode_type);
DECLARE_bool(keep_depth);
DECLARE_string(interp);
DECLARE_bool(check);
DECLARE_bool(skip_bad);

namespace crema::tools {

/// Logs what --check found. Returns the exit status.
int report_check(const ConvertReport& result);

/// Runs convert(options) with the arguments ROOT_FOLDER LIST_FILE OUTPUT (with --check no output)
/// and the flags above. Returns the exit status.
template <class Options, class Convert>
int convert_images(const char* command, const std::vector<std::string>& arguments, Options options,
                   const Convert& convert) {
  const size_t wanted = FLAGS_check ? 2 : 3;
  if (arguments.size() != wanted && arguments.size() != 3)
    throw Error(command, " takes ROOT_FOLDER LIST_FILE OUTPUT (with --check no output); got ",
                arguments.size(), " arguments");
  options.root = arguments[0];
  options.list = arguments[1];
  if (arguments.size() == 3) options.output = arguments[2];
  options.backend = FLAGS_backend;
  options.gray = FLAGS_gray;
  options.shuffle = FLAGS_shuffle;
  options.seed = seed_flag().value_or(options.seed);
  options.resize_width = FLAGS_resize_width;
  options.resize_height = FLAGS_resize_height;
  if (!FLAGS_resize.empty()) {
    if (FLAGS_resize_width != 0 || FLAGS_resize_height != 0)
      throw Error("--resize and --resize_width or --resize_height exclude each other");
    const auto [width, height] = parse_size("resize", FLAGS_resize);
    options.resize_width = width;
    options.resize_height = height;
  }
  options.check_size = FLAGS_check_size;
  options.encoded = FLAGS_encoded;
  options.encode_type = FLAGS_encode_type;
  options.keep_depth = FLAGS_keep_depth;
  options.interp = FLAGS_interp;
  options.check_only = FLAGS_check;
  options.skip_bad = FLAGS_skip_bad;
  options.overwrite = FLAGS_overwrite;
  options.progress = show_progress("files");
  const ConvertReport result = convert(options);
  options.progress = {};  // ends its line
  if (FLAGS_check) return report_check(result);
  report(result, options.output);
  return 0;
}

}  // namespace crema::tools
