// Running the trials of a sweep, and going on with it.
#include "monitor/sweep/sweep_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>

#include "monitor/report/run_files.hpp"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using Kind = TrialState::Kind;

class SweepRunTest : public ::testing::Test {
 protected:
  SweepRunTest() {
    folder_.write("net.prototxt", R"(name: "tiny"
layer { name: "x" type: "DummyData" top: "x" top: "label"
  dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
    folder_.write("solver.prototxt", "net: '" + folder_.path("net.prototxt") +
                                         "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 8 "
                                         "test_iter: 1 test_interval: 2 snapshot: 4 display: 2");
  }
  SweepPlan plan(const std::string& more) const {
    return plan_sweep(
        folder_.write("s.prototxt", "solver: '" + folder_.path("solver.prototxt") + "'\n" + more));
  }
  std::string sweep() const { return folder_.path("sweep-1"); }
  RunFiles trial(const std::string& name) const { return read_run(sweep() + "/" + name); }
  SweepRunOptions options() {
    SweepRunOptions options;
    options.context.threads = 2;
    options.on_change = [this](const PlannedTrial& trial, const TrialState& state) {
      if (state.kind == Kind::running) ++begun_[trial.name];
    };
    return options;
  }

  TempFolder folder_;
  std::map<std::string, int> begun_;
};

constexpr const char* kRates =
    "vary { field: 'base_lr' value: '0.0001' value: '0.5' value: '0.1' }";

TEST_F(SweepRunTest, RanksTrialsAndWritesTheirRuns) {
  SweepRun run(plan(kRates), sweep(), options());
  EXPECT_TRUE(run.run());
  ASSERT_EQ(run.states().size(), 3U);
  for (const TrialState& state : run.states()) {
    EXPECT_EQ(state.kind, Kind::finished) << words_of(state);
    EXPECT_EQ(state.iterations, 8);
    EXPECT_EQ(state.output, "loss");
    ASSERT_TRUE(state.best);
  }
  // The label is always 1: the larger the rate, the lower the loss.
  EXPECT_EQ(run.ranked(), (std::vector<size_t>{1, 2, 0}));
  const RunFiles second = trial("trial-2");
  EXPECT_EQ(second.info.parent(), "sweep-1");
  EXPECT_EQ(second.info.name(), "trial-2");
  EXPECT_EQ(second.info.seed(), 1701U);
  EXPECT_EQ(second.state(), RunOutcome::finished);
  EXPECT_TRUE(fs::exists(sweep() + "/trial-2/snapshots/last.caffemodel"));
  // In lines as those of `crema train`.
  EXPECT_THAT(text_of_file(sweep() + "/trial-2/log.txt").value_or(""),
              testing::ContainsRegex("^[IW][0-9]{4} [0-9:.]{15} +[0-9]+ libcrema:0\\] "));
  bool has_rate = false;
  for (const auto& setting : second.info.settings())
    has_rate = has_rate || (setting.name() == "base_lr" && setting.value() == "0.5");
  EXPECT_TRUE(has_rate);
  const std::string report = text_of_file(sweep() + "/report.html").value_or("");
  EXPECT_NE(report.find("Sweep sweep-1: 3 trials"), std::string::npos);
  EXPECT_NE(report.find("base_lr"), std::string::npos);
}

TEST_F(SweepRunTest, TrialsAtOnceGiveTheSame) {
  SweepRun one(plan(kRates), folder_.path("one"), options());
  EXPECT_TRUE(one.run());
  SweepRun all(plan(std::string("parallel: 3 ") + kRates), folder_.path("all"), options());
  EXPECT_TRUE(all.run());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all.states()[i].kind, Kind::finished) << words_of(all.states()[i]);
    ASSERT_TRUE(all.states()[i].best);
    EXPECT_EQ(*all.states()[i].best, *one.states()[i].best);
  }
  EXPECT_EQ(read_run(folder_.path("all/trial-1")).info.threads(), 1);
}

