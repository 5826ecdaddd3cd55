// MultiBoxLoss chooses hard negatives by estimates of their losses, and counts those that the
// losses would choose.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/simd.hpp"
#include "layers/multibox_loss/score_kernels.hpp"
#include "layers/softmax/softmax_kernels.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

/// Of f32 scores: which of 300 priors count, of three images with 5 true boxes in all.
std::vector<bool> counted(const std::string& settings, int64_t classes,
                          const std::vector<double>& scores) {
  constexpr int64_t kCount = 300;
  std::vector<double> boxes;
  for (int i = 0; i < kCount; ++i) {
    const double x = 0.045 * (i % 20), y = 0.06 * std::floor(i / 20);
    boxes.insert(boxes.end(), {x, y, x + 0.1, y + 0.12});
  }
  boxes.insert(boxes.end(), boxes.size(), 0.1);
  LayerRun run({.layer = text("layer { type: 'MultiBoxLoss' multibox_loss_param { num_classes: ",
                              classes, " ", settings, " } }"),
                .bottoms = {uniform({3, 4 * kCount}, -0.5, 0.5),
                            given({3, kCount * classes}, scores), given({1, 2, 4 * kCount}, boxes),
                            given({1, 1, 5, 8}, {0, 1, 0, 0.10, 0.10, 0.22, 0.25, 0,  //
                                                 0, 1, 0, 0.50, 0.40, 0.61, 0.50, 0,  //
                                                 0, 1, 0, 0.70, 0.60, 0.80, 0.72, 0,  //
                                                 2, 1, 0, 0.27, 0.06, 0.36, 0.19, 0,  //
                                                 2, 1, 0, 0.05, 0.70, 0.15, 0.80, 0})}});
  run.forward();
  run.backward();
  const std::vector<double> diff = run.bottom_diff(1);
  std::vector<bool> result;
  for (size_t p = 0; p < diff.size(); p += static_cast<size_t>(classes))
    result.push_back(diff[p] != 0);  // NaN counts
  return result;
}

TEST(MultiBoxLossEstimates, ChooseWhatTheLossesChoose) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const SimdLevel level : {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    for (const int64_t classes : {2, 21, 70}) {
      // Equal, close, usual, far apart, huge, and some that are no finite numbers.
      for (const double spread : {0.0, 1e-3, 3.0, 40.0, 1e6}) {
        for (const bool odd : {false, true}) {
          std::mt19937 random(3);
          std::uniform_real_distribution<double> uniform(-spread, spread);
          std::vector<double> scores(static_cast<size_t>(3 * 300 * classes));
          for (double& score : scores) {
            score = uniform(random);
            if (odd && random() % 900 == 0)
              score = random() % 3 == 0 ? nan : random() % 2 ? inf : -inf;
          }
          for (const char* each : {"0", "3", "1000"}) {
            const std::string settings = text("neg_pos_ratio: ", each);
            // Suppression by an overlap above 1 drops nothing, and takes the losses of all.
            EXPECT_EQ(counted(settings, classes, scores),
                      counted(settings + " nms_param { nms_threshold: 1 } use_prior_for_nms: true",
                              classes, scores))
                << to_string(level) << ' ' << classes << ' ' << spread << ' ' << odd << ' ' << each;
          }
        }
      }
    }
  }
}

TEST(MultiBoxLossEstimates, AreAsCloseAsTheySay) {
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    const SimdLimit limit(level);
    for (const int64_t classes : {1, 2, 16, 21, 70}) {
      constexpr int64_t kCount = 75;
      std::mt19937 random(5);
      std::uniform_real_distribution<float> uniform(-20, 20);
      std::vector<float> scores(static_cast<size_t>(kCount * classes)), estimates(kCount);
      for (float& score : scores) score = uniform(random);
      const int64_t background = classes / 2;
      estimate_losses(3, kCount, classes, background, scores.data(), estimates.data() + 3);
      std::vector<int64_t> positions = {74, 3, 3, 40};
      std::vector<double> all(kCount), some(kCount);
      std::vector<float> rows;
      AxisSplit split;
      split.outer = kCount;
      split.size = classes;
      softmax_positions(split, 0, kCount, scores.data(), nullptr, all.data());
      log_sums_of(positions, classes, scores.data(), rows, some.data());
      for (const int64_t p : positions)
        EXPECT_EQ(some[static_cast<size_t>(p)], all[static_cast<size_t>(p)]);
      for (int64_t p = 3; p < kCount; ++p) {
        double e = static_cast<double>(classes) / 8192;
        for (int64_t c = 0; c < classes; ++c) {
          const auto at = static_cast<size_t>(p * classes);
          const double above = static_cast<double>(scores[at + static_cast<size_t>(c)]) -
                               static_cast<double>(scores[at + static_cast<size_t>(background)]);
          e += c == background ? 0 : std::exp(above);
        }
        EXPECT_GE(estimates[static_cast<size_t>(p)], 0.999 * e) << p << ' ' << classes;
        EXPECT_LE(estimates[static_cast<size_t>(p)], 1.063 * e) << p << ' ' << classes;
      }
    }
  }
}

}  // namespace
}  // namespace crema::test
