// Runs the program as a user does.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/temp_folder.hpp"

namespace crema::test {

/// Runs that tests start leave no folder in the working directory; those of run folders ask for
/// one.
inline const bool kNoRunFolders = ::setenv("CREMA_RUN_DIR", "none", 0) == 0;

struct Output {
  int status = -1;
  std::string text;  // stdout and stderr
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
  int count(const std::string& part) const {
    int found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
    return found;
  }
};

inline Output run(const std::string& arguments, const std::string& program = CREMA_TOOL) {
  Output output;
  FILE* pipe = popen((program + " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    output.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

/// Fails unless the command ends with this status and one message that holds every part.
inline void expect_refusal(const std::string& arguments, std::initializer_list<std::string> parts,
                           int status = 1) {
  const Output output = run(arguments);
  EXPECT_EQ(output.status, status) << arguments << "\n" << output.text;
  for (const auto& part : parts)
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  EXPECT_FALSE(output.says("Check failure stack trace")) << output.text;
  EXPECT_FALSE(output.says("ERROR: ")) << "in the words of gflags: " << output.text;
}

class CliTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }

  std::string net() const {
    return write("net.prototxt", R"(name: "tiny"
layer { name: "x" type: "DummyData" top: "x" top: "label" dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  }
  std::string solver(const std::string& more) const {
    return write("solver.prototxt", "net: '" + net() + "' base_lr: 0.1 lr_policy: 'fixed' " + more);
  }
  /// The same, with snapshots under path("s").
  std::string snapshotting_solver(const std::string& more) const {
    return solver("snapshot_prefix: '" + path("s") + "' " + more);
  }

  TempFolder folder_;
};

}  // namespace crema::test
