#include "core/tuner.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include "crema/context.hpp"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

/// A time of a candidate whose workload is unknown.
void keep(Tuner& tuner, const std::string& problem, const std::string& candidate, double seconds,
          TimeState state = TimeState::settled) {
  tuner.keep(problem, {}, candidate, 0, {.seconds = seconds, .runs = 5, .state = state});
}

TEST(Tuner, KeepsTimes) {
  Tuner tuner;
  EXPECT_TRUE(tuner.times("conv 3x3").empty());
  keep(tuner, "conv 3x3", "direct", 2e-3);
  keep(tuner, "conv 3x3", "winograd", 1e-3, TimeState::provisional);
  keep(tuner, "conv 5x5", "direct", 3e-3);
  keep(tuner, "conv 3x3", "direct", 4e-3);
  const auto times = tuner.times("conv 3x3");
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times.at("direct").seconds, 4e-3) << "the later one";
  EXPECT_EQ(times.at("direct").runs, 5);
  EXPECT_TRUE(times.at("winograd").is_open());
}

TEST(Tuner, ListsWhatWasMeasuredOfAFamily) {
  Tuner tuner;
  for (const char* problem : {"conv a of 3x3", "conv a of 4", "conv b of 3x3", "conv"}) {
    keep(tuner, problem, "direct", 1e-3);
  }
  keep(tuner, "conv a of 4", "winograd", 1e-3);
  keep(tuner, "conv a of 4", "gemm", 1e-3, TimeState::pruned);
  std::vector<std::string> found;
  for (const Tuner::Time& time : tuner.measured("conv a of ")) {
    found.push_back(time.problem + ": " + time.candidate);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"conv a of 3x3: direct", "conv a of 4: direct",
                                             "conv a of 4: winograd"}));
  EXPECT_EQ(tuner.all("conv a of ").size(), 4U);
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
  keep(tuner, name(0), "timed", 1e-3);
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
  expect_error([&] { tuner.timed("p", "c", []() -> double { throw Error("no scratch memory"); }); },
               {"no scratch memory"});
  EXPECT_EQ(tuner.timed("p", "c", [] { return 1.0; }), 1.0) << "not remembered";
}

TEST(Tuner, ServesManyThreads) {
  Tuner tuner;
  double seconds[4];
  std::thread threads[4];
  for (int i = 0; i < 4; ++i) {
    threads[i] = std::thread([&, i] {
      seconds[i] = tuner.timed("p", "c", [&] { return 1.0 + i; });
      keep(tuner, "q", std::to_string(i), 1);
      tuner.choose(std::to_string(i), "c");
    });
  }
  for (auto& thread : threads) thread.join();
  for (const double s : seconds) EXPECT_EQ(s, seconds[0]);
  EXPECT_EQ(tuner.times("q").size(), 4U);
  EXPECT_EQ(tuner.choices().size(), 4U);
}

// What one run may spend on measuring again is little, and one long kernel gets its turn too.
TEST(Tuner, GrantsLittleTimeForMeasuringAgain) {
  Tuner tuner;
  EXPECT_TRUE(tuner.spend_again(Tuner::kMostAgain / 2));
  EXPECT_FALSE(tuner.spend_again(Tuner::kMostAgain));
  EXPECT_TRUE(tuner.spend_again(Tuner::kMostAgain / 2));
  EXPECT_FALSE(tuner.spend_again(1e-6));
  Tuner other;
  EXPECT_TRUE(other.spend_again(10 * Tuner::kMostAgain));
  EXPECT_FALSE(other.spend_again(1e-6));
}

TEST(Tuner, DoubtsSettledTimesAlone) {
  Tuner tuner;
  EXPECT_FALSE(tuner.doubt("unknown"));
  keep(tuner, "p", "a", 1, TimeState::settled);
  keep(tuner, "p", "b", 2, TimeState::pruned);
  keep(tuner, "q", "a", 1, TimeState::confirmed);
  EXPECT_TRUE(tuner.doubt("p"));
  EXPECT_EQ(tuner.times("p").at("a").state, TimeState::doubted);
  EXPECT_EQ(tuner.times("p").at("b").state, TimeState::pruned);
  EXPECT_FALSE(tuner.doubt("p")) << "it is already";
  EXPECT_FALSE(tuner.doubt("q")) << "a doubt was answered once";
}

