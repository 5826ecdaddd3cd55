#include "tools/image_flags.hpp"

#include "tools/terminal.hpp"

DEFINE_bool(gray, false, "Read images as grayscale.");
DEFINE_bool(shuffle, false, "Shuffle the list.");
DEFINE_int32(resize_width, 0, "Resize images to this width; needs --resize_height.");
DEFINE_int32(resize_height, 0, "Resize images to this height; needs --resize_width.");
DEFINE_string(resize, "", "WIDTHxHEIGHT, in one flag.");
DEFINE_bool(check_size, false, "Error unless all images have one size.");
DEFINE_bool(encoded, false, "Keep images compressed in the database.");
DEFINE_string(encode_type, "", "Compress as jpg, png, ...; implies --encoded.");
DEFINE_bool(keep_depth, false,
            "Make records of floats, 0 to 65535, of images with more than 8 bits a channel.");
DEFINE_bool(check, false, "Decode all images and report bad ones, but write nothing.");
DEFINE_bool(skip_bad, false,
            "Leave out and count images that cannot be read. Of classify and detect: Default: if "
            "there are several images.");

namespace crema::tools {

int report_check(const ConvertReport& result) {
  for (const auto& problem : result.problems) say(Severity::warning, problem);
  for (const auto& warning : result.warnings) say(Severity::warning, warning);
  say(text(result.bad, " bad images"));
  return result.bad ? 1 : 0;
}

}  // namespace crema::tools
