// CTCLoss and its other names, and CTCGreedyDecoder: values against all paths, gradients, lengths,
// labels without an alignment, errors. tests/golden has cases of PyTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using Values = std::vector<double>;
using Classes = std::vector<int>;
const double kNaN = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

/// What a path of classes stands for.
Classes label_of(const Classes& path, int blank, bool merges) {
  Classes label;
  for (size_t t = 0; t < path.size(); ++t) {
    const bool repeats = merges && t > 0 && path[t] == path[t - 1];
    if (path[t] != blank && !repeats) label.push_back(path[t]);
  }
  return label;
}

/// The probability of a label: the sum over all paths of the steps [first, first + steps).
double probability_of(const Values& x, int64_t batch, int classes, int64_t n, int64_t first,
                      int64_t steps, const Classes& label, int blank, bool merges) {
  const auto score = [&](int64_t t, int c) {
    return x[static_cast<size_t>(((first + t) * batch + n) * classes + c)];
  };
  double sum = 0;
  Classes path(static_cast<size_t>(steps), 0);
  for (bool more = true; more;) {
    if (label_of(path, blank, merges) == label) {
      double probability = 1;
      for (int64_t t = 0; t < steps; ++t) {
        double all = 0;
        for (int c = 0; c < classes; ++c) all += std::exp(score(t, c));
        probability *= std::exp(score(t, path[static_cast<size_t>(t)])) / all;
      }
      sum += probability;
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
  return sum;
}

LayerCase rows_case(const std::string& settings, Shape scores, const Values& labels,
                    const std::string& type = "CTCLoss") {
  const int64_t batch = scores[1];
  return {.layer = text("layer { type: '", type, "' ", settings, " }"),
          .bottoms = {uniform(scores, -2, 2), given({batch, std::ssize(labels) / batch}, labels)}};
}

TEST(CTCLoss, IsTheSumOverAllPaths) {
  struct Case {
    int64_t steps;
    int classes, blank;
    Classes a, b;
  };
  for (const Case& c : {Case{4, 3, 2, {0, 1}, {1}},
                        {5, 3, 0, {1, 1}, {2, 1}},
                        {5, 3, 1, {0, 0, 2}, {}},
                        {3, 4, 3, {0, 1, 2}, {2, 0}},
                        {1, 2, 1, {0}, {}}}) {
    for (const bool merges : {true, false}) {
      for (const int delay : {0, 1}) {
        if (c.steps - delay < 3 && c.steps > 1) continue;
        if (delay == 1 && c.steps == 1) continue;
        Values labels;
        for (const Classes* label : {&c.a, &c.b}) {
          for (size_t i = 0; i < 3; ++i) labels.push_back(i < label->size() ? (*label)[i] : -1);
        }
        const LayerCase layer =
            rows_case(text("ctc_loss_param { blank_index: ", c.blank, " output_delay: ", delay,
                           " ctc_merge_repeated: ", merges ? "true" : "false",
                           " } loss_param { normalization: NONE }"),
                      {c.steps, 2, c.classes}, labels);
        LayerRun run(layer, {.dtype = DType::f64});
        run.forward();
        double loss = 0;
        for (const int n : {0, 1}) {
          const double p = probability_of(run.bottom_values(0), 2, c.classes, n, delay,
                                          c.steps - delay, n == 0 ? c.a : c.b, c.blank, merges);
          if (p > 0) loss -= std::log(p);
        }
        expect_close(run.top(0), {loss}, {1e-10, 1e-10}, text(c.steps, " ", merges, " ", delay));
        check_gradients(layer);
      }
    }
  }
}

TEST(CTCLoss, DividesByTheCountedSequences) {
  const Values labels = {0, 1, 1, -1, 0, -1};
  const auto loss = [&](const char* normalization) {
    LayerRun run(rows_case(normalization, {4, 3, 3}, labels), {.dtype = DType::f64});
    run.forward();
    return run.top(0)[0];
  };
  const double sum = loss("loss_param { normalization: NONE }");
  for (const char* mean : {"", "loss_param { normalization: FULL }"})
    EXPECT_NEAR(loss(mean), sum / 3, 1e-12);
  EXPECT_NEAR(loss("loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 5 }"), sum / 5,
              1e-12);
  check_gradients(rows_case("", {4, 3, 3}, labels));
  check_gradients(rows_case("", {4, 3, 3}, labels, "WarpCTCLoss"));
  check_engines(rows_case("", {9, 3, 37}, labels));
}

// The names differ in the blank that they have without a setting.
TEST(CTCLoss, EachNameHasItsBlank) {
  const Values labels = {1, 1, 1, 1};
  const auto loss = [&](const std::string& type, const std::string& settings) {
    LayerRun run(rows_case(settings, {4, 2, 3}, labels, type), {.dtype = DType::f64});
    run.forward();
    return run.top(0)[0];
  };
  const double last = loss("CTCLoss", "ctc_loss_param { blank_index: 2 }");
  const double first = loss("CTCLoss", "ctc_loss_param { blank_index: 0 }");
  EXPECT_NE(last, first);
  EXPECT_EQ(loss("CTCLoss", ""), last);
  EXPECT_EQ(loss("WarpCTCLoss", ""), first);
  EXPECT_EQ(loss("CtcLoss", ""), first);
  EXPECT_EQ(loss("CtcLoss", "ctc_loss_param { blank_label: 2 alphabet_size: 3 }"), last);
  EXPECT_EQ(loss("WarpCTCLoss", "ctc_loss_param { blank_index: -1 }"), last);
}

LayerCase columns_case(const Values& cont, const Values& labels) {
  return {.layer = "layer { type: 'CTCLoss' }",
          .bottoms = {uniform({4, 2, 3}, -2, 2), given({4, 2}, cont), given({3, 2}, labels)}};
}

TEST(CTCLoss, IndicatorsAndLengthsEndSequences) {
  const Values labels = {0, 1, 1, -1, -1, -1};
  const LayerCase c = columns_case({0, 0, 1, 1, 1, 0, 0, 1}, labels);
  LayerRun run(c, {.dtype = DType::f64});
  // What follows the sequences may be anything.
  for (const size_t at : {18, 19, 20, 15, 16, 17, 21, 22, 23}) run.bottom_values(0)[at] = kNaN;
  run.forward();
  const Values& x = run.bottom_values(0);
  const double expected = (-std::log(probability_of(x, 2, 3, 0, 0, 3, {0, 1}, 2, true)) -
                           std::log(probability_of(x, 2, 3, 1, 0, 2, {1}, 2, true))) /
                          2;
  expect_close(run.top(0), {expected}, {1e-12, 1e-12}, "loss");
  run.backward();
  for (const size_t at : {18, 19, 20, 15, 16, 17, 21, 22, 23})
    EXPECT_EQ(run.bottom_diff(0)[at], 0) << at;
  check_gradients(c);

  LayerCase lengths = c;
  lengths.bottoms = {c.bottoms[0], given({2}, {3, 2}), given({2}, {2, 1}),
                     given({3, 2}, {0, 1, 1, 7, -5, 7})};
  LayerRun same(lengths, {.dtype = DType::f64});
  same.forward();
  EXPECT_NEAR(same.top(0)[0], expected, 1e-12);
}

TEST(CTCLoss, UnusedColumnsAndTimeStepsCountForNothing) {
  LayerRun run(columns_case({0, 0, 1, 0, 1, 0, 1, 0}, {0, -1, 1, -1, -1, -1}),
               {.dtype = DType::f64});
  run.forward();
  EXPECT_NEAR(run.top(0)[0],
              -std::log(probability_of(run.bottom_values(0), 2, 3, 0, 0, 4, {0, 1}, 2, true)),
              1e-12);
  LayerRun some(rows_case("ctc_loss_param { time_step: 3 }", {5, 1, 3}, {0, 1}),
                {.dtype = DType::f64});
  some.forward();
  EXPECT_NEAR(some.top(0)[0],
              -std::log(probability_of(some.bottom_values(0), 1, 3, 0, 0, 3, {0, 1}, 2, true)),
              1e-12);
}

TEST(CTCLoss, LabelsWithoutAnAlignmentAreLeftOut) {
  // Sequence 0 needs five steps: 0 blank 0 blank 0. Sequence 1 can be.
  const LayerCase c = rows_case("", {4, 2, 3}, {0, 0, 0, 1, -1, -1});
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  EXPECT_NEAR(run.top(0)[0],
              -std::log(probability_of(run.bottom_values(0), 2, 3, 1, 0, 4, {1}, 2, true)), 1e-12);
  run.backward();
  for (size_t i = 0; i < 24; ++i) {
    const bool of_first = i / 3 % 2 == 0;
    EXPECT_EQ(run.bottom_diff(0)[i] == 0, of_first) << i;
  }
  check_gradients(c);
  // None can be.
  LayerRun none(rows_case("", {2, 1, 3}, {0, 0, 0}));
  none.forward();
  none.backward();
  EXPECT_EQ(none.top(0)[0], 0);
  EXPECT_THAT(none.bottom_diff(0), testing::Each(0));
  // A class that cannot be, although there are steps enough.
  LayerRun never(rows_case("", {3, 1, 3}, {0, -1, -1}));
  for (const size_t at : {0, 3, 6}) never.bottom_values(0)[at] = -kInfinity;
  never.forward();
  never.backward();
  EXPECT_EQ(never.top(0)[0], 0);
  EXPECT_THAT(never.bottom_diff(0), testing::Each(0));
}

TEST(CTCLoss, LongSequencesAndLargeScoresStayFinite) {
  Values labels(60);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<double>(i % 3);
  LayerCase c = rows_case("", {400, 1, 4}, labels);
  c.bottoms[0] = uniform({400, 1, 4}, -2000, 2000);
  for (const DType dtype : {DType::f32, DType::f64}) {
    LayerRun run(c, {.dtype = dtype});
    run.forward();
    run.backward();
    EXPECT_TRUE(std::isfinite(run.top(0)[0]));
    EXPECT_GT(run.top(0)[0], 1000);
    for (int64_t t = 0; t < 400; ++t) {
      double sum = 0;
      for (int64_t k = 0; k < 4; ++k) sum += run.bottom_diff(0)[static_cast<size_t>(t * 4 + k)];
      EXPECT_NEAR(sum, 0, 1e-4) << t;
    }
  }
}

TEST(CTCLoss, CountsWhatItKeeps) {
  LayerRun run(rows_case("", {9, 3, 37}, {0, 1, 1, -1, 0, -1}), {.dtype = DType::f64});
  run.forward();
  // The gradient, the sums of exponentials, the probabilities, steps and labels of the sequences;
  // of one sequence, its 5 states at all 9 steps, nine rows of them, and their classes twice.
  const size_t doubles = 9 * 3 * 37 + 9 * 3 + 3 + 9 * 5 + 9 * 5;
  EXPECT_GE(run.layer().kept_bytes(), doubles * sizeof(double) + 3 * 8 + 4 * 4 + 4 * 8 + 2 * 5 * 4);
}

TEST(CTCLoss, ThreadsDoNotChangeTheResult) {
  const LayerCase c = rows_case("", {6, 5, 4}, {0, 1, 1, 1, 2, -1, 2, 2, 0, -1});
  std::vector<Values> results;
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    LayerRun run(c);
    run.forward();
    run.backward();
    results.push_back(run.bottom_diff(0));
    results.back().push_back(run.top(0)[0]);
  }
  omp_set_num_threads(before);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST(CTCLoss, NoSequencesAndNoSteps) {
  for (const Shape& shape : {Shape{3, 0, 4}, {0, 2, 4}}) {
    LayerCase c{.layer = "layer { type: 'CTCLoss' }",
                .bottoms = {uniform(shape),
                            given({shape[1], 1}, Values(static_cast<size_t>(shape[1]), 1.0))}};
    LayerRun run(c);
    run.forward();
    run.backward();
    EXPECT_EQ(run.top(0)[0], 0);
  }
}

TEST(CTCLoss, Errors) {
  const Values labels = {0, 1, 1, -1};
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun run(c);
          run.forward();
        },
        parts);
  };
  const auto rows = [&](const char* settings) { return rows_case(settings, {4, 2, 3}, labels); };
  refuses(rows("ctc_loss_param { blank_index: 3 }"), {"class 3", "3 classes", "-1"});
  refuses(rows("ctc_loss_param { blank_index: -5 }"), {"class -5", "3 classes", "-1"});
  LayerCase steps = rows("ctc_loss_param { time_step: 3 }");
  steps.bottoms.insert(steps.bottoms.begin() + 1, given({4, 2}, Values(8, 1.0)));
  steps.layer = "layer { type: 'CTCLoss' ctc_loss_param { time_step: 3 } }";
  refuses(steps, {"time_step 3", "bottom1", "remove it"});
  refuses(rows("ctc_loss_param { blank_index: 1 blank_label: 0 }"),
          {"blank_index 1", "blank_label 0"});
  refuses(rows("ctc_loss_param { alphabet_size: 4 }"), {"alphabet_size 4", "4x2x3"});
  refuses(rows("ctc_loss_param { time_step: 5 }"), {"time_step 5", "4 steps"});
  refuses(rows("loss_param { label_smoothing: 0.1 }"), {"label_smoothing"});
  refuses(rows_case("", {4, 2, 3}, {0, 3, 1, -1}), {"label 3", "sequence 0", "[0, 3)"});
  refuses(rows_case("", {4, 2, 3}, {0, 0.5, 1, -1}), {"label 0.5"});
  refuses(rows_case("", {4, 2, 3}, {0, kNaN, 1, -1}), {"label nan"});
  LayerCase c = rows("");
  c.bottoms[0] = uniform({4, 2});
  refuses(c, {"bottom0", "4x2", "(steps, sequences, classes)"});
  c = rows("");
  c.bottoms[1] = given({3, 1}, {0, 1, 1});
  refuses(c, {"bottom1", "3x1", "(2, labels)"});
  c = columns_case({0, 0, 1, 1, 1, 0, 0, 1}, {0, 1, 1, -1, -1, -1});
  c.bottoms[1] = given({2, 4}, Values(8, 0.0));
  refuses(c, {"bottom1", "2x4", "(4, 2)"});
  refuses(columns_case({0, 0, 1, 1, 1, 2, 0, 1}, {0, 1, 1, -1, -1, -1}), {"indicator 2", "step 2"});
  refuses(columns_case({0, 0, 1, 1, 1, 1, 0, 1}, {2, 1, 1, -1, -1, -1}), {"label 2", "blank"});
  LayerCase lengths = c;
  lengths.bottoms = {c.bottoms[0], given({2}, {5, 2}), given({2}, {2, 1}), c.bottoms[2]};
  refuses(lengths, {"sequence 0", "length 5", "[0, 4]"});
  lengths.bottoms[1] = given({2}, {4, 2});
  lengths.bottoms[2] = given({2}, {2, 4});
  refuses(lengths, {"sequence 1", "length 4", "[0, 3]"});
  for (const double bad : {kNaN, kInfinity}) {
    LayerRun run(rows(""));
    run.bottom_values(0)[9] = bad;
    expect_error([&] { run.forward(); }, {"step 1", "sequence 1", "NaN"});
  }
}

