// Rooms whose passes are one text for the host and a device.
#include "kit/two_sided.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/device.hpp"
#include "core/fake_device.hpp"
#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.at(i));
  return values;
}

/// Forward and backward on a device give what the host gave, and nothing but inputs goes there.
void check_device(const LayerCase& c, const Tolerance& tolerance = {0, 0},
                  DType dtype = DType::f32) {
  LayerRun first(c);
  for (int option = 0; option < static_cast<int>(first.options().size()); ++option) {
    FakeDevice device;  // outlives what the layer holds there
    LayerRun run(c, {.dtype = dtype, .option = option});
    run.forward();
    const Side side(device);
    std::vector<Blob*> bottoms, tops;
    std::vector<bool> propagate;
    for (int i = 0; i < run.num_bottoms(); ++i) {
      bottoms.push_back(&run.bottom_blob(i));
      propagate.push_back(run.layer().can_propagate(i));
    }
    for (int i = 0; i < run.num_tops(); ++i) tops.push_back(&run.top_blob(i));
    auto& layer = dynamic_cast<TwoSidedLayer&>(run.layer());
    std::vector<Blob> there(tops.size());
    std::vector<Blob*> tops_there;
    for (size_t i = 0; i < tops.size(); ++i) {
      there[i].data = Tensor(tops[i]->shape(), tops[i]->data.dtype(), tops[i]->data.format());
      tops_there.push_back(&there[i]);
    }
    layer.run_forward(side, bottoms, tops_there);
    EXPECT_EQ(device.downloads, 0);
    for (int i = 0; i < run.num_tops(); ++i) {
      expect_close(values_of(there[i].data), run.top(i), tolerance, concat("top ", i));
    }
    if (std::ranges::find(propagate, true) == propagate.end()) continue;
    run.backward();
    std::vector<std::vector<double>> expected(bottoms.size());
    for (size_t i = 0; i < bottoms.size(); ++i) {
      if (!propagate[i]) continue;
      Tensor& diff = bottoms[i]->diff;
      expected[i] = values_of(diff);
      diff = Tensor(diff.shape(), diff.dtype(), diff.format());
    }
    const int downloads = device.downloads;
    layer.run_backward(side, tops, propagate, bottoms);
    EXPECT_EQ(device.downloads, downloads);
    for (size_t i = 0; i < bottoms.size(); ++i) {
      if (!propagate[i]) continue;
      expect_close(values_of(bottoms[i]->diff), expected[i], tolerance, concat("bottom ", i));
    }
    for (Blob* blob : bottoms) blob->data = blob->diff = Tensor();
    for (Blob* blob : tops) blob->data = blob->diff = Tensor();
  }
}

TEST(TwoSided, RoomsThatMoveDataRunOnADeviceWithoutItsCode) {
  check_device({.layer = R"(layer { type: "Flatten" })", .bottoms = {uniform({2, 3, 4})}});
  check_device(
      {.layer = R"(layer { type: "Split" })", .bottoms = {uniform({2, 16, 3, 4})}, .tops = 4});
  check_device({.layer = R"(layer { type: "Silence" })",
                .bottoms = {uniform({2, 16, 3, 4}), uniform({5})},
                .tops = 0});
  for (const char* axis : {"0", "1", "2", "-1"}) {
    check_device({.layer = concat(R"(layer { type: "Concat" concat_param { axis: )", axis, " } }"),
                  .bottoms = {uniform({2, 16, 3, 4}), uniform({2, 16, 3, 4})}});
  }
}

// The bodies that kernels of CUDA run, a position after the other.
TEST(TwoSided, BodiesOfDevicesAgreeWithTheHost) {
  std::string why;
  cuda_devices(why);
  if (why.find("no CUDA support") == std::string::npos)
    GTEST_SKIP() << "needs a build without CUDA: with it, these bodies run on a device only";
  const auto of = [](const char* type, const char* settings = "") {
    return concat("layer { type: '", type, "' ", settings, " }");
  };
  const Input rows = uniform({5, 37}, -5, 5), images = uniform({2, 6, 7, 9}, -5, 5);
  const char* const settings = "loss_param { ignore_label: 2 label_smoothing: 0.1 } loss_weight: 3";
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto check = [&](const LayerCase& c) { check_device(c, {1e-6, 1e-5}, dtype); };
    for (const Input& x : {rows, images}) {
      const bool flat = x.shape.rank() == 2;
      const Input targets = labels(flat ? Shape{5} : Shape{2, 7, 9}, x.shape[1]);
      check({.layer = of("Softmax"), .bottoms = {x}});
      check({.layer = of("SoftmaxWithLoss"), .bottoms = {x, targets}});
      check({.layer = of("SoftmaxWithLoss", settings), .bottoms = {x, targets}, .tops = 2});
      check({.layer = of("Accuracy", "accuracy_param { top_k: 2 ignore_label: 3 }"),
             .bottoms = {x, targets}});
      check({.layer = of("EuclideanLoss"), .bottoms = {x, x}});
    }
    check({.layer = of("EuclideanLoss"), .bottoms = {uniform({9, 1000}), uniform({9, 1000})}});
  }
}

TEST(TwoSided, RoomsThatMoveDataTakeBf16AsItIs) {
  Context context;
  const Net net(net_param(R"(
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 dim: 5 dim: 5 } } }
      layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
      layer { name: "a" type: "ReLU" bottom: "x" top: "a" }
      layer { name: "split" type: "Split" bottom: "a" top: "a0" top: "a1" }
      layer { name: "concat" type: "Concat" bottom: "a0" bottom: "a1" top: "c" }
      layer { name: "flat" type: "Flatten" bottom: "c" top: "f" }
      layer { name: "ip" type: "InnerProduct" bottom: "f" top: "ip"
              inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })"),
                context, {.phase = Phase::train, .activations = DType::bf16});
  for (const NetStep& step : net.steps()) {
    if (step.type != "Split" && step.type != "Concat" && step.type != "Flatten") continue;
    EXPECT_THAT(step.bottom_format, testing::StartsWith("bf16")) << step.name;
    EXPECT_THAT(step.top_format, testing::StartsWith("bf16")) << step.name;
  }
}

}  // namespace
}  // namespace crema::test
