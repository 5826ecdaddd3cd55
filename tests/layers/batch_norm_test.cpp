#include "layers/batch_norm/batch_norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::Pointwise;
using testing::UnorderedElementsAre;

std::string batch_norm(const std::string& settings) {
  return text("layer { type: 'BatchNorm' batch_norm_param { ", settings, " } }");
}

LayerCase drawn(const std::string& settings, const Shape& shape = {4, 3, 3, 4}) {
  return {.layer = batch_norm(settings), .bottoms = {uniform(shape, -2, 3)}};
}

/// Stored statistics whose factor is not 1.
LayerCase stored(const std::string& settings, const Shape& shape = {4, 3, 3, 4}) {
  LayerCase c = drawn(text("use_global_stats: true ", settings), shape);
  const auto channels = static_cast<size_t>(shape[1]);
  c.params = {std::vector<double>(channels, 0.3), std::vector<double>(channels, 1.2), {1.5}};
  for (size_t i = 0; i < channels; ++i) c.params[0][i] += 0.1 * static_cast<double>(i % 7);
  return c;
}

const auto kEveryFormat =
    UnorderedElementsAre("reference contiguous", "native contiguous", "native channels_last",
                         "native blocked8", "native blocked16");

// --- The layer by itself
// --------------------------------------------------------------------------

TEST(BatchNorm, NormalizesEachChannel) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = batch_norm("eps: 0"),
                  .bottoms = {given({2, 2, 1, 2}, {1, 3, 10, 10, 5, 7, 20, 40})}},
                 {.engine = engine});
    run.forward();
    const double a = std::sqrt(5.0), b = std::sqrt(150.0);
    EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-5), {-3 / a, -1 / a, -10 / b, -10 / b, 1 / a,
                                                         3 / a, 0 / b, 20 / b}))
        << engine;
  }
}

TEST(BatchNorm, MovesTheStoredStatistics) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run({.layer = batch_norm("moving_average_fraction: 0.5"),
                  .bottoms = {given({2, 1, 1, 2}, {1, 3, 5, 7})},
                  .params = {{10}, {8}, {2}}},
                 {.engine = engine});
    run.forward();
    // The variance that is stored is the unbiased one: 20 / 3.
    EXPECT_NEAR(run.param(0)[0], 0.5 * 10 + 4, 1e-5) << engine;
    EXPECT_NEAR(run.param(1)[0], 0.5 * 8 + 20.0 / 3, 1e-5) << engine;
    EXPECT_NEAR(run.param(2)[0], 0.5 * 2 + 1, 1e-6) << engine;
    // Of a single value the variance is 0, and there is no unbiased one.
    run.reshape({given({1, 1, 1, 1}, {4})});
    run.forward();
    EXPECT_NEAR(run.param(1)[0], 0.5 * 8, 1e-5) << engine;
    EXPECT_NEAR(run.top(0)[0], 0, 1e-6) << engine;
  }
}

TEST(BatchNorm, UsesTheStoredStatisticsInTests) {
  LayerCase c{.layer = batch_norm("eps: 0"),
              .bottoms = {given({1, 1, 1, 2}, {1, 3})},
              .phase = Phase::test,
              .params = {{4}, {8}, {2}}};
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(c, {.engine = engine});
    run.forward();
    EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-6), {-0.5, 0.5})) << engine;
    EXPECT_EQ(run.param(0)[0], 4) << engine;
    EXPECT_EQ(run.param(2)[0], 2) << engine;
  }
  c.layer = batch_norm("eps: 0 use_global_stats: false");
  LayerRun of_batch(c);
  of_batch.forward();
  EXPECT_THAT(of_batch.top(0), Pointwise(DoubleNear(1e-6), {-1.0, 1.0}));
}

// Before the first training step nothing is stored: mean and variance are 0, not 0 / 0.
TEST(BatchNorm, NothingStoredYet) {
  LayerCase c = drawn("eps: 1");
  c.phase = Phase::test;
  LayerRun run(c);
  run.forward();
  EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-6), run.bottom_values(0)));
}

TEST(BatchNorm, StatisticsAreNotLearned) {
  LayerCase c = drawn("");
  LayerRun run(c);
  ASSERT_EQ(run.num_params(), 3);
  for (const auto& parameter : run.layer().params()) EXPECT_FALSE(parameter->learnable);
}

