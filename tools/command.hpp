// A command of the `crema` program. Each command is a file that defines one `Command` and a line in
// main.cpp's table; published names stand in scripts/cmake/tools.cmake.
#pragma once

#include <string>
#include <vector>

#include "crema/error.hpp"

namespace crema::tools {

struct Command {
  std::string name;                // "train"
  std::string summary;             // one line
  std::string usage;               // what `crema help NAME` prints below the summary
  std::vector<std::string> flags;  // gflags that the command takes, beside the common ones
  /// Positional arguments that follow the command. Returns the exit status.
  int (*run)(const std::vector<std::string>& arguments);
  int error_status = 1;  // exit status where it throws
};

extern const Command kTrain, kTest, kTime, kSummary, kLayers, kModels, kConvertMnist,
    kConvertImageset, kConvertAnnotations, kDeviceQuery, kChecksum;
extern const Command kClassify, kDetect, kDraw, kMergeBn, kDiff, kInspect;
extern const Command kConvertCifar, kComputeImageMean, kExtractFeatures, kVerifyDb, kDb;
extern const Command kUpgradeNetProtoText, kUpgradeNetProtoBinary, kUpgradeSolverProtoText;

/// Lets CREMA_MODEL_PATH name the models that are installed beside this program, if there are any
/// and it is not set.
void use_installed_models();

/// For commands that take flags alone: Error that names the first argument. `instead` says what to
/// give, as "give the net with --model=FILE".
void refuse_arguments(const Command& command, const std::vector<std::string>& arguments,
                      const std::string& instead);

}  // namespace crema::tools
