// Channels-last convolutions of cuDNN, in TF32 and in 16 bits, agree with the CPU's in f32.
#include <utility>

#include "backend/cuda_test.hpp"
#include "crema/parameter_arena.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::HasSubstr;

struct NetCase {
  const char* name;
  const char* shape;   // dims of the input
  const char* layers;  // "x" to "y"
};

inline void PrintTo(const NetCase& net_case, std::ostream* out) { *out << net_case.name; }

constexpr NetCase kCases[] = {
    {"plain", "dim: 2 dim: 16 dim: 9 dim: 10", R"(
      layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param {
              num_output: 24 kernel_size: 3 pad: 1 stride: 2 weight_filler { type: "xavier" } } })"},
    {"odd_channels", "dim: 3 dim: 20 dim: 12 dim: 12", R"(
      layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param {
              num_output: 50 kernel_size: 5 weight_filler { type: "xavier" } } })"},
    {"chain_with_relu", "dim: 2 dim: 16 dim: 9 dim: 10", R"(
      layer { name: "a" type: "Convolution" bottom: "x" top: "a" convolution_param {
              num_output: 32 kernel_size: 1 weight_filler { type: "xavier" }
              bias_filler { type: "constant" value: 0.2 } } }
      layer { name: "r" type: "ReLU" bottom: "a" top: "a" relu_param { negative_slope: 0.1 } }
      layer { name: "c" type: "Convolution" bottom: "a" top: "y" convolution_param {
              num_output: 8 kernel_size: 3 weight_filler { type: "xavier" } } })"},
    {"residual", "dim: 2 dim: 16 dim: 8 dim: 8", R"(
      layer { name: "a" type: "Convolution" bottom: "x" top: "a" convolution_param {
              num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
      layer { name: "b" type: "Convolution" bottom: "a" top: "b" convolution_param {
              num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
      layer { name: "s" type: "Eltwise" bottom: "b" bottom: "a" top: "s" }
      layer { name: "r" type: "ReLU" bottom: "s" top: "s" }
      layer { name: "c" type: "Convolution" bottom: "s" top: "y" convolution_param {
              num_output: 8 kernel_size: 1 weight_filler { type: "xavier" } } })"},
    {"branches", "dim: 2 dim: 16 dim: 9 dim: 10", R"(
      layer { name: "a" type: "Convolution" bottom: "x" top: "a" convolution_param {
              num_output: 24 kernel_size: 1 weight_filler { type: "xavier" }
              bias_filler { type: "constant" value: 0.2 } } }
      layer { name: "ra" type: "ReLU" bottom: "a" top: "a" }
      layer { name: "b" type: "Convolution" bottom: "x" top: "b" convolution_param {
              num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
      layer { name: "p" type: "Pooling" bottom: "x" top: "p" pooling_param {
              pool: MAX kernel_size: 3 pad: 1 stride: 1 } }
      layer { name: "e" type: "Convolution" bottom: "x" top: "e" convolution_param {
              num_output: 8 kernel_size: 5 pad: 2 weight_filler { type: "xavier" }
              bias_filler { type: "constant" value: -0.2 } } }
      layer { name: "re" type: "ReLU" bottom: "e" top: "e" relu_param { negative_slope: 0.1 } }
      layer { name: "j" type: "Concat" bottom: "a" bottom: "b" bottom: "p" bottom: "e" top: "j" }
      layer { name: "c" type: "Convolution" bottom: "j" top: "y" convolution_param {
              num_output: 8 kernel_size: 3 weight_filler { type: "xavier" } } })"},
    {"groups_and_dilation", "dim: 2 dim: 32 dim: 11 dim: 9", R"(
      layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param {
              num_output: 32 kernel_size: 3 group: 4 dilation: 2 weight_filler { type: "xavier" } } })"},
    {"depthwise", "dim: 2 dim: 32 dim: 11 dim: 9", R"(
      layer { name: "c" type: "DepthwiseConvolution" bottom: "x" top: "y" convolution_param {
              num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } })"},
    {"line", "dim: 2 dim: 16 dim: 40", R"(
      layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param {
              num_output: 16 kernel_size: 3 weight_filler { type: "xavier" } } })"},
    {"volume", "dim: 2 dim: 16 dim: 5 dim: 6 dim: 7", R"(
      layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param {
              num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } })"},
    {"transposed", "dim: 2 dim: 16 dim: 7 dim: 8", R"(
      layer { name: "c" type: "Deconvolution" bottom: "x" top: "a" convolution_param {
              num_output: 24 kernel_size: 4 stride: 2 pad: 1 weight_filler { type: "xavier" }
              bias_filler { type: "constant" value: 0.1 } } }
      layer { name: "r" type: "ReLU" bottom: "a" top: "y" })"},
    {"first_of_a_residual_net", "dim: 2 dim: 3 dim: 33 dim: 30", R"(
      layer { name: "c" type: "Convolution" bottom: "x" top: "a" convolution_param {
              num_output: 16 kernel_size: 7 stride: 2 pad: 3 weight_filler { type: "xavier" }
              bias_filler { type: "constant" value: 0.1 } } }
      layer { name: "r" type: "ReLU" bottom: "a" top: "y" })"},
    {"first_of_vgg", "dim: 2 dim: 3 dim: 16 dim: 18", R"(
      layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param {
              num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } })"},
};

class CudaConvolution : public testing::TestWithParam<NetCase> {};

struct Passes {
  std::vector<double> y, gradients, dx;
  std::vector<NetStep> convolutions;
};

Passes run(Context& context, const NetCase& c, DType activations, bool wants_dx, Phase phase) {
  NetParameter param =
      net_param(text("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { ", c.shape,
                     " } } } ", c.layers));
  param.set_force_backward(wants_dx);
  Net net(param, context,
          {.phase = phase, .activations = activations, .backward = NetOptions::Backward::yes});
  fill_inputs(net);
  net.forward();
  Passes passes{.y = values_of(net.blob("y").data)};
  net.blob("y").diff.fill(0.5);
  net.clear_gradients();
  net.backward();
  passes.gradients = gradients_of(net);
  if (wants_dx) passes.dx = values_of(net.blob("x").diff);
  for (const NetStep& step : net.steps()) {
    if (step.type.find("onvolution") != std::string::npos) passes.convolutions.push_back(step);
  }
  return passes;
}

TEST_P(CudaConvolution, AgreesWithTheCpu) {
  const std::string why = why_no_device();
  if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
  const NetCase& c = GetParam();
  for (const bool tune : {false, true}) {
    Context cpu, gpu({.device = {DeviceType::cuda, 0}, .tune = tune});
    for (const bool wants_dx : {false, true}) {
      const Passes exact = run(cpu, c, DType::f32, wants_dx, Phase::train);
      for (const auto& [type, tolerance] : {std::pair(DType::f32, Tolerance{5e-3, 5e-3}),
                                            {DType::f16, Tolerance{1e-2, 1e-2}},
                                            {DType::bf16, Tolerance{6e-2, 6e-2}}}) {
        SCOPED_TRACE(text(to_string(type), tune ? " tuned" : "", wants_dx ? " with dx" : ""));
        const Passes found = run(gpu, c, type, wants_dx, Phase::train);
        EXPECT_EQ(found.convolutions.size(), exact.convolutions.size());
        for (const NetStep& step : found.convolutions) {
          EXPECT_EQ(step.engine, "cudnn") << step.name;
          EXPECT_THAT(step.top_format, HasSubstr("channels_last")) << step.name;
        }
        expect_close(found.y, exact.y, tolerance, "y");
        // Sums over all positions grow with their number.
        double most = 1;
        for (const double value : exact.gradients) most = std::max(most, std::abs(value));
        Tolerance of_sums = tolerance;
        of_sums.absolute *= most;
        expect_close(found.gradients, exact.gradients, of_sums, "gradients");
        if (wants_dx) expect_close(found.dx, exact.dx, tolerance, "dx");
        const Passes again = run(gpu, c, type, wants_dx, Phase::train);
        EXPECT_EQ(again.y, found.y) << "bits";
        EXPECT_EQ(again.gradients, found.gradients) << "bits";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, CudaConvolution, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

// Of the convolutions; what the pooling gives is copied.
TEST_F(Cuda, BottomsOfConcatAreWrittenWhereTheyAreJoined) {
  const auto* const branches = std::ranges::find(kCases, std::string_view("branches"),
                                                 [](const NetCase& c) { return c.name; });
  ASSERT_NE(branches, std::end(kCases));
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(to_string(type));
    const NetParameter param =
        net_param(text("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { ",
                       branches->shape, " } } } ", branches->layers));
    Net net(param, *context_, {.phase = Phase::train, .activations = type});
    Net copying(param, *context_, {.phase = Phase::train, .activations = type, .fuse = false});
    const auto detail_of_concat = [](const Net& of) {
      for (const NetStep& step : of.steps()) {
        if (step.type == "Concat") return step.detail;
      }
      return std::string("no Concat");
    };
    EXPECT_EQ(detail_of_concat(net), "3 of 4 bottoms in place");
    EXPECT_EQ(detail_of_concat(copying), "");
    for (Net* each : {&net, &copying}) {
      fill_inputs(*each);
      each->forward();
    }
    expect_close(values_of(net.output("y")), values_of(copying.output("y")), {6e-2, 6e-2}, "y");
  }
}

TEST_F(Cuda, BatchNormIsFoldedForInference) {
  const char* const layers = R"(
      layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 16 dim: 8 dim: 8 } } }
      layer { name: "a" type: "Convolution" bottom: "x" top: "a" convolution_param {
              num_output: 16 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: "xavier" } } }
      layer { name: "bn" type: "BatchNorm" bottom: "a" top: "a" }
      layer { name: "sc" type: "Scale" bottom: "a" top: "a" scale_param { bias_term: true } }
      layer { name: "s" type: "Eltwise" bottom: "a" bottom: "x" top: "s" }
      layer { name: "r" type: "ReLU" bottom: "s" top: "y" })";
  Context cpu;
  for (const DType type : {DType::f32, DType::bf16}) {
    Net exact(net_param(layers), cpu, {.phase = Phase::test});
    Net net(net_param(layers), *context_, {.phase = Phase::test, .activations = type});
    int fused = 0;
    for (const LayerSummary& layer : net.summary()) fused += !layer.fused_into.empty();
    EXPECT_EQ(fused, 4);
    // A plain pass, a recorded one and launches before each change.
    constexpr float kScales[] = {1.5F, 1.5F, 1.5F, 1.5F, 0.5F, 0.5F, 0.5F, 0.5F, 2.5F, 2.5F};
    for (const float scale : kScales) {
      for (Net* each : {&exact, &net}) {
        fill_inputs(*each);
        for (const auto& parameter : each->layer("sc").params()) {
          if (std::as_const(parameter->data).read<float>()[0] == scale) continue;
          std::fill_n(parameter->data.change<float>(), 16, scale);
          parameter->data.seal();
        }
        each->forward();
      }
      const double allowed = type == DType::f32 ? 5e-3 : 6e-2;
      expect_close(values_of(net.blob("y").data), values_of(exact.blob("y").data),
                   {allowed, allowed}, "y");
    }
  }
}

