// CUDA engines agree with the reference, on the cases of the other files, and what else they do.
#include <cmath>

#include "backend/cuda_test.hpp"

namespace crema::test {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;

/// The name of the option (name_of) that a case is to have in a type.
std::string contiguous(DType dtype) { return to_string(Layout{dtype, Format::contiguous}); }

TEST_P(CudaEngine, AgreesWithTheReference) {
  const std::string why = why_no_device();
  if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
  const EngineCase& c = GetParam();
  const std::vector<std::string> ran = check_engines(c.layer, c.tolerance, {}, DeviceType::cuda);
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_THAT(ran, Contains(text(c.engine, " ", contiguous(dtype))));
  }
}

// On any machine: the reference has the options that a device is to have.
TEST_P(CudaEngine, CasesRunContiguousInBothTypes) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const LayerRun run(GetParam().layer, {.dtype = dtype, .engine = "reference"});
    std::vector<std::string> names;
    for (const Option& option : run.options()) names.push_back(name_of(option));
    EXPECT_THAT(names, Contains(contiguous(dtype)));
  }
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
  for (int i = 0; i < 2; ++i) expect_close(gpu.top(i), cpu.top(i), {1e-6, 1e-6}, text("top ", i));
}

TEST_F(Cuda, CudnnRunsWhatItChose) {
  const LayerCase c{.layer = R"(layer { type: "Convolution" convolution_param {
                                num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } })",
                    .bottoms = {uniform({2, 3, 8, 8})}};
  LayerRun run(c, {.engine = "cudnn", .device = DeviceType::cuda});
  ASSERT_EQ(run.option().choice.size(), 3U) << "forward and both parts of backward";
  for (const std::string& choice : run.option().choice) {
    EXPECT_THAT(run.kernel().detail(), HasSubstr(choice));
  }
}

}  // namespace
}  // namespace crema::test
