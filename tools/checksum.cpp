// crema checksum: checks the checksums of weights and states, or renews them.
#include <gflags/gflags.h>

#include <cstdio>
#include <iostream>

#include "core/utf8.hpp"
#include "model/snapshot_file.hpp"
#include "onnx/model_file.hpp"
#include "tools/command.hpp"

DEFINE_bool(accept, false, "Write the checksum of the files' present contents into them.");

namespace crema::tools {
namespace {

/// One line about the file.
void print(const std::string& path, const char* what) {
  std::printf("%s: %s\n", printable(path).c_str(), what);
}

int checksum(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    throw Error("no file is named; give weights and states: crema checksum net.caffemodel");
  int status = 0;
  for (const std::string& path : arguments) {
    try {
      if (onnx::is_onnx_name(path))
        throw Error("'", path, "' is a model of ONNX, which carries no checksum; `crema inspect ",
                    path, "` reads all of it, and `crema diff` compares its weights with others");
      if (FLAGS_accept) {
        print(path, renew_checksum(path) ? "has a new checksum"
                                         : "an HDF5 file of another program, which carries none");
      } else {
        print(path, check_snapshot_file(path) ? "intact" : "carries no checksum; it can be read");
      }
    } catch (const Error& error) {
      std::cerr << "crema: " << error.what() << "\n";
      status = 1;
    }
  }
  return status;
}

}  // namespace

extern const Command kChecksum = {
    "checksum",
    "checks that weights and states are as they were written",
    "  crema checksum FILE...\n"
    "  crema checksum --accept FILE...\n"
    "\n"
    "Reads .caffemodel and .solverstate files, also those in HDF5 (.h5), and says of each whether\n"
    "its contents fit the checksum that it carries. The status is 1 if one is damaged.\n"
    "\n"
    "--accept writes a new checksum, for files that a program changed on purpose.",
    {"accept"},
    checksum};

}  // namespace crema::tools