TEST(BatchNorm, SurvivesALargeMean) {
  LayerCase c = drawn("eps: 0", {8, 2, 20, 20});
  c.bottoms[0].low = 9999;
  c.bottoms[0].high = 10001;
  LayerRun truth(c, {.dtype = DType::f64});
  truth.forward();
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(c, {.engine = engine});
    run.forward();
    // What is left is the rounding of x itself to f32, 5e-4 in steps of 1e-3 of a deviation.
    expect_close(run.top(0), truth.top(0), {2e-3, 1e-3}, engine);
    expect_close(run.param(1), truth.param(1), {0, 1e-4}, engine);
  }
}

/// Values of a mean far from 0 that are exact in f32: steps of 2^-10 around 10000, deviation 1e-2.
LayerCase far_from_zero(const std::string& settings, const Shape& shape) {
  LayerCase c = drawn(text("eps: 0 ", settings), shape);
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto steps = static_cast<double>(i * 2654435761U % 37);
    values[i] = 1e4 + (steps - 18) / 1024;
  }
  c.bottoms[0] = given(shape, values);
  return c;
}

// E[x^2] - mean^2 has nothing left of the variance here, and x * gain - mean * gain little of y.
TEST(BatchNorm, SmallDeviationAroundALargeMean) {
  const int threads = omp_get_max_threads();
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    for (const int count : {1, 2, 5}) {
      SCOPED_TRACE(text(to_string(level), ", ", count, " threads"));
      omp_set_num_threads(count);
      for (const Shape& shape : {Shape{4, 21, 5, 3}, Shape{2, 5, 99, 101}, Shape{64, 40}}) {
        const LayerCase c = far_from_zero("scale_bias: true relu: true", shape);
        const auto ran = check_engines(c, {1e-5, 1e-4});
        EXPECT_EQ(ran.size(), shape.rank() > 2 ? 5U : 2U);
        LayerRun truth(c, {.dtype = DType::f64});
        truth.forward();
        LayerRun run(c, {.engine = "native"});
        run.forward();
        expect_close(run.param(1), truth.param(1), {0, 1e-6}, "variances");
      }
    }
  }
  omp_set_num_threads(threads);
}

TEST(BatchNorm, ReLUKeepsNaNAndStopsMinusInfinity) {
  const double infinity = std::numeric_limits<double>::infinity();
  LayerCase c = stored("relu: true", {1, 1, 1, 4});
  c.bottoms[0] = given({1, 1, 1, 4}, {-infinity, std::nan(""), -1, 7});
  for (const char* engine : {"reference", "native"}) {
    for (int option = 0; option < (engine == std::string("native") ? 4 : 1); ++option) {
      LayerRun run(c, {.engine = engine, .option = option});
      run.forward();
      EXPECT_EQ(run.top(0)[0], 0) << engine << option;
      EXPECT_TRUE(std::isnan(run.top(0)[1])) << engine << option;
      EXPECT_EQ(run.top(0)[2], 0) << engine << option;
      EXPECT_GT(run.top(0)[3], 0) << engine << option;
    }
  }
}

TEST(BatchNorm, Gradients) {
  for (const char* settings :
       {"", "eps: 0.01 moving_average_fraction: 0.9",
        "scale_bias: true scale_filler { type: 'uniform' min: 0.5 max: 1.5 }",
        "use_weight_bias: true bias_term: false relu: true"}) {
    check_gradients(drawn(settings));
    check_gradients(stored(settings));
  }
  check_gradients(drawn("", {8, 5}));
  check_gradients(drawn("", {6}));
  check_gradients(drawn("", {2, 3, 2, 2, 2}));
}

void check_shapes() {
  for (const Shape& shape : {Shape{4, 3, 3, 4}, Shape{2, 21, 5, 3}, Shape{3, 16, 7, 7}}) {
    for (const char* settings :
         {"", "relu: true",
          "scale_bias: true relu: true scale_filler { type: 'uniform' min: -1 max: 1 }"
          " bias_filler { type: 'uniform' min: -1 max: 1 }"}) {
      EXPECT_THAT(check_engines(drawn(settings, shape)), kEveryFormat);
      EXPECT_THAT(check_engines(stored(settings, shape)), kEveryFormat);
    }
  }
  const auto contiguous = UnorderedElementsAre("reference contiguous", "native contiguous");
  EXPECT_THAT(check_engines(drawn("", {19, 11})), contiguous);
  EXPECT_THAT(check_engines(drawn("", {19})), contiguous);
}

