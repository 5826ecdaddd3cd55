// The command line as a user meets it: what it prints, and its exit status.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace crema {
namespace {

namespace fs = std::filesystem;

struct Output {
  int status = -1;
  std::string text;  // stdout and stderr
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
};

Output run(const std::string& arguments, const std::string& program = CREMA_TOOL) {
  Output output;
  FILE* pipe = popen((program + " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    output.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

/// Fails unless the command ends with status 1 and one message that holds every part.
void expect_refusal(const std::string& arguments, std::initializer_list<std::string> parts) {
  const Output output = run(arguments);
  EXPECT_EQ(output.status, 1) << arguments << "\n" << output.text;
  for (const auto& part : parts)
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  EXPECT_FALSE(output.says("Check failure stack trace")) << output.text;
}

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    folder_ = fs::path(::testing::TempDir()) / ("crema_cli_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  ~CliTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  std::string net() {
    return write("net.prototxt", R"(name: "tiny"
layer { name: "x" type: "Input" top: "x" top: "label" input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  }
  std::string solver(const std::string& more) {
    return write("solver.prototxt", "net: '" + net() + "' base_lr: 0.1 lr_policy: 'fixed' " + more);
  }
  fs::path folder_;
};

TEST_F(CliTest, HelpListsCommandsAndFlags) {
  const Output all = run("help");
  EXPECT_EQ(all.status, 0);
  for (const char* name :
       {"train", "test", "time", "summary", "convert-mnist", "convert-imageset", "device-query"}) {
    EXPECT_TRUE(all.says(name)) << name;
  }
  const Output train = run("help train");
  EXPECT_EQ(train.status, 0);
  for (const char* flag : {"--solver", "--snapshot", "--weights", "--sigint_effect", "--gpu"}) {
    EXPECT_TRUE(train.says(flag)) << flag;
  }
  EXPECT_EQ(run("train --help").text, train.text);
  EXPECT_EQ(run("").status, 1);
}

TEST_F(CliTest, UnknownWordsGetTheNearestName) {
  expect_refusal("trian", {"'trian'", "did you mean 'train'?"});
  expect_refusal("train --solvr=x", {"--solvr", "--solver"});
  expect_refusal("summary --solver=x", {"summary has no flag --solver"});
  expect_refusal("help tme", {"'tme'"});
}

TEST_F(CliTest, MissingAndContradictingFlagsAreExplained) {
  expect_refusal("train", {"--solver"});
  expect_refusal("test --model=x", {"--weights"});
  expect_refusal("train --solver=x --snapshot=a --weights=b", {"exclude"});
  expect_refusal("time --model=" + net() + " --iterations=0", {"--iterations 0"});
  expect_refusal("time --model=" + net() + " --phase=TRIAN", {"TRIAN", "TRAIN"});
  expect_refusal("train --solver=" + solver("max_iter: 1") + " --sigint_effect=explode",
                 {"explode"});
  expect_refusal("train --solver=" + folder_.string(), {"folder"});
  expect_refusal("train --solver=" + (folder_ / "none").string(), {"none"});
}

TEST_F(CliTest, WorkOnTheCpuMakesNoCudaCall) {
  const std::string program = "LD_LIBRARY_PATH=" CREMA_FAKE_CUDA_DRIVER " " CREMA_TOOL;
  const std::string betrayal = "the fake CUDA driver was called";
  if (!run("device-query", program).says(betrayal)) GTEST_SKIP() << "needs a build with CUDA";
  const std::string file = solver("max_iter: 4 test_iter: 1 test_interval: 2 snapshot_prefix: '" +
                                  (folder_ / "s").string() + "'");
  for (const std::string& arguments :
       {"train --solver=" + file, "time --iterations=2 --model=" + net(),
        "test --iterations=2 --model=" + net() +
            " --weights=" + (folder_ / "s_iter_4.caffemodel").string(),
        "summary --model=" + net(), std::string("help")}) {
    const Output output = run(arguments, program);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_FALSE(output.says(betrayal)) << arguments << "\n" << output.text;
  }
}

TEST_F(CliTest, TrainsAndLogsWhatParsersRead) {
  const std::string file =
      solver("max_iter: 4 display: 2 snapshot_prefix: '" + (folder_ / "s").string() + "'");
  const Output output = run("train --solver=" + file);
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"Iteration 0 (", "loss = ", "Train net output #0: loss = ", "(* 1 = ",
                           "Iteration 2, lr = 0.1", "Optimization Done"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  EXPECT_TRUE(fs::exists(folder_ / "s_iter_4.caffemodel"));
  const Output resumed =
      run("train --solver=" + file + " --snapshot=" + (folder_ / "s_iter_4.solverstate").string());
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  expect_refusal(
      "train --solver=" + file + " --snapshot=" + (folder_ / "s_iter_4.caffemodel").string(),
      {"weights file", "--weights"});
  const Output tuned =
      run("train --solver=" + file + " --weights=" + (folder_ / "s_iter_4.caffemodel").string() +
          " --strict");
  EXPECT_EQ(tuned.status, 0) << tuned.text;
  EXPECT_TRUE(tuned.says("1 layers loaded")) << tuned.text;
}

TEST_F(CliTest, SolverModeGpuTrainsOnTheCpuWithAWarning) {
  const Output output =
      run("train --solver=" + solver("max_iter: 1 solver_mode: GPU snapshot_after_train: false"));
  EXPECT_EQ(output.status, 0) << output.text;
}

TEST_F(CliTest, TimesAndSummarises) {
  const Output time = run("time --model=" + net() + " --iterations=3 --json");
  EXPECT_EQ(time.status, 0) << time.text;
  EXPECT_TRUE(time.says("\"total_ms\":"));
  const Output summary = run("summary --model=" + net());
  EXPECT_EQ(summary.status, 0) << summary.text;
  EXPECT_TRUE(summary.says("8 parameters"));
  EXPECT_EQ(run("device_query").status, 0);
}

// LeNet with num_output: 5 on ten classes gave garbage, or a crash, in older toolkits.
TEST_F(CliTest, ALabelOutOfRangeNamesTheRecord) {
  const std::string mini = std::string(CREMA_SOURCE_DIR) + "/data/mnist/mini/";
  const std::string digits = (folder_ / "digits").string();
  const Output made = run("convert-mnist " + mini + "t10k-images-idx3-ubyte.gz " + mini +
                          "t10k-labels-idx1-ubyte.gz " + digits);
  ASSERT_EQ(made.status, 0) << made.text;
  const std::string model = write("five.prototxt", R"(name: "five"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: ")" +
                                                       digits +
                                                       R"(" backend: LMDB batch_size: 64 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  write("solver5.prototxt", "net: '" + model +
                                "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 2 "
                                "snapshot_after_train: false");
  expect_refusal("train --solver=" + (folder_ / "solver5.prototxt").string(),
                 {"layer 'loss' (SoftmaxWithLoss)", "[0, 5)", "num_output", "record '000000"});
}

// A database is opened by its folder, and by the file in it that people name instead.
TEST_F(CliTest, SourcesAreExplained) {
  auto with_source = [&](const std::string& source) {
    return write("data.prototxt", R"(layer { name: "data" type: "Data" top: "data" top: "label"
data_param { source: ")" + source + R"(" backend: LMDB batch_size: 4 } })");
  };
  expect_refusal("summary --model=" + with_source("/nowhere/lmdb"),
                 {"layer 'data'", "/nowhere/lmdb"});
  const std::string mini = std::string(CREMA_SOURCE_DIR) + "/data/mnist/mini/";
  const std::string digits = (folder_ / "digits").string();
  ASSERT_EQ(run("convert-mnist " + mini + "t10k-images-idx3-ubyte.gz " + mini +
                "t10k-labels-idx1-ubyte.gz " + digits)
                .status,
            0);
  EXPECT_EQ(run("summary --model=" + with_source(digits + "/data.mdb")).status, 0);
  expect_refusal("convert-mnist " + mini + "t10k-images-idx3-ubyte.gz " + mini +
                     "t10k-labels-idx1-ubyte.gz " + digits,
                 {digits, "overwrite"});
  expect_refusal("convert-mnist " + folder_.string(), {"train-images-idx3-ubyte"});
}

TEST_F(CliTest, PublishedProgramNamesAreLinks) {
  const fs::path link = fs::path(CREMA_TOOL).parent_path() / "convert_imageset";
  ASSERT_TRUE(fs::exists(link)) << link;
  const Output output = run("--nosuch /x /y /z", link.string());
  EXPECT_EQ(output.status, 1);
  EXPECT_TRUE(output.says("convert-imageset has no flag --nosuch")) << output.text;
}

}  // namespace
}  // namespace crema
