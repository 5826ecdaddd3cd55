// Signals while training: what each effect does, and that a stop does not wait for a long test.
#include "tools/signals.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "support/expect_error.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;
using tools::SignalActions;

/// `crema train` with its messages in a file, while it runs.
class Training {
 public:
  Training(const std::string& solver, const std::vector<std::string>& flags, std::string log)
      : log_(std::move(log)) {
    std::ofstream(log_).close();  // what an earlier run wrote says nothing of this one
    std::vector<std::string> words = {CREMA_TOOL, "train", "--threads=1", "--overwrite",
                                      "--solver=" + solver};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int file = open(log_.c_str(), O_WRONLY | O_APPEND);
      dup2(file, STDERR_FILENO);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
  }
  ~Training() {
    if (pid_ <= 0 || ended_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  std::string log() const {
    std::ifstream file(log_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  /// Waits until it has said so after the first `from` characters of the log.
  bool says(const std::string& part, size_t from = 0) {
    return wait_until([&] { return log().find(part, from) != std::string::npos; });
  }
  /// Whether iterations go on.
  bool goes_on() { return says("Iteration ", log().size()) && says("Iteration ", log().size()); }
  void send(int signal) const { kill(pid_, signal); }

  /// The exit status, 128 + N when signal N ended it, -1 when it does not end.
  int end() {
    int status = 0;
    ended_ = wait_until([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended_) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static bool wait_until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  std::string log_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

class SignalsTest : public CliTest {
 protected:
  /// A run that does not end by itself.
  std::string endless(const std::string& more = "") const {
    return snapshotting_solver("max_iter: 2000000000 display: 20000 " + more);
  }
  int snapshots() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(path(""))) {
      count += entry.path().extension() == ".solverstate";
    }
    return count;
  }
  void expect_stopped_early(Training& run, int signal = SIGINT) const {
    EXPECT_EQ(run.end(), 128 + signal) << run.log();
    EXPECT_NE(run.log().find("stopped early"), std::string::npos) << run.log();
  }
};

TEST_F(SignalsTest, InterruptAndTerminationStopWithASnapshot) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Training run(endless(), {}, path("log"));
    ASSERT_TRUE(run.says("Iteration 0, lr")) << run.log();
    run.send(signal);
    expect_stopped_early(run, signal);
    EXPECT_EQ(snapshots(), 1) << run.log();
  }
}

TEST_F(SignalsTest, InterruptTakesSnapshotsAndGoesOn) {
  Training run(endless("snapshot_after_train: false"),
               {"--sigint_effect=snapshot", "--sighup_effect=stop"}, path("log"));
  ASSERT_TRUE(run.says("Iteration 0, lr")) << run.log();
  // Twice at once, as impatient schedulers do.
  run.send(SIGINT);
  run.send(SIGTERM);
  EXPECT_TRUE(run.says("Snapshotting to")) << run.log();
  EXPECT_TRUE(run.goes_on()) << run.log();
  const int taken = snapshots();
  EXPECT_GE(taken, 1);
  run.send(SIGHUP);
  expect_stopped_early(run, SIGHUP);
  EXPECT_EQ(snapshots(), taken) << "this solver takes none at its end";
}

TEST_F(SignalsTest, InterruptsAreIgnoredWhereAsked) {
  Training run(endless("snapshot_after_train: false"),
               {"--sigint_effect=none", "--sighup_effect=stop"}, path("log"));
  ASSERT_TRUE(run.says("Iteration 0, lr")) << run.log();
  for (int i = 0; i < 3; ++i) {
    run.send(SIGINT);
    run.send(SIGTERM);
  }
  EXPECT_TRUE(run.goes_on()) << run.log();
  run.send(SIGHUP);
  expect_stopped_early(run, SIGHUP);
  EXPECT_EQ(snapshots(), 0);
}

TEST_F(SignalsTest, HangupTakesASnapshotOrIsIgnored) {
  for (const bool ignored : {false, true}) {
    const std::vector<std::string> flags =
        ignored ? std::vector<std::string>{"--sighup_effect=none"} : std::vector<std::string>{};
    Training run(endless("snapshot_after_train: false"), flags, path("log"));
    ASSERT_TRUE(run.says("Iteration 0, lr")) << run.log();
    const int before = snapshots();
    run.send(SIGHUP);
    if (!ignored) {
      EXPECT_TRUE(run.says("Snapshotting to")) << run.log();
    }
    EXPECT_TRUE(run.goes_on()) << run.log();
    EXPECT_EQ(snapshots(), before + !ignored) << run.log();
    run.send(SIGINT);
    expect_stopped_early(run);
  }
}

// A terminal that is closed hangs up: nobody asked to write there.
TEST_F(SignalsTest, AHangupWritesNothingAmongFilesOfAnotherRun) {
  const std::string other = write("s_iter_7.caffemodel", "of another run");
  Training run(endless("snapshot_after_train: false"), {"--overwrite=false"}, path("log"));
  ASSERT_TRUE(run.says("Iteration 0, lr")) << run.log();
  EXPECT_TRUE(run.says("'" + other + "' is of another run. Signals take no snapshot."))
      << run.log();
  run.send(SIGHUP);
  EXPECT_TRUE(run.says("no snapshot at this signal: '" + other + "'")) << run.log();
  EXPECT_TRUE(run.goes_on()) << run.log();
  EXPECT_EQ(snapshots(), 0) << run.log();
  run.send(SIGINT);
  expect_stopped_early(run);
}

// A test may take an hour; nobody asks for its end in vain.
TEST_F(SignalsTest, StopsAndSnapshotsWithinATest) {
  Training run(endless("test_iter: 2000000000 test_interval: 1"), {}, path("log"));
  ASSERT_TRUE(run.says("Solving")) << run.log();
  run.send(SIGHUP);
  EXPECT_TRUE(run.says("Snapshotting to " + path("s_iter_0.solverstate"))) << run.log();
  run.send(SIGINT);
  expect_stopped_early(run);
}

// Ctrl-C ends `tee` as well: the run was killed at its next line, without the snapshot.
TEST_F(SignalsTest, StopsWithASnapshotWhenTheReaderOfItsMessagesEnds) {
  std::signal(SIGPIPE, SIG_DFL);
  for (const std::string effect : {"stop", "none"}) {
    const std::string status = path("status_" + effect);
    run("train --threads=1 --sigint_effect=" + effect + " --solver=" + endless() +
            " 2>&1; echo $? >" + status + ") | sed '/Iteration 0, lr/q'",
        "(" CREMA_TOOL);
    std::ifstream file(status);
    int ended = -1;
    file >> ended;
    EXPECT_EQ(ended, 128 + SIGPIPE) << effect;
    EXPECT_EQ(snapshots(), 1) << effect;
    for (const auto& entry : fs::directory_iterator(path(""))) {
      if (entry.path().filename().string().starts_with("s_iter_")) fs::remove(entry.path());
    }
  }
}

TEST(SignalActions, AskedToStopTwiceTheProgramEndsAtOnce) {
  for (const int second : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          const SignalActions actions("stop", "snapshot");
          std::raise(SIGINT);
          std::raise(second);
          _exit(0);
        },
        testing::KilledBySignal(second), "");
  }
}

TEST(SignalActions, OtherEffectsAreRememberedOnce) {
  for (const auto& [name, action] :
       {std::pair{"snapshot", SolverAction::snapshot}, std::pair{"none", SolverAction::none}}) {
    const SignalActions actions(name, "none");
    EXPECT_EQ(actions.take(), SolverAction::none);
    std::raise(SIGINT);
    std::raise(SIGINT);
    std::raise(SIGTERM);
    EXPECT_EQ(actions.take(), action);
    EXPECT_EQ(actions.take(), SolverAction::none);
  }
  const SignalActions actions("snapshot", "stop");
  std::raise(SIGINT);
  std::raise(SIGHUP);
  EXPECT_EQ(actions.take(), SolverAction::stop) << "the stronger wish counts";
  expect_error([] { SignalActions("explode", "none"); }, {"--sigint_effect", "explode"});
  expect_error([] { SignalActions("none", "explode"); }, {"--sighup_effect", "explode"});
}

TEST(SignalActions, AClosedPipeStopsAndCountsAsNoInterrupt) {
  std::signal(SIGPIPE, SIG_DFL);
  for (const char* effect : {"stop", "snapshot", "none"}) {
    const SignalActions actions(effect, "none");
    EXPECT_EQ(actions.take(), SolverAction::none);
    for (int i = 0; i < 2; ++i) {
      std::raise(SIGPIPE);
      std::raise(SIGPIPE);
      EXPECT_EQ(actions.take(), SolverAction::stop) << effect;
    }
    std::raise(SIGINT);
    std::raise(SIGPIPE);
    EXPECT_EQ(actions.take(), SolverAction::stop) << effect;
  }
  // As services of systemd are started.
  std::signal(SIGPIPE, SIG_IGN);
  {
    const SignalActions actions("stop", "none");
    std::raise(SIGPIPE);
    EXPECT_EQ(actions.take(), SolverAction::none);
  }
  EXPECT_EQ(std::signal(SIGPIPE, SIG_DFL), SIG_IGN);
}

// Under nohup a hangup is ignored, also when the training has ended.
TEST(SignalActions, WhatWasSetBeforeComesBack) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const SignalActions actions("stop", "snapshot");
    std::raise(SIGHUP);
    EXPECT_EQ(actions.take(), SolverAction::snapshot);
  }
  EXPECT_EQ(std::signal(SIGHUP, before), SIG_IGN);
}

}  // namespace
}  // namespace crema::test
