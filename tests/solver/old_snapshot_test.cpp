// A run of Caffe's V1 times goes on here. Its net, weights and states are real data, which the test
// reads where CREMA_SHARED_DIR says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "crema/parameter_arena.hpp"
#include "crema/solver.hpp"
#include "model/binary_format.hpp"
#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/net_test.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

TEST(OldSnapshotTest, ARunOfV1GoesOn) {
  const fs::path folder = test::shared_path("data/models/lenet_V1format_2014");
  if (!fs::exists(folder)) GTEST_SKIP() << "needs " << folder << ": set CREMA_SHARED_DIR";
  const test::ScratchFolder copies;
  const std::string state_file = copies / "lenet_iter_10000.solverstate";
  fs::copy_file(folder / "snapshot.solverstate", state_file);
  fs::copy_file(folder / "weights.caffemodel", fs::path(copies / "lenet_iter_10000"));

  SolverParameter solver_param;
  read_text_proto((folder / "solver.prototxt").string(), solver_param);
  solver_param.clear_train_net();
  solver_param.clear_test_net();
  solver_param.clear_test_iter();
  solver_param.set_snapshot(0);
  solver_param.set_snapshot_after_train(false);
  NetParameter& net = *solver_param.mutable_train_net_param();
  read_text_proto((folder / "train.prototxt").string(), net);
  ASSERT_EQ(net.layers(0).type(), V1LayerParameter::DATA);
  NetParameter data;
  parse_text_proto(
      "layers { name: 'mnist' type: DUMMY_DATA top: 'data' top: 'label' dummy_data_param { "
      "num: 4 channels: 1 height: 28 width: 28 num: 4 channels: 1 height: 1 width: 1 "
      "data_filler { type: 'uniform' } data_filler { type: 'constant' value: 3 } } }",
      "data", data);
  *net.mutable_layers(0) = data.layers(0);

  Context context;
  Solver solver(solver_param, context);
  solver.restore(state_file);
  EXPECT_EQ(solver.iteration(), 10000);

  NetParameter weights;
  read_binary_proto((folder / "weights.caffemodel").string(), weights);
  std::vector<double> expected;
  for (const auto& layer : weights.layers()) {
    for (const auto& blob : layer.blobs()) {
      expected.insert(expected.end(), blob.data().begin(), blob.data().end());
    }
  }
  EXPECT_EQ(expected.size(), 431080u);
  EXPECT_EQ(test::params_of(solver.net()), expected);
}

}  // namespace
}  // namespace crema
