// A training as a user sees it: on a terminal, with settings of the command line, with layers that
// do not learn, and beside the snapshots of other runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "model/binary_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "tools/cli.hpp"
#include "tools/on_terminal.hpp"
#include "tools/text.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

class TrainingCli : public CliTest {
 protected:
  // Lines without colours and bars: progress_cli_test.cpp has these.
  const Variable colours_{"NO_COLOR", "1"}, locale_{"LC_ALL", "C"};

  /// A net that is tested, with two layers that learn.
  std::string tested_net() const {
    return write("tested.prototxt", R"(name: "tested"
layer { name: "x" type: "DummyData" top: "x" top: "label" dummy_data_param {
  shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "gaussian" std: 1 } data_filler { value: 1 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "x" top: "ip1" inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" })");
  }
  std::string tested_solver(const std::string& more) const {
    return write("tested_solver.prototxt",
                 "net: '" + tested_net() +
                     "' base_lr: 0.1 lr_policy: 'fixed' test_iter: 2 test_interval: 4 display: 2 "
                     "snapshot_prefix: '" +
                     path("s") + "' " + more);
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      if (line.ends_with('\r')) line.pop_back();
      lines.push_back(line);
    }
    return lines;
  }
  /// All that the log of level INFO in the folder has.
  static std::string log_in(const std::string& folder) {
    std::string all;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_symlink() && name.find(".INFO.") != std::string::npos)
        all += read_file(entry.path().string());
    }
    return all;
  }
};

TEST_F(TrainingCli, ATerminalHasOneSteadyLineAndOneForEachTest) {
  fs::create_directory(path("logs"));
  const Output run = run_on_terminal("train --threads=1 --log_dir=" + path("logs") + " --solver=" +
                                         tested_solver("max_iter: 10 snapshot_after_train: false"),
                                     80);
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_THAT(run.text,
              ContainsRegex("10/10  loss [0-9.]+  acc [0-9.]+ \\(best [0-9.]+\\)  [0-9.]+ it/s"));
  for (const char* part : {"test at 0  accuracy ", "test at 4  accuracy ", "test at 8  accuracy ",
                           "test at 10  accuracy "}) {
    EXPECT_EQ(run.count(part), 1) << part << " in " << run.text;
  }
  // Neither the time nor the place in the source, and nothing of what programs read.
  for (const char* part : {".cpp:", "Train net output", "Test net output", "Iteration 2"})
    EXPECT_FALSE(run.says(part)) << part << " in " << run.text;
  // What is drawn between two returns of the carriage, without the sequence that erases.
  for (const std::string& line : lines_of(run.text)) {
    std::istringstream drawn(line);
    for (std::string state; std::getline(drawn, state, '\r');) {
      if (state.starts_with("\033[K")) state.erase(0, 3);
      if (state.find("it/s") != std::string::npos && state.find('/') < 4) {
        EXPECT_LT(state.size(), 80U) << state;
      }
    }
  }
  // The log has everything.
  const std::string log = log_in(path("logs"));
  for (const char* part :
       {"Iteration 2 (", "Iteration 8, lr = 0.1",
        "Train net output #0: loss = ", "Iteration 4, Testing net (#0)",
        "    Test net output #0: accuracy = ", "Solving tested", "Optimization Done."}) {
    EXPECT_THAT(log, HasSubstr(part));
  }
}

TEST_F(TrainingCli, ANarrowTerminalHasFewerFields) {
  const Output run = run_on_terminal(
      "train --threads=1 --solver=" + tested_solver("max_iter: 10 snapshot_after_train: false"),
      24);
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_THAT(run.text, ContainsRegex("\r\033\\[K10/10  loss [0-9.]+\r\n")) << run.text;
  EXPECT_FALSE(run.says("it/s")) << run.text;
}

