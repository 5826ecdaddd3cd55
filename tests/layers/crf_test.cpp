// CRFLoss and CRFDecoder: values against all paths, gradients, sequences within a batch, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using Values = std::vector<double>;
const double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Sequence {
  int64_t column, first, steps;
};

/// All paths of a sequence: the log of the sum of their exponentials, and the best one.
struct AllPaths {
  double total = 0, best_score = -std::numeric_limits<double>::infinity();
  std::vector<int> best;
};

struct Model {
  int64_t batch;
  int classes;
  Values x, transitions, first, last;

  double score(const Sequence& of, const std::vector<int>& path) const {
    double sum = 0;
    for (size_t t = 0; t < path.size(); ++t) {
      const int64_t row = (of.first + static_cast<int64_t>(t)) * batch + of.column;
      sum += x[static_cast<size_t>(row * classes + path[t])];
      if (t > 0) sum += transitions[static_cast<size_t>(path[t - 1] * classes + path[t])];
    }
    if (!first.empty()) {
      sum += first[static_cast<size_t>(path.front())] + last[static_cast<size_t>(path.back())];
    }
    return sum;
  }
  AllPaths all(const Sequence& of) const {
    AllPaths found;
    double sum = 0;
    std::vector<int> path(static_cast<size_t>(of.steps), 0);
    for (bool more = true; more;) {
      const double s = score(of, path);
      sum += std::exp(s);
      if (s > found.best_score) {
        found.best_score = s;
        found.best = path;
      }
      more = false;
      for (int& c : path) {
        if (++c < classes) {
          more = true;
          break;
        }
        c = 0;
      }
    }
    found.total = std::log(sum);
    return found;
  }
};

const char* const kFillers =
    "transition_filler { type: 'uniform' min: -1 max: 1 } boundary_term: true "
    "boundary_filler { type: 'uniform' min: -1 max: 1 }";
const char* const kTransitions = "transition_filler { type: 'uniform' min: -1 max: 1 }";

std::string layer_text(const std::string& type, const std::string& settings,
                       const std::string& more = "") {
  return text("layer { type: '", type, "' crf_loss_param { ", settings, " } ", more, " }");
}

Model model_of(LayerRun& run, int64_t batch, int classes) {
  Model model{batch, classes, run.bottom_values(0), run.param(0), {}, {}};
  if (run.num_params() == 3) {
    model.first = run.param(1);
    model.last = run.param(2);
  }
  return model;
}

/// Two columns of 5 steps: of 5, and of 2 and 3.
const Values kCont = {0, 0, 1, 1, 1, 0, 1, 1, 1, 1};
const std::vector<Sequence> kSequences = {{0, 0, 5}, {1, 0, 2}, {1, 2, 3}};

LayerCase loss_case(const char* settings, bool with_cont, const std::string& more = "") {
  LayerCase c{.layer = layer_text("CRFLoss", settings, more),
              .bottoms = {uniform({5, 2, 3}, -2, 2), labels({5, 2}, 3)},
              .tops = 2};
  if (with_cont) c.bottoms.push_back(given({5, 2}, kCont));
  return c;
}

TEST(CRFLoss, IsThatOfAllPaths) {
  for (const char* settings : {"", kTransitions, kFillers}) {
    for (const bool with_cont : {true, false}) {
      const LayerCase c = loss_case(settings, with_cont);
      LayerRun run(c, {.dtype = DType::f64});
      run.forward();
      const Model model = model_of(run, 2, 3);
      const std::vector<Sequence> sequences =
          with_cont ? kSequences : std::vector<Sequence>{{0, 0, 5}, {1, 0, 5}};
      double loss = 0;
      Values path(10);
      for (const Sequence& of : sequences) {
        const AllPaths all = model.all(of);
        std::vector<int> wanted;
        for (int64_t t = of.first; t < of.first + of.steps; ++t) {
          wanted.push_back(
              static_cast<int>(run.bottom_values(1)[static_cast<size_t>(t * 2 + of.column)]));
          path[static_cast<size_t>(t * 2 + of.column)] =
              all.best[static_cast<size_t>(t - of.first)];
        }
        loss += all.total - model.score(of, wanted);
      }
      expect_close(run.top(0), {loss / static_cast<double>(sequences.size())}, {1e-12, 1e-12},
                   "loss");
      EXPECT_EQ(run.top(1), path);
      check_gradients(c);
      check_engines(c);
    }
  }
  check_gradients(loss_case(kFillers, true,
                            "loss_param { normalization: NONE } loss_weight: 2 loss_weight: 0"));
}

