// What lasts after a pass, what shares memory, and how much of it there is; what a failed reshape
// leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <iterator>
#include <map>
#include <stdexcept>
#include <thread>

#include "core/simd.hpp"
#include "core/tuner.hpp"
#include "crema/registry.hpp"
#include "model/text_format.hpp"
#include "proto/layer.pb.h"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "tools/resident.hpp"

namespace crema {
namespace {

using test::fill_inputs;
using test::net_param;
using test::values_of;

std::string text_of(int64_t side) {
  const std::string dim = "dim: " + std::to_string(side);
  return R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 )" +
         dim + " " + dim + R"( } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 12 kernel_size: 7 weight_filler { type: "msra" } } }
layer { name: "pool" type: "Pooling" bottom: "conv1" top: "pool" pooling_param { kernel_size: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool" top: "conv2"
        convolution_param { num_output: 20 kernel_size: 3 weight_filler { type: "msra" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv2" top: "ip"
        inner_product_param { num_output: 3 axis: -1 weight_filler { type: "xavier" } } })";
}

int64_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

/// Memory that the process takes for a net that trains, over what the net planned. In a thread of
/// its own: threads keep their scratch memory, and that of an earlier net would serve this one.
/// Throws std::runtime_error where a thread of the net still runs 10 s later.
double taken_over_planned(const NetParameter& param, const ContextOptions& where,
                          size_t budget = 0) {
  const int64_t threads_before = threads_of_process();
  auto ratio = std::async(std::launch::async, [&] {
    Context context(where);
    const int64_t before = tools::resident_bytes();
    Net net(param, context, {.phase = Phase::train, .memory_budget = budget});
    fill_inputs(net, -1, 1, 2);  // labels that all nets have
    double taken = 0;
    // Of two threads on a busy machine, one may do all the work of a pass, and the other one takes
    // no scratch memory: some passes are enough.
    for (int pass = 0; pass < 8 && taken < 0.95; ++pass) {
      net.clear_gradients();
      net.forward();
      net.backward();
      const MemoryPlan plan = net.memory();
      const auto planned = static_cast<double>(plan.activations + plan.parameters + plan.engines);
      taken = static_cast<double>(tools::resident_bytes() - before) / planned;
    }
    return taken;
  });
  const double result = ratio.get();
  // OpenMP's threads end behind the thread that made them, and give their scratch memory back while
  // they end: the next net would seem to take less.
  for (int waits = 0; threads_of_process() > threads_before; ++waits) {
    if (waits == 1000) throw std::runtime_error("a thread of the net does not end");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return result;
}

class TakenMemory : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "needs a build without sanitizers, which take memory: set no CREMA_SANITIZE";
#endif
    if (!std::filesystem::exists("/proc/self/smaps"))
      GTEST_SKIP() << "needs /proc/self/smaps: run on Linux with /proc mounted";
    ASSERT_GT(tools::resident_bytes(), 0);
  }
};

void expect_planned(std::initializer_list<const char*> models) {
  for (const char* name : models) {
    SCOPED_TRACE(name);
    NetParameter param;
    read_text_proto(text(CREMA_SOURCE_DIR "/models/", name, "/train_val.prototxt"), param);
    if (param.layer(0).type() == "Data") {
      // An Input layer gives what the databases of both phases would.
      param.mutable_layer()->DeleteSubrange(1, 1);
      *param.mutable_layer(0) = net_param(R"(
layer { name: "data" type: "Input" top: "data" top: "label"
        input_param { shape { dim: 64 dim: 1 dim: 28 dim: 28 } shape { dim: 64 } } })")
                                    .layer(0);
    }
    EXPECT_NEAR(taken_over_planned(param, {.threads = 2, .tune = false}), 1, 0.1);
  }
}

// The first test: what others freed would serve a net as small as LeNet.
TEST_F(TakenMemory, IsWhatTheSmallNetsOfModelsPlanned) {
  expect_planned({"lenet", "mobilenet_v2", "squeezenet_v1.1", "vit_tiny"});
}

// Scratch memory of threads and of engines was left out: a fifth and more of small nets.
TEST_F(TakenMemory, IsWhatWasPlanned) {
  for (const char* engine : {"direct", "winograd", "im2col", ""}) {
    SCOPED_TRACE(engine);
    const NetParameter param = net_param(R"(
layer { name: "x" type: "Input" top: "x"
        input_param { shape { dim: 8 dim: 32 dim: 96 dim: 96 } } }
layer { name: "conv1" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 64 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "conv2" type: "Convolution" bottom: "a" top: "b" loss_weight: 1
        convolution_param { num_output: 64 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } })");
    EXPECT_NEAR(taken_over_planned(param, {.threads = 2, .engine = engine, .tune = false}), 1, 0.1);
  }
}

// All groups' transformed weights, 19 MB, are more than everything else.
TEST_F(TakenMemory, OfWinogradsGroupsIsPlanned) {
  if (simd_level() < SimdLevel::avx2) GTEST_SKIP() << "needs AVX2: run on a processor that has it";
  const NetParameter param = net_param(R"(
layer { name: "x" type: "Input" top: "x"
        input_param { shape { dim: 2 dim: 512 dim: 12 dim: 12 } } }
layer { name: "conv1" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 512 kernel_size: 3 pad: 1 group: 2
                            weight_filler { type: "msra" } } }
layer { name: "conv2" type: "Convolution" bottom: "a" top: "b" loss_weight: 1
        convolution_param { num_output: 512 kernel_size: 3 pad: 1 group: 2
                            weight_filler { type: "msra" } } })");
  EXPECT_NEAR(taken_over_planned(param, {.threads = 2, .engine = "winograd", .tune = false}), 1,
              0.1);
}

// Seconds each: scripts/cmake/tests.cmake calls it slow.
TEST_F(TakenMemory, IsWhatTheLargeNetsOfModelsPlanned) {
  expect_planned({"alexnet", "vgg_a", "googlenet", "resnet50", "densenet121"});
}

TEST_F(TakenMemory, IsWhatABudgetAllows) {
  NetParameter param;
  read_text_proto(CREMA_SOURCE_DIR "/models/resnet50/train_val.prototxt", param);
  // So large that what engines plan for and do not take matters little.
  for (BlobShape& shape : *param.mutable_layer(0)->mutable_input_param()->mutable_shape()) {
    shape.set_dim(0, 16);
  }
  EXPECT_NEAR(taken_over_planned(param, {.threads = 2, .tune = false}, 1'200'000'000), 1, 0.1);
}

// The loss keeps the probabilities of all pixels.
TEST(Memory, OfTheLayersIsCounted) {
  Context context({.tune = false});
  const NetParameter param = net_param(R"(
layer { name: "x" type: "Input" top: "x"
        input_param { shape { dim: 1 dim: 21 dim: 64 dim: 64 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 1 dim: 64 dim: 64 } } }
layer { name: "scale" type: "Scale" bottom: "x" top: "s" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "s" bottom: "label" top: "loss" })");
  Net net(param, context);
  EXPECT_GE(net.memory().engines, size_t{21 * 64 * 64 * 4 + 64 * 64 * 8});
}

// Of few points of a large map, backward keeps the gradients of their places.
TEST(Memory, OfBackwardIsCountedBeforeIt) {
  Context context({.tune = false});
  const NetParameter param = net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 64 dim: 64 } } }
layer { name: "theta" type: "DummyData" top: "theta" dummy_data_param { shape { dim: 1 dim: 6 } } }
layer { name: "bias" type: "Bias" bottom: "theta" top: "b" }
layer { name: "st" type: "SpatialTransformer" bottom: "x" bottom: "b" top: "y" loss_weight: 1
        st_param { output_H: 4 output_W: 5 } })");
  const Net train(param, context), test(param, context, {.phase = Phase::test});
  EXPECT_EQ(train.memory().engines - test.memory().engines, size_t{4 * 5 * 2 * 8});
}