// The value that is watched says most; it was the first that a narrow terminal lost.
TEST_F(TrainingCli, ATestOnANarrowTerminalSaysWhatIsWatchedAndThatThereIsMore) {
  const std::string command =
      "train --threads=1 --solver=" +
      tested_solver("max_iter: 2 snapshot_after_train: false snapshot_best: 'loss'");
  const Output narrow = run_on_terminal(command + " --overwrite", 35);
  EXPECT_EQ(narrow.status, 0) << narrow.text;
  EXPECT_THAT(narrow.text, ContainsRegex("test at 0  loss [0-9.]+  \\.\\.\\.\r\n"));
  const Output wide = run_on_terminal(command + " --overwrite", 80);
  EXPECT_THAT(wide.text, ContainsRegex("test at 0  loss [0-9.]+  accuracy [0-9.]+\r\n"));
}

TEST(Terminal, FieldsDropFromTheRight) {
  using tools::fitting_fields;
  const std::vector<std::string> fields = {"12345", "1234", "é34"};
  EXPECT_EQ(fitting_fields(fields, 16), 3U);  // 5 + 2 + 4 + 2 + 3
  EXPECT_EQ(fitting_fields(fields, 15), 2U);
  EXPECT_EQ(fitting_fields(fields, 11), 2U);
  EXPECT_EQ(fitting_fields(fields, 10), 1U);
  EXPECT_EQ(fitting_fields(fields, 3), 1U) << "there is always one";
  using Fields = std::vector<std::string>;
  EXPECT_EQ(tools::with_sign_of_more(fields, 16), fields);
  EXPECT_EQ(tools::with_sign_of_more(fields, 15), (Fields{"12345", "..."}));
  EXPECT_EQ(tools::with_sign_of_more(fields, 3), (Fields{"12345", "..."}));
}

TEST(Terminal, WideCharactersTakeTwoColumns) {
  using tools::columns_of, tools::cut_to;
  EXPECT_EQ(columns_of("a\xC3\xA9"), 2U);                      // é
  EXPECT_EQ(columns_of("\xE7\x8C\xAB\xE7\x8A\xAC"), 4U);       // two of Han
  EXPECT_EQ(columns_of("\xF0\x9F\x90\xB1"), 2U);               // an emoji
  EXPECT_EQ(columns_of("e\xCC\x81"), 1U) << "a mark above e";  // of two characters
  EXPECT_EQ(columns_of("\xFF\x80"), 2U) << "bytes that are no UTF-8";
  EXPECT_EQ(cut_to("a\xE7\x8C\xAB\xE7\x8A\xAC", 4), "a\xE7\x8C\xAB");
  EXPECT_EQ(cut_to("ab", 2), "ab");
}

TEST(Terminal, NumbersAreShort) {
  EXPECT_EQ(tools::grouped(7), "7");
  EXPECT_EQ(tools::grouped(431080), "431,080");
  EXPECT_EQ(tools::grouped(-1234567), "-1,234,567");
  EXPECT_EQ(tools::human_value(0.02), "0.020");
  EXPECT_EQ(tools::human_value(0), "0.000");
  EXPECT_EQ(tools::human_value(0.00012), "1.2e-04");
  EXPECT_EQ(tools::human_value(12345), "1.234e+04");
}

TEST_F(TrainingCli, AFileGetsThePublishedLog) {
  const Output run = test::run("train --threads=1 --solver=" +
                               tested_solver("max_iter: 4 snapshot_after_train: false"));
  EXPECT_EQ(run.status, 0) << run.text;
  for (const char* part :
       {"Iteration 0 (", "Iteration 2, lr = 0.1", "Iteration 0, Testing net (#0)",
        "    Test net output #0: accuracy = ", "    Train net output #0: loss = "}) {
    EXPECT_TRUE(run.says(part)) << part << " is not in " << run.text;
  }
  EXPECT_FALSE(run.says("test at ")) << run.text;
  EXPECT_FALSE(run.says("\033[")) << run.text;
}

TEST_F(TrainingCli, TheStartSaysWhatTrains) {
  const Output run = test::run("train --threads=1 --freeze=ip1 --solver=" +
                               tested_solver("max_iter: 1 snapshot_after_train: false"));
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_TRUE(run.says("12 parameters train, 20 are frozen")) << run.text;
  EXPECT_TRUE(run.says("2 classes")) << run.text;
  EXPECT_TRUE(run.says("Solving tested on 1 threads; memory: ")) << run.text;
  EXPECT_TRUE(run.says("--freeze without --weights")) << run.text;
}

