// Rooms with one text for the host and a device, run on a device: memory, lanes, errors, bf16.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "crema/net.hpp"
#include "layer_support/two_sided.hpp"
#include "support/fake_device.hpp"
#include "support/layer_test.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

#if !CREMA_BUILT_WITH_CUDA
#include "layer_support/blocks.hpp"  // with CUDA for nvcc alone
#endif

namespace crema::test {
namespace {

/// The Error of forward on a device, where a value of a bottom, or of parameter 0 if `bottom` is
/// -1, is a bad one.
void expect_device_error(const LayerCase& c, int bottom, size_t at, double value,
                         std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE(c.layer);
  FakeDevice device;
  LayerRun run(c);
  run.forward();
  std::vector<Blob*> bottoms, tops;
  for (int i = 0; i < run.num_bottoms(); ++i) bottoms.push_back(&run.bottom_blob(i));
  for (int i = 0; i < run.num_tops(); ++i) tops.push_back(&run.top_blob(i));
  Tensor& changed =
      bottom < 0 ? run.layer().params()[0]->data : bottoms[static_cast<size_t>(bottom)]->data;
  changed.change<float>()[at] = static_cast<float>(value);
  auto& layer = dynamic_cast<TwoSidedLayer&>(run.layer());
  expect_error([&] { layer.run_forward(ComputeDevice(device), bottoms, tops); }, parts);
  for (Blob* blob : bottoms) blob->data = Tensor();
  for (Blob* blob : tops) blob->data = Tensor();
}

// Batches differ in the number of sequences, the lengths of labels and the colours of images.
TEST(TwoSidedDevice, LaterBatchesTakeNoMemoryOfADevice) {
  if (kBuiltWithCuda)
    GTEST_SKIP() << "needs a build without CUDA, where these bodies run on the host: configure "
                    "with CREMA_CUDA=OFF";
  const auto allocations = [](const LayerCase& c, int bottom, const std::vector<double>& later) {
    SCOPED_TRACE(c.layer);
    FakeDevice device;
    LayerRun run(c);
    run.forward();
    std::vector<Blob*> bottoms, tops;
    for (int i = 0; i < run.num_bottoms(); ++i) bottoms.push_back(&run.bottom_blob(i));
    for (int i = 0; i < run.num_tops(); ++i) tops.push_back(&run.top_blob(i));
    auto& layer = dynamic_cast<TwoSidedLayer&>(run.layer());
    layer.run_forward(ComputeDevice(device), bottoms, tops);
    const int before = device.allocations;
    Tensor& changed = bottoms[static_cast<size_t>(bottom)]->data;
    std::ranges::copy(later, changed.overwrite<float>());
    layer.run_forward(ComputeDevice(device), bottoms, tops);
    const int found = device.allocations - before;
    for (Blob* blob : bottoms) blob->data = Tensor();
    for (Blob* blob : tops) blob->data = Tensor();
    return found;
  };
  const std::vector<double> ones(12, 1), zeros(12, 0);
  const Input scores = uniform({6, 2, 3});
  EXPECT_EQ(allocations({.layer = "layer { type: 'CRFLoss' }",
                         .bottoms = {scores, labels({6, 2}, 3), given({6, 2}, ones)},
                         .tops = 2},
                        2, zeros),
            0);
  EXPECT_EQ(allocations(
                {.layer = "layer { type: 'CRFDecoder' }", .bottoms = {scores, given({6, 2}, ones)}},
                1, zeros),
            0);
  // The colour of one pixel moves it to other vertices.
  std::vector<double> colours(3 * 15 * 14, 10);
  const Input image = given({1, 3, 15, 14}, colours), unary = uniform({1, 2, 15, 14});
  colours[100] = 100;
  EXPECT_EQ(
      allocations({.layer = "layer { type: 'MultiStageMeanfield' multi_stage_meanfield_param { "
                            "theta_alpha: 3 theta_beta: 4 theta_gamma: 2 num_iterations: 1 } }",
                   .bottoms = {unary, unary, image}},
                  2, colours),
      0);
}

#if !CREMA_BUILT_WITH_CUDA
TEST(TwoSidedDevice, LanesOfABlockAgree) {
  FakeDevice device;
  for (const int64_t place : {0, 1, 5}) {  // of a value that is NaN
    std::array<double, TeamLanes::kMost> results{}, sums{};
    int64_t count = 0;
    for_each_block(ComputeDevice(device), 1, TeamLanes::kMost, 1, [&](int64_t, const auto& lanes) {
      const auto own = static_cast<double>(lanes.first);
      const auto at = static_cast<size_t>(lanes.first);
      results[at] = lanes.max(lanes.first == place ? std::nan("") : own);
      sums[at] = lanes.sum(own);
      if (lanes.first == 0) count = lanes.count;
    });
    for (size_t lane = 0; lane < static_cast<size_t>(count); ++lane) {
      EXPECT_EQ(std::isnan(results[lane]), std::isnan(results[0])) << lane;
      const bool same = results[lane] == results[0] || std::isnan(results[0]);
      EXPECT_TRUE(same) << lane;
      EXPECT_EQ(sums[lane], static_cast<double>(count * (count - 1)) / 2);
    }
  }
  expect_error(
      [&] {
        for_each_block(ComputeDevice(device), 1, 1, kMostShared + 1, [](int64_t, const auto&) {});
      },
      {text(kMostShared), text(kMostShared + 1)});
}

// As compute-sanitizer does it for kernels: memcheck, initcheck and racecheck.
TEST(TwoSidedDevice, SharedMemoryOfABlockIsWatched) {
  FakeDevice device;
  const auto run = [&](int64_t items, int64_t shared, const auto& body) {
    for_each_block(ComputeDevice(device), items, TeamLanes::kMost, shared, body);
  };
  for (const int64_t outside : {-1, 3}) {
    expect_error([&] { run(1, 3, [&](int64_t, const auto& lanes) { lanes.shared[outside] = 1; }); },
                 {text("value ", outside, " of 3")});
    double sum = 0;
    const auto reads = [&](int64_t, const auto& lanes) {
      if (lanes.first == 1) sum += lanes.shared[outside];
    };
    expect_error([&] { run(1, 3, reads); }, {text("value ", outside, " of 3")});
  }

  const auto next = [](const auto& lanes) { return (lanes.first + 1) % lanes.count; };
  const auto with_wait = [&](int64_t item, const auto& lanes) {
    lanes.shared[lanes.first] = static_cast<double>(item);
    lanes.wait();
    const double found = lanes.shared[next(lanes)];
    EXPECT_EQ(found, static_cast<double>(item));
  };
  run(20, TeamLanes::kMost, with_wait);
  const auto with_sum = [&](int64_t, const auto& lanes) {
    lanes.shared[lanes.first] = 2;
    static_cast<void>(lanes.sum(1));
    const double found = lanes.shared[next(lanes)];
    EXPECT_EQ(found, 2);
  };
  run(20, TeamLanes::kMost, with_sum);
  const auto by_one = [](int64_t, const auto& lanes) {
    if (lanes.first != 2) return;
    lanes.shared[0] = 1;
    lanes.shared[0] = lanes.shared[0] + 1;
  };
  run(20, 1, by_one);
  std::atomic<int> numbers = 0;
  run(2, 1, [&](int64_t, const auto& lanes) {
    if (!std::isnan(lanes.shared[0])) ++numbers;  // those of the item before are gone
    lanes.wait();
    if (lanes.first == 0) lanes.shared[0] = 7;
  });
  EXPECT_EQ(numbers, 0);

  const auto early_read = [&](int64_t, const auto& lanes) {
    lanes.shared[lanes.first] = 1;
    static_cast<void>(static_cast<double>(lanes.shared[next(lanes)]));
  };
  const auto early_write = [&](int64_t, const auto& lanes) {
    lanes.shared[lanes.first] = 1;
    lanes.wait();
    static_cast<void>(static_cast<double>(lanes.shared[next(lanes)]));
    lanes.shared[lanes.first] = 2;
  };
  const auto two_writers = [](int64_t, const auto& lanes) { lanes.shared[0] = 1; };
  expect_error([&] { run(1, TeamLanes::kMost, early_read); }, {"wait() is missing"});
  expect_error([&] { run(1, TeamLanes::kMost, early_write); }, {"wait() is missing"});
  expect_error([&] { run(1, TeamLanes::kMost, two_writers); }, {"value 0", "wait() is missing"});
}
#endif

TEST(TwoSidedDevice, DevicesFindWhatIsNoNumber) {
  if (kBuiltWithCuda)
    GTEST_SKIP() << "needs a build without CUDA, where these bodies run on the host: configure "
                    "with CREMA_CUDA=OFF";
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Input scores = uniform({4, 2, 3}), classes = labels({4, 2}, 3);
  const LayerCase ctc{.layer = "layer { type: 'CTCLoss' }",
                      .bottoms = {scores, given({2, 1}, {0, 1})}};
  const LayerCase greedy{.layer = "layer { type: 'CTCGreedyDecoder' }", .bottoms = {scores}};
  const LayerCase crf{.layer = "layer { type: 'CRFLoss' }", .bottoms = {scores, classes}};
  const LayerCase decoder{.layer = "layer { type: 'CRFDecoder' }", .bottoms = {scores}};
  for (const double bad : {nan, std::numeric_limits<double>::infinity()}) {
    expect_device_error(ctc, 0, 9, bad, {"step 1", "sequence 1", "NaN"});
    for (const LayerCase& chain : {crf, decoder}) {
      expect_device_error(chain, 0, 9, bad, {"class 0", "step 1", "sequence 1"});
      expect_device_error(chain, -1, 1, bad, {"parameter"});
    }
  }
  expect_device_error(greedy, 0, 9, nan, {"step 1", "sequence 1", "NaN"});
}

TEST(TwoSidedDevice, EltwiseRefusesMoreBottomsThanAKernelTakes) {
  LayerRun run(
      {.layer = "layer { type: 'Eltwise' }", .bottoms = std::vector<Input>(17, uniform({2, 3}))});
  std::vector<Blob*> bottoms;
  for (int i = 0; i < run.num_bottoms(); ++i) bottoms.push_back(&run.bottom_blob(i));
  EXPECT_THAT(dynamic_cast<TwoSidedLayer&>(run.layer()).device_refusal(bottoms),
              testing::HasSubstr("at most 16 bottoms, not 17"));
}

TEST(TwoSidedDevice, RoomsThatMoveDataTakeBf16AsItIs) {
  Context context;
  const Net net(net_param(R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 dim: 5 dim: 5 } } }
      layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
      layer { name: "a" type: "ReLU" bottom: "x" top: "a" }
      layer { name: "split" type: "Split" bottom: "a" top: "a0" top: "a1" }
      layer { name: "concat" type: "Concat" bottom: "a0" bottom: "a1" top: "c" }
      layer { name: "crop" type: "Crop" bottom: "c" bottom: "x" top: "cut" crop_param { axis: 1 } }
      layer { name: "filter" type: "Filter" bottom: "cut" bottom: "label" top: "kept" }
      layer { name: "all" type: "Silence" bottom: "kept" }
      layer { name: "reshape" type: "Reshape" bottom: "c" top: "r"
              reshape_param { shape { dim: 0 dim: -1 dim: 1 } } }
      layer { name: "flat" type: "Flatten" bottom: "r" top: "f" }
      layer { name: "ip" type: "InnerProduct" bottom: "f" top: "ip"
              inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })"),
                context, {.phase = Phase::train, .activations = DType::bf16});
  int found = 0;
  for (const NetStep& step : net.steps()) {
    const std::string_view movers[] = {"Split", "Concat", "Crop", "Filter", "Reshape", "Flatten"};
    if (std::ranges::find(movers, step.type) == std::end(movers)) continue;
    ++found;
    EXPECT_THAT(step.bottom_format, testing::StartsWith("bf16")) << step.name;
    EXPECT_THAT(step.top_format, testing::StartsWith("bf16")) << step.name;
  }
  EXPECT_EQ(found, 6);
}

}  // namespace
}  // namespace crema::test