TEST(BatchNorm, Engines) { check_shapes(); }

TEST(BatchNorm, EnginesOnLesserProcessors) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2}) {
    SCOPED_TRACE(to_string(level));
    SimdLimit limit(level);
    check_shapes();
  }
}

// Enough for several threads: split by channels, by samples, by pixels.
TEST(BatchNorm, EnginesOnLargeTensors) {
  for (const Shape& shape : {Shape{2, 40, 30, 31}, Shape{3, 3, 90, 80}, Shape{1, 5, 99, 101}}) {
    EXPECT_THAT(check_engines(drawn("scale_bias: true relu: true", shape)), kEveryFormat);
  }
}

// Fewer rows than threads: split by groups of channels, whose last is not full.
TEST(BatchNorm, EnginesOnFewRows) {
  // The variance of one value is 0. What is left of two terms that are equal, a rounding error of
  // 2^-24 of each, is multiplied by 1 / sqrt(eps).
  const Tolerance rounding{.absolute = 2 / std::sqrt(1e-5) / (1 << 24)};
  check_engines(drawn("scale_bias: true", {1, 40000}), rounding);
}

TEST(BatchNorm, WhatBackwardReads) {
  auto reads = [](const LayerCase& c) { return LayerRun(c).kernel().backward_reads(); };
  EXPECT_TRUE(reads(drawn("")).bottom_data);
  EXPECT_FALSE(reads(drawn("relu: true")).top_data);
  // With stored statistics and nothing to learn it is a multiplication.
  EXPECT_FALSE(reads(stored("")).bottom_data);
  EXPECT_TRUE(reads(stored("relu: true")).bottom_data);
  EXPECT_TRUE(reads(stored("scale_bias: true")).bottom_data);
}

TEST(BatchNorm, ScaleAndBiasInTheLayer) {
  LayerRun run({.layer = batch_norm("eps: 0 scale_bias: true"),
                .bottoms = {given({1, 1, 1, 2}, {-3, 3})},
                .params = {{0}, {0}, {0}, {2}, {10}}});
  ASSERT_EQ(run.num_params(), 5);
  EXPECT_TRUE(run.layer().params()[3]->learnable);
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(8, 12));
  EXPECT_EQ(LayerRun(drawn("use_weight_bias: true")).num_params(), 5);
  EXPECT_EQ(LayerRun(drawn("use_weight_bias: true bias_term: false")).num_params(), 4);
  EXPECT_EQ(LayerRun(drawn("use_weight_bias: false")).num_params(), 3);
}

TEST(BatchNorm, ARepeatedPassLeavesTheStoredStatisticsAlone) {
  for (const std::string engine : {"reference", "native"}) {
    for (const char* recompute : {"", "recompute: true"}) {
      Context context;
      Net net(net_param(text(R"(
                layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 dim: 5 dim: 5 } } }
                layer { name: "a" type: "Convolution" bottom: "x" top: "a"
                        convolution_param { num_output: 2 kernel_size: 1 weight_filler { type: "xavier" } } }
                layer { name: "norm" type: "BatchNorm" bottom: "a" top: "norm" engine: ")",
                             engine, "\" ", recompute, R"( }
                layer { name: "b" type: "Convolution" bottom: "norm" top: "b"
                        convolution_param { num_output: 2 kernel_size: 1 weight_filler { type: "xavier" } } }
                layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 4 dim: 2 dim: 5 dim: 5 } } }
                layer { name: "loss" type: "EuclideanLoss" bottom: "b" bottom: "t" top: "loss" })")),
              context);
      net.forward();
      net.backward();
      EXPECT_EQ(net.layer("norm").params()[2]->data.at(0), 1) << engine << " " << recompute;
    }
  }
}

TEST(BatchNorm, FollowsItsBottomsShape) {
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(drawn("eps: 0"), {.engine = engine});
    run.reshape({given({1, 3, 1, 2}, {1, 3, 5, 5, 7, 9})});
    run.param_values(0) = {0, 0, 0};
    run.forward();
    EXPECT_NEAR(run.top(0)[0], -1, 1e-6) << engine;
    EXPECT_NEAR(run.top(0)[5], 1, 1e-6) << engine;
    expect_error([&] { run.reshape({uniform({1, 4, 1, 2})}); }, {"1x4x1x2", "3 channels"});
  }
}