TEST_F(TrainingCli, SnapshotsOfAnotherRunStay) {
  const std::string command = "train --threads=1 --solver=" + tested_solver("max_iter: 4");
  ASSERT_EQ(test::run(command).status, 0);
  const std::string before = read_file(path("s_iter_4.caffemodel"));
  expect_refusal(
      command + " --set base_lr=0.2",
      {"the 2 files '" + path("s") + "_*' such as", "are of another run",
       "This run would mix its own files with them.", "--resume continues that run.",
       "--overwrite replaces its files", "--set snapshot_prefix=" + path("s_2") + " keeps both"});
  EXPECT_EQ(read_file(path("s_iter_4.caffemodel")), before);
  // Weights alone are worth as much, but there is nothing to resume from.
  fs::remove(path("s_iter_4.solverstate"));
  const Output weights = test::run(command);
  EXPECT_EQ(weights.status, 1);
  EXPECT_FALSE(weights.says("--resume")) << weights.text;

  // What the message proposes.
  EXPECT_EQ(test::run(command + " --set snapshot_prefix=" + path("s_2")).status, 0);
  EXPECT_TRUE(fs::exists(path("s_2_iter_4.solverstate")));
  // A run goes on from its own snapshots, and from those of another one with a prefix of its own.
  EXPECT_EQ(test::run(command + " --set snapshot_prefix=" + path("s_2") +
                      " --snapshot=" + path("s_2_iter_4.solverstate") + " --set max_iter=5")
                .status,
            0);
  expect_refusal(command + " --snapshot=" + path("s_2_iter_4.solverstate") + " --set max_iter=5",
                 {"'" + path("s_iter_4.caffemodel") + "' is of another run"});
  // A run that takes none harms none.
  EXPECT_EQ(test::run(command + " --set snapshot_after_train=false").status, 0);
  const Output replaced = test::run(command + " --overwrite --set base_lr=0.2");
  EXPECT_EQ(replaced.status, 0) << replaced.text;
  EXPECT_NE(read_file(path("s_iter_4.caffemodel")), before);
}

TEST_F(TrainingCli, OverwriteLeavesNoStateThatResumeWouldTake) {
  const std::string command = "train --threads=1 --solver=" + tested_solver("");
  ASSERT_EQ(test::run(command + " --set max_iter=8 --set snapshot=4").status, 0);
  ASSERT_EQ(test::run(command + " --overwrite --set max_iter=4").status, 0);
  EXPECT_FALSE(fs::exists(path("s_iter_8.solverstate")));
  EXPECT_TRUE(fs::exists(path("s_iter_8.caffemodel"))) << "weights stay until they are replaced";
  const Output resumed = test::run(command + " --resume --set max_iter=6");
  EXPECT_TRUE(resumed.says("Resuming from " + path("s_iter_4.solverstate"))) << resumed.text;
}

TEST_F(TrainingCli, OverwriteWithASnapshotLeavesNoStateOfTheOtherRun) {
  const std::string command = "train --threads=1 --solver=" + tested_solver("");
  ASSERT_EQ(test::run(command + " --set max_iter=8 --set snapshot=4").status, 0);
  const std::string other = " --set snapshot_prefix=" + path("t");
  ASSERT_EQ(test::run(command + other + " --set max_iter=2").status, 0);
  const Output run = test::run(command + " --snapshot=" + path("t_iter_2.solverstate") +
                               " --overwrite --set max_iter=4");
  EXPECT_EQ(run.status, 0) << run.text;
  const Output resumed = test::run(command + " --resume --set max_iter=6");
  EXPECT_TRUE(resumed.says("Resuming from " + path("s_iter_4.solverstate"))) << resumed.text;
  EXPECT_TRUE(fs::exists(path("t_iter_2.solverstate"))) << "of another prefix";
}