TEST(Memory, AFailedReshapeLeavesANetThatPlansAgain) {
  for (bool tune : {false, true}) {
    SCOPED_TRACE(tune);
    Context context({.tune = tune});
    Net net(net_param(text_of(16)), context, {.phase = Phase::train});
    fill_inputs(net);
    net.forward();
    net.reshape_input("data", {1, 3, 5, 5});
    expect_error([&] { net.forward(); }, {"layer 'conv1' (Convolution)", "7", "5"});
    EXPECT_TRUE(net.steps().empty());
    expect_error([&] { net.forward(); }, {"layer 'conv1'"});
    expect_error([&] { net.backward(); }, {"backward needs a forward pass"});
    expect_error([&] { net.forward_step(0); }, {"needs a forward pass"});
    EXPECT_EQ(net.summary().size(), 5U);

    net.reshape_input("data", {1, 3, 16, 16});
    fill_inputs(net, 0, 2);
    net.forward();
    Net fresh(net_param(text_of(16)), context, {.phase = Phase::train});
    fill_inputs(fresh, 0, 2);
    fresh.forward();
    EXPECT_EQ(values_of(net.output("ip")), values_of(fresh.output("ip")));
    net.backward();
  }
}

TEST(Memory, BackwardWantsTheShapesOfForward) {
  Context context;
  Net net(net_param(text_of(16)), context, {.phase = Phase::train});
  net.forward();
  net.reshape_input("data", {1, 3, 18, 16});
  expect_error([&] { net.backward(); }, {"backward needs a forward pass", "changed their shapes"});
  net.reshape();
  expect_error([&] { net.backward(); }, {"backward needs a forward pass", "has not run"});
  expect_error([&] { net.step_tops(99); }, {"no step 99"});
}