TEST_F(SweepRunTest, AFailureStopsNoOtherTrial) {
  // The label 1 is no class of one output; the policy is known to no solver.
  const std::string sweep_text =
      "vary { field: 'lr_policy' value: 'fixed' value: 'none' } vary { field: "
      "'net.ip.num_output' value: '2' value: '1' }";
  SweepRun run(plan(sweep_text), sweep(), options());
  EXPECT_TRUE(run.run());
  EXPECT_EQ(run.states()[0].kind, Kind::finished) << words_of(run.states()[0]);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(run.states()[i].kind, Kind::failed) << i;
  EXPECT_NE(run.states()[2].text.find("lr_policy"), std::string::npos) << run.states()[2].text;
  for (const char* name : {"trial-2", "trial-3", "trial-4"}) {
    EXPECT_EQ(trial(name).state(), RunOutcome::failed) << name;
    EXPECT_NE(trial(name).end()->text(), "") << name;
    EXPECT_EQ(trial(name).info.parent(), "sweep-1") << name;
  }
  EXPECT_EQ(run.ranked()[0], 0U);
  // They are not run again, unless that is asked for.
  begun_.clear();
  SweepRun again(plan(sweep_text), sweep(), options());
  EXPECT_TRUE(again.run());
  EXPECT_TRUE(begun_.empty());
  EXPECT_EQ(again.states()[2].kind, Kind::failed);
  SweepRunOptions retry = options();
  retry.retries_failed = true;
  SweepRun third(plan(sweep_text), sweep(), std::move(retry));
  EXPECT_TRUE(third.run());
  EXPECT_EQ(begun_.size(), 3U);
  EXPECT_EQ(third.states()[2].kind, Kind::failed);
}

TEST_F(SweepRunTest, TestsThatAreNotFiniteAreSaid) {
  folder_.write("net.prototxt", R"(name: "tiny"
layer { name: "x" type: "DummyData" top: "x" top: "label"
  dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "root" type: "Power" bottom: "loss" top: "root" power_param { power: 0.5 shift: -1 } include { phase: TEST } })");
  const std::string text = "vary { field: 'base_lr' value: '0.5' }";
  SweepRun run(plan(text), sweep(), options());
  EXPECT_TRUE(run.run());
  EXPECT_EQ(words_of(run.states()[0]), "finished, tests not finite");
  SweepRun again(plan(text), sweep(), options());
  EXPECT_EQ(words_of(again.states()[0]), "finished, tests not finite") << "read from the folder";
}

TEST_F(SweepRunTest, AnInterruptedSweepGoesOn) {
  SweepRun whole(plan(kRates), folder_.path("whole"), options());
  EXPECT_TRUE(whole.run());
  // Stops in the second trial, behind the snapshot of iteration 4.
  SweepRunOptions stopping = options();
  std::atomic<int> polls = 0;
  std::atomic<bool> in_second = false;
  const auto note = stopping.on_change;
  stopping.on_change = [&](const PlannedTrial& trial, const TrialState& state) {
    note(trial, state);
    if (trial.name == "trial-2") in_second = true;
  };
  stopping.stops = [&] { return in_second && ++polls > 9; };
  SweepRun first(plan(kRates), sweep(), std::move(stopping));
  EXPECT_FALSE(first.run());
  EXPECT_EQ(first.states()[0].kind, Kind::finished);
  EXPECT_EQ(first.states()[1].kind, Kind::stopped);
  EXPECT_EQ(first.states()[2].kind, Kind::waiting);
  const int stopped_at = trial("trial-2").iterations;
  EXPECT_GT(stopped_at, 0);
  EXPECT_LT(stopped_at, 8);
  begun_.clear();
  SweepRun second(plan(kRates), sweep(), options());
  EXPECT_TRUE(second.states()[0].was_done);
  EXPECT_TRUE(second.run());
  EXPECT_EQ(begun_, (std::map<std::string, int>{{"trial-2", 1}, {"trial-3", 1}}));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(second.states()[i].kind, Kind::finished) << words_of(second.states()[i]);
    EXPECT_EQ(*second.states()[i].best, *whole.states()[i].best) << i;
  }
  // No point is there twice, and the run says that it went on.
  const RunFiles resumed = trial("trial-2");
  const Curve& loss = resumed.tests.at(0).loss;
  for (size_t i = 1; i < loss.size(); ++i) EXPECT_LT(loss[i - 1].iteration, loss[i].iteration);
  bool is_resumed = false;
  for (const RunRecord& event : resumed.events)
    is_resumed = is_resumed || event.kind() == RunRecord::RESUME;
  EXPECT_TRUE(is_resumed);
}

