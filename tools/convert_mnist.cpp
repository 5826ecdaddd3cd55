// crema convert-mnist: databases from the IDX files of MNIST and its like.
#include <glog/logging.h>

#include <filesystem>

#include "data/database_writer.hpp"
#include "tools/command.hpp"
#include "tools/convert_report.hpp"
#include "tools/database_flags.hpp"
#include "tools/flags.hpp"

namespace crema::tools {
namespace fs = std::filesystem;
namespace {

/// NAME or NAME.gz in the folder, whichever is there.
std::string find_file(const fs::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = folder / (name + ending);
    if (fs::exists(path)) return path.string();
  }
  throw Error("there is neither '", (folder / name).string(), "' nor '", name,
              ".gz'; data/mnist/get.sh fetches the data set");
}

void convert(const std::string& images, const std::string& labels, const std::string& output) {
  ConvertMnistOptions options;
  options.images = images;
  options.labels = labels;
  options.output = output;
  options.backend = FLAGS_backend;
  options.overwrite = FLAGS_overwrite;
  options.progress = show_progress();
  const ConvertReport result = crema::convert_mnist(options);
  options.progress = {};  // ends its line
  report(result, output);
}

int convert_mnist(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3) {
    convert(arguments[0], arguments[1], arguments[2]);
    return 0;
  }
  if (arguments.size() != 1)
    throw Error("convert-mnist takes one folder, or images, labels and output; got ",
                arguments.size(), " arguments");
  const fs::path folder = arguments[0];
  if (!fs::is_directory(folder)) throw Error("there is no folder '", folder.string(), "'");
  const bool leveldb = database_kind(FLAGS_backend) == DatabaseKind::leveldb;
  const std::string ending = leveldb ? "leveldb" : "lmdb";
  for (const auto& [prefix, output] : {std::pair{"train", "train_"}, {"t10k", "test_"}}) {
    const std::string images = find_file(folder, std::string(prefix) + "-images-idx3-ubyte");
    const std::string labels = find_file(folder, std::string(prefix) + "-labels-idx1-ubyte");
    convert(images, labels, (folder / (output + ending)).string());
  }
  return 0;
}

}  // namespace

const Command kConvertMnist = {
    "convert-mnist",
    "makes databases from MNIST's files",
    "  crema convert-mnist FOLDER [--backend lmdb|leveldb] [--overwrite]\n"
    "  crema convert-mnist IMAGES LABELS OUTPUT [--backend lmdb|leveldb] [--overwrite]\n"
    "\n"
    "The first form reads train-* and t10k-* in FOLDER, plain or .gz, and writes\n"
    "FOLDER/train_lmdb and FOLDER/test_lmdb, or train_leveldb and test_leveldb. A database\n"
    "appears under its name when it is whole.",
    {"backend", "overwrite"},
    convert_mnist};

}  // namespace crema::tools
