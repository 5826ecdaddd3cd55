// Decisions of the tuner on a machine whose clock and load follow a script.
#include "layer_support/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "core/tuner.hpp"
#include "crema/error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

/// Time passes in runs and naps alone.
struct Machine {
  double clock = 0;
  int waiting = 0;      // threads of others
  double slowness = 1;  // of all runs
  int64_t switches = 0;
  bool interrupts = false;  // every run, for a longer time than the one before
  int naps = 0;
  std::vector<std::string> runs;  // names of candidates, in order
  /// Beside `slowness`, for single candidates.
  std::map<std::string, double> slower;

  Senses senses() {
    return {.now = [this] { return clock; },
            .switches = [this] { return switches; },
            .load = [this](int) { return Load{.waiting = waiting}; },
            .nap = [this](double seconds) { clock += seconds, ++naps; }};
  }
  TunedCandidate candidate(const std::string& name, double seconds, double usual = 0) {
    return {.key = name + " @1",
            .prepare =
                [this, name, seconds] {
                  const auto first = std::make_shared<bool>(true);
                  return [this, name, seconds, first] {
                    runs.push_back(name);
                    double taken = seconds * slowness;
                    if (const auto more = slower.find(name); more != slower.end())
                      taken *= more->second;
                    if (std::exchange(*first, false)) taken *= 2;  // packs weights
                    if (interrupts) taken *= std::pow(1.1, static_cast<double>(runs.size()));
                    clock += taken;
                    switches += interrupts;
                  };
                },
            .usual = usual};
  }
  int64_t runs_of(const std::string& name) const { return std::ranges::count(runs, name); }
};

class Tuning : public testing::Test {
 protected:
  std::unique_ptr<Context> run_of_program() {
    auto context = std::make_unique<Context>(
        ContextOptions{.threads = 2, .tuning_file = folder_.path("times")});
    context->tuner().sense_by(machine_.senses());
    machine_.runs.clear();
    return context;
  }
  std::string chosen(Context& context, std::vector<TunedCandidate> candidates, int64_t size = 16) {
    const TunedChoice choice = choose_candidate(context, problem(size), candidates);
    seconds_ = choice.seconds;
    by_ = choice.by;
    const std::string key = candidates[choice.candidate].key;
    return key.substr(0, key.find(" @"));
  }
  /// Problems of sizes that are not similar.
  TunedProblem problem(int64_t size) const {
    return {.family = text("problem ", size, " of "),
            .extents = Shape{size},
            .workload = {.group = "problems",
                         .multiply_adds = with_model_ ? kWork : 0,
                         .sizes = {static_cast<double>(size)},
                         .threads = 2}};
  }
  std::map<std::string, TunedTime> times(const Context& context, int64_t size = 16) const {
    return context.tuner().times(problem(size).name());
  }
  /// Seconds at a share of the peak.
  static double at(double share) { return kWork / (share * nominal_peak(2)); }

  static constexpr double kWork = 1e8;
  TempFolder folder_;
  Machine machine_;
  bool with_model_ = true;
  double seconds_ = 0;
  DecidedBy by_ = DecidedBy::order;
};

TEST_F(Tuning, MeasuresInTurn) {
  with_model_ = false;
  const auto context = run_of_program();
  const double ms = 1e-3;
  EXPECT_EQ(
      chosen(*context, {machine_.candidate("a", 1.1 * ms), machine_.candidate("b", ms),
                        machine_.candidate("c", 1.05 * ms), machine_.candidate("d", 3.5 * ms)}),
      "b");
  EXPECT_NEAR(seconds_, ms, 1e-9) << "the first run does not count";
  EXPECT_EQ(by_, DecidedBy::times);
  // Behind the heat, in which each runs twice.
  const std::vector<std::string> rounds(machine_.runs.begin() + 8, machine_.runs.end());
  EXPECT_EQ(rounds, (std::vector<std::string>{"a", "b", "c", "a", "b", "c", "a", "b", "c"}));
  EXPECT_EQ(machine_.naps, 0) << "the machine is at rest";
  for (const auto& [candidate, time] : times(*context)) {
    EXPECT_EQ(time.state, TimeState::settled) << candidate;
  }
  // Known from then on, in later runs too.
  context->save_tuning();
  const auto later = run_of_program();
  EXPECT_EQ(chosen(*later, {machine_.candidate("a", 1.1 * ms), machine_.candidate("b", ms),
                            machine_.candidate("c", 1.05 * ms), machine_.candidate("d", 3.5 * ms)}),
            "b");
  EXPECT_THAT(machine_.runs, testing::IsEmpty());
}

