// LayerNorm, GroupNorm and InstanceNorm. Values: the cases of tests/golden/torch.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "core/simd.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

struct NormCase {
  std::string layer;
  Shape bottom;
};

std::vector<NormCase> cases() {
  return {
      {"layer { type: 'LayerNorm' }", {2, 3, 17}},
      {"layer { type: 'LayerNorm' layer_norm_param { axis: 1 } }", {3, 4, 5}},
      {"layer { type: 'LayerNorm' layer_norm_param { axis: 0 } }", {6}},
      {"layer { type: 'LayerNorm' layer_norm_param { scale_term: false } }", {4, 9}},
      {"layer { type: 'LayerNorm' layer_norm_param { bias_term: false eps: 0.1 } }", {4, 9}},
      {"layer { type: 'LayerNorm' layer_norm_param { scale_term: false bias_term: false } }",
       {4, 9}},
      {"layer { type: 'GroupNorm' group_norm_param { group: 2 } }", {2, 6, 3, 5}},
      {"layer { type: 'GroupNorm' group_norm_param { group: 6 } }", {2, 6, 3, 5}},
      {"layer { type: 'GroupNorm' group_norm_param { group: 1 scale_term: false } }", {2, 3, 7}},
      {"layer { type: 'GroupNorm' group_norm_param { group: 2 bias_term: false } }", {3, 8}},
      {"layer { type: 'GroupNorm' group_norm_param { group: 2 scale_term: false bias_term: false } "
       "}",
       {2, 4, 6}},
      {"layer { type: 'InstanceNorm' }", {2, 3, 4, 5}},
      {"layer { type: 'InstanceNorm' instance_norm_param { scale_term: true bias_term: true } }",
       {2, 3, 4, 5}},
      {"layer { type: 'InstanceNorm' instance_norm_param { scale_term: true } }", {2, 3, 4, 1, 5}},
  };
}

/// Scales and biases of their own for each channel.
LayerCase layer_case(const NormCase& c) {
  LayerCase result{.layer = c.layer, .bottoms = {uniform(c.bottom, -2, 3)}};
  LayerRun run(result);
  for (int i = 0; i < run.num_params(); ++i) {
    std::vector<double> values = run.param(i);
    for (size_t k = 0; k < values.size(); ++k) values[k] = 0.5 + 0.25 * static_cast<double>(k % 7);
    result.params.push_back(values);
  }
  return result;
}

TEST(RowNorm, Gradients) {
  for (const NormCase& c : cases()) {
    SCOPED_TRACE(c.layer);
    check_gradients(layer_case(c));
  }
}

TEST(RowNorm, EveryEngine) {
  for (const NormCase& c : cases()) {
    SCOPED_TRACE(c.layer);
    check_engines(layer_case(c));
  }
  check_engines({.layer = "layer { type: 'LayerNorm' }", .bottoms = {uniform({40, 5000})}});
  check_engines({.layer = "layer { type: 'GroupNorm' group_norm_param { group: 4 } }",
                 .bottoms = {uniform({3, 8, 40, 41})}});
}

// Rows that fill no vector, no group of vectors, and no chunk of sums; rows that fill no group of
// those that are added up together.
TEST(RowNorm, RowsOfEverySizeOnEveryInstructionSet) {
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    if (simd_level() != level) continue;
    SCOPED_TRACE(to_string(level));
    for (const Shape& shape : {Shape{9, 1}, Shape{70, 15}, Shape{8, 16}, Shape{13, 33},
                               Shape{300, 64}, Shape{1100, 3}, Shape{10, 4097}}) {
      for (const char* settings : {"", "bias_term: false", "scale_term: false"}) {
        SCOPED_TRACE(shape.str());
        check_engines(layer_case(
            {text("layer { type: 'LayerNorm' layer_norm_param { eps: 1e-3 ", settings, " } }"),
             shape}));
      }
    }
  }
}

