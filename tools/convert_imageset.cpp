// crema convert-imageset: a database from a list of images. The published name and flags work
// too.
#include "tools/command.hpp"
#include "tools/image_flags.hpp"

namespace crema::tools {
namespace {

int convert_imageset(const std::vector<std::string>& arguments) {
  return convert_images("convert-imageset", arguments, ConvertImagesetOptions(),
                        crema::convert_imageset);
}

}  // namespace

extern const Command kConvertImageset = {
    "convert-imageset",
    "makes a database from a list of images",
    "  crema convert-imageset [FLAGS] ROOT_FOLDER/ LIST_FILE OUTPUT\n"
    "\n"
    "Each line of LIST_FILE is a file name (put behind ROOT_FOLDER), white space and a label, or\n"
    "several numbers; names may hold spaces. The database appears under its name when it is\n"
    "whole.\n"
    "\n"
    "Pictures are turned as their EXIF says. --encoded keeps files as they are, and data layers\n"
    "turn them; GIFs become PNGs. --keep_depth makes records of floats, 0 to 65535, of images of\n"
    "more than 8 bits a channel; without it they have the upper 8, and a warning counts them.",
    {"gray", "shuffle", "seed", "backend", "resize", "resize_width", "resize_height", "check_size",
     "interp", "keep_depth", "encoded", "encode_type", "check", "skip_bad", "overwrite"},
    convert_imageset};

}  // namespace crema::tools
