// `crema train` under mpirun.
#include <filesystem>

#include "parallel/processes.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFlat =
    "layer { name: 'x' type: 'InnerProduct' bottom: 'data' top: 'x' inner_product_param { "
    "num_output: 5 weight_filler { type: 'xavier' } } } ";

class CommandTest : public ProcessesTest {
 protected:
  static int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
    return found;
  }
};

TEST_F(CommandTest, TheFirstProcessSpeaksAndWritesForAll) {
  const std::string file =
      solver("run", kFlat, "display: 2 snapshot: 2 test_iter: 3 test_interval: 2 momentum: 0.9");
  const ProcessesOutput output = run_processes(
      2,
      text(CREMA_TOOL, " train --tune=false --solver=", file, " --run_dir=", folder_ / "folder"));
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(count(output.text, "Optimization Done."), 1) << output.text;
  EXPECT_EQ(count(output.text, "2 processes train together: rank 0 (host "), 1) << output.text;
  EXPECT_TRUE(output.says("Each takes batches of 6 records, all of them 12"));
  EXPECT_EQ(count(output.text, "test_iter 3 does not divide by 2 processes"), 1) << output.text;
  EXPECT_EQ(count(output.text, "Iteration 2 ("), 1) << output.text;
  EXPECT_TRUE(fs::exists(folder_ / "run_iter_4.solverstate"));
  EXPECT_TRUE(fs::exists(folder_ / "folder/metrics.jsonl"));
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path())) folders += entry.is_directory();
  EXPECT_EQ(folders, 2) << "records, and that of the run";
  const ProcessesOutput resumed = run_processes(
      2, text(CREMA_TOOL, " train --tune=false --solver=", file, " --resume --set max_iter=6"));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(count(resumed.text, "Resuming from "), 1) << resumed.text;
  EXPECT_TRUE(fs::exists(folder_ / "run_iter_6.solverstate"));
}

TEST_F(CommandTest, AnErrorNamesTheProcess) {
  const std::string file = solver("odd", kFlat, "", "records", 9);
  const ProcessesOutput output = run_processes(2, text(CREMA_TOOL, " train --solver=", file));
  EXPECT_NE(output.status, 0);
  EXPECT_TRUE(output.says("crema: rank 0 (host ") || output.says("crema: rank 1 (host "))
      << output.text;
  EXPECT_TRUE(output.says("which 2 processes cannot share evenly")) << output.text;
  const ProcessesOutput other =
      run_processes(2, text(CREMA_TOOL, " train --rank_timeout=0 --solver=", file));
  EXPECT_NE(other.status, 0);
  EXPECT_TRUE(other.says("--rank_timeout=0 must be positive")) << other.text;
}

}  // namespace
}  // namespace crema::test
