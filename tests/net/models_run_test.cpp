// The nets of models/ run: forward, backward, and the settings of their solvers.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "crema/parameter_arena.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"
#include "net/model_files.hpp"
#include "proto/solver.pb.h"
#include "solver/rate_policy.hpp"
#include "solver/settings.hpp"
#include "solver/update_rule.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

TEST(Models, RunForwardAndBackward) {
  std::set<std::string> folders, run;
  for (const std::string& file : test::deploy_files()) {
    folders.insert(fs::path(file).parent_path().string());
  }
  Context context({.tune = false});
  for (const std::string& file : test::training_files()) {
    SCOPED_TRACE(file);
    run.insert(fs::path(file).parent_path().string());
    Net net(test::small_training_net(file), context);
    test::fill_training_inputs(net);
    test::standardize(net);
    net.clear_gradients();
    EXPECT_TRUE(std::isfinite(net.forward()));
    net.backward();
    double sum = 0;
    for (const auto& segment : net.params().segments()) {
      if (!segment.parameter->needs_gradient) continue;
      const Tensor& gradient = segment.parameter->gradient();
      const auto* values = gradient.host<float>();
      for (int64_t i = 0; i < gradient.count(); ++i) sum += std::abs(values[i]);
    }
    EXPECT_GT(sum, 0);
    EXPECT_TRUE(std::isfinite(sum));
  }
  EXPECT_EQ(run, folders);
}

TEST(Models, HaveSolversThatARunCanHave) {
  int checked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_path("models"))) {
    const std::string path = entry.path().string();
    if (path.find("solver") == std::string::npos || !path.ends_with(".prototxt")) continue;
    SCOPED_TRACE(path);
    SolverParameter solver;
    SourceMap source;
    read_text_proto(path, solver, &source);
    upgrade_solver(solver, source);
    EXPECT_EQ(check_settings(solver, source), std::vector<std::string>());
    Context context;
    const UpdateRule rule(solver, context, source);
    const RatePolicy policy(solver, rule.momentum(), source);
    EXPECT_TRUE(fs::exists(test::source_path(solver.net()))) << solver.net();
    EXPECT_EQ(fs::path(solver.net()).parent_path(),
              fs::path(solver.snapshot_prefix()).parent_path());
    ++checked;
  }
  EXPECT_GE(checked, 38);
}

}  // namespace
}  // namespace crema
