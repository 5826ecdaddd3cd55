#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include "core/simd.hpp"
#include "core/tuner.hpp"
#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;

const char* const kFillers = R"(weight_filler { type: "gaussian" std: 0.5 }
                                bias_filler { type: "uniform" min: -0.5 max: 0.5 })";

std::string inner_product(const std::string& settings) {
  return text("layer { type: 'InnerProduct' inner_product_param { ", settings, " ", kFillers,
              " } }");
}

LayerCase random_case(const Shape& shape, const std::string& settings) {
  return {.layer = inner_product(settings), .bottoms = {uniform(shape)}};
}

TEST(InnerProduct, Values) {
  LayerRun run({.layer = inner_product("num_output: 2"),
                .bottoms = {given({2, 3}, {1, 2, 3, 4, 5, 6})},
                .params = {{1, 0, -1, 2, 1, 0}, {10, 20}}});
  EXPECT_EQ(run.layer().params()[0]->shape(), (Shape{2, 3}));
  EXPECT_EQ(run.layer().params()[1]->shape(), (Shape{2}));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(8, 24, 8, 33));
  run.set_top_diff(0, {1, 0, 0, 2});
  run.backward();
  EXPECT_THAT(run.bottom_diff(0), ElementsAre(1, 0, -1, 4, 2, 0));
  EXPECT_THAT(run.gradient(0), ElementsAre(1, 2, 3, 8, 10, 12));
  EXPECT_THAT(run.gradient(1), ElementsAre(1, 2));
}

TEST(InnerProduct, TransposedWeights) {
  LayerRun run({.layer = inner_product("num_output: 2 transpose: true"),
                .bottoms = {given({1, 3}, {1, 2, 3})},
                .params = {{1, 2, 0, 1, -1, 0}, {10, 20}}});
  EXPECT_EQ(run.layer().params()[0]->shape(), (Shape{3, 2}));
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(8, 24));
}

TEST(InnerProduct, Shapes) {
  EXPECT_EQ(LayerRun(random_case({2, 3, 4, 5}, "num_output: 7")).top_blob(0).shape(),
            (Shape{2, 7}));
  EXPECT_EQ(LayerRun(random_case({2, 3, 4, 5}, "num_output: 7 axis: 2")).top_blob(0).shape(),
            (Shape{2, 3, 7}));
  EXPECT_EQ(LayerRun(random_case({2, 3, 4}, "num_output: 7 axis: -1")).top_blob(0).shape(),
            (Shape{2, 3, 7}));
  EXPECT_EQ(LayerRun(random_case({6}, "num_output: 7 axis: 0")).top_blob(0).shape(), (Shape{7}));
}

TEST(InnerProduct, GradientsAndEngines) {
  for (const char* settings : {"num_output: 3", "num_output: 3 transpose: true",
                               "num_output: 3 bias_term: false", "num_output: 1 axis: 2"}) {
    for (const Shape& shape : {Shape{4, 3, 2}, Shape{1, 3, 2}, Shape{17, 3, 2}}) {
      check_gradients(random_case(shape, settings));
      check_engines(random_case(shape, settings));
    }
  }
}

// Sizes at which vectors have a rest and columns of the bias are more than one group.
TEST(InnerProduct, OddSizes) {
  for (const char* settings : {"num_output: 301", "num_output: 301 transpose: true"}) {
    for (int64_t rows : {1, 2, 7, 33}) check_engines(random_case({rows, 517}, settings));
  }
}

TEST(InnerProduct, NativeEngineOfEveryInstructionSet) {
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    if (simd_level() != level) continue;
    SCOPED_TRACE(to_string(level));
    for (const char* settings : {"num_output: 37", "num_output: 37 transpose: true"}) {
      for (int64_t rows : {1, 3, 21}) {
        EXPECT_THAT(check_engines(random_case({rows, 1050}, settings)),
                    testing::Contains("native contiguous"));
      }
    }
  }
}

TEST(InnerProduct, TunedIsTheFirstChoiceWhereMeasuringPays) {
  const auto engine = [](const Shape& shape, const std::string& settings, RunOptions options = {}) {
    options.engine = "";
    return LayerRun(random_case(shape, settings), options).engine();
  };
  EXPECT_EQ(engine({2, 1024}, "num_output: 1000"), "tuned");
  EXPECT_EQ(engine({64, 16, 8, 8}, "num_output: 100 transpose: true"), "tuned");
  EXPECT_EQ(engine({2, 300}, "num_output: 100"), "reference") << "too small to measure";
  EXPECT_EQ(engine({0, 1024}, "num_output: 1000"), "reference");
  EXPECT_EQ(engine({2, 1024}, "num_output: 1000", {.dtype = DType::f64}), "reference");
  const LayerCase small = random_case({2, 3}, "num_output: 4");
  for (const char* name : {"native", "tuned"}) {
    EXPECT_EQ(LayerRun(small, {.engine = name}).engine(), name);
    expect_error([&] { LayerRun run(small, {.dtype = DType::f64, .engine = name}); },
                 {name, "f64"});
  }
}

