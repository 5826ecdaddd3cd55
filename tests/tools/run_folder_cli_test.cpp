// The folder of a run of `crema train`: where it is, what a run that is killed, goes on or fails
// leaves there, and that nothing of it stops the training.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "crema/error.hpp"
#include "model/text_format.hpp"
#include "monitor/event_file.hpp"
#include "monitor/run_folder.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RunFolderCli : public CliTest {
 protected:
  std::string trained(const std::string& more = "") const {
    return snapshotting_solver("max_iter: 6 display: 2 " + more);
  }
  /// Below the folder of the test, as a user without the variable.
  Output train(const std::string& flags, const std::string& variable = "",
               const std::string& program = CREMA_TOOL) const {
    return run("train --threads=1 " + flags,
               "cd " + path("") + " && env -u CREMA_RUN_DIR " +
                   (variable.empty() ? "" : "CREMA_RUN_DIR=" + variable + " ") + program);
  }
  std::vector<RunRecord> records(const std::string& run) const {
    return read_run_records(path(run));
  }
  static bool has(const std::vector<RunRecord>& all, RunRecord::Kind kind) {
    return std::ranges::any_of(all, [&](const RunRecord& one) { return one.kind() == kind; });
  }
};

TEST_F(RunFolderCli, EachRunHasANumber) {
  const std::string flags = "--overwrite --solver=" + trained();
  Output output = train(flags);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("Run folder: runs/tiny-1")) << output.text;
  output = train(flags);
  EXPECT_TRUE(output.says("Run folder: runs/tiny-2")) << output.text;
  for (const char* file : {"run.json", "metrics.jsonl", "histograms.jsonl", "log.txt",
                           "solver.prototxt", "net.prototxt", "snapshots/last.caffemodel"})
    EXPECT_TRUE(fs::exists(path("runs/tiny-1/") + file)) << file;
  EXPECT_EQ(records("runs/tiny-1").back().reason(), RunRecord::FINISHED);
  SolverParameter solver;
  read_text_proto(path("runs/tiny-1/solver.prototxt"), solver);
  EXPECT_EQ(solver.train_net(), "runs/tiny-1/net.prototxt");
  EXPECT_EQ(solver.snapshot_prefix(), path("s"));
  // It trains from there.
  output = train("--overwrite --solver=runs/tiny-1/solver.prototxt --set max_iter=3");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(fs::exists(path("runs/tiny-3/run.json")));
}

TEST_F(RunFolderCli, InfoHasTheCommand) {
  const std::string solver_file = trained();
  ASSERT_EQ(train("--seed=7 --set base_lr=0.25 --solver=" + solver_file).status, 0);
  const RunInfo info = read_run_info(path("runs/tiny-1"));
  EXPECT_EQ(info.name(), "tiny-1");
  EXPECT_EQ(info.solver_file(), solver_file);
  EXPECT_THAT(info.command(), Contains("--set"));
  EXPECT_THAT(info.command(), Contains("base_lr=0.25"));
  EXPECT_EQ(info.seed(), 7U);
  EXPECT_EQ(fs::canonical(info.folder()), fs::canonical(path("")));
  EXPECT_EQ(info.snapshot_prefix(), path("s"));
  SolverParameter solver;
  read_text_proto(path("runs/tiny-1/solver.prototxt"), solver);
  EXPECT_FLOAT_EQ(solver.base_lr(), 0.25F) << "as --set gives it";
  EXPECT_EQ(solver.random_seed(), 7);
}

TEST_F(RunFolderCli, TheLogIsThatOfTheRun) {
  const Output output = train("--solver=" + trained());
  const std::string log = read_file(path("runs/tiny-1/log.txt"));
  for (const char* part : {"Solving tiny", "Iteration 0 (", "Iteration 4, lr = 0.1",
                           "Train net output #0: loss = ", "Optimization Done.", "Run folder: "})
    EXPECT_THAT(log, HasSubstr(part));
  // From before there was a folder, too, and in the form of the published log.
  EXPECT_THAT(log, HasSubstr("Making the nets"));
  for (size_t begin = 0; begin < log.size(); begin = log.find('\n', begin) + 1) {
    const std::string line = log.substr(begin, log.find('\n', begin) - begin);
    EXPECT_THAT(line, testing::ContainsRegex("^[IWE][0-9]{4} [0-9:]{8}\\.[0-9]{6} +[0-9]+ "
                                             "[a-z_]+\\.cpp:[0-9]+\\] "));
  }
}