TEST(CRFLoss, IgnoredLabelsEndSequences) {
  LayerCase c = loss_case(kFillers, false, "loss_param { ignore_label: 255 }");
  // Column 0: steps 0 to 2. Column 1: steps 1 and 2, and step 4.
  c.bottoms[1] = given({5, 2}, {0, 255, 1, 2, 2, 1, 255, 255, 255, 0});
  LayerRun run(c, {.dtype = DType::f64});
  for (const size_t at : {3, 18, 24}) run.bottom_values(0)[at] = kNaN;
  run.forward();
  const Model model = model_of(run, 2, 3);
  double loss = 0;
  const std::vector<std::pair<Sequence, std::vector<int>>> sequences = {
      {{0, 0, 3}, {0, 1, 2}}, {{1, 1, 2}, {2, 1}}, {{1, 4, 1}, {0}}};
  for (const auto& [of, wanted] : sequences) loss += model.all(of).total - model.score(of, wanted);
  expect_close(run.top(0), {loss / 3}, {1e-12, 1e-12}, "loss");
  for (const size_t at : {1, 6, 7, 8}) EXPECT_EQ(run.top(1)[at], -1) << at;
  run.backward();
  for (const size_t at : {3, 4, 5, 18, 19, 20, 24, 25, 26})
    EXPECT_EQ(run.bottom_diff(0)[at], 0) << at;
  check_gradients(c);
  c.bottoms[1] = given({5, 2}, Values(10, 255.0));
  LayerRun none(c);
  none.forward();
  none.backward();
  EXPECT_EQ(none.top(0)[0], 0);
  EXPECT_THAT(none.bottom_diff(0), testing::Each(0));
}

// Transitions that are nearly impossible, and scores far apart, leave sums that powers cannot hold.
TEST(CRFLoss, FarScoresAreExact) {
  LayerCase c{.layer = layer_text("CRFLoss", ""),
              .bottoms = {given({3, 1, 2}, {0, -3000, -2000, 0, 5, 0}), given({3, 1}, {1, 0, 1})},
              .params = {{0, -5000, -1000, -4000}}};
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  // The best path is 0 0 0: -1995. The path 1 0 1 has -3000 - 1000 - 2000 - 5000.
  EXPECT_NEAR(run.top(0)[0], -1995 + 11000, 1e-9);
  run.backward();
  expect_close(run.bottom_diff(0), {1, -1, 0, 0, 1, -1}, {1e-12, 1e-12}, "scores");
  expect_close(run.gradient(0), {2, -1, -1, 0}, {1e-12, 1e-12}, "transitions");
  // All that counts goes through such a sum: the best path 0 1 has -5000, the labels' 1 1 -7000.
  c.bottoms = {given({2, 1, 2}, {0, -3000, -20000, 0}), given({2, 1}, {1, 1})};
  LayerRun far(c, {.dtype = DType::f64});
  far.forward();
  EXPECT_NEAR(far.top(0)[0], 2000, 1e-9);
  far.backward();
  expect_close(far.bottom_diff(0), {1, -1, 0, 0}, {1e-12, 1e-12}, "scores");
  expect_close(far.gradient(0), {0, 1, 0, -1}, {1e-12, 1e-12}, "transitions");
}

TEST(CRFLoss, CountsWhatItKeeps) {
  LayerRun run(loss_case(kFillers, true), {.dtype = DType::f64});
  run.forward();
  // The gradients of 5 x 2 x 3 scores and of 15 parameters, a part of the latter with as many that
  // are to be scaled, the parameters with powers and largest ones, three sequences, the labels.
  const size_t doubles = 30 + 15 + (9 + 15) + (9 + 6 + 2 * 9 + 2 * 3);
  EXPECT_GE(run.layer().kept_bytes(), doubles * sizeof(double) + 3 * 3 * 8 + 10 * 4);
}

