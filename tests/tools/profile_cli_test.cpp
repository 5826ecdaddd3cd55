// crema profile, and crema time and summary where they need a GPU, on a machine without one.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "support/database.hpp"
#include "support/json.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

class ProfileCliTest : public CliTest {
 protected:
  /// How often each event of a trace is there, as "category: name".
  static std::map<std::string, int> events_of(const std::string& trace) {
    std::map<std::string, int> found;
    for (const Json& event : Json(read_file(trace))["traceEvents"].items()) {
      if (event["ph"].string() == "X")
        ++found[event["cat"].string() + ": " + event["name"].string()];
    }
    return found;
  }
  /// The last line that is an object.
  static Json json_of(const Output& output) {
    const size_t begin = output.text.rfind("\n{");
    return Json(begin == std::string::npos ? "" : output.text.substr(begin));
  }
};

TEST_F(ProfileCliTest, WritesATraceOnTheCpu) {
  const std::string trace = path("trace.json");
  const std::string command = "profile --tune=false --model " + net() + " --trace " + trace;
  const Output output = run(command + " --iterations 2");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("2 iterations; " + trace + " shows what each thread did")) << output.text;
  EXPECT_FALSE(output.says("NVTX")) << output.text;
  EXPECT_FALSE(output.says("kernels")) << output.text;
  std::map<std::string, int> events = events_of(trace);
  for (const char* event :
       {"InnerProduct: ip forward", "InnerProduct: ip backward", "SoftmaxWithLoss: loss forward",
        "DummyData: x forward", "update: update", "pass: forward", "pass: backward"})
    EXPECT_EQ(events[event], 2) << event;
  EXPECT_EQ(events["iteration: iteration 4"], 1);
  expect_refusal(command, {"'" + trace + "' exists already", "--overwrite"});
  EXPECT_EQ(run(command + " --overwrite --iterations 1 --forward_only").status, 0);
  events = events_of(trace);
  EXPECT_EQ(events["InnerProduct: ip forward"], 1);
  for (const auto& [event, times] : events) {
    EXPECT_EQ(event.find("backward"), std::string::npos) << event;
    EXPECT_EQ(event.find("update"), std::string::npos) << event;
  }
  EXPECT_TRUE(run(command + " --overwrite").says("5 iterations"));
}

TEST_F(ProfileCliTest, ASolverTrainsWholeIterations) {
  const std::string trace = path("trace.json");
  const std::string of_solver = solver(
      "max_iter: 2 momentum: 0.9 test_iter: 1 test_interval: 1 snapshot: 1 display: 1 "
      "snapshot_prefix: '" +
      path("s") + "' iter_size: 2");
  const Output output =
      run("profile --tune=false --iterations 3 --solver " + of_solver + " -o " + trace);
  EXPECT_EQ(output.status, 0) << output.text;
  std::map<std::string, int> events = events_of(trace);
  // Two passes an iteration, and an update; as many iterations as asked for, past max_iter.
  EXPECT_EQ(events["InnerProduct: ip forward"], 6);
  EXPECT_EQ(events["InnerProduct: ip backward"], 6);
  EXPECT_EQ(events["pass: backward"], 6);
  EXPECT_EQ(events["update: update"], 3);
  EXPECT_EQ(events["iteration: iteration 3"] + events["iteration: iteration 5"], 2);
  EXPECT_FALSE(std::filesystem::exists(path("s_iter_1.caffemodel"))) << "no snapshots";
  expect_refusal("profile --solver " + of_solver + " --model " + net(), {"--model", "--solver"});
  expect_refusal("profile --phase TEST --solver " + of_solver, {"--phase", "a net alone"});
}

TEST_F(ProfileCliTest, TheTableSaysWhatBoundsEachLayer) {
  const Output output = run("profile --tune=false --iterations 2 --json --model " + net());
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"layer", "forward ms", "backward", "share", "GFLOP/s", "peak", "MB",
                           "GB/s", "copy", "bound by", "engine", "all layers",
                           "tiny: an iteration takes ", "limits: ", "update", "between layers"})
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  const Json json = json_of(output);
  EXPECT_EQ(json["net"].string(), "tiny");
  EXPECT_EQ(json["iterations"].number(), 2);
  EXPECT_GT(json["peak_gflops"].number(), 0.1);
  ASSERT_FALSE(json["copies"].items().empty());
  for (const Json& copy : json["copies"].items()) EXPECT_GT(copy["gbs"].number(), 0.01);
  double sum = 0, last = 1e9;
  std::map<std::string, std::string> bounds;
  for (const Json& row : json["layers"].items()) {
    const double time = row["forward_ms"].number() + row["backward_ms"].number();
    EXPECT_LE(time, last) << "the longest first";
    last = time;
    sum += time;
    bounds[row["name"].string()] = row["bound"].string();
  }
  EXPECT_NEAR(sum, json["iteration_ms"].number(), 1e-6 * sum);
  EXPECT_EQ(bounds["ip"], "overhead") << "twelve multiply-adds";
  EXPECT_EQ(bounds["update"], "");
}

TEST_F(ProfileCliTest, SaysWhatItNeeds) {
  expect_refusal("profile", {"--model is missing"});
  expect_refusal("profile --trace /nosuch/trace.json --model " + net(), {"/nosuch"});
  expect_refusal("profile -o a.json --trace b.json --model " + net(), {"--o", "--trace"});
  expect_refusal("profile -o " + net() + " --model " + net(), {"net.prototxt"});
  expect_refusal("profile --iterations 0 --trace t --model " + net(), {"--iterations 0"});
  expect_refusal("profile --model " + write("data.prototxt", R"(
layer { name: "data" type: "Data" top: "x" data_param { source: "nowhere" backend: LMDB batch_size: 2 } })"),
                 {"nowhere"});
  for (const char* command : {"profile", "time --peak", "summary"}) {
    const Output output =
        run(text(command, " --gpu 99 --model ", net()), "CUDA_VISIBLE_DEVICES= " CREMA_TOOL);
    EXPECT_EQ(output.status, 1) << command;
    EXPECT_TRUE(output.says("CUDA device")) << output.text;
  }
}

}  // namespace
}  // namespace crema::test
