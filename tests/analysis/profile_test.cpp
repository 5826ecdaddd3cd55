// Recorded runs: what is in them, the trace that they give, and the costs of layers.
#include "analysis/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/device_net.hpp"
#include "analysis/device_times.hpp"
#include "analysis/layer_costs.hpp"
#include "analysis/trace.hpp"
#include "support/database.hpp"
#include "support/fake_context.hpp"
#include "support/json.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using test::Json;
using test::kDeviceNet;
using test::net_param;
using testing::ElementsAre;
using testing::IsEmpty;

size_t count(const std::vector<SpanRecord>& spans, SpanKind kind, const std::string& name) {
  return static_cast<size_t>(std::ranges::count_if(
      spans, [&](const SpanRecord& span) { return span.kind == kind && span.text.name == name; }));
}

/// Fails unless each two spans of a thread are apart, or one is inside of the other. By the times
/// alone: (begin, end) in any order.
void expect_nested(std::vector<std::pair<double, double>> spans) {
  std::ranges::sort(spans, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  std::vector<double> open;  // ends
  for (const auto& [begin, end] : spans) {
    EXPECT_LE(begin, end);
    while (!open.empty() && open.back() <= begin) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(end, open.back());
    }
    open.push_back(end);
  }
}

TEST(Profile, EachStepIsARangeOfTheDeviceAndNothingWaits) {
  if (test::kBuiltWithCuda) GTEST_SKIP() << "needs a build without CUDA";
  FakeContext fake;
  Net net(net_param(text("force_backward: true", kDeviceNet)), fake.context());
  int updates = 0;
  const ProfileRun run = profile_net(net, {.iterations = 1, .update = [&] { ++updates; }});
  EXPECT_EQ(updates, kFirstIterations + 1);
  const DeviceNotes& notes = fake.device().notes;
  const auto first = std::ranges::find(notes, "start"), last = std::ranges::find(notes, "stop");
  ASSERT_TRUE(first < last && last != notes.end());
  EXPECT_EQ(std::ranges::count(notes.begin(), first, "end"), 0) << "a range before the first one";
  DeviceNotes ranges;
  std::vector<std::string> open;
  for (auto entry = first; entry != last; ++entry) {
    if (entry->starts_with("begin ")) {
      open.push_back(entry->substr(6));
      ranges.push_back(std::string(open.size() - 1, ' ') + open.back());
    } else if (*entry == "end") {
      ASSERT_FALSE(open.empty());
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_THAT(ranges, ElementsAre("iteration 3", " forward", "  x forward", "  lrn forward",
                                  "  cat forward", "  loss forward", " backward", "  loss seed",
                                  "  loss backward", "  cat backward", "  lrn backward",
                                  "  lrn sum", " update"));
  const DeviceNotes waits(first + 1, last);
  EXPECT_EQ(std::ranges::count(waits, "wait"), 1) << "the one that reads the points";
  EXPECT_EQ(run.on_device.size(), ranges.size());
  EXPECT_EQ(run.threads.at(0).spans.size(), ranges.size());
  for (const SpanRecord& span : run.on_device) {
    EXPECT_GE(span.end, span.begin) << span.text.name;
    if (span.text.name == "cat" && span.kind == SpanKind::forward) {
      EXPECT_EQ(span.end - span.begin, 1000000);
    }
  }
  EXPECT_THAT(run.no_activities, testing::HasSubstr("does not tell")) << "of this device";
  // The device's times count where there is one.
  const LayerCosts costs = layer_costs(net, run, {});
  const auto cat = std::ranges::find(costs.rows, "cat", &CostRow::name);
  ASSERT_NE(cat, costs.rows.end());
  EXPECT_EQ(cat->forward, 1);
  EXPECT_EQ(cat->bound, Bound::none) << "no limit is known";
}

TEST(Profile, OnTheHostEachStepIsThereInBothPasses) {
  Context context({.tune = false});
  Net net(net_param(text("force_backward: true", kDeviceNet)), context);
  const int64_t start = span_clock();
  const ProfileRun run = profile_net(net, {.iterations = 3});
  const double wall = static_cast<double>(span_clock() - start);
  const std::vector<SpanRecord>& spans = run.threads.at(0).spans;
  EXPECT_EQ(run.threads[0].thread, "net");
  EXPECT_THAT(run.on_device, IsEmpty());
  EXPECT_EQ(run.no_activities, "");
  for (const NetStep& step : net.steps()) {
    EXPECT_EQ(count(spans, SpanKind::forward, step.name), 3u) << step.name;
    EXPECT_EQ(count(spans, SpanKind::backward, step.name), step.backward ? 3u : 0u) << step.name;
  }
  EXPECT_EQ(count(spans, SpanKind::pass, "forward"), 3u);
  EXPECT_EQ(count(spans, SpanKind::pass, "backward"), 3u);
  EXPECT_EQ(count(spans, SpanKind::iteration, "iteration 3"), 1u)
      << "the first three are not there";
  EXPECT_EQ(count(spans, SpanKind::seed, "loss"), 3u);
  std::vector<std::pair<double, double>> times;
  double iterations = 0, inside = 0;
  for (const SpanRecord& span : spans) {
    EXPECT_GE(span.begin, run.start);
    times.emplace_back(span.begin, span.end);
    if (span.kind == SpanKind::iteration) iterations += static_cast<double>(span.end - span.begin);
    if (span.kind == SpanKind::pass) inside += static_cast<double>(span.end - span.begin);
  }
  expect_nested(times);
  EXPECT_LE(inside, iterations);
  EXPECT_GT(inside, 0);
  EXPECT_LE(iterations, wall);
  ASSERT_EQ(run.threads[0].counters.size(), 3u) << "of the memory, behind each iteration";
  EXPECT_GT(run.threads[0].counters[0].value, 1);
}

TEST(Profile, ForwardAloneHasNoBackwardAndNoUpdate) {
  Context context({.tune = false});
  Net net(net_param(kDeviceNet), context, {.phase = Phase::test});
  const ProfileRun run = profile_net(net, {.iterations = 2, .with_backward = false});
  // An iteration, its pass, and the steps of it.
  EXPECT_EQ(run.threads.at(0).spans.size(), 2 * (2 + net.steps().size()));
}

TEST(Profile, ThreadsThatLoadDataAreThere) {
  const test::ScratchFolder folder;
  test::write_counting_database(folder / "db", 8);
  Context context({.tune = false});
  Net net(net_param(text("layer { name: 'data' type: 'Data' top: 'x' top: 'label' data_param { "
                         "source: '",
                         folder / "db", "' batch_size: 2 threads: 2 } }",
                         "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' "
                         "inner_product_param { num_output: 8 weight_filler { type: 'xavier' } } }"
                         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: "
                         "'label' top: 'loss' }")),
          context);
  const ProfileRun run = profile_net(net, {.iterations = 20});
  std::map<SpanKind, int> kinds;
  std::vector<std::string> threads;
  bool counts = false;
  for (size_t t = 1; t < run.threads.size(); ++t) {
    const ThreadSpans& thread = run.threads[t];
    threads.push_back(thread.thread);
    std::vector<std::pair<double, double>> times;
    for (const SpanRecord& span : thread.spans) {
      ++kinds[span.kind];
      times.emplace_back(span.begin, span.end);
    }
    expect_nested(times);
    for (const CounterRecord& counter : thread.counters)
      counts = counts || counter.name == "data: batches ready";
  }
  // Which of them loads a batch is chance.
  EXPECT_GE(threads.size(), 1u);
  for (const std::string& name : threads)
    EXPECT_TRUE(name == "data: data thread 1" || name == "data: data thread 2") << name;
  EXPECT_GE(kinds[SpanKind::batch], 10);
  // Two records each.
  for (const SpanKind kind : {SpanKind::read, SpanKind::decode, SpanKind::transform})
    EXPECT_GE(kinds[kind], 2 * kinds[SpanKind::batch]) << to_string(kind);
  EXPECT_TRUE(counts);
}

// The trace as another program reads it.
TEST(Trace, IsJsonWithRowsThatNest) {
  Context context({.tune = false});
  Net net(net_param(R"(force_backward: true name: "a \"net\""
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "odd \"name\" \\ \n<&>" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 2 } }
layer { name: "relu" type: "ReLU" bottom: "y" top: "y" }
layer { name: "loss" type: "Reduction" bottom: "y" top: "loss" loss_weight: 1 })"),
          context);
  ProfileRun run = profile_net(net, {.iterations = 2});
  run.threads.push_back({"other \"thread\"", {}, {}});
  run.activities.push_back({.name = "void kernel<float>(\"\t\")",
                            .kind = "kernel",
                            .queue = 7,
                            .begin = run.start - 1500,
                            .end = run.start + 2500});
  const Json json(trace_json(net, run));
  EXPECT_EQ(json["displayTimeUnit"].string(), "ms");
  std::map<double, std::vector<std::pair<double, double>>> rows;
  std::map<double, std::string> row_names;
  std::map<std::string, int> events;
  std::string process;
  double iterations = 0;
  for (const Json& event : json["traceEvents"].items()) {
    const std::string& phase = event["ph"].string();
    ASSERT_TRUE(phase == "M" || phase == "X" || phase == "C") << phase;
    EXPECT_EQ(event["pid"].number(), 1);
    EXPECT_TRUE(event.has("tid"));
    if (phase == "M" && event["name"].string() == "thread_name")
      row_names[event["tid"].number()] = event["args"]["name"].string();
    if (phase == "M" && event["name"].string() == "process_name")
      process = event["args"]["name"].string();
    if (phase == "C") {
      EXPECT_TRUE(event["args"].has("value"));
    }
    if (phase != "X") continue;
    const double begin = event["ts"].number(), duration = event["dur"].number();
    rows[event["tid"].number()].emplace_back(begin, begin + duration);
    ++events[event["cat"].string() + ": " + event["name"].string()];
    if (event["cat"].string() == "iteration") iterations += duration;
  }
  EXPECT_EQ(process, "crema: a \"net\"");
  EXPECT_EQ(row_names[1], "net");
  EXPECT_EQ(row_names[2], "other \"thread\"");
  EXPECT_EQ(row_names[1001], "device: stream 7");
  EXPECT_EQ(events["InnerProduct: odd \"name\" \\ \n<&> forward"], 2);
  EXPECT_EQ(events["InnerProduct: odd \"name\" \\ \n<&> backward"], 2);
  EXPECT_EQ(events["pass: backward"], 2);
  EXPECT_EQ(events["kernel: void kernel<float>(\"\t\")"], 1);
  for (auto& [row, spans] : rows) {
    // Times are whole nanoseconds, here in microseconds of double precision.
    for (auto& [begin, end] : spans) {
      begin = std::round(1000 * begin);
      end = std::round(1000 * end);
    }
    expect_nested(spans);
  }
  EXPECT_THAT(rows[1001], ElementsAre(std::pair(-1500.0, 2500.0)));
  const LayerCosts costs = layer_costs(net, run, {});
  EXPECT_NEAR(iterations / 1e3 / 2, costs.iteration, 1e-6 * costs.iteration);
}

