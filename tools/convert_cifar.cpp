// crema convert-cifar: databases from the files of CIFAR-10 and CIFAR-100. The published name
// works too.
#include <glog/logging.h>

#include "tools/command.hpp"
#include "tools/convert_report.hpp"
#include "tools/database_flags.hpp"
#include "tools/flags.hpp"

DEFINE_string(kind, "cifar10", "The data set: cifar10 or cifar100.");
DEFINE_bool(coarse, false, "CIFAR-100: labels are the 20 superclasses instead of the 100 classes.");

namespace crema::tools {
namespace {

CifarKind kind_of_set() {
  if (FLAGS_kind == "cifar10") return CifarKind::cifar10;
  if (FLAGS_kind == "cifar100") return CifarKind::cifar100;
  throw Error("--kind=", FLAGS_kind, " is no set; give cifar10 or cifar100");
}

int convert_cifar(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 3)
    throw Error("convert-cifar takes INPUT_FOLDER OUTPUT_FOLDER DB_TYPE; got ", arguments.size(),
                " arguments");
  ConvertCifarOptions options;
  options.kind = kind_of_set();
  options.input = arguments[0];
  options.output = arguments.size() > 1 ? arguments[1] : arguments[0];
  options.backend = arguments.size() > 2 ? arguments[2] : FLAGS_backend;
  options.coarse = FLAGS_coarse;
  options.overwrite = FLAGS_overwrite;
  options.progress = show_progress();
  const ConvertCifarReport result = crema::convert_cifar(options);
  options.progress = {};  // ends its line
  report(result.train, result.train_path);
  report(result.test, result.test_path);
  return 0;
}

}  // namespace

extern const Command kConvertCifar = {
    "convert-cifar",
    "makes databases from CIFAR-10's or CIFAR-100's files",
    "  crema convert-cifar INPUT_FOLDER [OUTPUT_FOLDER [DB_TYPE]]\n"
    "\n"
    "Reads the binary version in INPUT_FOLDER: data_batch_1.bin to data_batch_5.bin and\n"
    "test_batch.bin, or train.bin and test.bin of CIFAR-100, each plain or .gz. Writes\n"
    "OUTPUT_FOLDER/cifar10_train_lmdb and OUTPUT_FOLDER/cifar10_test_lmdb (cifar100_... for\n"
    "CIFAR-100). The default of OUTPUT_FOLDER is INPUT_FOLDER. DB_TYPE is lmdb, the default, or\n"
    "leveldb. Both databases appear when both are whole. Channels are red, green, blue.",
    {"kind", "coarse", "backend", "overwrite"},
    convert_cifar};

}  // namespace crema::tools