TEST(Memory, ABlobThatOthersOverwriteIsRefused) {
  Context context;
  Net net(net_param(text_of(16)), context, {.phase = Phase::test});
  fill_inputs(net);
  net.forward();
  expect_error([&] { net.output("pool"); }, {"blob 'pool'", "NetOptions::keep"});
  expect_error([&] { net.blob("conv1"); }, {"blob 'conv1'", "NetOptions::keep"});
  EXPECT_EQ(net.blob_versions("pool").at(0)->shape(), (Shape{1, 12, 9, 9}));
  Net kept(net_param(text_of(16)), context, {.phase = Phase::test, .keep = {"pool"}});
  Net all(net_param(text_of(16)), context, {.phase = Phase::test, .keep_all = true});
  for (Net* other : {&kept, &all}) {
    fill_inputs(*other);
    other->forward();
    EXPECT_EQ(other->output("pool").count(), 12 * 9 * 9);
  }
  EXPECT_EQ(values_of(net.output("ip")).size(), values_of(kept.output("ip")).size());
}

// Branches cut by Slice and joined by Concat, with layers in place on the parts and on the whole.
std::string branches(int64_t samples, int axis, int64_t channels) {
  return text(R"(
force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: )",
              samples, " dim: ", channels, R"( dim: 4 dim: 4 } } }
layer { name: "first" type: "Convolution" bottom: "x" top: "first"
        convolution_param { num_output: 32 kernel_size: 1 weight_filler { type: "msra" } } }
layer { name: "cut" type: "Slice" bottom: "first" top: "a" top: "b" slice_param { axis: )",
              axis, R"( } }
layer { name: "on_a" type: "Sigmoid" bottom: "a" top: "a" }
layer { name: "conv" type: "Convolution" bottom: "b" top: "c"
        convolution_param { num_output: )",
              axis == 1 ? 16 : 32, R"( kernel_size: 1 weight_filler { type: "msra" } } }
layer { name: "on_c" type: "TanH" bottom: "c" top: "c" }
layer { name: "joined" type: "Concat" bottom: "a" bottom: "c" bottom: "b" top: "joined"
        concat_param { axis: )",
              axis, R"( } }
layer { name: "on_joined" type: "Sigmoid" bottom: "joined" top: "joined" }
layer { name: "ip" type: "InnerProduct" bottom: "joined" top: "ip" loss_weight: 1
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } })");
}

TEST(Memory, PartsOfATensorAreViewsOfIt) {
  for (const auto& [samples, axis] : {std::pair{1, 1}, {4, 0}, {2, 1}}) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      SCOPED_TRACE(text(samples, " samples, axis ", axis, ", ", to_string(dtype)));
      Context context({.tune = false});
      const NetParameter param = net_param(branches(samples, axis, 8));
      Net planned(param, context, {.dtype = dtype, .fuse = false});
      Net plain(param, context, {.dtype = dtype, .keep_all = true});
      for (Net* net : {&planned, &plain}) {
        fill_inputs(*net);
        net->clear_gradients();
        net->forward();
        net->backward();
      }
      EXPECT_EQ(values_of(planned.output("ip")), values_of(plain.output("ip")));
      EXPECT_EQ(test::gradients_of(planned), test::gradients_of(plain));
      EXPECT_EQ(values_of(planned.blob("x").diff), values_of(plain.blob("x").diff));
      for (size_t step = 0; step < planned.steps().size(); ++step) {
        if (planned.steps()[step].type != "Slice") continue;
        const Blobs parts = planned.step_tops(step);
        const bool views = parts[0]->data.memory() == parts[1]->data.memory();
        EXPECT_EQ(views, samples == 1 || axis == 0);
        EXPECT_FALSE(parts[0]->data.same_memory(parts[1]->data));
      }
    }
  }
}