TEST(InnerProduct, DecidesByARuleWithoutTuning) {
  if (simd_level() < SimdLevel::avx2) GTEST_SKIP() << "needs AVX2: run on a processor that has it";
  const auto detail = [](int64_t rows, int64_t outputs) {
    Context context({.engine = "tuned", .tune = false});
    const Net net(net_param(text("layer { name: 'x' type: 'Input' top: 'x' ",
                                 "input_param { shape { dim: ", rows, " dim: 1024 } } } ",
                                 "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' ",
                                 "inner_product_param { num_output: ", outputs, " } }")),
                  context);
    EXPECT_THAT(context.tuner().measured(""), testing::IsEmpty());
    return net.summary().back().detail;
  };
  EXPECT_THAT(detail(2, 1000), testing::HasSubstr("forward thin"));
  EXPECT_THAT(detail(64, 1000), testing::HasSubstr("forward thin"));
  EXPECT_THAT(detail(1, 1000), testing::HasSubstr("forward thin"));
  EXPECT_THAT(detail(1, 900), testing::HasSubstr("forward gemm"));
  EXPECT_THAT(detail(65, 1000), testing::HasSubstr("forward packed"));
  EXPECT_THAT(detail(2, 900), testing::HasSubstr("forward gemm"));
  EXPECT_THAT(detail(9, 900), testing::HasSubstr("forward packed"));
}

// What a run decided is part of its snapshot: a resumed one must not decide anew. And whatever was
// decided, the results are those of the reference.
TEST(InnerProduct, TakesWhatWasDecided) {
  for (const bool transposed : {false, true}) {
    const LayerCase c =
        random_case({21, 1050}, text("num_output: 37 transpose: ", transposed ? "true" : "false"));
    LayerRun run(c, {.engine = "tuned"}), truth(c, {.engine = "reference"});
    Tuner& tuner = run.context().tuner();
    const auto choices = tuner.choices();
    ASSERT_EQ(choices.size(), 3U) << "forward and both backward passes";
    truth.forward();
    truth.backward();
    // Forward has three candidates, the others two.
    for (int decided = 0; decided < 12; ++decided) {
      SCOPED_TRACE(text(transposed ? "transposed, " : "", "choice ", decided));
      int left = decided;
      for (const auto& [problem, candidate] : choices) {
        EXPECT_THAT(problem, testing::HasSubstr(transposed ? "1050x37" : "37x1050"));
        const std::vector<Tuner::Time> times = tuner.measured(problem);
        ASSERT_THAT(times.size(), testing::AnyOf(2U, 3U));
        const auto ways = static_cast<int>(times.size());
        tuner.choose(problem, times[static_cast<size_t>(left % ways)].candidate);
        left /= ways;
      }
      const auto wanted = tuner.choices();
      run.reshape({uniform({21, 1050})});
      EXPECT_EQ(tuner.choices(), wanted);
      const std::string detail = run.kernel().detail();
      EXPECT_EQ(run.kernel().bytes() == 0, detail.find("thin") == std::string::npos) << detail;
      for (const char* pass : {"forward ", "backward-data ", "backward-weights "}) {
        EXPECT_THAT(detail, testing::HasSubstr(text(pass, decided == 0 ? "gemm" : "")));
      }
      run.clear_gradients();
      run.forward();
      run.backward();
      expect_close(run.top(0), truth.top(0), {}, "top");
      expect_close(run.bottom_diff(0), truth.bottom_diff(0), {}, "bottom diff");
      expect_close(run.gradient(0), truth.gradient(0), {}, "gradient");
    }
  }
}

TEST(InnerProduct, MeasuringChangesNeitherWeightsNorGradients) {
  const LayerCase c = random_case({12, 200}, "num_output: 100");
  LayerRun run(c, {.engine = "tuned"});
  run.forward();
  run.backward();
  const auto weights = run.param(0), gradient = run.gradient(0);
  const Tuner& tuner = run.context().tuner();
  const size_t measured = tuner.measured("inner product ").size();
  run.reshape({uniform({20, 200})});
  EXPECT_EQ(tuner.measured("inner product ").size(), 2 * measured) << "another batch is measured";
  EXPECT_EQ(run.param(0), weights);
  EXPECT_EQ(run.gradient(0), gradient);
}