// --- CTCGreedyDecoder ----------------------------------------------------------------------------

/// Scores whose best classes are those of `paths` (T, N).
Input scores_of(int64_t steps, int64_t batch, int64_t classes, const Classes& paths) {
  Values values(static_cast<size_t>(steps * batch * classes), 0.25);
  for (size_t i = 0; i < paths.size(); ++i)
    values[i * static_cast<size_t>(classes) + static_cast<size_t>(paths[i])] = 0.5;
  return given({steps, batch, classes}, values);
}

TEST(CTCGreedyDecoder, RemovesRepetitionsAndBlanks) {
  // 0 0 _ 0 1 and 2 _ _ 2 2, the blank being 3
  const Input scores = scores_of(5, 2, 4, {0, 2, 0, 3, 3, 3, 0, 2, 1, 2});
  for (const bool merges : {true, false}) {
    LayerRun run({.layer = text("layer { type: 'CTCGreedyDecoder' ctc_decoder_param { "
                                "ctc_merge_repeated: ",
                                merges ? "true" : "false", " } }"),
                  .bottoms = {scores}});
    run.forward();
    EXPECT_THAT(run.top(0), merges ? testing::ElementsAre(0, 2, 0, 2, 1, -1, -1, -1, -1, -1)
                                   : testing::ElementsAre(0, 2, 0, 2, 0, 2, 1, -1, -1, -1));
  }
}