// A run that ends before its first snapshot has nothing to put in the place of the other one.
TEST_F(TrainingCli, OverwriteRemovesNothingBeforeTheFirstSnapshot) {
  // States are told by the names of files, not of folders.
  fs::create_directory(path("r.solverstate"));
  const std::string prefix = path("r.solverstate/s");
  const auto file = [&](const std::string& ending) { return prefix + ending; };
  const std::string command =
      "train --threads=1 --solver=" + tested_solver("") + " --set snapshot_prefix=" + prefix;
  ASSERT_EQ(
      test::run(command + " --set max_iter=8 --set snapshot=4 --set snapshot_best=accuracy").status,
      0);
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("r.solverstate")))
      names.insert(entry.path().filename().string());
    return names;
  };
  const std::set<std::string> before = files();
  const Output diverged = test::run(command + " --overwrite --set max_iter=4 --set base_lr=1e30");
  EXPECT_EQ(diverged.status, 1) << diverged.text;
  EXPECT_EQ(files(), before);
  const std::string weights = read_file(file("_iter_8.caffemodel"));

  const Output run = test::run(command + " --overwrite --set max_iter=4");
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_TRUE(fs::exists(file("_iter_4.solverstate")));
  EXPECT_EQ(read_file(file("_iter_8.caffemodel")), weights) << "weights stay";
  for (const char* gone : {"_iter_8.solverstate", "_iter_0.solverstate", "_best.caffemodel",
                           "_last.caffemodel", "_last.solverstate"})
    EXPECT_FALSE(fs::exists(fs::symlink_status(file(gone)))) << gone;
  // Those of the run itself stay.
  const Output best = test::run(command + " --overwrite --set max_iter=4 --set snapshot_best=loss");
  EXPECT_EQ(best.status, 0) << best.text;
  for (const char* own : {"_iter_4.solverstate", "_best.caffemodel", "_last.caffemodel"})
    EXPECT_TRUE(fs::exists(file(own))) << own;
}

TEST_F(TrainingCli, LinesOfTheLogSayWhereTheyAreFrom) {
  const Output run = test::run("train --threads=1 --solver=" + tested_solver("max_iter: 2"));
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_THAT(run.text, ContainsRegex(" run_start\\.cpp:[0-9]+\\] Solving tested"));
  EXPECT_THAT(run.text, ContainsRegex(" train_progress\\.cpp:[0-9]+\\] Iteration 0"));
  EXPECT_FALSE(run.says("terminal.cpp")) << run.text;
}

// The published program never asks.
TEST_F(TrainingCli, UnderThePublishedNameOtherRunsAreWarnedOf) {
  const std::string caffe = (fs::path(CREMA_TOOL).parent_path() / "caffe").string();
  const std::string command = "train -solver " + tested_solver("max_iter: 2");
  for (int i = 0; i < 2; ++i) {
    const Output run = test::run(command, caffe);
    EXPECT_EQ(run.status, 0) << run.text;
    EXPECT_EQ(run.says("are of another run; this run replaces them"), i == 1) << run.text;
  }
}

TEST_F(TrainingCli, ANetWithoutALossIsAnError) {
  const std::string model = write("none.prototxt", R"(
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } })");
  const std::string command =
      "train --threads=1 --solver=" +
      write("none_solver.prototxt",
            "net: '" + model +
                "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 snapshot_after_train: false");
  expect_refusal(command, {"the training net has no loss", "add a loss layer", "--allow_no_loss"});
  const Output allowed = test::run(command + " --allow_no_loss");
  EXPECT_EQ(allowed.status, 0) << allowed.text;
  EXPECT_TRUE(allowed.says("the training net has no loss")) << allowed.text;
}

