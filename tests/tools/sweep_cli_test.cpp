// crema sweep, as a user runs it.
#include <filesystem>

#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class SweepCliTest : public CliTest {
 protected:
  std::string sweep(const std::string& more) const {
    return write("rates.prototxt",
                 "solver: '" + solver("max_iter: 4 test_iter: 1 test_interval: 2 snapshot: 2") +
                     "' " + more);
  }
  std::string run_of(const std::string& more) const {
    return "sweep " + sweep(more) + " --runs " + path("runs") + " --threads 1";
  }
};

TEST_F(SweepCliTest, PrintsTheTrialsAndComparesThem) {
  const Output output =
      run(run_of("vary { field: 'base_lr' value: '0.1' value: '0.01' } parallel: 2"));
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part :
       {"rates-1: 2 trials, 2 at once, random_seed 1701", "trial-1 of 2: base_lr=0.1",
        "base_lr  best loss  at", "finished", "report.html"})
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  EXPECT_TRUE(fs::exists(path("runs/rates-1/trial-2/metrics.jsonl")));
  EXPECT_TRUE(fs::exists(path("runs/rates-1/report.html")));
  // What is done is not done again.
  const Output again =
      run(run_of("vary { field: 'base_lr' value: '0.1' value: '0.01' } parallel: 2") + " --resume");
  EXPECT_EQ(again.status, 0) << again.text;
  EXPECT_TRUE(again.says("2 of them done before")) << again.text;
  EXPECT_FALSE(again.says("trial-1 of 2")) << again.text;
  EXPECT_FALSE(fs::exists(path("runs/rates-2")));
}

TEST_F(SweepCliTest, TheStatusSaysWhetherAllFailed) {
  const Output some = run(run_of("vary { field: 'net.ip.num_output' value: '2' value: '0' }"));
  EXPECT_EQ(some.status, 0) << some.text;
  EXPECT_TRUE(some.says("trial-2 failed: ")) << some.text;
  const Output all = run(run_of("vary { field: 'net.ip.num_output' value: '0' }"));
  EXPECT_EQ(all.status, 1) << all.text;
}

TEST_F(SweepCliTest, WrongFilesAreErrors) {
  expect_refusal("sweep", {"sweep needs one file"});
  expect_refusal("sweep " + path("none"), {"none"});
  expect_refusal(run_of("vary { field: 'bse_lr' value: '1' }"), {"rates.prototxt:1", "base_lr"});
  expect_refusal(run_of("vary { field: 'base_rate' value: '1' }"),
                 {"rates.prototxt:1", "did you mean 'base_lr'"});
  expect_refusal(run_of("vary { field: 'base_lr' value: '1' }") + " --retry_failed",
                 {"--retry_failed", "--resume"});
  EXPECT_FALSE(fs::exists(path("runs"))) << "a wrong sweep makes no folder";
}

}  // namespace
}  // namespace crema::test
