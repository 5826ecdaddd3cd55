// Runs of a small solver with snapshots in a folder of their own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"

namespace crema::test {

class SnapshotRun : public ::testing::Test {
 protected:
  /// A net whose loss falls in each iteration.
  SolverParameter solver_param(const std::string& more) const {
    SolverParameter param;
    parse_text_proto(
        text("net_param { name: 'falling' layer { name: 'x' type: 'Input' top: 'x' top: 'label' "
             "input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }"
             "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {"
             " num_output: 4 } }"
             "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
             "top: 'loss' } } base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' snapshot_prefix: '",
             folder_ / "s", "' ", more),
        "solver.prototxt", param);
    return param;
  }

  std::string file(int iteration, const std::string& ending) const {
    return text(folder_ / "s", "_iter_", iteration, ending);
  }
  /// The iterations of the snapshots on disk; each has both files, or the test fails.
  std::set<int> on_disk() const {
    std::set<int> found;
    for (int i = 0; i <= 30; ++i) {
      for (const std::string format : {"", ".h5"}) {
        const bool state = std::filesystem::exists(file(i, ".solverstate" + format));
        EXPECT_EQ(state, std::filesystem::exists(file(i, ".caffemodel" + format))) << i;
        if (state) found.insert(i);
      }
    }
    return found;
  }

  /// Flips a bit in the middle of the file.
  static void damage(const std::string& path) {
    std::string content = read_file(path);
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
    std::ofstream(path, std::ios::binary) << content;
  }

  Context logging() {
    return Context({.logger = [this](Severity severity, const std::string& message) {
      if (severity == Severity::warning) warnings_ += message + "\n";
    }});
  }
  bool warned(const std::string& of) const { return warnings_.find(of) != std::string::npos; }

  ScratchFolder folder_;
  std::string warnings_;
};

}  // namespace crema::test