// A pause of the machine, as of a hypervisor, hits one round of one candidate.
TEST_F(Tuning, TheFastestRoundCounts) {
  with_model_ = false;
  const auto context = run_of_program();
  TunedCandidate disturbed = machine_.candidate("fast", 1e-3);
  const Preparation prepare = disturbed.prepare;
  disturbed.prepare = [&, prepare] {
    const auto run = prepare();
    return [&, run] {
      run();
      if (machine_.runs_of("fast") == 2) machine_.clock += 1e-4;
    };
  };
  EXPECT_EQ(chosen(*context, {disturbed, machine_.candidate("slow", 1.05e-3)}), "fast");
  EXPECT_NEAR(seconds_, 1e-3, 1e-9);
}

TEST_F(Tuning, DoesNotRunWhatCannotWin) {
  const auto context = run_of_program();
  EXPECT_EQ(chosen(*context, {machine_.candidate("bad", at(0.1), 0.1),
                              machine_.candidate("good", at(0.8), 0.8),
                              machine_.candidate("near", at(0.7), 0.75)}),
            "good");
  EXPECT_EQ(machine_.runs_of("bad"), 0);
  EXPECT_GT(machine_.runs_of("near"), 0);
  EXPECT_EQ(times(*context).at("bad @1").state, TimeState::pruned);
  EXPECT_GT(times(*context).at("bad @1").seconds, at(0.8));
  // That is remembered.
  context->save_tuning();
  const auto later = run_of_program();
  EXPECT_EQ(chosen(*later, {machine_.candidate("bad", at(0.1), 0.1),
                            machine_.candidate("good", at(0.8), 0.8),
                            machine_.candidate("near", at(0.7), 0.75)}),
            "good");
  EXPECT_THAT(machine_.runs, testing::IsEmpty());
}

// The usual figures are those of another processor: what is measured corrects them.
TEST_F(Tuning, LearnsWhatIsFastHere) {
  const auto context = run_of_program();
  const auto candidates = [&] {
    return std::vector{machine_.candidate("liked", at(0.2), 0.7),
                       machine_.candidate("other", at(0.6), 0.6)};
  };
  EXPECT_EQ(chosen(*context, candidates(), 16), "other");
  EXPECT_GT(machine_.runs_of("liked"), 0);
  machine_.runs.clear();
  EXPECT_EQ(chosen(*context, candidates(), 24), "other");
  EXPECT_EQ(machine_.runs_of("liked"), 0) << "it was slow on a like problem";
}

// The usual figures are wrong by a lot: where the best one is slower than expected, others are
// given the same doubt.
TEST_F(Tuning, AProblemMayBeHardForAll) {
  const auto context = run_of_program();
  EXPECT_EQ(chosen(*context, {machine_.candidate("first", at(0.1), 0.8),
                              machine_.candidate("second", at(0.2), 0.5)}),
            "second");
}

TEST_F(Tuning, TasksThatAreHopelessAreLeft) {
  with_model_ = false;
  const auto context = run_of_program();
  const TunedTask tasks[] = {
      {problem(1), {machine_.candidate("a", 1e-3)}},
      {problem(2), {machine_.candidate("b", 2.5e-3), machine_.candidate("c", 2.6e-3)}}};
  const std::vector<TunedChoice> choices = choose_candidates(*context, tasks);
  EXPECT_NEAR(choices[1].seconds, 2.5e-3, 1e-9);
  EXPECT_EQ(machine_.runs_of("c"), 2) << "in the heat alone";
  EXPECT_GT(machine_.runs_of("a"), 2);
}

