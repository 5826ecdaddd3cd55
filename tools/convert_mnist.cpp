// crema convert-mnist: databases from the IDX files of MNIST and its like.
#include <glog/logging.h>

#include <filesystem>

#include "core/path_advice.hpp"
#include "data/converters/gzip_file.hpp"
#include "data/databases/database_writer.hpp"
#include "tools/command.hpp"
#include "tools/convert_report.hpp"
#include "tools/database_flags.hpp"
#include "tools/flags.hpp"

namespace crema::tools {
namespace fs = std::filesystem;
namespace {

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
  if (arguments.empty() || arguments.size() > 3)
    throw Error("convert-mnist takes FOLDER and OUTPUT_FOLDER, or IMAGES, LABELS and OUTPUT; got ",
                arguments.size(), " arguments");
  const fs::path folder = arguments[0], to = arguments.back();
  for (const fs::path& named : {folder, to}) {
    std::error_code why;
    if (fs::is_directory(named, why)) continue;
    const bool says_more = why && why != std::errc::no_such_file_or_directory;
    throw Error("there is no folder '", named.string(), "'", says_more ? ": " + why.message() : "",
                path_advice(named.string()))
        .about(named.string());
  }
  const bool leveldb = database_kind(FLAGS_backend) == DatabaseKind::leveldb;
  const std::string ending = leveldb ? "leveldb" : "lmdb";
  for (const auto& [prefix, output] : {std::pair{"train", "train_"}, {"t10k", "test_"}}) {
    const auto find = [&](const char* kind) {
      return plain_or_gzip(folder.string(), text(prefix, kind),
                           "; data/mnist/get.sh fetches the data set");
    };
    const std::string images = find("-images-idx3-ubyte"), labels = find("-labels-idx1-ubyte");
    convert(images, labels, (to / (output + ending)).string());
  }
  return 0;
}

}  // namespace

extern const Command kConvertMnist = {
    "convert-mnist",
    "makes databases from MNIST's files",
    "  crema convert-mnist FOLDER [OUTPUT_FOLDER] [--backend lmdb|leveldb] [--overwrite]\n"
    "  crema convert-mnist IMAGES LABELS OUTPUT [--backend lmdb|leveldb] [--overwrite]\n"
    "\n"
    "The first form reads train-* and t10k-* in FOLDER, plain or .gz, and writes\n"
    "train_lmdb and test_lmdb, or train_leveldb and test_leveldb, to OUTPUT_FOLDER. The default "
    "of\n"
    "OUTPUT_FOLDER is FOLDER. A database appears under its name when it is whole.",
    {"backend", "overwrite"},
    convert_mnist};

}  // namespace crema::tools