TEST(BatchNorm, Mistakes) {
  expect_error([] { LayerRun{drawn("eps: -1")}; }, {"eps -1", "negative"});
  for (const std::string fraction : {"-0.5", "2", "nan"})
    expect_error([&] { LayerRun{drawn("moving_average_fraction: " + fraction)}; },
                 {"moving_average_fraction " + fraction, "[0, 1]"});
  expect_error([] { LayerRun{drawn("stats_batch_size: 8")}; },
               {"stats_batch_size 8", "not supported"});
  expect_error([] { LayerRun{drawn("", {})}; }, {"scalar"});
}

// --- With what it takes over
// ----------------------------------------------------------------------

const char* const kScaleWithBias =
    "layer { type: 'Scale' scale_param { bias_term: true "
    "filler { type: 'uniform' min: -1 max: 1.5 } bias_filler { type: 'uniform' min: -1 max: 1 } } "
    "}";
const char* const kScale =
    "layer { type: 'Scale' scale_param { filler { type: 'uniform' min: -1 max: 1.5 } } }";
const char* const kRelu = "layer { type: 'ReLU' }";

/// A layer outside of any run, whose step goes into a tail.
std::unique_ptr<Layer> loose_layer(const std::string& text, LayerRun& of, DType dtype) {
  auto layer = make_loose_layer({.layer = text, .bottoms = {uniform({1})}}, of.context(),
                                of.state(), {.dtype = dtype});
  Blob top(of.top_blob(0).shape(), dtype);
  Blob* bottoms[] = {&of.top_blob(0)};
  Blob* tops[] = {&top};
  layer->setup(bottoms, tops);
  layer->reshape(bottoms, tops);
  return layer;
}

/// What a chain of BatchNorm, Scale and, with `relu`, ReLU computes.
struct Results {
  std::vector<double> top, bottom_diff, d_scale, d_bias;
};

struct Chain {
  LayerCase norm;
  std::string scale;
  bool relu = true;
  std::vector<double> scale_values, bias_values;  // of the Scale layer

  /// Layer by layer, by the reference in f64.
  Results apart() const {
    const RunOptions f64{.dtype = DType::f64};
    LayerRun first(norm, f64);
    first.forward();
    const Shape shape = first.top_blob(0).shape();
    LayerRun second({.layer = scale,
                     .bottoms = {given(shape, first.top(0))},
                     .params = {scale_values, bias_values}},
                    f64);
    second.forward();
    LayerRun third({.layer = kRelu, .bottoms = {given(shape, second.top(0))}}, f64);
    third.forward();
    third.set_top_diff(0, first.top_diff(0));
    third.backward();
    second.set_top_diff(0, relu ? third.bottom_diff(0) : first.top_diff(0));
    second.backward();
    first.set_top_diff(0, second.bottom_diff(0));
    first.backward();
    return {relu ? third.top(0) : second.top(0), first.bottom_diff(0), second.gradient(0),
            second.num_params() > 1 ? second.gradient(1) : std::vector<double>()};
  }

  Results fused(const RunOptions& options) const {
    LayerRun run(norm, options);
    const auto next = loose_layer(scale, run, options.dtype);
    const auto last = loose_layer(kRelu, run, options.dtype);
    write(*next->params()[0], scale_values);
    if (next->params().size() > 1) write(*next->params()[1], bias_values);
    Tail tail = {next->as_tail_step().value()};
    if (relu) tail.push_back(last->as_tail_step().value());
    EXPECT_TRUE(run.layer().accepts(tail));
    run.set_tail(tail);
    run.reshape(norm.bottoms);
    EXPECT_EQ(run.engine(), options.engine);
    EXPECT_FALSE(run.kernel().backward_reads().top_data);
    run.forward();
    run.backward();
    return {run.top(0), run.bottom_diff(0), values_of(next->params()[0]->gradient()),
            next->params().size() > 1 ? values_of(next->params()[1]->gradient())
                                      : std::vector<double>()};
  }

  static void write(Parameter& parameter, const std::vector<double>& values) {
    Tensor source(parameter.shape(), DType::f64);
    std::copy(values.begin(), values.end(), source.overwrite<double>());
    parameter.data.copy_from(source);
  }
};