TEST_F(RunFolderCli, NoneWhereNoneIsAskedFor) {
  const std::string flags = "--overwrite --solver=" + trained();
  Output output = train("--run_dir=none " + flags);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_FALSE(output.says("Run folder")) << output.text;
  EXPECT_EQ(train(flags, "none").status, 0);
  const std::string caffe = (fs::path(CREMA_TOOL).parent_path() / "caffe").string();
  output = train(flags, "", caffe);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_FALSE(fs::exists(path("runs")));
  // The published program has none, but who names one gets it.
  EXPECT_EQ(train("--run_dir=named " + flags, "", caffe).status, 0);
  EXPECT_TRUE(is_run_folder(path("named")));
  EXPECT_EQ(train(flags, "by_variable").status, 0);
  EXPECT_TRUE(is_run_folder(path("by_variable")));
  EXPECT_FALSE(fs::exists(path("runs")));
}

TEST_F(RunFolderCli, ARunDoesNotWriteOverAnother) {
  const std::string solver_file = trained("snapshot_after_train: false");
  ASSERT_EQ(train("--run_dir=here --solver=" + solver_file).status, 0);
  const std::string before = read_file(path("here/metrics.jsonl"));
  write("here/notes.txt", "of the user");
  const Output refused = train("--run_dir=here --solver=" + solver_file);
  EXPECT_EQ(refused.status, 1);
  for (const char* part : {"'here' has a run already", "--resume", "--overwrite", "--run_dir"})
    EXPECT_TRUE(refused.says(part)) << part << " is not in " << refused.text;
  EXPECT_EQ(read_file(path("here/metrics.jsonl")), before);
  const Output replaced =
      train("--run_dir=here --overwrite --set max_iter=2 --solver=" + solver_file);
  EXPECT_EQ(replaced.status, 0) << replaced.text;
  EXPECT_EQ(records("here").back().iteration(), 2);
  EXPECT_FALSE(has(records("here"), RunRecord::RESUME));
  EXPECT_EQ(read_file(path("here/notes.txt")), "of the user");
  int events = 0;
  for (const auto& entry : fs::directory_iterator(path("here")))
    events += entry.path().filename().string().starts_with(kEventsPrefix);
  EXPECT_EQ(events, 1);
}

TEST_F(RunFolderCli, AFolderThatCannotBeMade) {
  write("runs", "a file");
  const Output output = train("--solver=" + trained());
  EXPECT_EQ(output.status, 0) << "nobody asked for it: " << output.text;
  EXPECT_TRUE(output.says("the run has no folder")) << output.text;
  EXPECT_TRUE(output.says("Optimization Done")) << output.text;
  const Output asked = train("--overwrite --run_dir=runs/x --solver=" + trained());
  EXPECT_EQ(asked.status, 1);
  EXPECT_TRUE(asked.says("runs/x")) << asked.text;
  EXPECT_EQ(train("--run_dir='~/x' --solver=" + trained()).status, 1) << "no shell replaces it";
}

TEST_F(RunFolderCli, AFullDiskStopsNoTraining) {
  fs::create_directory(path("full"));
  for (const char* file : {"metrics.jsonl", "histograms.jsonl", "log.txt"})
    fs::create_symlink("/dev/full", path("full/") + file);
  // --overwrite would remove the links.
  const Output output = train("--resume --run_dir=full --solver=" + trained());
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("Optimization Done")) << output.text;
  EXPECT_EQ(output.count("lacks something from now on"), 1) << output.text;
  EXPECT_EQ(output.count("lacks lines of the log"), 1) << output.text;
  EXPECT_TRUE(fs::exists(path("s_iter_6.caffemodel")));
}

TEST_F(RunFolderCli, ARunThatStopsAtNaNSaysSo) {
  const std::string net_file = write("growing.prototxt", R"(name: "tiny"
layer { name: "x" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 2 } data_filler { type: "gaussian" } data_filler { value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "y" top: "loss" })");
  const Output output = train("--set net=" + net_file +
                              " --set base_lr=1000 --set max_iter=60 --solver=" + trained());
  ASSERT_EQ(output.status, 1) << output.text;
  const auto all = records("runs/tiny-1");
  ASSERT_EQ(all.back().kind(), RunRecord::END);
  EXPECT_EQ(all.back().reason(), RunRecord::FAILED);
  EXPECT_THAT(all.back().text(), HasSubstr("finite"));
  EXPECT_FALSE(is_run_alive(path("runs/tiny-1")));
}