// Where somebody may write the parameters at any time, each forward pass writes the copies that the
// library reads; else the update does.
TEST_F(Cuda, UpdatesWriteTheCopiesThatForwardPassesWrite) {
  for (const char* precision : {"BF16", "F32"}) {
    SCOPED_TRACE(precision);
    SolverParameter param;
    parse_text_proto(
        text("base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 max_iter: 20 snapshot_after_train: "
             "false net_param { precision: ",
             precision,
             " layer { name: 'x' type: 'Input' top: 'x' top: 't' input_param { shape { dim: 4 dim: "
             "3 dim: 20 dim: 18 } shape { dim: 4 dim: 24 dim: 10 dim: 9 } } } "
             "layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { "
             "num_output: 16 kernel_size: 3 pad: 1 stride: 2 weight_filler { type: 'xavier' } } } "
             "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' } "
             "layer { name: 'b' type: 'Convolution' bottom: 'a' top: 'b' convolution_param { "
             "num_output: 24 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } } "
             "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'b' bottom: 't' top: 'loss' } }"),
        "solver.prototxt", param);
    std::vector<double> results[2], first;
    for (const bool open : {false, true}) {
      Context context({.device = {DeviceType::cuda, 0}, .tune = false});
      Solver solver(param, context);
      fill_inputs(solver.net());
      first = params_of(solver.net());
      for (int iteration = 0; iteration < 8; ++iteration) {
        for (const auto& segment : solver.net().params().segments()) {
          if (open) segment.parameter->data.change<float>();
        }
        solver.step(1);
      }
      results[open] = params_of(solver.net());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_NE(results[0], first);
  }
}

TEST_F(Cuda, StrictNetsAreContiguous) {
  NetParameter param =
      net_param(text("math: STRICT layer { name: 'x' type: 'Input' top: 'x' input_param { "
                     "shape { ",
                     kCases[0].shape, " } } } ", kCases[0].layers));
  const Net net(param, *context_, {.phase = Phase::test});
  int convolutions = 0;
  for (const NetStep& step : net.steps()) {
    EXPECT_EQ(step.top_format, "contiguous") << step.name;
    if (step.type != "Convolution") continue;
    ++convolutions;
    EXPECT_EQ(step.engine, "cudnn");
    EXPECT_THAT(step.detail, HasSubstr("exact forward"));
  }
  EXPECT_EQ(convolutions, 1);
}

TEST_F(Cuda, ScratchMemoryKeepsWithinTheLimit) {
  NetParameter param =
      net_param(text("workspace_limit: 0 layer { name: 'x' type: 'Input' top: 'x' "
                     "input_param { shape { ",
                     kCases[0].shape, " } } } ", kCases[0].layers));
  std::string log;
  Context context({.device = {DeviceType::cuda, 0},
                   .logger = [&](Severity, const std::string& line) { log += line + "\n"; }});
  const Net net(param, context, {.phase = Phase::train, .backward = NetOptions::Backward::yes});
  // The gradient of the weights needs some: so an exact algorithm that needs none, or the host.
  int convolutions = 0;
  for (const NetStep& step : net.steps()) {
    if (step.type != "Convolution") continue;
    ++convolutions;
    if (step.engine == "cudnn") {
      EXPECT_THAT(step.detail, HasSubstr("exact"));
    } else {
      EXPECT_TRUE(step.falls_back_to_cpu);
    }
  }
  EXPECT_EQ(convolutions, 1);
  EXPECT_THAT(log, HasSubstr("workspace_limit"));
}

}  // namespace
}  // namespace crema::test