void check_chain(const Chain& chain) {
  const Results truth = chain.apart();
  auto compare = [&](const RunOptions& options, const Tolerance& tolerance) {
    const Results results = chain.fused(options);
    expect_close(results.top, truth.top, tolerance, "top");
    expect_close(results.bottom_diff, truth.bottom_diff, tolerance, "bottom diff");
    expect_close(results.d_scale, truth.d_scale, tolerance, "gradient of the scale");
    expect_close(results.d_bias, truth.d_bias, tolerance, "gradient of the bias");
  };
  compare({.dtype = DType::f64}, {1e-11, 1e-11});
  for (const char* engine : {"reference", "native"}) {
    const int options = engine == std::string("native") ? 4 : 1;
    for (int option = 0; option < options; ++option) {
      SCOPED_TRACE(text(engine, " option ", option));
      compare({.engine = engine, .option = option}, {2e-5, 1e-4});
    }
  }
}

TEST(BatchNorm, AbsorbsScaleAndReLU) {
  for (const Shape& shape : {Shape{4, 3, 3, 4}, Shape{2, 21, 5, 3}}) {
    std::vector<double> scales, biases;
    for (int64_t c = 0; c < shape[1]; ++c) {
      scales.push_back(c % 5 == 4 ? 0.0 : 0.3 * static_cast<double>(c % 7) - 0.7);
      biases.push_back(0.1 * static_cast<double>(c % 4) - 0.2);
    }
    for (const LayerCase& norm : {drawn("", shape), stored("", shape)}) {
      for (const bool relu : {false, true}) {
        check_chain({norm, kScaleWithBias, relu, scales, biases});
        check_chain({norm, kScale, relu, scales, {}});
      }
    }
  }
}

TEST(BatchNorm, AbsorbsReLUAlone) {
  for (LayerCase c : {drawn(""), stored("")}) {
    c.tail = {kRelu};
    EXPECT_THAT(check_engines(c), kEveryFormat);
  }
}

TEST(BatchNorm, WhatItDoesNotAbsorb) {
  auto accepts = [](const std::string& text, const std::string& settings = "") {
    LayerRun run(drawn(settings));
    const auto step = loose_layer(text, run, DType::f32)->as_tail_step();
    return step && run.layer().accepts({*step});
  };
  EXPECT_TRUE(accepts(kScale));
  EXPECT_TRUE(accepts(kRelu));
  EXPECT_FALSE(accepts("layer { type: 'Scale' scale_param { axis: 2 } }"));
  EXPECT_FALSE(accepts("layer { type: 'Scale' scale_param { num_axes: 0 } }"));
  EXPECT_FALSE(accepts("layer { type: 'ReLU' relu_param { negative_slope: 0.1 } }"));
  EXPECT_FALSE(accepts("layer { type: 'Sigmoid' }"));
  EXPECT_FALSE(accepts(kScale, "scale_bias: true"));
  EXPECT_FALSE(accepts(kScale, "relu: true"));
  EXPECT_FALSE(accepts(kRelu, "relu: true"));
}

std::string block_of_resnet() {
  return R"(
    layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 3 dim: 4 dim: 5 dim: 5 } } }
    layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 3 dim: 2 } } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
            convolution_param { num_output: 6 kernel_size: 3 bias_term: false weight_filler { type: "msra" } } }
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
    layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true
            filler { type: "uniform" min: 0.5 max: 1.5 } bias_filler { type: "uniform" min: -0.5 max: 0.5 } } }
    layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
    layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
            inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" })";
}

TEST(BatchNorm, GradientsOfAChainInPlace) {
  for (const bool fuse : {false, true}) {
    Context context;
    Net net(net_param(block_of_resnet()), context, {.dtype = DType::f64, .fuse = fuse});
    fill_inputs(net);
    check_net_gradients(net);
  }
}

TEST(BatchNorm, AFusedNetEqualsThePlainOne) {
  Context context;
  Net plain(net_param(block_of_resnet()), context, {.fuse = false});
  Net fused(net_param(block_of_resnet()), context, {.fuse = true});
  for (Net* net : {&plain, &fused}) {
    fill_inputs(*net);
    net->clear_gradients();
    EXPECT_GT(net->forward(), 0);
    net->backward();
  }
  int taken_over = 0;
  for (const LayerSummary& layer : fused.summary()) taken_over += layer.fused_into == "bn";
  EXPECT_EQ(taken_over, 2);
  expect_close(params_of(fused), params_of(plain), {1e-6, 1e-5}, "parameters");
  expect_close(gradients_of(fused), gradients_of(plain), {1e-5, 1e-3}, "gradients");
}

}  // namespace
}  // namespace crema::test