/// `crema train` in the folder of the test, while it runs.
class Running {
 public:
  Running(const std::string& folder, std::vector<std::string> words) {
    words.insert(words.begin(), {CREMA_TOOL, "train", "--threads=1"});
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    child_ = ::fork();
    if (child_ != 0) return;
    ::unsetenv("CREMA_RUN_DIR");
    const int nothing = ::open("/dev/null", O_WRONLY);
    ::dup2(nothing, STDERR_FILENO);
    if (::chdir(folder.c_str()) == 0) ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ~Running() { end(SIGKILL); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  /// The status as waitpid() gives it.
  int end(int signal) {
    int status = 0;
    if (child_ <= 0) return status;
    ::kill(child_, signal);
    ::waitpid(child_, &status, 0);
    child_ = 0;
    return status;
  }

 private:
  pid_t child_ = 0;
};

bool wait_for(const std::function<bool()>& done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TEST_F(RunFolderCli, AKilledRunIsReadableAndGoesOnInItsFolder) {
  const std::string solver_file =
      snapshotting_solver("max_iter: 2000000000 display: 100 snapshot: 1000 snapshot_keep: 1");
  {
    Running run(path(""), {"--solver=" + solver_file});
    ASSERT_TRUE(wait_for([&] {
      const auto all = records("runs/tiny-1");
      return !all.empty() && all.back().iteration() > 2500;
    }));
    EXPECT_TRUE(is_run_alive(path("runs/tiny-1")));
    run.end(SIGKILL);
  }
  EXPECT_FALSE(is_run_alive(path("runs/tiny-1")));
  auto all = records("runs/tiny-1");
  EXPECT_FALSE(has(all, RunRecord::END));
  EXPECT_TRUE(has(all, RunRecord::SNAPSHOT));
  for (const auto& entry : fs::directory_iterator(path("runs/tiny-1"))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kEventsPrefix)) {
      EXPECT_GT(read_events(entry.path().string()).size(), 20U);
    }
  }
  const int last = all.back().iteration();

  const Output output =
      train("--resume --solver=" + solver_file + " --set max_iter=" + std::to_string(last + 1000));
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("Run folder: runs/tiny-1, which the run goes on in")) << output.text;
  EXPECT_FALSE(fs::exists(path("runs/tiny-2")));
  all = records("runs/tiny-1");
  EXPECT_TRUE(has(all, RunRecord::RESUME));
  std::set<int> iterations;
  int before = -1;
  for (const RunRecord& one : all) {
    if (one.kind() != RunRecord::TRAIN) continue;
    EXPECT_TRUE(iterations.insert(one.iteration()).second) << one.iteration();
    EXPECT_LE(one.iteration() - before, 100) << "a gap at " << one.iteration();
    before = one.iteration();
  }
  EXPECT_EQ(before, last + 1000);
  const std::string log = read_file(path("runs/tiny-1/log.txt"));
  EXPECT_THAT(log, HasSubstr("Resuming from "));
  EXPECT_GT(log.find("Resuming from "), log.find("Iteration 2000, lr"));
}

TEST_F(RunFolderCli, ARunThatASignalStoppedGoesOn) {
  const std::string solver_file = snapshotting_solver("max_iter: 2000000000 display: 100");
  {
    Running run(path(""), {"--solver=" + solver_file});
    ASSERT_TRUE(wait_for([&] {
      const auto all = records("runs/tiny-1");
      return !all.empty() && all.back().iteration() > 300;
    }));
    // A second one does not join it.
    const Output second =
        train("--run_dir=runs/tiny-1 --overwrite --set max_iter=5 --solver=" + solver_file);
    EXPECT_EQ(second.status, 1) << second.text;
    EXPECT_TRUE(second.says("another process")) << second.text;
    run.end(SIGINT);
  }
  EXPECT_EQ(records("runs/tiny-1").back().reason(), RunRecord::STOPPED);
  const int stopped = records("runs/tiny-1").back().iteration();
  ASSERT_TRUE(fs::exists(path("runs/tiny-1/snapshots/last.solverstate")));
  const Output output =
      train("--snapshot=runs/tiny-1/snapshots/last.solverstate --solver=" + solver_file +
            " --set max_iter=" + std::to_string(stopped + 50));
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(records("runs/tiny-1").back().reason(), RunRecord::FINISHED);
  EXPECT_EQ(records("runs/tiny-1").back().iteration(), stopped + 50);
}

TEST_F(RunFolderCli, AFolderThatIsGoneGivesWayToAnother) {
  const std::string solver_file = trained("snapshot: 3");
  ASSERT_EQ(train("--solver=" + solver_file).status, 0);
  fs::rename(path("runs/tiny-1"), path("moved"));
  Output output = train("--resume --set max_iter=9 --solver=" + solver_file);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("runs/tiny-1, is gone")) << output.text;
  EXPECT_TRUE(is_run_folder(path("runs/tiny-1")));
  // Where it is now, by its name.
  output = train("--resume --run_dir=moved --set max_iter=12 --solver=" + solver_file);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(records("moved").back().iteration(), 12);
}

}  // namespace
}  // namespace crema::test
