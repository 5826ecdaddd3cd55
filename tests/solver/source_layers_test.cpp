// Runs over the sources of data that are no databases: they end the same with a break as without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/memory_data.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/hdf5_arrays.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::params_of;

class SourceLayers : public ::testing::Test {
 protected:
  /// 13 rows in two files.
  std::string hdf5_list() {
    std::string list;
    for (const int rows : {6, 7}) {
      const std::string file = folder_ / text("rows", rows, ".h5");
      std::vector<double> data, labels;
      for (int i = 0; i < rows; ++i) {
        data.insert(data.end(), {0.1 * i, 1.0 / (i + rows), 0.3});
        labels.push_back(i % 4);
      }
      test::add_hdf5(file, "data", test::Hdf5Kind::f32, {rows, 3}, data);
      test::add_hdf5(file, "label", test::Hdf5Kind::i32, {rows}, labels);
      list += file + "\n";
    }
    return folder_.write("list.txt", list);
  }
  SolverParameter solver_param(const std::string& data) const {
    SolverParameter param;
    parse_text_proto(
        text("net_param { ", data,
             "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
             "inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }"
             "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
             "top: 'loss' } } base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' iter_size: 2 "
             "max_iter: 9 snapshot: 4 test_iter: 2 test_interval: 2 snapshot_prefix: '",
             folder_ / "snap", "'"),
        "solver.prototxt", param);
    return param;
  }
  struct Run {
    std::vector<double> params, tests, losses;
  };
  static Run run(Solver& solver) {
    Run result;
    solver.on_test = [&](const TestReport& report) { result.tests.push_back(report.loss); };
    solver.on_iteration = [&](const IterationReport& report) {
      result.losses.push_back(report.loss);
    };
    solver.solve();
    result.params = params_of(solver.net());
    return result;
  }
  /// Runs without a break, and from the snapshot of iteration 4. `feed` gives data to new solvers.
  void expect_resumes(
      const SolverParameter& param, const std::function<void(Solver&)>& feed = [](Solver&) {}) {
    Context context({.seed = 5}), other({.seed = 99});
    Solver straight(param, context), resumed(param, other);
    feed(straight);
    feed(resumed);
    const Run through = run(straight);
    resumed.restore(folder_ / "snap_iter_4.solverstate");
    const Run again = run(resumed);
    EXPECT_EQ(again.params, through.params);
    ASSERT_EQ(through.tests.size(), 6U);  // at 0, 2 | 4, 6, 8, 9
    EXPECT_EQ(again.tests, std::vector<double>(through.tests.begin() + 2, through.tests.end()));
    ASSERT_EQ(through.losses.size(), 9U);
    EXPECT_EQ(again.losses, std::vector<double>(through.losses.begin() + 4, through.losses.end()));
    EXPECT_NE(through.losses[0], through.losses[1]);
  }
  test::ScratchFolder folder_;
};

TEST_F(SourceLayers, ResumesBitForBitOverShuffledHdf5Rows) {
  if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  expect_resumes(
      solver_param("layer { name: 'in' type: 'HDF5Data' top: 'data' top: 'label' "
                   "hdf5_data_param { source: '" +
                   hdf5_list() + "' batch_size: 4 shuffle: true } }"));
}

TEST_F(SourceLayers, ResumesBitForBitOverDummyData) {
  expect_resumes(
      solver_param("layer { name: 'in' type: 'DummyData' top: 'data' top: 'label' "
                   "dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } "
                   "data_filler { type: 'gaussian' } data_filler { value: 2 } } }"));
}

// Each batch of a test has numbers of its own.
TEST_F(SourceLayers, BatchesOfATestDiffer) {
  const auto loss = [&](int batches) {
    SolverParameter param = solver_param(
        "layer { name: 'in' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { "
        "shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: 'gaussian' } "
        "data_filler { value: 2 } } }");
    param.set_test_iter(0, batches);
    Context context;
    Solver solver(param, context);
    return solver.test().at(0).loss;
  };
  EXPECT_EQ(loss(2), loss(2));
  EXPECT_NE(loss(2), loss(1));
}

TEST_F(SourceLayers, ResumesBitForBitOverMemoryData) {
  const auto feed = [](Solver& solver) {
    std::vector<float> data, labels;
    for (int i = 0; i < 11; ++i) {
      data.insert(data.end(), {0.1f * static_cast<float>(i), 0.5f, 1.0f});
      labels.push_back(static_cast<float>(i % 4));
    }
    MemoryData::of(solver.net().layer("in")).set(data, labels);
    for (auto& net : solver.test_nets()) MemoryData::of(net->layer("in")).set(data, labels);
  };
  expect_resumes(solver_param("layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label' "
                              "memory_data_param { batch_size: 4 channels: 3 height: 1 width: 1 "
                              "} }"),
                 feed);
}

// A test that is stopped sets the sources back, and cannot where records are gone meanwhile.
TEST_F(SourceLayers, AStoppedTestWarnsOfRecordsThatAreGone) {
  std::vector<std::string> warnings;
  Context context({.logger = [&](Severity severity, const std::string& text) {
    if (severity == Severity::warning) warnings.push_back(text);
  }});
  Solver solver(solver_param("layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label' "
                             "memory_data_param { batch_size: 4 channels: 3 height: 1 width: 1 "
                             "} }"),
                context);
  const auto feed = [&](Net& net, size_t count) {
    MemoryData::of(net.layer("in")).set(std::vector<float>(3 * count), std::vector<float>(count));
  };
  feed(solver.net(), 11);
  feed(*solver.test_nets().at(0), 11);
  solver.net().forward();
  solver.poll = [&] {
    feed(solver.net(), 2);
    return SolverAction::stop;
  };
  warnings.clear();
  EXPECT_TRUE(solver.test().empty());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0],
              testing::AllOf(testing::HasSubstr("stopped test"), testing::HasSubstr("record 4")));
}

}  // namespace
}  // namespace crema
