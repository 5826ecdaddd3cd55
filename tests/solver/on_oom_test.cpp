// on_oom: HALVE_BATCH: a training net that the memory does not suffice for.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/memory_error.hpp"
#include "model/snapshot_file.hpp"
#include "solver/database_run.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::HasSubstr;

const std::string kHalve =
    "lr_policy: 'fixed' max_iter: 8 on_oom: HALVE_BATCH snapshot: 3 test_iter: 2 test_interval: 4 ";
/// Without statistics of the batch, so that halves are worth the whole.
const std::string kPlain = "layer { name: 'sigmoid' type: 'Sigmoid' bottom: 'data' top: 'x' } ";

class OnOom : public test::DatabaseRun {
 protected:
  /// The memory ends in the first iteration, behind its first passes.
  static std::function<void(Solver&)> short_of_memory(bool* done) {
    return [done](Solver& solver) {
      solver.before_update = [done] {
        if (!std::exchange(*done, true)) throw MemoryError("cannot allocate 5 bytes");
      };
    };
  }
};

TEST_F(OnOom, HalvesTheBatchAndDoublesThePasses) {
  for (const std::string& layers : {kPlain, std::string()}) {
    warnings_.clear();
    bool done = false;
    const Course halved = run(solver_param(kHalve, 4, layers), "", short_of_memory(&done));
    ASSERT_EQ(halved.notes.size(), 1U);
    EXPECT_THAT(halved.notes[0], HasSubstr("batches are halved ('data' from 4 to 2) and iter_size "
                                           "goes from 1 to 2"));
    EXPECT_THAT(halved.notes[0], HasSubstr("cannot allocate 5 bytes"));
    const std::string of_statistics = "BatchNorm takes its means over half as many samples";
    EXPECT_EQ(halved.notes[0].find(of_statistics) != std::string::npos, layers.empty());
    EXPECT_THAT(warnings_, HasSubstr(halved.notes[0]));
    // To the bit the run that was set so: the records of the pass that failed come again, and what
    // it did to statistics is undone.
    SolverParameter set_so = solver_param(kHalve + "iter_size: 2", 2, layers);
    set_so.mutable_net_param()->mutable_layer(1)->mutable_data_param()->set_batch_size(4);
    EXPECT_EQ(run(set_so).values, halved.values);
  }
}

TEST_F(OnOom, AResumedRunEndsWithTheSameBits) {
  bool done = false;
  const SolverParameter param = solver_param(kHalve);
  const Course straight = run(param, "", short_of_memory(&done));
  SolverState saved;
  read_solver_state(state(3), saved);
  EXPECT_TRUE(saved.halved_batch());
  Context context = logging();
  Solver resumed(param, context);
  resumed.restore(state(3));
  EXPECT_THAT(log_, HasSubstr("as in the run of the snapshot, batches are halved"));
  EXPECT_EQ(source(resumed).records_per_batch(), 2);
  EXPECT_EQ(*resumed.iterations_of_epoch(), 10);
  EXPECT_EQ(finish(resumed).values, straight.values);
  // Who has the memory takes the setting out.
  SolverParameter whole = param;
  whole.clear_on_oom();
  Solver large(whole, context);
  large.restore(state(3));
  EXPECT_EQ(source(large).records_per_batch(), 4);
  EXPECT_THAT(log_, HasSubstr("the run of the snapshot had halved its batches"));
}

TEST_F(OnOom, HappensOnceAndInTheFirstIterationAlone) {
  Context context = logging();
  Solver solver(solver_param(kHalve), context);
  solver.before_update = [] { throw MemoryError("cannot allocate 5 bytes"); };
  expect_error([&] { solver.solve(); },
               {"cannot allocate 5 bytes", "batches that are halved already, as on_oom says"});
  EXPECT_EQ(source(solver).records_per_batch(), 2);
  expect_error([&] { solver.solve(); }, {"cannot help", "half of what the settings say already"});

  Solver later(solver_param(kHalve), context);
  later.before_update = [&] {
    if (later.iteration() == 1) throw MemoryError("cannot allocate 5 bytes");
  };
  expect_error([&] { later.solve(); }, {"cannot allocate 5 bytes"});
  EXPECT_EQ(source(later).records_per_batch(), 4);
}

TEST_F(OnOom, WhatCannotBeHalvedIsSaid) {
  const auto fails = [&](const SolverParameter& param,
                         std::initializer_list<std::string_view> parts) {
    Context context;
    Solver solver(param, context);
    bool done = false;
    short_of_memory (&done)(solver);
    expect_error([&] { solver.solve(); }, parts);
  };
  fails(solver_param(kHalve, 5), {"cannot allocate 5 bytes; on_oom: HALVE_BATCH cannot help",
                                  "'data' has 5 records, an odd number"});
  fails(solver_param(kHalve, 4,
                     "layer { name: 'more' type: 'DummyData' top: 'more' dummy_data_param { shape "
                     "{ dim: 4 } } } layer { name: 'silence' type: 'Silence' bottom: 'more' } " +
                         kPlain),
        {"'more' (DummyData)", "reads no records by a batch_size"});
  // Layers that fix the size of the batch.
  fails(solver_param(kHalve, 4,
                     "layer { name: 'shape' type: 'Reshape' bottom: 'data' top: 'x' reshape_param "
                     "{ shape { dim: 4 dim: 72 } } } "),
        {"cannot help", "'shape'"});
}

// A plan that does not fit the budget, when the nets are made.
TEST_F(OnOom, ABudgetThatHalfTheBatchFitsIntoIsKept) {
  const std::string layers =
      "layer { name: 'wide' type: 'Convolution' bottom: 'data' top: 'w' convolution_param { "
      "num_output: 64 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } } "
      "layer { name: 'sigmoid' type: 'Sigmoid' bottom: 'w' top: 'x' } ";
  const auto builds = [&](const std::string& settings, size_t budget, std::string* log) {
    Context context({.engine = "reference", .logger = [&](Severity, const std::string& line) {
                       if (log != nullptr) *log += line + "\n";
                     }});
    try {
      Solver solver(solver_param("lr_policy: 'fixed' max_iter: 2 " + settings, 16, layers), context,
                    {.memory_budget = budget});
      std::vector<std::string> notes;
      solver.on_note = [&](const std::string& note) { notes.push_back(note); };
      solver.step(1);
      EXPECT_EQ(notes.size(), source(solver).records_per_batch() == 8 ? 1U : 0U);
      return true;
    } catch (const MemoryError& error) {
      EXPECT_THAT(error.what(), HasSubstr("memory budget"));
      return false;
    }
  };
  size_t budget = 50000;
  while (!builds("on_oom: HALVE_BATCH", budget, nullptr) && budget < 100000000)
    budget += budget / 8;
  ASSERT_LT(budget, 100000000U);
  EXPECT_FALSE(builds("", budget, nullptr));
  std::string log;
  EXPECT_TRUE(builds("on_oom: HALVE_BATCH", budget, &log));
  EXPECT_THAT(log, HasSubstr("batches are halved ('data' from 16 to 8)"));
}

}  // namespace
}  // namespace crema
