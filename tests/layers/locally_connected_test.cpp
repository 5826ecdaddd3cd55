// Values: the cases local* of tests/golden/torch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

std::string layer(const std::string& settings, const std::string& type = "LocallyConnected") {
  return text("layer { type: '", type, "' local_param { ", settings,
              " weight_filler { type: 'uniform' min: -1 max: 1 }",
              " bias_filler { type: 'uniform' min: -1 max: 1 } } }");
}

TEST(LocallyConnected, GradientsAndEngines) {
  for (const std::string settings :
       {"num_output: 3 kernel_size: 2", "num_output: 2 kernel_size: 3 stride: 2 pad: 2",
        "num_output: 1 kernel_h: 1 kernel_w: 4 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 3",
        "num_output: 2 kernel_size: 1 bias_term: false"}) {
    SCOPED_TRACE(settings);
    const LayerCase c{.layer = layer(settings), .bottoms = {uniform({3, 2, 4, 5})}};
    check_gradients(c);
    check_engines(c);
  }
  check_gradients({.layer = layer("num_output: 3 kernel_size: 2", "Local"),
                   .bottoms = {uniform({1, 1, 3, 3})}});
}

// Tiles have 64 positions and 16 taps, or 512 positions and 8 taps, up to 8 samples and 2 outputs.
TEST(LocallyConnected, SizesThatFillNoTile) {
  for (const Shape& shape :
       {Shape{1, 1, 11, 13}, Shape{15, 9, 12, 7}, Shape{8, 3, 5, 40}, Shape{3, 2, 31, 37}}) {
    for (const std::string settings :
         {"num_output: 5 kernel_size: 3 pad: 1", "num_output: 2 kernel_size: 5 stride: 2"}) {
      const LayerCase c{.layer = layer(settings), .bottoms = {uniform(shape)}};
      for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
        SCOPED_TRACE(text(shape.str(), " ", settings, " ", to_string(level)));
        const SimdLimit limit(level);
        check_engines(c);
      }
    }
  }
}

/// With the same weights at all positions it is a convolution, whose gradients are sums over them.
TEST(LocallyConnected, EqualWeightsAreAConvolution) {
  for (const Shape& shape : {Shape{3, 4, 9, 10}, Shape{3, 2, 70, 66}}) {
    const Input x = uniform(shape);
    const std::string settings = "num_output: 19 kernel_size: 3 stride: 2 pad: 1";
    LayerCase convolution{
        .layer = text("layer { type: 'Convolution' convolution_param { ", settings,
                      " weight_filler { type: 'uniform' min: -1 max: 1 } } }"),
        .bottoms = {x}};
    LayerRun expected(convolution, {.dtype = DType::f64});
    expected.forward();
    const std::vector<double> kernel = expected.param(0);
    const auto positions = static_cast<size_t>((shape[2] + 1) / 2 * ((shape[3] + 1) / 2));
    LayerCase local{.layer = layer(settings), .bottoms = {x}, .params = {{}, {}}};
    for (const double w : kernel) local.params[0].insert(local.params[0].end(), positions, w);
    local.params[1].assign(19 * positions, 0.0);
    LayerRun run(local, {.dtype = DType::f64});
    run.forward();
    expect_close(run.top(0), expected.top(0), {1e-12, 1e-12}, "top");
    std::vector<double> diff(run.top(0).size());
    for (size_t i = 0; i < diff.size(); ++i) diff[i] = std::sin(static_cast<double>(i));
    for (LayerRun* one : {&expected, &run}) {
      one->set_top_diff(0, diff);
      one->backward();
    }
    expect_close(run.bottom_diff(0), expected.bottom_diff(0), {1e-11, 1e-11}, "bottom");
    std::vector<double> sums(kernel.size());
    const std::vector<double> each = run.gradient(0);
    for (size_t i = 0; i < each.size(); ++i) sums[i / positions] += each[i];
    expect_close(sums, expected.gradient(0), {1e-11, 1e-11}, "weights");
  }
}

TEST(LocallyConnected, ResultsDoNotDependOnThreads) {
  const auto results = [](int threads) {
    const ThreadScope scope(threads);
    LayerRun run(
        {.layer = layer("num_output: 5 kernel_size: 3"), .bottoms = {uniform({11, 3, 14, 15})}});
    run.forward();
    run.backward();
    return std::vector<std::vector<double>>{run.top(0), run.bottom_diff(0), run.gradient(0),
                                            run.gradient(1)};
  };
  const auto one = results(1);
  EXPECT_EQ(results(2), one);
  EXPECT_EQ(results(3), one);
}

TEST(LocallyConnected, EmptyBatch) {
  LayerRun run(
      {.layer = layer("num_output: 2 kernel_size: 2"), .bottoms = {uniform({0, 2, 3, 4})}});
  run.forward();
  run.backward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 2, 2, 3}));
  EXPECT_THAT(run.gradient(0), testing::Each(0));
  EXPECT_THAT(run.gradient(1), testing::Each(0));
}

TEST(LocallyConnected, TakesWeightsInOtherShapesOfTheSameOrder) {
  LayerRun run(
      {.layer = layer("num_output: 2 kernel_size: 2"), .bottoms = {uniform({1, 3, 3, 4})}});
  std::vector<Tensor> published;
  published.emplace_back(Shape{2, 3, 4, 6}, DType::f32);  // taps by channel
  published.emplace_back(Shape{2, 6}, DType::f32);
  EXPECT_TRUE(run.layer().convert_weights(published));
  EXPECT_EQ(published[0].shape(), (Shape{2, 1, 12, 6}));
  EXPECT_EQ(published[1].shape(), (Shape{1, 1, 2, 6}));
  published[0] = Tensor(Shape{2, 3, 2, 2}, DType::f32);  // those of a convolution
  EXPECT_FALSE(run.layer().convert_weights(published));
}

TEST(LocallyConnected, Refuses) {
  const auto refuses = [](const std::string& settings, const Shape& x,
                          std::initializer_list<std::string_view> parts) {
    expect_error([&] { LayerRun({.layer = layer(settings), .bottoms = {uniform(x)}}); }, parts);
  };
  const Shape fits{1, 2, 4, 5};
  refuses("kernel_size: 3", fits, {"num_output"});
  refuses("num_output: 2", fits, {"kernel_size"});
  refuses("num_output: 2 kernel_h: 2", fits, {"kernel_w", "missing"});
  refuses("num_output: 2 kernel_size: 2 kernel_h: 2 kernel_w: 2", fits, {"kernel_size", "both"});
  refuses("num_output: 2 kernel_size: 2 stride: 0", fits, {"stride"});
  refuses("num_output: 2 kernel_size: 5", fits, {"kernel_h 5", "padded input 4"});
  refuses("num_output: 2 kernel_size: 2", {2, 4, 5}, {"bottom0", "2x4x5"});
  LayerRun run({.layer = layer("num_output: 2 kernel_size: 2"), .bottoms = {uniform(fits)}});
  expect_error(
      [&] {
        run.reshape({uniform({1, 2, 5, 5})});
      },
      {"1x2x5x5", "16 positions", "one size of images"});
  // As many positions, but in other rows.
  expect_error([&] { run.reshape({uniform({1, 2, 5, 4})}); }, {"1x2x5x4", "one size of images"});
}

}  // namespace
}  // namespace crema::test