TEST(RowNorm, ResultsDoNotDependOnThreads) {
  const int before = omp_get_max_threads();
  const LayerCase c = layer_case({"layer { type: 'LayerNorm' }", {300, 77}});
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    LayerRun run(c);
    run.forward();
    run.backward();
    const std::vector<std::vector<double>> results = {run.top(0), run.bottom_diff(0),
                                                      run.gradient(0), run.gradient(1)};
    if (first.empty()) first = results;
    EXPECT_EQ(results, first) << threads << " threads";
  }
  omp_set_num_threads(before);
}

TEST(RowNorm, NaNAndInfinityAreSeen) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    std::vector<double> x(9 * 20, 1);
    x[3] = value;
    x[25] = 2;
    LayerRun run({.layer = "layer { type: 'LayerNorm' }", .bottoms = {given({9, 20}, x)}});
    run.forward();
    EXPECT_TRUE(std::isnan(run.top(0)[0]));
    EXPECT_FALSE(std::isnan(run.top(0)[20]));
  }
}

TEST(RowNorm, RowsHaveMeanZeroAndVarianceOneFarFromZeroToo) {
  std::vector<double> x;
  for (int i = 0; i < 4000; ++i) x.push_back(1000 + (i % 17) * 0.25);
  LayerRun run({.layer = "layer { type: 'LayerNorm' }", .bottoms = {given({2, 2000}, x)}});
  run.forward();
  for (int row = 0; row < 2; ++row) {
    double sum = 0, squares = 0;
    for (int j = 0; j < 2000; ++j) {
      const double y = run.top(0)[static_cast<size_t>(row * 2000 + j)];
      sum += y / 2000;
      squares += y * y / 2000;
    }
    EXPECT_NEAR(sum, 0, 1e-5);
    EXPECT_NEAR(squares, 1, 1e-4);
  }
}

TEST(RowNorm, EqualValuesBecomeTheBias) {
  LayerRun run({.layer = "layer { type: 'LayerNorm' }",
                .bottoms = {given({1, 4}, {7, 7, 7, 7})},
                .params = {{2, 2, 2, 2}, {1, 2, 3, 4}}});
  run.forward();
  EXPECT_EQ(run.top(0), (std::vector<double>{1, 2, 3, 4}));
}

TEST(RowNorm, EmptyBatches) {
  for (const char* layer : {"layer { type: 'LayerNorm' }", "layer { type: 'InstanceNorm' }",
                            "layer { type: 'GroupNorm' group_norm_param { group: 2 } }"}) {
    SCOPED_TRACE(layer);
    for (const Shape& shape : {Shape{0, 4, 5}, Shape{2, 4, 0}}) {
      LayerRun run({.layer = layer, .bottoms = {uniform(shape)}});
      run.forward();
      run.backward();
      EXPECT_EQ(run.top_blob(0).shape(), shape);
    }
  }
}

TEST(RowNorm, WrongSettings) {
  const auto refuses = [](const std::string& layer, const Shape& bottom,
                          std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(layer);
    expect_error([&] { LayerRun({.layer = layer, .bottoms = {uniform(bottom)}}); }, parts);
  };
  refuses("layer { type: 'LayerNorm' layer_norm_param { axis: 2 } }", {2, 3}, {"axis 2", "2x3"});
  refuses("layer { type: 'LayerNorm' layer_norm_param { eps: -1 } }", {2, 3}, {"eps -1"});
  refuses("layer { type: 'GroupNorm' }", {2, 48, 3}, {"2x48x3", "32 equal groups", "group:"});
  refuses("layer { type: 'GroupNorm' group_norm_param { group: 0 } }", {2, 4}, {"group is 0"});
  refuses("layer { type: 'GroupNorm' group_norm_param { group: 1 } }", {4}, {"no channels"});
  refuses("layer { type: 'InstanceNorm' }", {2, 3}, {"positions of each channel", "2x3"});
  LayerRun run({.layer = "layer { type: 'LayerNorm' }", .bottoms = {uniform({2, 3})}});
  expect_error([&] { run.reshape({uniform({2, 4})}); }, {"of shape 3", "2x4"});
}

}  // namespace
}  // namespace crema::test
