// What needs a CUDA device: its memory, every CUDA engine against the reference, and nets beside
// those of the CPU. Skipped where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/device.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/layer_test.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;

TEST(CudaDevices, AreThereOrTheReasonIs) {
  std::string why;
  const std::vector<DeviceInfo> devices = cuda_devices(why);
  EXPECT_EQ(devices.empty(), !why.empty()) << why;
  for (const DeviceInfo& device : devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.total_bytes, 0u);
    EXPECT_GT(device.multiprocessors, 0);
  }
}

TEST(CudaDevices, OneThatIsNotThereIsAnError) {
  expect_error([] { Context({.device = {DeviceType::cuda, 1000}}); }, {"CUDA device", "1000"});
}

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = test::why_no_device();
    if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
    context_ = std::make_unique<Context>(ContextOptions{.device = {DeviceType::cuda, 0}});
  }
  DeviceBackend& backend() { return context_->backend(); }

  std::unique_ptr<Context> context_;
};

Tensor counting(int64_t count) {
  Tensor tensor(Shape{count});
  float* values = tensor.host_overwrite<float>();
  std::iota(values, values + count, 1.0F);
  return tensor;
}

TEST_F(Cuda, MemoryGoesThereAndBack) {
  Tensor source = counting(100003), target(Shape{100003});
  const float* there = source.device<float>(backend());
  const void* const terms[] = {there, there};
  backend().add(DType::f32, 100003, terms, target.device_mut<float>(backend()));
  backend().synchronize();
  EXPECT_EQ(target.at(0), 2);
  EXPECT_EQ(target.at(100002), 200006);
  EXPECT_EQ(source.at(100002), 100003) << "what was only read";
}

TEST_F(Cuda, NewMemoryIsZeroAndCanBeClearedAgain) {
  Tensor tensor(Shape{1000});
  tensor.device_mut<float>(backend());
  EXPECT_EQ(tensor.at(999), 0);
  tensor = counting(1000);
  backend().fill_zero(tensor.device_mut<float>(backend()), 500 * sizeof(float));
  EXPECT_EQ(tensor.at(499), 0);
  EXPECT_EQ(tensor.at(500), 501);
}

TEST_F(Cuda, TooMuchMemoryIsAnErrorThatSaysHowMuchThereIs) {
  expect_error([&] { backend().allocate(size_t{1} << 60); },
               {"cannot allocate", "MiB free", "smaller batch"});
  EXPECT_GT(backend().free_bytes(), 0u);
  backend().release(backend().allocate(64));  // and it goes on
}

TEST_F(Cuda, TwoContextsLiveSideBySide) {
  Context other({.device = {DeviceType::cuda, 0}});
  Tensor mine = counting(10);
  mine.device<float>(backend());
  expect_error([&] { mine.device<float>(other.backend()); }, {"in use on another device"});
}

TEST_F(Cuda, LabelsAreCheckedAsOnTheCpu) {
  const LayerCase wrong{.layer = R"(layer { type: "SoftmaxWithLoss" })",
                        .bottoms = {uniform({4, 3}), given({4}, {0, 1, 7, 2})}};
  LayerRun run(wrong, {.engine = "cuda", .device = DeviceType::cuda});
  expect_error([&] { run.forward(); }, {"label 7 at position 2", "[0, 3)"});
}

TEST_F(Cuda, ScoresOfSequencesAreCheckedAsOnTheCpu) {
  const Input scores = uniform({4, 2, 3}), classes = labels({4, 2}, 3);
  const std::vector<LayerCase> cases = {
      {.layer = "layer { type: 'CTCLoss' }", .bottoms = {scores, given({2, 1}, {0, 1})}},
      {.layer = "layer { type: 'CTCGreedyDecoder' }", .bottoms = {scores}},
      {.layer = "layer { type: 'CRFLoss' }", .bottoms = {scores, classes}},
      {.layer = "layer { type: 'CRFDecoder' }", .bottoms = {scores}}};
  for (const LayerCase& c : cases) {
    SCOPED_TRACE(c.layer);
    LayerRun run(c, {.engine = "cuda", .device = DeviceType::cuda});
    run.bottom_values(0)[9] = std::nan("");
    expect_error([&] { run.forward(); }, {"step 1", "sequence 1"});
  }
}

TEST_F(Cuda, RecursionsGiveTheSameBitsAgain) {
  const Input scores = uniform({90, 5, 37}, -3, 3);
  const std::vector<LayerCase> cases = {
      {.layer = "layer { type: 'CTCLoss' }", .bottoms = {scores, labels({5, 20}, 36)}},
      {.layer = "layer { type: 'CRFLoss' crf_loss_param { boundary_term: true } }",
       .bottoms = {scores, labels({90, 5}, 37)}},
      {.layer = "layer { type: 'MultiStageMeanfield' multi_stage_meanfield_param { theta_alpha: 9 "
                "theta_beta: 40 theta_gamma: 2 spatial_filter_weight: 3 num_iterations: 3 } }",
       .bottoms = {uniform({1, 5, 40, 50}, -2, 2), uniform({1, 5, 40, 50}, -2, 2),
                   labels({1, 3, 40, 50}, 200)}}};
  for (const LayerCase& c : cases) {
    SCOPED_TRACE(c.layer);
    LayerRun run(c, {.engine = "cuda", .device = DeviceType::cuda});
    run.forward();
    run.backward();
    const std::vector<double> top = run.top(0), diff = run.bottom_diff(0);
    std::vector<std::vector<double>> gradients;
    for (int i = 0; i < run.num_params(); ++i) gradients.push_back(run.gradient(i));
    for (int again = 0; again < 3; ++again) {
      run.clear_gradients();
      run.forward();
      run.backward();
      EXPECT_EQ(run.top(0), top);
      EXPECT_EQ(run.bottom_diff(0), diff);
      for (int i = 0; i < run.num_params(); ++i)
        EXPECT_EQ(run.gradient(i), gradients[static_cast<size_t>(i)]) << i;
    }
  }
}

