// A build with CUDA is used on machines without a GPU, too.
#include <gtest/gtest.h>

#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

TEST_F(CliTest, WorkOnTheCpuMakesNoCudaCall) {
  if (!kBuiltWithCuda) GTEST_SKIP() << "needs CUDA: configure with CREMA_CUDA=ON";
  const std::string program = "LD_LIBRARY_PATH=" CREMA_FAKE_CUDA_DRIVER " " CREMA_TOOL;
  const std::string betrayal = "the fake CUDA driver was called";
  const Output devices = run("device-query", program);
  ASSERT_TRUE(devices.says(betrayal)) << devices.text;
  const std::string file = snapshotting_solver("max_iter: 4 test_iter: 1 test_interval: 2");
  for (const std::string& arguments :
       {"train --solver=" + file, "time --iterations=2 --model=" + net(),
        "test --iterations=2 --model=" + net() + " --weights=" + path("s_iter_4.caffemodel"),
        "summary --model=" + net(), std::string("help")}) {
    const Output output = run(arguments, program);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_FALSE(output.says(betrayal)) << arguments << "\n" << output.text;
  }
}

}  // namespace
}  // namespace crema::test