TEST_F(Tuning, UnderLoadTimesAreProvisional) {
  with_model_ = false;
  machine_.waiting = 2;
  machine_.slowness = 2;
  machine_.slower["right"] = 1.5;  // it suffers more
  const auto candidates = [&] {
    return std::vector{machine_.candidate("right", 1e-3), machine_.candidate("wrong", 1.2e-3)};
  };
  {
    const auto context = run_of_program();
    EXPECT_EQ(chosen(*context, candidates()), "wrong") << "as it is now";
    EXPECT_GT(machine_.naps, 0) << "rounds are spread in time";
    for (const auto& [key, time] : times(*context)) {
      EXPECT_EQ(time.state, TimeState::provisional) << key;
      EXPECT_EQ(time.waiting, 2);
    }
    // A decision stands for the run, whatever the load becomes.
    context->tuner().choose(problem(16).name(), "wrong @1");
    machine_.waiting = 0;
    machine_.runs.clear();
    EXPECT_EQ(chosen(*context, candidates()), "wrong");
    EXPECT_THAT(machine_.runs, testing::IsEmpty());
  }
  machine_.waiting = 1;
  {
    const auto busy = run_of_program();
    EXPECT_EQ(chosen(*busy, candidates()), "wrong");
    EXPECT_THAT(machine_.runs, testing::IsEmpty()) << "no better now";
  }
  machine_ = {};
  {
    const auto idle = run_of_program();
    EXPECT_EQ(chosen(*idle, candidates()), "right");
    EXPECT_THAT(machine_.runs,
                testing::ElementsAre("right", "wrong", "right", "wrong", "right", "wrong"));
    EXPECT_NEAR(seconds_, 1e-3, 1e-9);
    EXPECT_EQ(times(*idle).at("right @1").state, TimeState::settled);
  }
  const auto later = run_of_program();
  EXPECT_EQ(chosen(*later, candidates()), "right");
  EXPECT_THAT(machine_.runs, testing::IsEmpty()) << "it is settled";
}

TEST_F(Tuning, InterruptedRunsAreLoadToo) {
  machine_.interrupts = true;
  const auto context = run_of_program();
  chosen(*context, {machine_.candidate("a", 1e-3), machine_.candidate("b", 1e-3)});
  EXPECT_EQ(times(*context).at("a @1").state, TimeState::provisional);
  EXPECT_EQ(times(*context).at("a @1").switched, 1);
}

// Many kernels were measured under load: each later run settles some of them.
TEST_F(Tuning, MeasuresAgainALittleInEachRun) {
  with_model_ = false;
  constexpr int kProblems = 20;
  const auto plan = [&](Context& context) {
    for (int i = 0; i < kProblems; ++i) {
      chosen(context, {machine_.candidate("a", 2e-3), machine_.candidate("b", 2.1e-3)}, 1 << i);
    }
    context.save_tuning();
  };
  const auto open = [&] {
    Tuner tuner;
    tuner.load(folder_.path("times"));
    return std::ranges::count_if(tuner.all(""), [](const auto& time) { return time.is_open(); });
  };
  machine_.waiting = 1;
  plan(*run_of_program());
  EXPECT_EQ(open(), 2 * kProblems);
  machine_.waiting = 0;
  int runs = 0;
  for (int64_t before = open(); before > 0; before = open(), ++runs) {
    const auto context = run_of_program();
    const double start = machine_.clock;
    plan(*context);
    EXPECT_LT(machine_.clock - start, 1.7 * Tuner::kMostAgain);
    ASSERT_LT(open(), before);
  }
  EXPECT_GT(runs, 2);
}