TEST_F(Cuda, SilenceClearsTheDiffs) {
  LayerRun run({.layer = "layer { type: 'Silence' }", .bottoms = {uniform({2, 3})}, .tops = 0},
               {.engine = "cuda", .device = DeviceType::cuda});
  run.forward();
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), Each(0));
}

TEST_F(Cuda, MaximumDoesNotHideNaN) {
  const double nan = std::nan("");
  LayerRun run({.layer = "layer { type: 'Pooling' pooling_param { kernel_size: 2 stride: 2 } }",
                .bottoms = {given({1, 1, 2, 6}, {nan, 1, 1, 2, 1, 2, 3, 4, 3, nan, 3, 4})}},
               {.engine = "cuda", .device = DeviceType::cuda});
  run.forward();
  EXPECT_TRUE(std::isnan(run.top(0)[0]));
  EXPECT_TRUE(std::isnan(run.top(0)[1]));
  EXPECT_EQ(run.top(0)[2], 4);
}

TEST_F(Cuda, AnEmptyBatchLeavesStoredStatisticsAlone) {
  const LayerCase c{.layer = "layer { type: 'BatchNorm' }",
                    .bottoms = {uniform({0, 2, 3, 3})},
                    .params = {{1, 2}, {3, 4}, {5}}};
  LayerRun run(c, {.engine = "cuda", .device = DeviceType::cuda});
  run.forward();
  run.backward();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run.param(i), c.params[i]) << i;
}

TEST_F(Cuda, AccuracyCountsAsTheCpuDoes) {
  const LayerCase c{
      .layer = "layer { type: 'Accuracy' accuracy_param { top_k: 2 ignore_label: 3 } }",
      .bottoms = {uniform({3, 7, 5}), labels({3, 5}, 7)},
      .tops = 2};
  LayerRun cpu(c), gpu(c, {.engine = "cuda", .device = DeviceType::cuda});
  cpu.forward();
  gpu.forward();
  for (int i = 0; i < 2; ++i) expect_close(gpu.top(i), cpu.top(i), {1e-6, 1e-6}, concat("top ", i));
}

// LeNet with all that nets have beside: fusions, a normalization, a layer that runs on the CPU.
constexpr const char* kNet = R"(
  layer { name: "data" type: "Input" top: "data" top: "label"
          input_param { shape { dim: 8 dim: 1 dim: 28 dim: 28 } shape { dim: 8 } } }
  layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 }
          param { lr_mult: 2 decay_mult: 0 }
          convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
  layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
          pooling_param { kernel_size: 2 stride: 2 } engine: "reference" }
  layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
          convolution_param { num_output: 50 kernel_size: 5 weight_filler { type: "xavier" } } }
  layer { name: "norm2" type: "BatchNorm" bottom: "conv2" top: "conv2" }
  layer { name: "scale2" type: "Scale" bottom: "conv2" top: "conv2" scale_param { bias_term: true } }
  layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
  layer { name: "side" type: "Convolution" bottom: "conv2" top: "side"
          convolution_param { num_output: 50 kernel_size: 1 weight_filler { type: "xavier" } } }
  layer { name: "relu_side" type: "ReLU" bottom: "side" top: "side" }
  layer { name: "sum" type: "Eltwise" bottom: "conv2" bottom: "side" top: "sum" }
  layer { name: "relu_sum" type: "ReLU" bottom: "sum" top: "sum" }
  layer { name: "pool2" type: "Pooling" bottom: "sum" top: "pool2"
          pooling_param { kernel_size: 2 stride: 2 } }
  layer { name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
          inner_product_param { num_output: 500 weight_filler { type: "xavier" } } }
  layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
  layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
          inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
  layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy" }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
)";

struct Training {
  std::vector<double> losses, params;
};

Training train(DeviceType device, DType dtype, const std::string& settings) {
  SolverParameter param;
  parse_text_proto(concat("base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.001 "
                          "max_iter: 10 snapshot_after_train: false ",
                          settings, " net_param { ", kNet, " }"),
                   "solver.prototxt", param);
  Context context({.device = {device, 0}});
  Solver solver(param, context, {.dtype = dtype});
  fill_inputs(solver.net(), 0, 1, 10);
  Training training;
  solver.on_iteration = [&](const IterationReport& report) {
    training.losses.push_back(report.loss);
  };
  solver.step(10);
  training.params = params_of(solver.net());
  return training;
}