TEST_F(TrainingCli, SettingsOfTheCommandLineAreSaidAndSaved) {
  const Output run = test::run(
      "train --threads=1 --set base_lr=0.05 --set net.ip1.num_output=7 "
      "--freeze='/ip1/' --solver=" +
      tested_solver("max_iter: 2"));
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_TRUE(run.says("base_lr=0.05 in place of 0.1")) << run.text;
  EXPECT_TRUE(run.says("net.ip1.num_output=7 in place of 5")) << run.text;
  EXPECT_TRUE(run.says("Iteration 0, lr = 0.05")) << run.text;
  for (const char* file : {"s_iter_2.caffemodel", "s_iter_2.solverstate"}) {
    const Output inspected = test::run("inspect " + path(file));
    EXPECT_TRUE(
        inspected.says("settings of the command line: base_lr=0.05, net.ip1.num_output=7\n"))
        << inspected.text;
    EXPECT_TRUE(inspected.says("frozen layers: /ip1/\n")) << inspected.text;
    EXPECT_TRUE(inspected.says("iteration: 2\n")) << inspected.text;
    EXPECT_TRUE(inspected.says("tested accuracy: ")) << inspected.text;
    EXPECT_TRUE(inspected.says("solver's file: " + path("tested_solver.prototxt")))
        << inspected.text;
    const Output json = test::run("inspect --json " + path(file));
    EXPECT_TRUE(json.says(R"("settings": ["base_lr=0.05", "net.ip1.num_output=7"])")) << json.text;
  }
  // A run that goes on without them is told.
  const Output resumed =
      test::run("train --threads=1 --resume --set net.ip1.num_output=7 --solver=" +
                tested_solver("max_iter: 3"));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_TRUE(
      resumed.says("the run of the snapshot had other settings from its caller: "
                   "base_lr=0.05\n"))
      << "and not what both have: " << resumed.text;
  EXPECT_TRUE(resumed.says("the run of the snapshot had other frozen layers: /ip1/\n"))
      << resumed.text;
}

TEST_F(TrainingCli, WrongSettingsAreExplained) {
  const std::string command = "train --solver=" + tested_solver("max_iter: 1") + " --set ";
  expect_refusal(command + "base_rl=0.1", {"setting 'base_rl=0.1'", "did you mean 'base_lr'"});
  expect_refusal(command + "base_lr=fast", {"base_lr cannot be 'fast'; give a number"});
  expect_refusal(command + "base_lr", {"setting 'base_lr' has no value", "FIELD=VALUE"});
  expect_refusal(command + "base_lr=-1", {"setting base_lr=-1: base_lr -1 must not be negative"});
  expect_refusal(command + "net.ip3.num_output=2", {"no layer 'ip3'", "did you mean 'ip"});
  expect_refusal(
      command + "net.ip1.num_outputs=2",
      {"layer 'ip1' (InnerProduct) has no field 'num_outputs'", "did you mean 'num_output'"});
  expect_refusal(command + "net.ip1.num_output=many", {"num_output cannot be 'many'"});
  expect_refusal(command + "net.ip1=2", {"names no field of the layer", "net.ip1.FIELD=VALUE"});
}

TEST_F(TrainingCli, TheBestAndTheLastHaveNamesOfTheirOwn) {
  const Output run = test::run("train --threads=1 --solver=" +
                               tested_solver("max_iter: 6 snapshot: 3 snapshot_best: 'accuracy'"));
  EXPECT_EQ(run.status, 0) << run.text;
  const std::string best = path("s_best.caffemodel");
  const std::vector<std::string> lines = lines_of(run.text);
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.back(), ContainsRegex("best: accuracy [0-9.]+ at iteration [0-9]+, " + best));
  EXPECT_EQ(fs::read_symlink(path("s_last.caffemodel")), "s_iter_6.caffemodel");
  EXPECT_EQ(fs::read_symlink(path("s_last.solverstate")), "s_iter_6.solverstate");
  const Output inspected = test::run("inspect " + best);
  EXPECT_THAT(inspected.text, ContainsRegex("best accuracy: [0-9.]+ at iteration [0-9]+\n"));
  EXPECT_THAT(inspected.text, ContainsRegex("tested accuracy: [0-9.]+ at iteration [0-9]+\n"));
  const Output tested =
      test::run("test --iterations=1 --model=" + tested_net() + " --weights=" + best);
  EXPECT_EQ(tested.status, 0) << tested.text;
  // A link to a snapshot of the run is that snapshot.
  const Output resumed =
      test::run("train --threads=1 --snapshot=" + path("s_last.solverstate") +
                " --solver=" + tested_solver("max_iter: 8 snapshot: 3 snapshot_best: 'accuracy'"));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(fs::read_symlink(path("s_last.solverstate")), "s_iter_8.solverstate");
}

}  // namespace
}  // namespace crema::test
