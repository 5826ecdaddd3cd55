#include "core/tuner.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "crema/context.hpp"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

TEST(Tuner, MeasuresAProblemOnce) {
  Tuner tuner;
  int runs = 0;
  const auto measure = [&] { ++runs; };
  const double first = tuner.seconds("conv 3x3", "direct", measure);
  EXPECT_GT(runs, 1);
  const int after_first = runs;
  EXPECT_EQ(tuner.seconds("conv 3x3", "direct", measure), first);
  EXPECT_EQ(runs, after_first);
  tuner.seconds("conv 3x3", "winograd", measure);
  tuner.seconds("conv 5x5", "direct", measure);
  EXPECT_GT(runs, after_first);
}

TEST(Tuner, ListsWhatWasMeasuredOfAFamily) {
  Tuner tuner;
  for (const char* problem : {"conv a of 3x3", "conv a of 4", "conv b of 3x3", "conv"}) {
    tuner.seconds(problem, "direct", [] {});
  }
  tuner.seconds("conv a of 4", "winograd", [] {});
  std::vector<std::string> found;
  for (const Tuner::Time& time : tuner.measured("conv a of ")) {
    found.push_back(time.problem + ": " + time.candidate);
    EXPECT_EQ(time.seconds, tuner.seconds(time.problem, time.candidate, [] { FAIL(); }));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"conv a of 3x3: direct", "conv a of 4: direct",
                                             "conv a of 4: winograd"}));
}

// As with the events of a device. A candidate that cannot run is not remembered.
TEST(Tuner, TakesSecondsOfAnotherClock) {
  const TempFolder folder;
  const std::string path = folder.path("tuning");
  constexpr double kNever = std::numeric_limits<double>::infinity();
  {
    Tuner tuner;
    EXPECT_EQ(tuner.timed("p", "fast", [] { return 1e-3; }), 1e-3);
    EXPECT_EQ(tuner.timed("p", "impossible", [] { return kNever; }), kNever);
    EXPECT_TRUE(tuner.save(path));
  }
  Tuner later;
  later.load(path);
  const auto again = [] {
    ADD_FAILURE() << "was measured before";
    return 1.0;
  };
  EXPECT_EQ(later.timed("p", "fast", again), 1e-3);
  // What could not run then, for want of memory, may run now.
  EXPECT_EQ(later.timed("p", "impossible", [] { return 2e-3; }), 2e-3);
}

TEST(Tuner, GivesTheFastestRun) {
  Tuner tuner;
  int run = 0;
  const double seconds = tuner.seconds("p", "c", [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(run++ == 1 ? 5 : 40));
  });
  EXPECT_GE(seconds, 0.005);
  EXPECT_LT(seconds, 0.04);
}

// The first run takes memory and makes what it needs.
TEST(Tuner, AFirstRunAloneLosesNothing) {
  Tuner tuner;
  int slow_runs = 0, run = 0;
  const auto sleep = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  EXPECT_LT(tuner.seconds(
                "p", "warm", [&] { sleep(run++ == 0 ? 80 : 5); }, 0.005),
            0.04);
  EXPECT_GE(tuner.seconds(
                "p", "slow", [&] { sleep((++slow_runs, 50)); }, 0.005),
            0.05);
  EXPECT_EQ(slow_runs, 2) << "it has lost by then";
}

TEST(Tuner, LongProblemsRunAFewTimesOnly) {
  Tuner tuner;
  int runs = 0;
  tuner.seconds("p", "c", [&] {
    ++runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  });
  EXPECT_LE(runs, 3);
}

TEST(Tuner, RemembersDecisions) {
  Tuner tuner;
  std::string candidate;
  EXPECT_FALSE(tuner.chosen("p", candidate));
  tuner.choose("p", "direct");
  tuner.choose("q", "winograd");
  EXPECT_TRUE(tuner.chosen("p", candidate));
  EXPECT_EQ(candidate, "direct");
  tuner.choose("p", "gemm");
  EXPECT_EQ(tuner.choices(),
            (std::map<std::string, std::string>{{"p", "gemm"}, {"q", "winograd"}}));
}

// A net whose input has another size in each batch chooses for each of them.
TEST(Tuner, KeepsTheLastChoices) {
  Tuner tuner;
  const auto name = [](size_t i) { return "problem " + std::to_string(i); };
  tuner.seconds(name(0), "timed", [] {});
  for (size_t i = 0; i <= Tuner::kMostChoices; ++i) tuner.choose(name(i), "a");
  EXPECT_EQ(tuner.choices().size(), Tuner::kMostChoices);
  std::string candidate;
  EXPECT_FALSE(tuner.chosen(name(0), candidate));
  EXPECT_EQ(tuner.measured(name(0)).size(), 1U) << "the time stays";
  // A choice that is made again is a new one.
  tuner.choose(name(1), "b");
  tuner.choose(name(0), "c");
  EXPECT_TRUE(tuner.chosen(name(1), candidate));
  EXPECT_EQ(candidate, "b");
  EXPECT_FALSE(tuner.chosen(name(2), candidate));
}

TEST(Tuner, AnErrorOfTheProblemPassesThrough) {
  Tuner tuner;
  expect_error([&] { tuner.seconds("p", "c", [] { throw Error("no scratch memory"); }); },
               {"no scratch memory"});
  EXPECT_GE(tuner.seconds("p", "c", [] {}), 0);  // not remembered
}