// A time far below what the same kernel reaches on like problems is measured more often.
TEST_F(Tuning, OddTimesAreMeasuredMore) {
  const auto context = run_of_program();
  const auto candidates = [&] {
    return std::vector{machine_.candidate("a", at(0.8), 0.8),
                       machine_.candidate("b", at(0.7), 0.7)};
  };
  EXPECT_EQ(chosen(*context, candidates(), 16), "a");
  machine_.runs.clear();
  machine_.slower["a"] = 1.8;  // something disturbs it
  chosen(*context, candidates(), 17);
  EXPECT_GE(machine_.runs_of("a"), 4) << "though b is much faster by now";
}

TEST_F(Tuning, WithoutMeasuringTheModelDecides) {
  const auto candidates = [&] {
    return std::vector{machine_.candidate("first", at(0.5), 0.5),
                       machine_.candidate("liked", at(0.6), 0.8)};
  };
  {
    const auto context = run_of_program();
    context->tuner().measure_nothing();
    EXPECT_EQ(chosen(*context, candidates()), "liked");
    EXPECT_EQ(by_, DecidedBy::model);
    EXPECT_THAT(machine_.runs, testing::IsEmpty());
    EXPECT_FALSE(context->tuner().has_news());
    with_model_ = false;
    EXPECT_EQ(chosen(*context, candidates()), "first");
    EXPECT_EQ(by_, DecidedBy::order);
    with_model_ = true;
  }
  machine_.slower["liked"] = 5;
  const auto measuring = run_of_program();
  EXPECT_EQ(chosen(*measuring, candidates()), "first");
  measuring->save_tuning();
  const auto context = run_of_program();
  context->tuner().measure_nothing();
  EXPECT_EQ(chosen(*context, candidates()), "first");
  EXPECT_EQ(by_, DecidedBy::times) << "what was measured is known";
}

TEST_F(Tuning, AWatchPutsADecisionInDoubt) {
  with_model_ = false;
  const double ms = 1e-3;
  const auto candidates = [&] {
    return std::vector{machine_.candidate("a", ms), machine_.candidate("b", 1.1 * ms)};
  };
  const auto run_net = [&](Context& context, double seconds) {
    TunedWatch watch(context, problem(16).name(), "a @1");
    int runs = 0;
    for (int i = 0; i < 2000; ++i) watch([&] { machine_.clock += seconds, ++runs; });
    EXPECT_EQ(runs, 2000);
  };
  const auto state = [&](const Context& context) { return times(context).at("a @1").state; };
  {
    const auto context = run_of_program();
    EXPECT_EQ(chosen(*context, candidates()), "a");
    run_net(*context, 1.3 * ms);
    EXPECT_EQ(state(*context), TimeState::settled) << "in a net memory is not in caches";
    machine_.waiting = 1;
    run_net(*context, 3 * ms);
    EXPECT_EQ(state(*context), TimeState::settled) << "the machine is busy";
    machine_.waiting = 0;
    run_net(*context, 3 * ms);
    EXPECT_EQ(state(*context), TimeState::doubted);
    context->tuner().choose(problem(16).name(), "a @1");
    EXPECT_EQ(chosen(*context, candidates()), "a") << "of this run";
  }  // the context saves the doubt
  machine_.slower["a"] = 2;
  const auto next = run_of_program();
  EXPECT_EQ(chosen(*next, candidates()), "b");
  EXPECT_EQ(state(*next), TimeState::confirmed);
  EXPECT_NEAR(times(*next).at("a @1").seconds, 2 * ms, 1e-9) << "a doubted time may become longer";
  run_net(*next, 30 * ms);
  EXPECT_EQ(state(*next), TimeState::confirmed) << "a doubt is answered once";
}

TEST_F(Tuning, AWatchNeedsAFasterRival) {
  with_model_ = false;
  const auto context = run_of_program();
  EXPECT_EQ(chosen(*context, {machine_.candidate("a", 1e-3), machine_.candidate("b", 4e-3)}), "a");
  TunedWatch watch(*context, problem(16).name(), "a @1");
  for (int i = 0; i < 2000; ++i) watch([&] { machine_.clock += 3e-3; });
  EXPECT_EQ(times(*context).at("a @1").state, TimeState::settled);
}

}  // namespace
}  // namespace crema