TEST(Tuner, TimesComeBackFromTheirFile) {
  const TempFolder folder;
  const std::string path = folder.path("new/times");
  Tuner first;
  EXPECT_FALSE(first.has_news());
  const Workload workload{
      .group = "conv k3", .multiply_adds = 1e6, .sizes = {16, 0.5}, .threads = 2};
  const TunedTime time{.seconds = 1.0 / 3,
                       .runs = 7,
                       .spread = 0.25,
                       .waiting = 2,
                       .stolen = 0.125,
                       .switched = 0.5,
                       .state = TimeState::provisional};
  first.keep("problem 1", workload, "a @1", 0.5, time);
  EXPECT_TRUE(first.has_news());
  ASSERT_TRUE(first.save(path));
  EXPECT_FALSE(first.has_news());

  Tuner second;
  second.load(path);
  EXPECT_FALSE(second.has_news());
  const TunedTime read = second.times("problem 1").at("a @1");
  EXPECT_EQ(read.seconds, time.seconds);
  EXPECT_EQ(read.runs, 7);
  EXPECT_EQ(read.spread, 0.25);
  EXPECT_EQ(read.waiting, 2);
  EXPECT_EQ(read.stolen, 0.125);
  EXPECT_EQ(read.switched, 0.5);
  EXPECT_EQ(read.state, TimeState::provisional);
  // The model of a later run knows them, in any revision of the code.
  const Expectation expected = second.predict("problem 2", workload, "a @2", 0);
  EXPECT_TRUE(expected.by_samples);
  EXPECT_NEAR(expected.seconds, time.seconds, 1e-9);

  // A line cut short is no reason to fail, wherever the cut is.
  std::ifstream in(path);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (size_t length = whole.size() - 1; length > whole.size() - 60; --length) {
    std::ofstream(path) << whole.substr(0, length);
    Tuner third;
    third.load(path);
    EXPECT_TRUE(third.times("problem 1").empty()) << length;
  }
  // Files of other machines and versions are replaced.
  for (const char* other : {"crema tuning 3: another processor\n1\t1\t0\t0\t0\t0\tsettled\tp|a\n",
                            "crema tuning 2: AMD\n1\tp|a\n"}) {
    std::ofstream(path) << other;
    Tuner fourth;
    fourth.load(path);
    EXPECT_TRUE(fourth.times("p").empty());
    ASSERT_TRUE(first.save(path));
    fourth.load(path);
    EXPECT_EQ(fourth.times("problem 1").size(), 1U);
    EXPECT_TRUE(fourth.times("p").empty());
  }
  EXPECT_FALSE(first.save("/proc/no/such/folder/file"));
}

// Processes that save to one file keep each other's times; a measurement counts more than what was
// read before it.
TEST(Tuner, ProcessesShareAFile) {
  const TempFolder folder;
  const std::string path = folder.path("times");
  Tuner one;
  keep(one, "p", "a", 3, TimeState::provisional);
  ASSERT_TRUE(one.save(path));
  Tuner other;
  other.load(path);
  keep(one, "q", "b", 1);
  ASSERT_TRUE(one.save(path));
  keep(other, "p", "a", 2);
  keep(other, "r", "c", 1);
  ASSERT_TRUE(other.save(path));
  EXPECT_EQ(other.times("q").size(), 1U) << "news of the other one";
  Tuner third;
  third.load(path);
  EXPECT_EQ(third.times("p").at("a").seconds, 2);
  EXPECT_EQ(third.times("p").at("a").state, TimeState::settled);
  EXPECT_EQ(third.times("q").size(), 1U);
  EXPECT_EQ(third.times("r").size(), 1U);
}

TEST(Tuner, ManySaveToOneFile) {
  const TempFolder folder;
  const std::string path = folder.path("times");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Tuner tuner;
      for (int round = 0; round < 20; ++round) {
        keep(tuner, "p" + std::to_string(i), std::to_string(round), 1);
        EXPECT_TRUE(tuner.save(path));
        // Whoever reads sees a whole file.
        Tuner reader;
        reader.load(path);
        EXPECT_GE(reader.all("p").size(), 1U);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder.path("")))
    ++files;
  EXPECT_EQ(files, 1U) << "temporary files are renamed or removed";
}

// Of crema time --retune.
TEST(Tuner, ForgottenTimesAreReplaced) {
  const TempFolder folder;
  const std::string path = folder.path("times");
  Tuner before;
  keep(before, "p", "a", 3);
  keep(before, "q", "a", 3);
  ASSERT_TRUE(before.save(path));
  Tuner tuner;
  tuner.load(path);
  tuner.forget_times();
  EXPECT_TRUE(tuner.times("p").empty());
  keep(tuner, "p", "a", 5);
  ASSERT_TRUE(tuner.save(path));
  EXPECT_TRUE(tuner.times("q").empty()) << "a net that is planned later measures it anew too";
  Tuner after;
  after.load(path);
  EXPECT_EQ(after.times("p").at("a").seconds, 5);
  EXPECT_EQ(after.times("q").at("a").seconds, 3) << "of no net of that run";
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
  keep(tuner, "problem", "a", 0.25);
  ASSERT_TRUE(tuner.save(file));
  using std::filesystem::perms;
  std::filesystem::permissions(closed, perms::owner_read | perms::owner_exec);
  EXPECT_EQ(why_no_tuning_file(file), "");
  const Context context({.tuning_file = file});
  EXPECT_EQ(context.tuner().times("problem").at("a").seconds, 0.25);
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
  keep(context.tuner(), "problem", "a", 1);
  context.save_tuning();
  std::ifstream content(file);
  std::string text;
  std::getline(content, text);
  EXPECT_EQ(text, "name: 'net'");
  EXPECT_NE(warnings.find(file + "' holds no measured times"), std::string::npos) << warnings;
}

}  // namespace
}  // namespace crema