TEST(Trace, StepsSayWhatTheyAre) {
  Context context({.tune = false});
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" })"),
          context, {.phase = Phase::test});
  const Json json(trace_json(net, profile_net(net, {.iterations = 1, .with_backward = false})));
  int found = 0;
  for (const Json& event : json["traceEvents"].items()) {
    if (event["name"].string() != "conv forward") continue;
    ++found;
    const Json arguments = event["args"];
    EXPECT_EQ(arguments["bottoms"].string(), "x 2x3x8x8");
    EXPECT_EQ(arguments["tops"].string(), "conv 2x4x6x6");
    EXPECT_EQ(arguments["computes too"].string(), "relu");
    EXPECT_NE(arguments["engine"].string(), "");
    // 2 * 4 * 6 * 6 values of 27 multiply-adds.
    EXPECT_GE(arguments["GFLOP"].number(), 288 * 27 * 2 / 1e9);
    // Bottom, top and weights at the least.
    EXPECT_GE(arguments["MB"].number(), 4 * (384 + 288 + 112) / 1e6);
  }
  EXPECT_EQ(found, 1);
}

SpanRecord span(SpanKind kind, const char* name, const char* type, int64_t begin, int64_t end) {
  return {kind, {name, type}, begin, end};
}

/// A run of the net in which x takes no time, y as given in both passes, and 1 ms of forward is a
/// wait for data.
ProfileRun made_run(int64_t forward, int64_t backward) {
  constexpr int64_t kMs = 1000000;
  ProfileRun run;
  run.iterations = 1;
  std::vector<SpanRecord>& spans = run.threads.emplace_back().spans;
  const int64_t begun = kMs, turned = begun + forward * kMs + kMs, done = turned + backward * kMs;
  spans = {span(SpanKind::wait, "wait for data", "data", 0, kMs),
           span(SpanKind::forward, "x", "Input", begun, begun),
           span(SpanKind::forward, "y", "InnerProduct", begun, turned - kMs),
           span(SpanKind::pass, "forward", "", 0, turned),
           span(SpanKind::backward, "y", "InnerProduct", turned, done),
           span(SpanKind::pass, "backward", "", turned, done),
           span(SpanKind::update, "update", "", done, done + 3 * kMs),
           span(SpanKind::iteration, "iteration 0", "", 0, done + 4 * kMs)};
  return run;
}

