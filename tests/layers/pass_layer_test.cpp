#include <gtest/gtest.h>
#include <omp.h>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

/// Top, diff of the bottom, parameters and their gradients of the reference.
std::vector<std::vector<double>> results(const LayerCase& c, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  LayerRun run(c, {.engine = "reference"});
  run.forward();
  run.backward();
  std::vector<std::vector<double>> all = {run.top(0), run.bottom_diff(0)};
  for (int i = 0; i < run.num_params(); ++i) {
    all.push_back(run.param(i));
    all.push_back(run.gradient(i));
  }
  omp_set_num_threads(before);
  return all;
}

TEST(PassLayer, ThreadsDoNotChangeTheReference) {
  for (const char* layer :
       {"type: 'BatchNorm' batch_norm_param { scale_bias: true relu: true }",
        "type: 'Scale' scale_param { bias_term: true }", "type: 'LRN' lrn_param { alpha: 0.5 }"}) {
    SCOPED_TRACE(layer);
    const LayerCase c{.layer = concat("layer { ", layer, " }"),
                      .bottoms = {uniform({3, 7, 31, 33}, -2, 3)}};
    const auto of_one = results(c, 1);
    EXPECT_EQ(results(c, 2), of_one);
    EXPECT_EQ(results(c, 5), of_one);
  }
}

}  // namespace
}  // namespace crema::test
