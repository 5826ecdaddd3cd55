// `crema scale`.
#include "tools/cli.hpp"

namespace crema::test {
namespace {

class ScaleCliTest : public CliTest {
 protected:
  std::string command(const std::string& more) const {
    return "scale --threads=1 --tune=false --iterations=3 --model=" + net() + " " + more;
  }
};

TEST_F(ScaleCliTest, PrintsALineForEachNumberOfProcesses) {
  const Output output = run(command("--ranks=1,8,64 --bandwidth=25Gb --latency=20us"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("best bucket")) << output.text;
  EXPECT_TRUE(output.says("\n       1 ") && output.says("\n       8 ") &&
              output.says("\n      64 "))
      << output.text;
  // Nothing is sent.
  EXPECT_TRUE(output.says("0.00       100.0%")) << output.text;
}

TEST_F(ScaleCliTest, JsonHasTheSame) {
  const Output output = run(command("--ranks=4 --latency=1s --json"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("\"gradient_bytes\":32")) << output.text;
  // Twice the latency, of the bucket and no more.
  EXPECT_TRUE(output.says("{\"ranks\":4,\"seconds\":2.")) << output.text;
}

TEST_F(ScaleCliTest, WrongValuesAreNamed) {
  expect_refusal(command(""), {"--ranks"});
  expect_refusal(command("--ranks=2,none"), {"--ranks=2,none", "'none' is no number of processes"});
  expect_refusal(command("--ranks=2 --bandwidth=25Gx"), {"--bandwidth=25Gx", "25Gb, 800Mb or 3GB"});
  expect_refusal(command("--ranks=2 --latency=20"), {"--latency=20", "20us"});
}

}  // namespace
}  // namespace crema::test