constexpr const char* kProduct = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 100 dim: 1000 } } }
layer { name: "y" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 500 } })";

TEST(LayerCosts, AddUpToTheIteration) {
  Context context({.tune = false});
  Net net(net_param(kProduct), context);
  const LayerCosts costs = layer_costs(net, made_run(10, 20), {});
  EXPECT_DOUBLE_EQ(costs.iteration, 36);
  std::map<std::string, std::pair<double, double>> rows;
  double sum = 0;
  for (const CostRow& row : costs.rows) {
    rows[row.name] = {row.forward, row.backward};
    sum += row.time();
  }
  EXPECT_DOUBLE_EQ(sum, 36);
  EXPECT_EQ(costs.rows[0].name, "y") << "the longest first";
  EXPECT_EQ(rows["y"], std::pair(10.0, 20.0));
  EXPECT_EQ(rows["wait for data"], std::pair(1.0, 0.0));
  EXPECT_EQ(rows["update"], std::pair(3.0, 0.0));
  EXPECT_EQ(rows["between layers"], std::pair(2.0, 0.0));
  EXPECT_EQ(rows["x"], std::pair(0.0, 0.0));
  EXPECT_DOUBLE_EQ(costs.total.time(), 30);
}

TEST(LayerCosts, SayWhatBoundsALayer) {
  Context context({.tune = false});
  // With a loss: without one, nothing runs backward.
  Net net(net_param(text(kProduct, R"(
layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 100 dim: 500 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" })")),
          context);
  const auto costs = [&](double operations, double bytes) {
    const LayerCosts all = layer_costs(
        net, made_run(10, 20), {.f32 = operations, .copies = {{.bytes = 0, .rate = bytes}}});
    return *std::ranges::find(all.rows, "y", &CostRow::name);
  };
  const NetStep& step = *std::ranges::find(net.steps(), "y", &NetStep::name);
  const double flops = step.flops.forward + step.flops.backward;
  // Forward: 2 * 100 * 1000 * 500, and as many for the gradient of the weights.
  EXPECT_NEAR(flops, 2 * 2 * 100 * 1000 * 500, 0.01 * flops);
  CostRow row = costs(flops / 0.015, 1e15);
  EXPECT_NEAR(row.compute_share, 0.5, 1e-9);
  EXPECT_EQ(row.bound, Bound::compute);
  EXPECT_EQ(row.flops, flops);
  row = costs(1e15, row.bytes / 0.015);
  EXPECT_NEAR(row.memory_share, 0.5, 1e-9);
  EXPECT_EQ(row.bound, Bound::memory);
  // Bottom, top and weights, and for backward at the least the same.
  EXPECT_GE(row.bytes, 2 * 4 * (100 * 1000 + 100 * 500 + 1000 * 500));
  row = costs(flops / 0.006, 1e15);
  EXPECT_EQ(row.bound, Bound::overhead) << "a fifth is explained";
  EXPECT_EQ(to_string(row.bound), std::string("overhead"));
}

TEST(LayerCosts, BytesOfASizeHaveTheRateOfThatSize) {
  const CostLimits limits{.copies = {{1e6, 40}, {1e8, 20}}};
  EXPECT_EQ(limits.copy_rate(10), 40);
  EXPECT_EQ(limits.copy_rate(1e6), 40);
  EXPECT_DOUBLE_EQ(limits.copy_rate(1e7), 30);
  EXPECT_EQ(limits.copy_rate(1e9), 20);
  EXPECT_EQ(CostLimits().copy_rate(1), 0);
}

TEST(LayerCosts, ProductsOfATypeHaveItsLimit) {
  CostLimits limits{.f64 = 1, .f32 = 2, .tf32 = 3, .bf16 = 4};
  NetStep step;
  EXPECT_EQ(limits.product_rate(step), 2);
  limits.multiplies_in_tf32 = true;
  EXPECT_EQ(limits.product_rate(step), 3);
  step.bottom_format = "bf16 channels_last";
  EXPECT_EQ(limits.product_rate(step), 4);
  step.bottom_format = "f16";
  EXPECT_EQ(limits.product_rate(step), 4);
  step.bottom_format = "f64";
  EXPECT_EQ(limits.product_rate(step), 1);
}

}  // namespace
}  // namespace crema