TEST(CTCGreedyDecoder, ScoresAndAccuracy) {
  const Input scores = scores_of(4, 2, 3, {0, 1, 0, 0, 1, 1, 2, 1});
  const Input cont = given({4, 2}, {0, 0, 1, 1, 1, 0, 1, 1});
  // Sequence 0 is 0 1 (as wanted), sequence 1 is 1 0 of its two steps; 0 0 1 is wanted.
  const Input target = given({3, 2}, {0, 0, 1, 0, -1, 1});
  LayerRun run({.layer = "layer { type: 'CTCGreedyDecoder' }",
                .bottoms = {scores, cont, target},
                .tops = 3});
  run.forward();
  EXPECT_THAT(run.top(0), testing::ElementsAre(0, 1, 1, 0, -1, -1, -1, -1));
  EXPECT_THAT(run.top(1), testing::ElementsAre(-2, -1));
  EXPECT_NEAR(run.top(2)[0], 1 - 2.0 / 3 / 2, 1e-6);
  LayerRun two({.layer = "layer { type: 'CTCGreedyDecoder' }",
                .bottoms = {scores, cont, target},
                .tops = 2});
  two.forward();
  EXPECT_EQ(two.top(1), run.top(2));
  LayerRun plain(
      {.layer = "layer { type: 'CTCGreedyDecoder' ctc_decoder_param { blank_index: 0 } }",
       .bottoms = {scores},
       .tops = 2});
  plain.forward();
  EXPECT_THAT(plain.top(0), testing::ElementsAre(1, 1, 2, 1, -1, -1, -1, -1));
  EXPECT_THAT(plain.top(1), testing::ElementsAre(-2, -2));
}

TEST(CTCGreedyDecoder, Errors) {
  const Input scores = scores_of(4, 2, 3, {0, 1, 0, 0, 1, 1, 2, 1});
  const auto refuses = [](const LayerCase& c, std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun run(c);
          run.forward();
        },
        parts);
  };
  const std::string layer = "layer { type: 'CTCGreedyDecoder' }";
  refuses({.layer = layer, .bottoms = {uniform({4, 2})}},
          {"bottom0", "(steps, sequences, classes)"});
  refuses({.layer = layer, .bottoms = {scores, uniform({2, 4}, 0, 1)}},
          {"bottom1", "2x4", "(4, 2)"});
  refuses({.layer = layer, .bottoms = {scores, given({4, 2}, Values(8, 1.0))}, .tops = 3},
          {"third", "accuracy"});
  refuses({.layer = "layer { type: 'CTCGreedyDecoder' ctc_decoder_param { blank_index: 3 } }",
           .bottoms = {scores}},
          {"class 3"});
  LayerRun run({.layer = layer, .bottoms = {scores}});
  run.bottom_values(0)[9] = kNaN;
  expect_error([&] { run.forward(); }, {"step 1", "sequence 1", "NaN"});
}

}  // namespace
}  // namespace crema::test
