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

/// Parameters that no loss moves: the distance of a pair does not depend on the bias of both.
const std::set<std::string> kUnmoved = {"siamese_mnist/train_val.prototxt feat 1",
                                        "siamese_mnist/train_val.prototxt feat_p 1"};

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
    test::fill_zero_weights(net);
    net.clear_gradients();
    EXPECT_TRUE(std::isfinite(net.forward()));
    net.backward();
    for (const Layer* layer : net.layers()) {
      for (size_t i = 0; i < layer->params().size(); ++i) {
        const std::string name = text(layer->name(), " ", i);
        if (!layer->params()[i]->needs_gradient || kUnmoved.contains(file + " " + name)) continue;
        SCOPED_TRACE(name);
        const Tensor& gradient = layer->params()[i]->gradient();
        const auto* values = gradient.read<float>();
        double sum = 0;
        for (int64_t k = 0; k < gradient.count(); ++k) sum += std::abs(values[k]);
        EXPECT_GT(sum, 0);
        EXPECT_TRUE(std::isfinite(sum));
      }
    }
  }
  EXPECT_EQ(run, folders);
}

TEST(Models, HaveSolversThatARunCanHave) {
  int checked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_path("models"))) {
    const std::string path = entry.path().string();
    const std::string name = entry.path().filename().string();
    if (name.find("solver") == std::string::npos || !name.ends_with(".prototxt")) continue;
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