TEST(Tuner, ServesManyThreads) {
  Tuner tuner;
  double seconds[4];
  std::thread threads[4];
  for (int i = 0; i < 4; ++i) {
    threads[i] = std::thread([&, i] {
      seconds[i] = tuner.seconds("p", "c", [] {});
      tuner.choose(std::to_string(i), "c");
    });
  }
  for (auto& thread : threads) thread.join();
  for (const double s : seconds) EXPECT_EQ(s, seconds[0]);
  EXPECT_EQ(tuner.choices().size(), 4u);
}

TEST(Tuner, TimesComeBackFromTheirFile) {
  const std::string path = ::testing::TempDir() + "/crema_tuning_test/times";
  Tuner first;
  EXPECT_FALSE(first.has_news());
  const double measured = first.seconds("problem 1", "a", [] {});
  EXPECT_TRUE(first.has_news());
  ASSERT_TRUE(first.save(path));
  EXPECT_FALSE(first.has_news());

  Tuner second;
  second.load(path);
  const auto never = [] { FAIL() << "it is known already"; };
  EXPECT_EQ(second.seconds("problem 1", "a", never), measured);
  // Two processes that save to one file keep each other's times.
  Tuner other;
  other.seconds("problem 2", "b", [] {});
  ASSERT_TRUE(other.save(path));
  second.load(path);
  second.seconds("problem 2", "b", never);

  // A line cut short, or another machine's file, is no reason to fail.
  std::ofstream(path, std::ios::app) << "0.5";
  Tuner third;
  third.load(path);
  third.seconds("problem 1", "a", never);
  std::ofstream(path) << "crema tuning 1: another processor\n1\tproblem 1|a\n";
  Tuner fourth;
  fourth.load(path);
  int runs = 0;
  fourth.seconds("problem 1", "a", [&] { ++runs; });
  EXPECT_GT(runs, 0);
  EXPECT_FALSE(fourth.save("/proc/no/such/folder/file"));
  std::filesystem::remove_all(::testing::TempDir() + "/crema_tuning_test");
}

TEST(TuningFile, SaysWhyThereCanBeNone) {
  const TempFolder folder;
  EXPECT_EQ(why_no_tuning_file(folder.path("new")), "");
  EXPECT_EQ(why_no_tuning_file(folder.path("new/folders/times")), "");
  EXPECT_EQ(why_no_tuning_file(folder.write("empty", "")), "");
  EXPECT_EQ(why_no_tuning_file(folder.write("old", "crema tuning 0: a processor\n")), "");
  // A rename would put a file in the place of either.
  EXPECT_EQ(why_no_tuning_file(folder.path("")), "is no regular file");
  EXPECT_EQ(why_no_tuning_file("/dev/null"), "is no regular file");
  const std::string other = folder.write("net.prototxt", "name: 'net'");
  EXPECT_EQ(why_no_tuning_file(other), "holds no measured times");
  EXPECT_EQ(why_no_tuning_file(other + "/times"), "cannot be below '" + other + "'");
}

/// Gives up the rights of root, if the tests have them.
class UnprivilegedTuningFile : public testing::Test {
 protected:
  void SetUp() override {
    constexpr uid_t kNobody = 65534;
    if (was_root_ && setresuid(kNobody, kNobody, 0) != 0)
      GTEST_SKIP()
          << "needs a user without the rights of root: run as one, or as root with CAP_SETUID";
  }
  void TearDown() override {
    if (was_root_) {
      EXPECT_EQ(setresuid(0, 0, 0), 0);
    }
  }

  const bool was_root_ = geteuid() == 0;
};

TEST_F(UnprivilegedTuningFile, NeedsAFolderThatCanBeWritten) {
  const TempFolder folder;
  const std::string closed = folder.path("closed");
  std::filesystem::create_directory(closed);
  std::filesystem::permissions(closed, std::filesystem::perms::owner_read);
  EXPECT_NE(why_no_tuning_file(closed + "/times").find("no right to write"), std::string::npos);
}

TEST_F(UnprivilegedTuningFile, OneThatCannotBeWrittenCounts) {
  const TempFolder folder;
  const std::string closed = folder.path("closed"), file = closed + "/times";
  std::filesystem::create_directory(closed);
  Tuner tuner;
  const double seconds = tuner.seconds("problem", "a", [] {});
  ASSERT_TRUE(tuner.save(file));
  using std::filesystem::perms;
  std::filesystem::permissions(closed, perms::owner_read | perms::owner_exec);
  EXPECT_EQ(why_no_tuning_file(file), "");
  const Context context({.tuning_file = file});
  EXPECT_EQ(context.tuner().seconds("problem", "a", [] { FAIL() << "is known"; }), seconds);
  std::filesystem::permissions(closed, perms::owner_all);
}

// The times went into any file that was named, whatever it held.
TEST(TuningFile, OtherFilesAreLeftAlone) {
  const TempFolder folder;
  const std::string file = folder.write("net.prototxt", "name: 'net'");
  std::string warnings;
  const Context context({.tuning_file = file, .logger = [&](Severity, const std::string& message) {
                           warnings += message;
                         }});
  context.tuner().seconds("problem", "a", [] {});
  context.save_tuning();
  std::ifstream content(file);
  std::string text;
  std::getline(content, text);
  EXPECT_EQ(text, "name: 'net'");
  EXPECT_NE(warnings.find(file + "' holds no measured times"), std::string::npos) << warnings;
}

}  // namespace
}  // namespace crema
