// What a training does by itself where it fails, and its trials, on a device in host memory
// (support/fake_device.hpp): as on the CPU, although the host is an iteration ahead.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>

#include "core/memory_error.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/fake_device.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::params_of;

/// What a run gives of itself.
struct Seen {
  std::vector<double> values;  // of the iterations' reports, then the parameters
  std::vector<std::string> notes;
  int iteration = 0;
};

class DeviceRescue : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
  }

  /// 40 records, of which one may be infinite; 4 in a batch.
  SolverParameter param(const std::string& more, int bad = -1) const {
    test::Records records;
    for (int i = 0; i < 40; ++i) {
      Datum datum;
      datum.set_channels(1);
      datum.set_height(2);
      datum.set_width(3);
      datum.set_label(i % 4);
      for (int k = 0; k < 6; ++k)
        datum.add_float_data(i == bad ? std::numeric_limits<float>::infinity()
                                      : static_cast<float>((7 * i + 3 * k) % 11) / 11 - 0.5F);
      records.emplace_back(text(100 + i), datum.SerializeAsString());
    }
    std::filesystem::remove_all(folder_ / "db");
    test::write_database(folder_ / "db", records);
    SolverParameter solver;
    parse_text_proto(
        text("net_param { name: 'small' layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
             "data_param { source: '",
             folder_ / "db",
             "' batch_size: 4 } } layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'bn' } "
             "layer { name: 'drop' type: 'Dropout' bottom: 'bn' top: 'bn' } layer { name: 'ip' "
             "type: 'InnerProduct' bottom: 'bn' top: 'ip' inner_product_param { num_output: 4 "
             "weight_filler { type: 'xavier' } } } layer { name: 'loss' type: 'SoftmaxWithLoss' "
             "bottom: 'ip' bottom: 'label' top: 'loss' } } base_lr: 0.1 momentum: 0.9 lr_policy: "
             "'fixed' snapshot_prefix: '",
             folder_ / "s", "' ", more),
        "solver.prototxt", solver);
    return solver;
  }

  static Seen run(Solver& solver) {
    Seen seen;
    solver.on_note = [&](const std::string& note) { seen.notes.push_back(note); };
    solver.on_iteration = [&](const IterationReport& report) {
      seen.values.insert(seen.values.end(), {double(report.iteration), report.loss, report.rate});
    };
    solver.solve();
    for (const double value : params_of(solver.net())) seen.values.push_back(value);
    seen.iteration = solver.iteration();
    return seen;
  }
  static Seen on_cpu(const SolverParameter& param, const std::function<void(Solver&)>& prepare) {
    Context context({.threads = 1, .engine = "reference"});
    Solver solver(param, context);
    prepare(solver);
    return run(solver);
  }
  static Seen on_device(const SolverParameter& param, const std::function<void(Solver&)>& prepare,
                        bool graphs) {
    Context context({.threads = 1}, std::make_unique<FakeDevice>());
    Solver solver(param, context, {.graphs = graphs});
    prepare(solver);
    return run(solver);
  }
  static void expect_near(const Seen& seen, const Seen& expected) {
    // Which value that is not finite comes first is a matter of the kernels.
    const auto what = [](const Seen& of) {
      std::vector<std::string> notes = of.notes;
      for (std::string& note : notes) note.resize(std::min(note.size(), note.find("the first is")));
      return notes;
    };
    EXPECT_EQ(what(seen), what(expected));
    EXPECT_EQ(seen.iteration, expected.iteration);
    ASSERT_EQ(seen.values.size(), expected.values.size());
    for (size_t i = 0; i < seen.values.size(); ++i)
      EXPECT_NEAR(seen.values[i], expected.values[i], 1e-4) << i;
  }

  test::ScratchFolder folder_;
};

TEST_F(DeviceRescue, GoesBackAsOnTheCpu) {
  for (const std::string more : {"", "iter_size: 2 "}) {
    const SolverParameter solver =
        param(more + "max_iter: 9 snapshot: 2 on_nan: ROLLBACK ", more.empty() ? 22 : 30);
    const Seen expected = on_cpu(solver, [](Solver&) {});
    ASSERT_EQ(expected.notes.size(), more.empty() ? 1U : 2U);
    for (const bool graphs : {true, false})
      expect_near(on_device(
                      solver, [](Solver&) {}, graphs),
                  expected);
  }
}

TEST_F(DeviceRescue, HalvesTheBatchAsOnTheCpu) {
  const SolverParameter solver = param("max_iter: 6 on_oom: HALVE_BATCH ");
  const auto prepare = [](Solver& each) {
    each.before_iteration = [done = false]() mutable {
      if (!std::exchange(done, true)) throw MemoryError("cannot allocate 5 bytes");
    };
  };
  const Seen expected = on_cpu(solver, prepare);
  ASSERT_EQ(expected.notes.size(), 1U);
  for (const bool graphs : {true, false}) expect_near(on_device(solver, prepare, graphs), expected);
}

TEST_F(DeviceRescue, TrialsLeaveNoTrace) {
  const SolverParameter solver = param("max_iter: 8 snapshot_after_train: false ema_decay: 0.5 ");
  const Seen expected = on_device(
      solver, [](Solver& each) { each.step(3); }, true);
  const Seen tried = on_device(
      solver,
      [](Solver& each) {
        each.step(3);
        EXPECT_GE(each.try_rates({.from = 1e-4, .to = 1, .steps = 9}).steps.size(), 2U);
        EXPECT_GE(each.try_batches({.memory = size_t{1} << 30, .most = 8, .iterations = 1}).size(),
                  4U);
      },
      true);
  EXPECT_EQ(tried.values, expected.values);
}

}  // namespace
}  // namespace crema