// The parts of a concatenation in a net for inference are planned as pieces of its memory; bottoms
// that occur twice, and inputs, are copied.
TEST(Memory, OnlyPartsThatMayMoveAreViews) {
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 16 dim: 4 dim: 4 } } }
layer { name: "a" type: "Sigmoid" bottom: "x" top: "a" }
layer { name: "b" type: "TanH" bottom: "x" top: "b" }
layer { name: "ab" type: "Concat" bottom: "a" bottom: "b" top: "ab" }
layer { name: "twice" type: "Concat" bottom: "a" bottom: "a" top: "twice" }
layer { name: "with_x" type: "Concat" bottom: "x" bottom: "ab" top: "with_x" })"),
          context, {.phase = Phase::test});
  fill_inputs(net);
  for (int pass = 0; pass < 2; ++pass) {
    net.forward();
    const std::vector<double> x = values_of(net.output("x")),
                              twice = values_of(net.output("twice")),
                              all = values_of(net.output("with_x"));
    ASSERT_EQ(all.size(), 3 * x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double a = 1 / (1 + std::exp(-x[i]));
      EXPECT_EQ(all[i], x[i]);
      EXPECT_NEAR(all[x.size() + i], a, 1e-6);
      EXPECT_NEAR(all[2 * x.size() + i], std::tanh(x[i]), 1e-6);
      EXPECT_NEAR(twice[i], a, 1e-6);
      EXPECT_NEAR(twice[x.size() + i], a, 1e-6);
    }
  }
  EXPECT_LT(net.memory().activations, net.memory().activations_unshared);
}

TEST(Memory, KeepAllGivesEveryBlobItsOwn) {
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } } }
layer { name: "f" type: "Flatten" bottom: "x" top: "f" }
layer { name: "s" type: "Split" bottom: "f" top: "a" top: "b" })"),
          context, {.phase = Phase::test, .keep_all = true});
  fill_inputs(net);
  net.forward();
  for (const char* blob : {"f", "a", "b"}) {
    EXPECT_NE(net.blob(blob).data.memory(), net.blob("x").data.memory()) << blob;
    EXPECT_EQ(values_of(net.output(blob)), values_of(net.output("x"))) << blob;
  }
}

// More shapes than programs are kept; then the first ones again.
TEST(Memory, KeptProgramsAreLimited) {
  Context context({.tune = false});
  Net net(net_param(text_of(16)), context, {.phase = Phase::test});
  std::map<int64_t, std::vector<double>> first;
  for (int round = 0; round < 2; ++round) {
    for (int64_t side = 16; side < 27; ++side) {
      net.reshape_input("data", {1, 3, side, 16});
      fill_inputs(net);
      net.forward();
      const std::vector<double> values = values_of(net.output("ip"));
      EXPECT_EQ(first.emplace(side, values).first->second, values) << side;
    }
  }
}

TEST(Memory, AnInPlaceNameWhoseLastValueWasFusedIsRefused) {
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "s" type: "Sigmoid" bottom: "x" top: "y" }
layer { name: "ip" type: "InnerProduct" bottom: "y" top: "y" inner_product_param { num_output: 4 } }
layer { name: "relu" type: "ReLU" bottom: "y" top: "z" })"),
          context, {.phase = Phase::test});
  expect_error([&] { net.blob("y"); }, {"'y'", "fused into layer 'ip'"});
}

TEST(Memory, FiguresCountWhatIsKept) {
  Context context;
  const size_t input = 3 * 16 * 16 * sizeof(float);
  Net net(net_param(text_of(16)), context, {.phase = Phase::test});
  EXPECT_GE(net.memory().reserved, input + 3 * sizeof(float));
  EXPECT_GT(net.memory().activations, net.memory().reserved);
  EXPECT_LT(net.memory().activations, net.memory().activations_unshared);
  Net all(net_param(text_of(16)), context, {.phase = Phase::test, .keep_all = true});
  EXPECT_EQ(all.memory().activations, all.memory().activations_unshared);
  EXPECT_EQ(all.memory().activations, all.memory().reserved);
}

