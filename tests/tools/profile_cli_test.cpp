// crema profile, and crema time and summary where they need a GPU, on a machine without one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tools/cli.hpp"

namespace crema::test {
namespace {

class ProfileCliTest : public CliTest {};

TEST_F(ProfileCliTest, WritesATraceOnTheCpu) {
  const std::string trace = path("trace.json");
  const std::string command = "profile --tune=false --model " + net() + " --trace " + trace;
  const Output output = run(command + " --iterations 2");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("2 iterations; " + trace + " has their times")) << output.text;
  EXPECT_FALSE(output.says("NVTX")) << output.text;
  std::ifstream file(trace);
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  for (const char* part :
       {R"("name": "iteration 1")", R"("name": "ip forward", "cat": "InnerProduct")",
        R"("name": "ip backward")", R"("name": "update")", R"("name": "backward", "cat": "pass")"})
    EXPECT_NE(json.find(part), std::string::npos) << part << " is not in: " << json;
  expect_refusal(command, {"'" + trace + "' exists already", "--overwrite"});
  EXPECT_EQ(run(command + " --overwrite --iterations 1 --forward_only").status, 0);
  std::ifstream again(trace);
  const std::string forward{std::istreambuf_iterator<char>(again), {}};
  EXPECT_EQ(forward.find("backward"), std::string::npos) << forward;
  EXPECT_EQ(forward.find("update"), std::string::npos) << forward;
  EXPECT_TRUE(run(command + " --overwrite").says("5 iterations"));
}

TEST_F(ProfileCliTest, SaysWhatItNeeds) {
  expect_refusal("profile", {"--model is missing"});
  expect_refusal("profile --model " + net(), {"on the CPU", "--trace=FILE", "crema time"});
  expect_refusal("profile --trace /nosuch/trace.json --model " + net(), {"/nosuch"});
  expect_refusal("profile --iterations 0 --trace t --model " + net(), {"--iterations 0"});
  for (const char* command : {"profile", "time --peak", "summary"}) {
    const Output output =
        run(text(command, " --gpu 99 --model ", net()), "CUDA_VISIBLE_DEVICES= " CREMA_TOOL);
    EXPECT_EQ(output.status, 1) << command;
    EXPECT_TRUE(output.says("CUDA device")) << output.text;
  }
}

}  // namespace
}  // namespace crema::test
