// Nets and training on a CUDA device.
#include <algorithm>
#include <cmath>

#include "backend/cuda_test.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::Each;

// LeNet with all that nets have beside: fusions, a normalization, a layer that runs on the CPU.
constexpr const char* kNet = R"(
  layer { name: "data" type: "Input" top: "data" top: "label"
          input_param { shape { dim: 8 dim: 1 dim: 28 dim: 28 } shape { dim: 8 } } }
  layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 }
          param { lr_mult: 2 decay_mult: 0 }
          convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
  layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
          pooling_param { kernel_size: 2 stride: 2 } engine: "reference" }
  layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2" param { lr_mult: 1 }
          param { lr_mult: 1 decay_mult: 0 }
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
  parse_text_proto(text("base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.001 "
                        "max_iter: 10 snapshot_after_train: false ",
                        settings, " net_param { math: STRICT ", kNet, " }"),
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
    SCOPED_TRACE(text(to_string(dtype), " ", settings));
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

TEST_F(Cuda, ChainsOfPointwiseLayersAreThoseLayers) {
  // Of 5250 values, no whole number of packs.
  std::string layers = R"(
    layer { name: 'x' type: 'Input' top: 'x' top: 'y'
            input_param { shape { dim: 6 dim: 7 dim: 5 dim: 25 } } }
    layer { name: 'a' type: 'Scale' bottom: 'x' top: 'a' scale_param { bias_term: true } }
    layer { name: 'b' type: 'Scale' bottom: 'x' top: 'b' scale_param { bias_term: true } }
    layer { name: 's' type: 'Sigmoid' bottom: 'a' top: 's' }
    layer { name: 'd' type: 'Dropout' bottom: 's' top: 'd' }
    layer { name: 'e' type: 'Eltwise' bottom: 'd' bottom: 'b' top: 'e'
            eltwise_param { coeff: 0.5 coeff: -2 } }
    layer { name: 't' type: 'TanH' bottom: 'e' top: 't' }
    layer { name: 'w' type: 'Eltwise' bottom: 't' bottom: 'b' top: 'w'
            eltwise_param { operation: PROD } }
    layer { name: 'u' type: 'Scale' bottom: 'w' top: 'u' })";
  // Each kind behind another layer, and a sum with what the first one reads.
  const std::vector<std::string> types = {"AbsVal", "BNLL",        "ELU",       "Exp",
                                          "GELU",   "HardSigmoid", "HardSwish", "Mish",
                                          "ReLU6",  "Swish",       "Sigmoid"};
  std::string last = "u";
  for (size_t i = 0; i < types.size(); ++i) {
    layers += text("layer { name: 'p", i, "' type: 'Power' bottom: '", last, "' top: 'p", i,
                   "' power_param { power: 2 scale: 0.5 shift: 0.2 } } layer { name: 'f", i,
                   "' type: '", types[i], "' bottom: 'p", i, "' top: 'f", i, "' } layer { name: 'm",
                   i, "' type: 'Eltwise' bottom: '", last, "' bottom: 'f", i, "' top: 'm", i,
                   "' eltwise_param { coeff: 0.5 coeff: 0.5 } } layer { name: 'n", i,
                   "' type: 'Scale' bottom: 'm", i, "' top: 'n", i, "' } ");
    last = text("n", i);
  }
  layers += text("layer { name: 'loss' type: 'EuclideanLoss' bottom: '", last,
                 "' bottom: 'y' top: 'loss' }");
  struct Bound {
    const char* precision;
    double bound;
  };
  // In f32, what one kernel and several contract to a multiply-add may differ. In bf16, layers
  // alone round each value between them. Terms of a sum may cancel: errors are those of the largest
  // gradient. Several passes: records of them run the kernel with new keys of Dropout.
  constexpr int kPasses = 4;
  for (const auto& [precision, bound] : {Bound{"F32", 1e-5}, Bound{"BF16", 0.05}}) {
    SCOPED_TRACE(precision);
    const NetParameter param = net_param(text("precision: ", precision, layers));
    std::vector<double> losses[2];
    std::vector<std::vector<double>> gradients[2];
    for (const bool fuse : {false, true}) {
      Net net(param, *context_, {.phase = Phase::train, .fuse = fuse});
      size_t chains = 0;
      for (const NetStep& step : net.steps()) chains += step.detail.rfind("as one: ", 0) == 0;
      EXPECT_EQ(chains, fuse ? types.size() + 1 : 0);
      fill_inputs(net);
      for (int pass = 0; pass < kPasses; ++pass) {
        net.clear_gradients();
        losses[fuse].push_back(net.forward());
        net.backward();
        gradients[fuse].push_back(gradients_of(net));
      }
    }
    for (size_t pass = 0; pass < kPasses; ++pass) {
      EXPECT_NEAR(losses[1][pass], losses[0][pass], bound * std::abs(losses[0][pass]));
      double most = 0;
      for (const double value : gradients[0][pass]) most = std::max(most, std::abs(value));
      expect_close(gradients[1][pass], gradients[0][pass], {bound * most, bound},
                   text("gradients of pass ", pass));
    }
    EXPECT_NE(losses[1][1], losses[1][0]) << "the same mask again";
    EXPECT_NE(losses[1][kPasses - 1], losses[1][kPasses - 2]) << "the same mask again";
  }
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

}  // namespace
}  // namespace crema::test