// Parts of a gradient that many readers make are summed on the way: they must not all wait.
TEST(Memory, DoesNotGrowWithReaders) {
  const auto activations = [](int readers) {
    std::string prototxt = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 40 dim: 40 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 8 kernel_size: 1 weight_filler { type: "xavier" } } })";
    std::string sum = "layer { name: 'sum' type: 'Eltwise' top: 'sum'";
    for (int i = 0; i < readers; ++i) {
      prototxt +=
          text("layer { name: 'ip", i, "' type: 'InnerProduct' bottom: 'conv' top: 'ip", i,
               "' inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }");
      sum += text(" bottom: 'ip", i, "'");
    }
    prototxt +=
        sum + " } layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'sum' bottom: 'label' }";
    Context context({.tune = false});  // measured times would choose the formats
    return Net(net_param(prototxt), context, {.phase = Phase::train}).memory().activations;
  };
  EXPECT_LT(activations(30), activations(5) * 11 / 10);
}

/// y = x from its last element to its first. Its top is blocked where the shape is large.
class ReverseLayer : public Layer {
 public:
  using Layer::Layer;
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void forward_cpu(Blobs bottom, Blobs top) override {
    Tensor reversed = bottom[0]->data.to(DType::f32, Format::contiguous);
    std::reverse(reversed.change<float>(), reversed.change<float>() + reversed.count());
    top[0]->data.copy_from(reversed);
  }

 protected:
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    const bool blocked = bottom[0]->shape()[2] > 4;
    return {uniform_option(bottom, top, dtype(), Format::contiguous,
                           blocked ? Format::blocked8 : Format::contiguous)};
  }
};

// A conversion stood between a value and its alias, and falls away in a smaller shape: the value
// then kept its old place in the shared arena as if it were its own.
TEST(Memory, AnOutputDoesNotKeepAPlaceInTheArena) {
  Registry::instance().add<ReverseLayer>("TestReverse");
  Context context;
  Net net(net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 8 dim: 8 dim: 8 } } }
layer { name: "blocked" type: "TestReverse" bottom: "x" top: "b" }
layer { name: "flat" type: "Flatten" bottom: "b" top: "f" }
layer { name: "next" type: "TanH" bottom: "x" top: "t" }
layer { name: "last" type: "Sigmoid" bottom: "t" top: "s" })"),
          context, {.phase = Phase::test});
  for (int64_t side : {8, 4, 8, 2}) {
    SCOPED_TRACE(side);
    net.reshape_input("x", {1, 8, side, side});
    fill_inputs(net);
    net.forward();
    std::vector<double> expected = values_of(net.input("x"));
    std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(values_of(net.output("f")), expected);
  }
}

std::map<std::string, std::string> format_choices(const Context& context) {
  std::map<std::string, std::string> choices = context.tuner().choices();
  std::erase_if(choices, [](const auto& entry) { return !entry.first.starts_with("formats of"); });
  return choices;
}

TEST(Memory, FormatChoicesAreKnownByTheirProblem) {
  Context context;
  auto two = [](const std::string& outputs) {
    return R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 16 dim: 12 dim: 12 } } }
layer { name: "c" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 16 kernel_size: 3 } }
layer { name: "c" type: "Convolution" bottom: "x" top: "b"
        convolution_param { kernel_size: 3 num_output: )" +
           outputs + " } }";
  };
  const NetOptions options{.phase = Phase::test};
  Net first(net_param(two("64")), context, options);
  const auto decisions = format_choices(context);
  ASSERT_EQ(decisions.size(), 2U);
  std::vector<std::string> engines;
  for (const NetStep& step : first.steps()) {
    if (step.type == "Convolution") engines.push_back(step.engine);
  }
  for (const auto& [problem, choice] : decisions) {
    const std::string engine = choice.substr(choice.find('@') + 1);
    EXPECT_NE(std::find(engines.begin(), engines.end(), engine), engines.end()) << choice;
  }
  Net other(net_param(two("48")), context, options);
  EXPECT_EQ(format_choices(context).size(), 4U);
  Net again(net_param(two("64")), context, options);
  EXPECT_EQ(format_choices(context).size(), 4U);
}

}  // namespace
}  // namespace crema