TEST_F(Cuda, TrainsAsTheCpuDoes) {
  const auto compare = [](DType dtype, const std::string& settings, const Tolerance& tolerance) {
    SCOPED_TRACE(concat(to_string(dtype), " ", settings));
    const Training cpu = train(DeviceType::cpu, dtype, settings);
    const Training gpu = train(DeviceType::cuda, dtype, settings);
    expect_close(gpu.losses, cpu.losses, tolerance, "losses");
    expect_close(gpu.params, cpu.params, tolerance, "parameters");
  };
  compare(DType::f32, "iter_size: 2", {1e-3, 1e-3});
  compare(DType::f64, "iter_size: 2 clip_gradients: 0.1", {1e-8, 1e-8});
  compare(DType::f64, "regularization_type: 'L1'", {1e-8, 1e-8});
}

TEST_F(Cuda, FusedNetsComputeTheSame) {
  std::vector<double> losses, gradients[2];
  for (const bool fuse : {false, true}) {
    Net net(net_param(kNet), *context_, {.dtype = DType::f64, .fuse = fuse});
    fill_inputs(net, 0, 1, 10);
    net.clear_gradients();
    losses.push_back(net.forward());
    net.backward();
    gradients[fuse] = gradients_of(net);
    int fused = 0;
    for (const LayerSummary& layer : net.summary()) fused += !layer.fused_into.empty();
    EXPECT_EQ(fused, fuse ? 5 : 0);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-10);
  expect_close(gradients[1], gradients[0], {1e-10, 1e-10}, "gradients");
}

TEST_F(Cuda, NetsShareParametersWithinAContext) {
  const NetParameter param = net_param(kNet);
  Net owner(param, *context_);
  Net user(param, *context_, {.phase = Phase::test, .share_params_with = &owner});
  Context other({.device = {DeviceType::cuda, 0}}), cpu;
  for (Context* stranger : {&other, &cpu}) {
    expect_error([&] { Net(param, *stranger, {.share_params_with = &owner}); },
                 {"cannot share the parameters", "one context"});
  }
}

TEST_F(Cuda, CudnnRunsWhatItChose) {
  const LayerCase c{.layer = R"(layer { type: "Convolution" convolution_param {
                                num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } })",
                    .bottoms = {uniform({2, 3, 8, 8})}};
  LayerRun run(c, {.engine = "cudnn", .device = DeviceType::cuda});
  ASSERT_EQ(run.option().choice.size(), 3U) << "forward and both parts of backward";
  for (const std::string& choice : run.option().choice) {
    EXPECT_THAT(run.layer().engine()->detail(), HasSubstr(choice));
  }
}

TEST_F(Cuda, LossWeightsOfImagesAreSeeded) {
  Net net(net_param(R"(
            force_backward: true
            layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 5 } } }
            layer { name: "y" type: "Sigmoid" bottom: "x" top: "y" loss_weight: 0.5 })"),
          *context_);
  net.blob("x").data.fill(0);
  for (int pass = 0; pass < 2; ++pass) {
    net.forward();
    net.backward();
    EXPECT_THAT(values_of(net.blob("x").diff), Each(0.125));
  }
}

TEST_F(Cuda, Bf16NetsConvertOnTheDevice) {
  NetParameter param = net_param(kNet);
  Net exact(param, *context_);
  param.set_precision(NetParameter::BF16);
  Net rounded(param, *context_);
  int conversions = 0;
  for (const NetStep& step : rounded.steps()) {
    if (step.layer >= 0) continue;
    ++conversions;
    EXPECT_EQ(step.engine, "cuda") << step.name;
  }
  EXPECT_GT(conversions, 0);
  std::vector<double> losses;
  for (Net* net : {&exact, &rounded}) {
    fill_inputs(*net, 0, 1, 10);
    losses.push_back(net->forward());
    net->clear_gradients();
    net->backward();
  }
  EXPECT_NEAR(losses[1], losses[0], 0.05);
}

struct EngineCase {
  const char* name;
  const char* engine;
  LayerCase layer;
  Tolerance tolerance = {};
};

void PrintTo(const EngineCase& engine_case, std::ostream* out) { *out << engine_case.name; }