TEST_F(SweepRunTest, HopelessTrialsEndEarly) {
  SweepRun run(plan("hopeless { from_iteration: 4 least_trials: 2 } vary { field: 'base_lr' value: "
                    "'0.1' value: '0.5' value: '0.00001' }"),
               sweep(), options());
  EXPECT_TRUE(run.run());
  EXPECT_EQ(run.states()[0].kind, Kind::finished);
  EXPECT_EQ(run.states()[1].kind, Kind::finished);
  EXPECT_EQ(run.states()[2].kind, Kind::early) << words_of(run.states()[2]);
  EXPECT_NE(run.states()[2].text.find("the median of 2 trials"), std::string::npos);
  EXPECT_LT(run.states()[2].iterations, 8);
  EXPECT_EQ(trial("trial-3").state(), RunOutcome::early);
}

TEST_F(SweepRunTest, ATrialThatItsSolverEndsSaysSo) {
  // At a rate of 0 the second test is no better than the first.
  SweepRun run(plan("set: 'early_stop.output=loss' set: 'early_stop.patience=1' set: 'snapshot=0' "
                    "vary { field: 'base_lr' value: '0' value: '0.1' }"),
               sweep(), options());
  EXPECT_TRUE(run.run());
  EXPECT_EQ(run.states()[0].kind, Kind::early) << words_of(run.states()[0]);
  EXPECT_LT(run.states()[0].iterations, 8);
  EXPECT_EQ(trial("trial-1").state(), RunOutcome::early);
  EXPECT_EQ(run.states()[1].kind, Kind::finished) << words_of(run.states()[1]);
}

TEST_F(SweepRunTest, ATrialThatBeginsAnewLeavesNothingOfTheFirstTry) {
  const std::string one = "set: 'snapshot=0' vary { field: 'base_lr' value: '0.1' }";
  std::atomic<int> polls = 0;
  SweepRunOptions stopping = options();
  stopping.stops = [&] { return ++polls > 6; };
  SweepRun first(plan(one), sweep(), std::move(stopping));
  EXPECT_FALSE(first.run());
  for (const auto& entry : fs::directory_iterator(sweep() + "/trial-1/weights"))
    fs::remove(entry.path());
  SweepRun second(plan(one), sweep(), options());
  EXPECT_TRUE(second.run());
  EXPECT_EQ(second.states()[0].kind, Kind::finished) << words_of(second.states()[0]);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(sweep() + "/trial-1"))
    files += entry.path().filename().string().starts_with("events.") ? 1 : 0;
  EXPECT_EQ(files, 1) << "curves of both tries would lie over each other";
}

TEST_F(SweepRunTest, AnotherSweepIsRefusedAndAnyNumberAtOnceIsNot) {
  SweepRun first(plan(kRates), sweep(), options());
  expect_error([&] { SweepRun(plan("vary { field: 'base_lr' value: '1' }"), sweep(), options()); },
               {"another sweep", "--resume"});
  SweepRun(plan(std::string("parallel: 2 ") + kRates), sweep(), options());
  const std::string random =
      "search: RANDOM vary { field: 'base_lr' range { least: 0.1 greatest: 1 } } ";
  SweepRun(plan(random + "trials: 2"), folder_.path("random"), options());
  SweepRun(plan(random + "trials: 3"), folder_.path("random"), options());
}

}  // namespace
}  // namespace crema
