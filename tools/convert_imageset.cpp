// crema convert-imageset: a database from a list of images, or from a folder of classes. The
// published name and flags work too.

#include <filesystem>

#include "tools/command.hpp"
#include "tools/image_flags.hpp"
#include "tools/terminal.hpp"

DECLARE_string(class_names);

namespace crema::tools {
namespace {

/// FOLDER OUTPUT (with --check no output), without a list.
bool names_folder(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() != (FLAGS_check ? 1 : 2)) return false;
  std::error_code none;
  // A list stands where the output does: that one is missing.
  const bool forgets_output =
      arguments.size() == 2 && std::filesystem::is_regular_file(arguments[1], none);
  return !forgets_output && std::filesystem::is_directory(arguments[0], none);
}

int convert_imageset(const std::vector<std::string>& arguments) {
  ConvertImagesetOptions options;
  options.class_names = FLAGS_class_names;
  options.logger = [](Severity severity, const std::string& message) { say(severity, message); };
  std::vector<std::string> all = arguments;
  if (names_folder(arguments)) {
    all.insert(all.begin() + 1, "");
    // Class by class, batches of a database that is read in its order would hold one class each.
    if (!is_given("shuffle")) FLAGS_shuffle = true;
  } else if (arguments.size() < (FLAGS_check ? 2 : 3)) {
    throw Error(
        "convert-imageset takes ROOT_FOLDER LIST_FILE OUTPUT, or FOLDER OUTPUT of a folder ",
        "with a folder of images for each class (with --check no output); got ", arguments.size(),
        " arguments");
  }
  return convert_images("convert-imageset", all, options, crema::convert_imageset);
}

}  // namespace

extern const Command kConvertImageset = {
    "convert-imageset",
    "makes a database from a list of images, or a folder of classes",
    "  crema convert-imageset [FLAGS] FOLDER OUTPUT\n"
    "  crema convert-imageset [FLAGS] ROOT_FOLDER/ LIST_FILE OUTPUT\n"
    "\n"
    "FOLDER has a folder of images for each class. Labels are the places of their names, which "
    "the\n"
    "file class_names.txt in the database keeps: data layers, weights and reports have them from\n"
    "there. --class_names=FILE gives the names in their order instead; for test data, give the\n"
    "file of the training data: --class_names=train_lmdb/class_names.txt. Images are shuffled,\n"
    "unless --noshuffle is given.\n"
    "\n"
    "Each line of LIST_FILE is a file name (put after ROOT_FOLDER), white space and a label, or\n"
    "several numbers; names may hold spaces. --class_names names the labels, too. The database\n"
    "appears under its name when it is whole.\n"
    "\n"
    "Pictures are turned as their EXIF says. --encoded keeps files as they are, and data layers\n"
    "turn them; GIFs become PNGs. --keep_depth makes records of floats, 0 to 65535, of images of\n"
    "more than 8 bits a channel; without it they have the upper 8, and a warning counts them.",
    {"class_names", "gray", "shuffle", "seed", "backend", "resize", "resize_width", "resize_height",
     "check_size", "interp", "keep_depth", "encoded", "encode_type", "check", "skip_bad",
     "overwrite"},
    convert_imageset};

}  // namespace crema::tools