std::vector<EngineCase> engine_cases() {
  const Input images = uniform({2, 6, 7, 9});
  const auto of = [](const char* type, const std::string& settings = "") {
    return concat("layer { type: '", type, "' ", settings, " }");
  };
  const auto conv_of = [&](const char* type, const std::string& settings) {
    return of(type, concat("convolution_param { weight_filler { type: 'gaussian' std: 0.3 } "
                           "bias_filler { type: 'gaussian' std: 0.3 } ",
                           settings, " }"));
  };
  const auto conv = [&](const std::string& settings) { return conv_of("Convolution", settings); };
  const auto deconv = [&](const std::string& settings) {
    return conv_of("Deconvolution", settings);
  };
  const auto inner = [&](const std::string& settings) {
    return of("InnerProduct",
              concat("inner_product_param { num_output: 37 weight_filler { type: 'gaussian' std: "
                     "0.3 } bias_filler { type: 'gaussian' } ",
                     settings, " }"));
  };
  const auto pool = [&](const std::string& settings) {
    return of("Pooling", concat("pooling_param { ", settings, " }"));
  };
  const auto recurrent = [&](const char* type, const std::string& more) {
    return of(type, concat("recurrent_param { num_output: 37 weight_filler { type: 'gaussian' std: "
                           "0.3 } bias_filler { type: 'gaussian' } ",
                           more, " }"));
  };
  const std::vector<double> begins = {0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1};
  const std::string relu = of("ReLU");
  const Tolerance sums{1e-4, 1e-4};
  const Input queries = uniform({2, 70, 8}), keys = uniform({2, 45, 8}),
              values = uniform({2, 45, 6});
  // Recursions: labels of three sequences, and where these begin and end.
  const Input scores = uniform({40, 3, 37}, -3, 3);
  const Input ctc_labels = given({3, 5}, {1, 1, 7, 36, 2, 5, 9, -1, -1, -1, 3, 3, 3, 4, 4});
  std::vector<double> parts(120, 1), ends(120, 1);
  for (const size_t at : {0, 1, 2, 31, 62, 64}) parts[at] = 0;
  for (size_t at = 0; at < 120; ++at) ends[at] = at >= 3 && at < 45 + 30 * (at % 3) ? 1 : 0;
  const Input begins_of_parts = given({40, 3}, parts), ends_of_sequences = given({40, 3}, ends);
  const auto chain = [&](const char* type, const std::string& more) {
    return of(type, concat("crf_loss_param { transition_filler { type: 'gaussian' std: 2 } "
                           "boundary_term: true boundary_filler { type: 'gaussian' } } ",
                           more));
  };
  const auto mean_field = [&](const char* iterations) {
    return of("MultiStageMeanfield",
              concat("multi_stage_meanfield_param { theta_alpha: 3 theta_beta: 40 theta_gamma: 1.5 "
                     "spatial_filter_weight: 3 bilateral_filter_weight: 5 num_iterations: ",
                     iterations, " }"));
  };
  // Detectors: two priors, and a true box in each of two images.
  const Input priors = given({1, 2, 8}, {0.1, 0.1, 0.4, 0.4, 0.5, 0.5, 0.9, 0.9,  //
                                         0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2});
  const Input truths = given({1, 1, 2, 8}, {0, 1, 0, 0.52, 0.5, 0.85, 0.9, 0,  //
                                            1, 2, 0, 0.12, 0.1, 0.42, 0.4, 0});
  const auto multibox = [&](const std::string& more) {
    return LayerCase{
        .layer = of("MultiBoxLoss", concat("multibox_loss_param { num_classes: 3 ", more, " }")),
        .bottoms = {uniform({2, 8}), uniform({2, 6}), priors, truths}};
  };
  return {
      {"relu", "cuda", {.layer = relu, .bottoms = {images}}},
      {"relu_leaky",
       "cuda",
       {.layer = of("ReLU", "relu_param { negative_slope: 0.1 }"), .bottoms = {images}}},
      {"relu_negative_slope",
       "cuda",
       {.layer = of("ReLU", "relu_param { negative_slope: -0.5 }"), .bottoms = {images}}},
      {"sigmoid", "cuda", {.layer = of("Sigmoid"), .bottoms = {images}}},
      {"tanh", "cuda", {.layer = of("TanH"), .bottoms = {images}}},
      {"absval", "cuda", {.layer = of("AbsVal"), .bottoms = {images}}},
      {"bnll", "cuda", {.layer = of("BNLL"), .bottoms = {images}}},
      {"clip",
       "cuda",
       {.layer = of("Clip", "clip_param { min: -0.3 max: 0.6 }"), .bottoms = {images}}},
      {"elu",
       "cuda",
       {.layer = of("ELU", "elu_param { alpha: 0.7 lambda: 1.2 }"), .bottoms = {images}}},
      {"elu_negative",
       "cuda",
       {.layer = of("ELU", "elu_param { alpha: -0.7 }"), .bottoms = {images}}},
      {"exp",
       "cuda",
       {.layer = of("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }"), .bottoms = {images}}},
      {"log",
       "cuda",
       {.layer = of("Log", "log_param { base: 10 scale: 0.5 shift: 4 }"), .bottoms = {images}}},
      {"lstm",
       "cuda",
       {.layer = recurrent("LSTM", ""),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({3, 2})}},
       sums},
      {"lstm_exposed",
       "cuda",
       {.layer = recurrent("LSTM", "expose_hidden: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({1, 3, 37}),
                    uniform({1, 3, 37})},
        .tops = 3},
       sums},
      {"lstm_bidirectional",
       "cuda",
       {.layer = recurrent("LSTM", "bidirectional: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({3, 2})}},
       sums},
      {"gru",
       "cuda",
       {.layer = recurrent("GRU", "expose_hidden: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({1, 3, 37})},
        .tops = 2},
       sums},
      {"gru_reset_first",
       "cuda",
       {.layer = recurrent("GRU", "linear_before_reset: false bidirectional: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({3, 2})}},
       sums},
      {"lstm_unit",
       "cuda",
       {.layer = of("LSTMUnit"),
        .bottoms = {uniform({1, 3, 37}), uniform({1, 3, 148}), given({1, 3}, {1, 0, 1})},
        .tops = 2}},
      {"power_square",
       "cuda",
       {.layer = of("Power", "power_param { power: 2 scale: 0.5 shift: 1 }"), .bottoms = {images}}},
      {"power",
       "cuda",
       {.layer = of("Power", "power_param { power: 2.5 scale: 0.5 shift: 4 }"),
        .bottoms = {images}}},
      {"rnn",
       "cuda",
       {.layer = recurrent("RNN", ""),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({3, 2})}},
       sums},
      {"rnn_bidirectional",
       "cuda",
       {.layer = recurrent("RNN", "bidirectional: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins)}},
       sums},
      {"rnn_exposed",
       "cuda",
       {.layer = recurrent("RNN", "expose_hidden: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({1, 3, 37})},
        .tops = 2},
       sums},
      {"swish", "cuda", {.layer = of("Swish", "swish_param { beta: 1.5 }"), .bottoms = {images}}},
      {"dropout", "cuda", {.layer = of("Dropout"), .bottoms = {images}}},
      {"dropout_test", "cuda", {.layer = of("Dropout"), .bottoms = {images}, .phase = Phase::test}},
      {"eltwise_sum",
       "cuda",
       {.layer = of("Eltwise", "eltwise_param { coeff: 2 coeff: -1 coeff: 0.5 }"),
        .bottoms = {images, images, images}}},
      {"eltwise_sum_relu",
       "cuda",
       {.layer = of("Eltwise"), .bottoms = {images, images}, .tail = {relu}}},
      {"eltwise_product",
       "cuda",
       {.layer = of("Eltwise", "eltwise_param { operation: PROD }"),
        .bottoms = {images, images, images}}},
      {"eltwise_quotient",
       "cuda",
       {.layer = of("Eltwise", "eltwise_param { operation: PROD stable_prod_grad: false }"),
        .bottoms = {uniform({2, 6, 7}, 1, 2), uniform({2, 6, 7}, 1, 2)}}},
      {"eltwise_maximum",
       "cuda",
       {.layer = of("Eltwise", "eltwise_param { operation: MAX }"), .bottoms = {images, images}}},
      {"concat_channels",
       "cuda",
       {.layer = of("Concat"), .bottoms = {images, uniform({2, 3, 7, 9})}}},
      {"concat_batch",
       "cuda",
       {.layer = of("Concat", "concat_param { axis: 0 }"), .bottoms = {images, images}}},
      {"flatten", "cuda", {.layer = of("Flatten"), .bottoms = {images}}},
      {"split", "cuda", {.layer = of("Split"), .bottoms = {images}, .tops = 3}},
      {"softmax", "cuda", {.layer = of("Softmax"), .bottoms = {uniform({5, 100}, -5, 5)}}},
      {"softmax_images",
       "cuda",
       {.layer = of("Softmax"), .bottoms = {uniform({2, 6, 7, 9}, -5, 5)}}},
      {"softmax_loss",
       "cuda",
       {.layer = of("SoftmaxWithLoss"), .bottoms = {uniform({70, 100}), labels({70}, 100)}}},
      {"softmax_loss_images",
       "cuda",
       {.layer = of("SoftmaxWithLoss",
                    "loss_param { ignore_label: 2 label_smoothing: 0.1 normalization: VALID }"),
        .bottoms = {images, labels({2, 1, 7, 9}, 6)},
        .tops = 2}},
      {"euclidean_loss",
       "cuda",
       {.layer = of("EuclideanLoss"), .bottoms = {uniform({9, 1000}), uniform({9, 1000})}}},
      {"contrastive_loss",
       "cuda",
       {.layer = of("ContrastiveLoss", "contrastive_loss_param { margin: 20 }"),
        .bottoms = {uniform({9, 500}), uniform({9, 500}), labels({9}, 2)}}},
      {"contrastive_loss_legacy",
       "cuda",
       {.layer =
            of("ContrastiveLoss", "contrastive_loss_param { margin: 350 legacy_version: true }"),
        .bottoms = {uniform({9, 500}), uniform({9, 500}), labels({9}, 2)}}},
      {"hinge_loss",
       "cuda",
       {.layer = of("HingeLoss"), .bottoms = {uniform({70, 100}, -2, 2), labels({70}, 100)}}},
      {"hinge_loss_squared",
       "cuda",
       {.layer = of("HingeLoss", "hinge_loss_param { norm: L2 } loss_param { ignore_label: 2 }"),
        .bottoms = {uniform({70, 100}, -2, 2), labels({70}, 100)}}},
      {"infogain_loss",
       "cuda",
       {.layer = of("InfogainLoss"),
        .bottoms = {uniform({70, 100}, -2, 2), labels({70}, 100), uniform({100, 100})}},
       sums},
      {"infogain_loss_images",
       "cuda",
       {.layer = of("InfogainLoss", "loss_param { ignore_label: 2 }"),
        .bottoms = {images, labels({2, 1, 7, 9}, 6), uniform({6, 6})},
        .tops = 2},
       sums},
      {"multinomial_logistic_loss",
       "cuda",
       {.layer = of("MultinomialLogisticLoss"),
        .bottoms = {uniform({70, 100}, 0.1, 1), labels({70}, 100)}}},
      {"sigmoid_cross_entropy_loss",
       "cuda",
       {.layer = of("SigmoidCrossEntropyLoss"),
        .bottoms = {uniform({70, 100}, -9, 9), uniform({70, 100})}}},
      {"sigmoid_cross_entropy_loss_valid",
       "cuda",
       {.layer =
            of("SigmoidCrossEntropyLoss", "loss_param { ignore_label: 1 normalization: VALID }"),
        .bottoms = {uniform({70, 100}, -9, 9), labels({70, 100}, 3)}}},
      {"inner_product", "cuda", {.layer = inner(""), .bottoms = {images}}, sums},
      {"inner_product_transposed",
       "cuda",
       {.layer = inner("transpose: true"), .bottoms = {images}, .tail = {relu}},
       sums},
      {"inner_product_relu",
       "cuda",
       {.layer = inner(""), .bottoms = {images}, .tail = {relu}},
       sums},
      {"inner_product_plain",
       "cuda",
       {.layer = inner("bias_term: false"), .bottoms = {images}},
       sums},
      {"scale",
       "cuda",
       {.layer = of("Scale", "scale_param { bias_term: true filler { type: 'gaussian' } }"),
        .bottoms = {images}},
       sums},
      {"scale_by_bottom",
       "cuda",
       {.layer = of("Scale", "scale_param { axis: 0 }"), .bottoms = {images, uniform({2, 6})}},
       sums},
      {"batch_norm", "cuda", {.layer = of("BatchNorm"), .bottoms = {images}}, sums},
      {"batch_norm_flat", "cuda", {.layer = of("BatchNorm"), .bottoms = {uniform({50, 7})}}, sums},
      {"batch_norm_stored",
       "cuda",
       {.layer = of("BatchNorm", "batch_norm_param { use_global_stats: true }"),
        .bottoms = {images},
        .params = {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {2}}},
       sums},
      {"batch_norm_scaled",
       "cuda",
       {.layer = of("BatchNorm", "batch_norm_param { scale_bias: true relu: true }"),
        .bottoms = {images}},
       sums},
      {"batch_norm_fused",
       "cuda",
       {.layer = of("BatchNorm", "batch_norm_param { scale_bias: true }"),
        .bottoms = {images},
        .tail = {relu}},
       sums},
      {"argmax",
       "cuda",
       {.layer = of("ArgMax", "argmax_param { top_k: 3 out_max_val: true }"), .bottoms = {images}}},
      {"argmax_axis",
       "cuda",
       {.layer = of("ArgMax", "argmax_param { axis: 1 }"), .bottoms = {images}}},
      {"batch_reindex", "cuda", {.layer = of("BatchReindex"), .bottoms = {images, labels({7}, 2)}}},
      {"bias",
       "cuda",
       {.layer = of("Bias", "bias_param { filler { type: 'gaussian' } }"), .bottoms = {images}},
       sums},
      {"bias_by_bottom",
       "cuda",
       {.layer = of("Bias", "bias_param { axis: 0 }"), .bottoms = {images, uniform({2, 6})}},
       sums},
      {"crop",
       "cuda",
       {.layer = of("Crop", "crop_param { axis: 1 offset: 1 }"),
        .bottoms = {images, uniform({1, 4, 5, 6})}}},
      {"embed",
       "cuda",
       {.layer = of("Embed",
                    "embed_param { input_dim: 7 num_output: 300 weight_filler { type: 'gaussian' } "
                    "bias_filler { type: 'gaussian' } }"),
        .bottoms = {labels({9, 40}, 7)}},
       sums},
      {"filter",
       "cuda",
       {.layer = of("Filter"),
        .bottoms = {uniform({4, 6, 7, 9}), uniform({4}), given({4}, {0, 1, 1, 0})},
        .tops = 2}},
      {"parameter",
       "cuda",
       {.layer = of("Parameter", "parameter_param { shape { dim: 5 dim: 7 } }")}},
      {"reduction_sum", "cuda", {.layer = of("Reduction"), .bottoms = {images}}, sums},
      {"reduction_rows",
       "cuda",
       {.layer = of("Reduction", "reduction_param { operation: ASUM axis: 2 coeff: 0.5 }"),
        .bottoms = {images}},
       sums},
      {"reduction_mean",
       "cuda",
       {.layer = of("Reduction", "reduction_param { operation: MEAN axis: -1 }"),
        .bottoms = {images}},
       sums},
      {"reduction_long",
       "cuda",
       {.layer = of("Reduction", "reduction_param { operation: SUMSQ axis: 1 }"),
        .bottoms = {uniform({2, 70001})}},
       sums},
      {"reshape",
       "cuda",
       {.layer = of("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }"), .bottoms = {images}}},
      {"tile", "cuda", {.layer = of("Tile", "tile_param { tiles: 3 }"), .bottoms = {images}}},
      {"tile_last",
       "cuda",
       {.layer = of("Tile", "tile_param { axis: 3 tiles: 5 }"), .bottoms = {images}}},
      {"lrn", "cuda", {.layer = of("LRN", "lrn_param { alpha: 2 }"), .bottoms = {images}}, sums},
      {"lrn_within",
       "cuda",
       {.layer = of("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 2 }"),
        .bottoms = {images}},
       sums},
      {"mvn", "cuda", {.layer = of("MVN"), .bottoms = {images}}},
      {"mvn_across",
       "cuda",
       {.layer = of("MVN", "mvn_param { across_channels: true eps: 0.5 }"), .bottoms = {images}}},
      {"mvn_mean",
       "cuda",
       {.layer = of("MVN", "mvn_param { normalize_variance: false }"), .bottoms = {images}}},
      {"pooling_max",
       "cuda",
       {.layer = pool("kernel_size: 3 stride: 2 pad: 1"), .bottoms = {images}, .tops = 2}},
      {"pooling_average",
       "cuda",
       {.layer = pool("pool: AVE kernel_size: 3 stride: 2 pad: 1"), .bottoms = {images}}},
      {"pooling_global",
       "cuda",
       {.layer = pool("pool: AVE global_pooling: true"), .bottoms = {images}}},
      {"pooling_stochastic",
       "cuda",
       {.layer = pool("pool: STOCHASTIC kernel_size: 3 stride: 2"),
        .bottoms = {uniform({2, 6, 7, 9}, 0, 1)}}},
      {"pooling_stochastic_test",
       "cuda",
       {.layer = pool("pool: STOCHASTIC kernel_size: 3 stride: 2"),
        .bottoms = {uniform({2, 6, 7, 9}, 0.1, 1)},
        .phase = Phase::test}},
      {"pooling_volumes",
       "cuda",
       {.layer = pool("kernel_size: 3 stride: 2 pad: 1"),
        .bottoms = {uniform({2, 3, 5, 6, 7})},
        .tops = 2}},
      {"pooling_volumes_average",
       "cuda",
       {.layer = pool("pool: AVE kernel_size: 3 stride: 2"),
        .bottoms = {uniform({2, 3, 5, 6, 7})}}},
      {"prelu",
       "cuda",
       {.layer = of("PReLU", "prelu_param { filler { type: 'uniform' min: -1 max: 1 } }"),
        .bottoms = {images}},
       sums},
      {"prelu_shared",
       "cuda",
       {.layer = of("PReLU", "prelu_param { channel_shared: true }"), .bottoms = {images}},
       sums},
      {"spp", "cuda", {.layer = of("SPP", "spp_param { pyramid_height: 3 }"), .bottoms = {images}}},
      {"spp_average",
       "cuda",
       {.layer = of("SPP", "spp_param { pool: AVE pyramid_height: 2 }"), .bottoms = {images}}},
      {"attention",
       "cuda",
       {.layer = of("Attention", "attention_param { num_heads: 2 }"),
        .bottoms = {queries, keys, values, labels({2, 45}, 2)}},
       sums},
      {"attention_causal",
       "cuda",
       {.layer =
            of("Attention", "attention_param { num_heads: 2 causal: true dropout_ratio: 0.3 }"),
        .bottoms = {queries, keys, values}},
       sums},
      {"bn",
       "cuda",
       {.layer = of("BN", "bn_param { slope_filler { type: 'gaussian' std: 1 } }"),
        .bottoms = {images}},
       sums},
      {"bn_inference",
       "cuda",
       {.layer = of("BN", "bn_param { bn_mode: INFERENCE scale_filler { value: 2 } }"),
        .bottoms = {images}},
       sums},
      {"center_loss",
       "cuda",
       {.layer = of("CenterLoss",
                    "center_loss_param { num_output: 7 center_filler { type: "
                    "'gaussian' std: 1 } }"),
        .bottoms = {uniform({9, 40}), labels({9}, 7)}},
       sums},
      {"crf_loss",
       "cuda",
       {.layer = chain("CRFLoss", ""), .bottoms = {scores, labels({40, 3}, 37)}, .tops = 2},
       sums},
      {"crf_loss_parts",
       "cuda",
       {.layer = chain("CRFLoss", "loss_param { ignore_label: 4 }"),
        .bottoms = {scores, labels({40, 3}, 37), begins_of_parts},
        .tops = 2},
       sums},
      {"crf_loss_far",
       "cuda",
       {.layer = of("CRFLoss"),
        .bottoms = {given({2, 1, 2}, {0, -3000, -20000, 0}), given({2, 1}, {1, 1})},
        .params = {{0, -5000, -1000, -4000}}},
       sums},
      {"crf_decoder",
       "cuda",
       {.layer = chain("CRFDecoder", ""), .bottoms = {scores, begins_of_parts}}},
      {"ctc_loss", "cuda", {.layer = of("CTCLoss"), .bottoms = {scores, ctc_labels}}, sums},
      {"ctc_loss_not_merged",
       "cuda",
       {.layer = of("WarpCTCLoss", "ctc_loss_param { ctc_merge_repeated: false output_delay: 2 }"),
        .bottoms = {scores, ctc_labels}},
       sums},
      {"ctc_loss_indicators",
       "cuda",
       {.layer = of("CTCLoss"),
        .bottoms = {scores, ends_of_sequences, given({2, 3}, {1, 5, 3, 1, -1, 0})}},
       sums},
      // More states and classes than a block has threads.
      {"ctc_loss_long",
       "cuda",
       {.layer = of("CTCLoss"), .bottoms = {uniform({330, 2, 5}, -3, 3), labels({2, 150}, 4)}},
       sums},
      {"crf_loss_wide",
       "cuda",
       {.layer = chain("CRFLoss", ""),
        .bottoms = {uniform({4, 2, 300}, -3, 3), labels({4, 2}, 300)},
        .tops = 2},
       sums},
      {"ctc_greedy_decoder",
       "cuda",
       {.layer = of("CTCGreedyDecoder"),
        .bottoms = {labels({700, 3, 3}, 2), labels({700, 3}, 2), labels({4, 3}, 2)},
        .tops = 3},
       sums},
      {"dice_loss",
       "cuda",
       {.layer = of("DiceLoss", "dice_loss_param { per_channel: true }"),
        .bottoms = {uniform({2, 6, 7, 9}, 0, 1), labels({2, 6, 7, 9}, 2)}},
       sums},
      {"locally_connected",
       "cuda",
       {.layer = of("LocallyConnected",
                    "local_param { num_output: 3 kernel_size: 3 stride: 2 pad: "
                    "1 weight_filler { type: 'xavier' } }"),
        .bottoms = {images}},
       sums},
      {"mean_field",
       "cuda",
       {.layer = mean_field("1"),
        .bottoms = {uniform({2, 3, 14, 15}, -2, 2), uniform({2, 3, 14, 15}, -2, 2),
                    labels({2, 3, 14, 15}, 200)}},
       sums},
      {"mean_field_three",
       "cuda",
       {.layer = mean_field("3"),
        .bottoms = {uniform({2, 3, 14, 15}, -2, 2), uniform({2, 3, 14, 15}, -2, 2),
                    labels({2, 3, 14, 15}, 200)}},
       sums},
      {"multibox_loss", "cuda", multibox(""), sums},
      {"multibox_loss_logistic", "cuda", multibox("conf_loss_type: LOGISTIC mining_type: NONE"),
       sums},
      {"noise", "cuda", {.layer = of("Noise", "noise_param { std: 0.3 }"), .bottoms = {images}}},
      {"noise_range",
       "cuda",
       {.layer = of("Noise", "noise_param { std: 0.2 relative_to: RANGE }"), .bottoms = {images}}},
      {"proposal",
       "cuda",
       {.layer = of("Proposal", "proposal_param { scale: 2 scale: 4 min_size: 3 }"),
        .bottoms = {uniform({2, 12, 4, 5}, 0, 1), uniform({2, 24, 4, 5}, -0.3, 0.3),
                    given({2, 3}, {64, 80, 1, 60, 70, 1})},
        .tops = 2}},
      {"region_loss",
       "cuda",
       {.layer = of("RegionLoss",
                    "region_loss_param { num_class: 2 num: 2 biases: 1 biases: 1 "
                    "biases: 0.5 biases: 1.5 rescore: 1 }"),
        .bottoms = {uniform({2, 14, 3, 4}), truths}},
       sums},
      {"spatial_transformer",
       "cuda",
       {.layer = of("SpatialTransformer"),
        .bottoms = {images, given({2, 6}, {0.8137, 0.3119, 0.1093, -0.2071, 1.1213, -0.1531, 1.3067,
                                           -0.4129, 0.2011, 0.5077, 0.6173, 0.3037})}},
       sums},
      {"convolution",
       "cudnn",
       {.layer = conv("num_output: 8 kernel_size: 3 stride: 2 pad: 1"), .bottoms = {images}},
       sums},
      {"convolution_relu",
       "cudnn",
       {.layer = conv("num_output: 8 kernel_size: 1"), .bottoms = {images}, .tail = {relu}},
       sums},
      {"convolution_groups",
       "cudnn",
       {.layer = conv("num_output: 6 kernel_size: 3 group: 3 dilation: 2 bias_term: false"),
        .bottoms = {images}},
       sums},
      {"convolution_two_images",
       "cudnn",
       {.layer = conv("num_output: 4 kernel_h: 2 kernel_w: 5"),
        .bottoms = {images, images},
        .tops = 2},
       sums},
      {"convolution_1d",
       "cudnn",
       {.layer = conv("num_output: 4 kernel_size: 3"), .bottoms = {uniform({2, 3, 11})}},
       sums},
      {"convolution_3d",
       "cudnn",
       {.layer = conv("num_output: 4 kernel_size: 3 pad: 1"),
        .bottoms = {uniform({2, 3, 4, 5, 6})}},
       sums},
      {"deconvolution",
       "cudnn",
       {.layer = deconv("num_output: 8 kernel_size: 4 stride: 2 pad: 1"), .bottoms = {images}},
       sums},
      {"deconvolution_relu_groups",
       "cudnn",
       {.layer = deconv("num_output: 6 kernel_size: 3 group: 3"),
        .bottoms = {images},
        .tail = {relu}},
       sums},
  };
}

class CudaEngine : public testing::TestWithParam<EngineCase> {};

TEST_P(CudaEngine, AgreesWithTheReference) {
  const std::string why = test::why_no_device();
  if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
  const EngineCase& c = GetParam();
  const std::vector<std::string> ran = check_engines(c.layer, c.tolerance, {}, DeviceType::cuda);
  EXPECT_THAT(ran, Contains(concat(c.engine, " contiguous")));
  EXPECT_THAT(ran, Contains(concat(c.engine, " contiguous f64")));
}

INSTANTIATE_TEST_SUITE_P(Rooms, CudaEngine, testing::ValuesIn(engine_cases()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace crema::test