TEST(InnerProduct, TunedMeasuresForwardAloneInInference) {
  LayerRun run(random_case({8, 200}, "num_output: 100"), {.engine = "tuned", .trains = false});
  EXPECT_EQ(run.context().tuner().choices().size(), 1U);
  run.forward();
}

TEST(InnerProduct, NativeEngineDoesNotDependOnThreads) {
  const int before = omp_get_max_threads();
  const LayerCase c = random_case({19, 517}, "num_output: 301");
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    LayerRun run(c, {.engine = "native"});
    run.forward();
    run.backward();
    const std::vector<std::vector<double>> results = {run.top(0), run.bottom_diff(0),
                                                      run.gradient(0)};
    if (first.empty()) first = results;
    EXPECT_EQ(results, first) << threads << " threads";
  }
  omp_set_num_threads(before);
}

TEST(InnerProduct, AppliesAReLUBehindIt) {
  for (const char* relu : {"", "relu_param { negative_slope: 0.25 }"}) {
    for (const char* settings : {"num_output: 150", "num_output: 150 bias_term: false"}) {
      for (int64_t rows : {1, 9}) {
        LayerCase c = random_case({rows, 20}, settings);
        c.tail = {text("layer { type: 'ReLU' ", relu, " }")};
        check_engines(c);
      }
    }
  }
  LayerCase c = random_case({3, 4}, "num_output: 5");
  c.tail = {R"(layer { type: "ReLU" relu_param { negative_slope: 0.25 } })"};
  check_gradients(c);
  c.tail = {"layer { type: 'ReLU' }", "layer { type: 'ReLU' }"};
  expect_error([&] { LayerRun run(c); }, {"does not accept"});
  c.tail = {"layer { type: 'Sigmoid' }"};
  expect_error([&] { LayerRun run(c); }, {"is no tail step"});
  c.tail = {R"(layer { type: "ReLU" relu_param { negative_slope: -1 } })"};
  expect_error([&] { LayerRun run(c); }, {"is no tail step"});
}

TEST(InnerProduct, NativeEngineCountsTheMemoryOfTheReLU) {
  LayerCase c = random_case({3, 20}, "num_output: 150");
  const auto bytes = [&](const RunOptions& options) {
    LayerRun run(c, options);
    return run.kernel().bytes();
  };
  const size_t plain = bytes({.engine = "native"});
  c.tail = {"layer { type: 'ReLU' }"};
  EXPECT_EQ(bytes({.engine = "native"}) - plain, 3u * 150 * sizeof(float));
  EXPECT_EQ(bytes({.engine = "native", .trains = false}), plain);
}

TEST(InnerProduct, ReLUOfItsOwn) {
  LayerRun run({.layer = inner_product("num_output: 2 relu: true negative_slope: 0.5"),
                .bottoms = {given({1, 1}, {1})},
                .params = {{2, -2}, {0, 0}}});
  run.forward();
  EXPECT_THAT(run.top(0), ElementsAre(2, -1));
  check_gradients(random_case({3, 4}, "num_output: 5 relu: true negative_slope: 0.5"));
}

TEST(InnerProduct, FrozenParametersGetNoGradient) {
  const LayerCase c = random_case({3, 4}, "num_output: 5");
  LayerRun all(c), frozen(c);
  for (auto& param : frozen.layer().params()) param->needs_gradient = false;
  EXPECT_FALSE(frozen.kernel().backward_reads().bottom_data);
  for (LayerRun* run : {&all, &frozen}) {
    run->forward();
    run->backward();
  }
  EXPECT_EQ(frozen.bottom_diff(0), all.bottom_diff(0));
  EXPECT_THAT(frozen.gradient(0), testing::Each(0));
  EXPECT_THAT(frozen.gradient(1), testing::Each(0));
}

TEST(InnerProduct, FollowsNewBatchSizes) {
  LayerRun run(random_case({2, 3, 4}, "num_output: 5"));
  run.reshape({uniform({7, 12})});
  run.forward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{7, 5}));
  expect_error([&] { run.reshape({uniform({2, 13})}); }, {"2x13", "13 values", "12"});
}

TEST(InnerProduct, Errors) {
  expect_error([] { LayerRun run(random_case({2, 3}, "")); }, {"num_output"});
  expect_error([] { LayerRun run(random_case({2, 3}, "num_output: 4 axis: 2")); }, {"2", "2x3"});
  expect_error([] { LayerRun run(random_case({2, 0}, "num_output: 4")); }, {"2x0", "axis 1"});
  expect_error(
      [] {
        LayerRun run(random_case({2, 3}, "num_output: 4 relu: true negative_slope: -1"));
      },
      {"negative_slope -1"});
}

}  // namespace
}  // namespace crema::test