TEST(CRFLoss, ThreadsDoNotChangeTheResult) {
  const LayerCase c{.layer = layer_text("CRFLoss", kFillers),
                    .bottoms = {uniform({6, 61, 7}), labels({6, 61}, 7)}};
  std::vector<std::vector<Values>> results;
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 5, 19}) {
    omp_set_num_threads(threads);
    LayerRun run(c);
    run.forward();
    run.backward();
    results.push_back({run.top(0), run.bottom_diff(0), run.gradient(0), run.gradient(1)});
  }
  omp_set_num_threads(before);
  for (size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[i], results[0]) << i;
}

TEST(CRFDecoder, GivesTheBestPathOfAll) {
  for (const char* settings : {kTransitions, kFillers}) {
    LayerRun run({.layer = layer_text("CRFDecoder", settings),
                  .bottoms = {uniform({5, 2, 3}, -2, 2), given({5, 2}, kCont)}},
                 {.dtype = DType::f64});
    run.forward();
    const Model model = model_of(run, 2, 3);
    for (const Sequence& of : kSequences) {
      const AllPaths all = model.all(of);
      for (int64_t t = 0; t < of.steps; ++t)
        EXPECT_EQ(run.top(0)[static_cast<size_t>((of.first + t) * 2 + of.column)],
                  all.best[static_cast<size_t>(t)]);
    }
  }
  // Equal scores: the lower class.
  LayerRun equal(
      {.layer = "layer { type: 'CRFDecoder' }", .bottoms = {given({2, 1, 3}, {1, 2, 2, 0, 0, 0})}});
  equal.forward();
  EXPECT_THAT(equal.top(0), testing::ElementsAre(1, 0));
}

TEST(CRFLoss, ShapesMayChangeAndBeEmpty) {
  LayerRun run(loss_case(kFillers, true));
  for (const Shape& shape : {Shape{1, 4}, {5, 0}, {0, 2}, {5, 2}}) {
    Values begins(static_cast<size_t>(shape.count()), 0.0);
    run.reshape({uniform({shape[0], shape[1], 3}), labels(shape, 3), given(shape, begins)});
    run.forward();
    run.backward();
    EXPECT_EQ(run.top_blob(1).shape(), shape);
    EXPECT_TRUE(std::isfinite(run.top(0)[0]));
  }
}

TEST(CRFLoss, Errors) {
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun run(c);
          run.forward();
        },
        parts);
  };
  LayerCase c = loss_case(kFillers, true);
  c.bottoms[0] = uniform({5, 2});
  refuses(c, {"bottom0", "(steps, sequences, classes)"});
  c = loss_case(kFillers, true);
  c.bottoms[1] = labels({2, 5}, 3);
  refuses(c, {"labels", "bottom1", "2x5", "(5, 2)"});
  c = loss_case(kFillers, true);
  c.bottoms[2] = given({10}, kCont);
  refuses(c, {"indicators", "bottom2", "(5, 2)"});
  c.bottoms[2] = given({5, 2}, Values(10, 0.5));
  refuses(c, {"indicator 0.5", "step 0", "0 nor 1"});
  c = loss_case(kFillers, false);
  c.bottoms[1] = given({5, 2}, Values(10, 3.0));
  refuses(c, {"label 3", "[0, 3)"});
  refuses(loss_case("boundary_filler { type: 'constant' value: 1 }", false),
          {"boundary_filler", "boundary_term"});
  LayerRun run(loss_case(kFillers, false));
  expect_error([&] { run.reshape({uniform({5, 2, 4}), labels({5, 2}, 4)}); }, {"4 classes", "3"});
  LayerRun nan(loss_case(kFillers, false));
  nan.bottom_values(0)[9] = kNaN;
  expect_error([&] { nan.forward(); }, {"class 0", "step 1", "sequence 1"});
  LayerRun lost(loss_case(kFillers, false));
  lost.param_values(0)[1] = kNaN;
  expect_error([&] { lost.forward(); }, {"parameter"});
}

}  // namespace
}  // namespace crema::test
