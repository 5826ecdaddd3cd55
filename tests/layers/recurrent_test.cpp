// LSTM, RNN and GRU: values against plain loops, gradients, carried states, masks, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/carried_state.hpp"
#include "layer_support/two_sided.hpp"
#include "support/fake_device.hpp"
#include "support/layer_test.hpp"
#include "support/needs.hpp"
#include "support/sum_tolerance.hpp"

namespace crema::test {
namespace {

using Values = std::vector<double>;
const double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Sizes {
  int64_t steps, batch, inputs, units;
  int64_t static_inputs = 0;
  bool exposes = false;
  bool both = false;  // directions
};

/// GRU whose reset gate comes before the product.
const std::string kResetFirst = "GRUResetFirst";

/// What layer_text() is given beside units.
std::string settings_of(const std::string& type, const Sizes& s) {
  return text(s.exposes ? "expose_hidden: true " : "", s.both ? "bidirectional: true " : "",
              type == kResetFirst ? "linear_before_reset: false" : "");
}

std::string layer_text(const std::string& type, int64_t units, const std::string& more = "") {
  // Of many units, large weights make rounding errors grow from step to step.
  const double most = units > 100 ? 0.1 : 0.8;
  return text("layer { type: '", type.substr(0, type.find("Reset")),
              "' recurrent_param { num_output: ", units,
              " weight_filler { type: 'uniform' min: ", -most, " max: ", most,
              " }"
              " bias_filler { type: 'uniform' min: -0.5 max: 0.5 } ",
              more, " } }");
}

/// `cont`: 1, but for the first step where states are carried, and for some places in the middle.
Values indicators(const Sizes& s, bool begins) {
  Values values(static_cast<size_t>(s.steps * s.batch), 1.0);
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    if ((begins && i < s.batch) || i % 5 == 4) values[static_cast<size_t>(i)] = 0;
  }
  return values;
}

LayerCase make_case(const std::string& type, const Sizes& s, Values cont) {
  LayerCase c{.layer = layer_text(type, s.units, settings_of(type, s)),
              .bottoms = {uniform({s.steps, s.batch, s.inputs}, -2, 2),
                          given({s.steps, s.batch}, std::move(cont))}};
  const int states = type == "LSTM" ? 2 : 1;
  if (s.static_inputs > 0) c.bottoms.push_back(uniform({s.batch, s.static_inputs}));
  for (int i = 0; s.exposes && i < states; ++i) {
    c.bottoms.push_back(uniform({s.both ? 2 : 1, s.batch, s.units}));
    ++c.tops;
  }
  return c;
}
LayerCase make_case(const std::string& type, const Sizes& s) {
  return make_case(type, s, indicators(s, !s.exposes));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// row `n` of a (?, columns) times the transposed matrix `weights` (?, columns), its row `r`
double dot(const Values& a, int64_t n, const Values& weights, int64_t r, int64_t columns) {
  double sum = 0;
  for (int64_t c = 0; c < columns; ++c) {
    sum += a[static_cast<size_t>(n * columns + c)] * weights[static_cast<size_t>(r * columns + c)];
  }
  return sum;
}

/// One direction of a layer, a sequence and a unit at a time.
struct Plain {
  const std::string& type;
  const Sizes& s;
  LayerRun& run;
  bool reverse;
  Values y, h, c;  // (T, N, H); (N, H) the states

  Values next_param() { return run.param(param++); }
  int param = 0;

  void compute() {
    const int64_t H = s.units;
    const bool lstm = type == "LSTM", rnn = type == "RNN", gru = !lstm && !rnn;
    const int64_t blocks = lstm ? 4 : gru ? 3 : 1;
    const Values wx = next_param(), b = next_param();
    const Values ws = s.static_inputs > 0 ? next_param() : Values(), wh = next_param();
    const Values bh = type == "GRU" ? next_param() : Values(static_cast<size_t>(H));
    const Values wo = rnn ? next_param() : Values(), bo = rnn ? next_param() : Values();
    const Values x = run.bottom_values(0), cont = run.bottom_values(1);
    const Values fixed = s.static_inputs > 0 ? run.bottom_values(2) : Values();
    y.resize(static_cast<size_t>(s.steps * s.batch * H));
    for (int64_t i = 0; i < s.steps; ++i) {
      const int64_t t = reverse ? s.steps - 1 - i : i, begins = reverse ? t + 1 : t;
      Values before = h;
      for (int64_t at = 0; begins < s.steps && at < std::ssize(h); ++at) {
        const double factor = cont[static_cast<size_t>(begins * s.batch + at / H)];
        before[static_cast<size_t>(at)] *= factor;
        c[static_cast<size_t>(at)] *= factor;
      }
      const auto at = [&](int64_t n, int64_t u) { return static_cast<size_t>(n * H + u); };
      const auto of_input = [&](int64_t n, int64_t k, int64_t u) {
        const int64_t r = k * H + u;
        double sum = b[static_cast<size_t>(r)] + dot(x, t * s.batch + n, wx, r, s.inputs);
        if (s.static_inputs > 0) sum += dot(fixed, n, ws, r, s.static_inputs);
        return sum;
      };
      Values reset = before;
      if (gru) {
        for (int64_t n = 0; n < s.batch; ++n) {
          for (int64_t u = 0; u < H; ++u)
            reset[at(n, u)] *= sigmoid(of_input(n, 0, u) + dot(before, n, wh, u, H));
        }
      }
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t u = 0; u < H; ++u) {
          Values sums;
          for (int64_t k = 0; k < blocks; ++k) {
            const bool candidate = gru && k == 2;
            sums.push_back(of_input(n, k, u) + (candidate ? 0 : dot(before, n, wh, k * H + u, H)));
          }
          if (type == "GRU") {
            const double of_state = bh[static_cast<size_t>(u)] + dot(before, n, wh, 2 * H + u, H);
            sums[2] += sigmoid(sums[0]) * of_state;
          } else if (gru) {
            sums[2] += dot(reset, n, wh, 2 * H + u, H);
          }
          if (lstm) {
            double& cell = c[at(n, u)];
            cell = sigmoid(sums[1]) * cell + sigmoid(sums[0]) * std::tanh(sums[3]);
            h[at(n, u)] = sigmoid(sums[2]) * std::tanh(cell);
          } else if (gru) {
            const double z = sigmoid(sums[1]);
            h[at(n, u)] = (1 - z) * std::tanh(sums[2]) + z * before[at(n, u)];
          } else {
            h[at(n, u)] = std::tanh(sums[0]);
          }
        }
      }
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t u = 0; u < H; ++u) {
          y[static_cast<size_t>((t * s.batch + n) * H + u)] =
              rnn ? std::tanh(bo[static_cast<size_t>(u)] + dot(h, n, wo, u, H)) : h[at(n, u)];
        }
      }
    }
  }
};

/// What the definition gives: the tops.
std::vector<Values> expected_tops(const std::string& type, const Sizes& s, LayerRun& run) {
  const int first_state = 2 + (s.static_inputs > 0 ? 1 : 0);
  const int64_t H = s.units, row = s.batch * H, directions = s.both ? 2 : 1;
  const int states = type == "LSTM" ? 2 : 1;
  std::vector<Values> tops = {Values(static_cast<size_t>(s.steps * row * directions))};
  int param = 0;
  for (int64_t d = 0; d < directions; ++d) {
    Plain plain{type, s, run, d == 1, {}, {}, {}, param};
    for (Values* state : {&plain.h, &plain.c}) state->resize(static_cast<size_t>(row));
    for (int i = 0; s.exposes && i < states; ++i) {
      const Values& first = run.bottom_values(first_state + i);
      (i == 0 ? plain.h : plain.c).assign(first.begin() + d * row, first.begin() + (d + 1) * row);
    }
    plain.compute();
    param = plain.param;
    for (int64_t i = 0; i < std::ssize(plain.y); ++i) {
      tops[0][static_cast<size_t>((i / H * directions + d) * H + i % H)] =
          plain.y[static_cast<size_t>(i)];
    }
    for (int i = 0; s.exposes && i < states; ++i) {
      if (d == 0) tops.emplace_back();
      const Values& last = i == 0 ? plain.h : plain.c;
      tops[static_cast<size_t>(1 + i)].insert(tops[static_cast<size_t>(1 + i)].end(), last.begin(),
                                              last.end());
    }
  }
  return tops;
}

const std::vector<Sizes> kSizes = {{4, 2, 5, 3},
                                   {4, 2, 5, 3, 2},
                                   {4, 3, 2, 3, 0, true},
                                   {3, 2, 4, 17, 3, true},
                                   {1, 2, 3, 2},
                                   {1, 2, 3, 2, 1, true},
                                   {5, 1, 3, 4},
                                   {5, 1, 3, 4, 2, true},
                                   {1, 1, 1, 1, 0, true},
                                   {4, 2, 5, 3, 0, false, true},
                                   {4, 3, 2, 3, 2, true, true},
                                   {1, 2, 3, 17, 1, true, true},
                                   {7, 1, 2, 2, 0, false, true}};

class Recurrent : public testing::TestWithParam<const char*> {
 protected:
  const std::string type_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(, Recurrent, testing::Values("LSTM", "RNN", "GRU", "GRUResetFirst"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(Recurrent, Values) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(text(s.steps, " ", s.batch, " ", s.inputs, " ", s.units));
    const LayerCase c = make_case(type_, s);
    for (const DType dtype : {DType::f32, DType::f64}) {
      LayerRun run(c, {.dtype = dtype});
      run.forward();
      const std::vector<Values> expected = expected_tops(type_, s, run);
      const double near = dtype == DType::f64 ? 1e-12 : 2e-5;
      for (int i = 0; i < run.num_tops(); ++i) {
        expect_close(run.top(i), expected[static_cast<size_t>(i)], {near, near}, text("top ", i));
      }
    }
  }
}

TEST_P(Recurrent, ParametersInPublishedOrder) {
  for (const bool both : {false, true}) {
    LayerRun run(make_case(type_, {4, 2, 5, 3, 2, false, both}));
    std::vector<std::string> shapes, expected;
    for (const auto& parameter : run.layer().params()) shapes.push_back(parameter->shape().str());
    for (int d = 0; d < (both ? 2 : 1); ++d) {
      const int64_t width = type_ == "LSTM" ? 12 : type_ == "RNN" ? 3 : 9;
      for (const Shape& shape : {Shape{width, 5}, {width}, {width, 2}, {width, 3}})
        expected.push_back(shape.str());
      if (type_ == "GRU") expected.push_back(Shape{3}.str());
      if (type_ == "RNN") expected.insert(expected.end(), {Shape{3, 3}.str(), Shape{3}.str()});
    }
    EXPECT_EQ(shapes, expected);
  }
}

TEST_P(Recurrent, Gradients) {
  for (const Sizes& s : kSizes) {
    SCOPED_TRACE(text(s.steps, " ", s.batch, " ", s.inputs, " ", s.units));
    check_gradients(make_case(type_, s));
  }
  // All sequences begin in the middle, and at the last step.
  const Sizes exposed{4, 2, 2, 3, 1, true};
  check_gradients(make_case(type_, exposed, {1, 1, 0, 0, 1, 1, 0, 0}));
  check_gradients(make_case(type_, exposed, {0, 0, 1, 1, 1, 0, 1, 1}));
  // Factors between 0 and 1.
  check_gradients(make_case(type_, exposed, {0.3, 1, 0.5, 0, 1, 0.7, 0.2, 1}));
  const Sizes both{4, 2, 2, 3, 1, true, true};
  check_gradients(make_case(type_, both, {1, 1, 0, 0, 1, 1, 0, 0}));
  check_gradients(make_case(type_, both, {0.3, 1, 0.5, 0, 1, 0.7, 0.2, 1}));
}

/// A step sums up to four gates of all units, and the next one goes on with the sum.
Tolerance tolerance_of(const Sizes& s) {
  return of_sums(static_cast<double>(s.steps * 4 * (s.inputs + s.static_inputs + s.units)));
}

TEST_P(Recurrent, Engines) {
  for (const Sizes& s : kSizes) check_engines(make_case(type_, s), tolerance_of(s));
  const Sizes middle{6, 7, 19, 33, 5, true}, both{6, 7, 19, 33, 5, true, true};
  const auto ran = check_engines(make_case(type_, middle), tolerance_of(middle));
  EXPECT_THAT(ran, testing::Contains(testing::HasSubstr("native")));
  // Directions side by side, and by turns: steps of more than a million multiply-adds.
  check_engines(make_case(type_, both), tolerance_of(both));
  const Sizes large{3, 8, 5, 384, 0, false, true};
  for (const int threads : {1, 2, 3}) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    check_engines(make_case(type_, large), tolerance_of(large));
    omp_set_num_threads(before);
  }
}

// The reverse direction begins anew where a sequence ends, and at the last step, whatever the pass
// before it saw; that of the forward direction goes on.
TEST_P(Recurrent, TheReverseDirectionBeginsAtTheEndOfASequence) {
  const Sizes two{5, 1, 3, 4, 0, false, true}, first{3, 1, 3, 4, 0, false, true};
  LayerRun joined(make_case(type_, two, {0, 1, 1, 0, 1}));
  joined.forward();
  const LayerCase alone = make_case(type_, first, {0, 1, 1});
  LayerRun part(alone);
  const Values all = joined.bottom_values(0);
  part.bottom_values(0).assign(all.begin(), all.begin() + 9);
  for (int pass = 0; pass < 2; ++pass) {
    part.forward();
    const Values begin(joined.top(0).begin(), joined.top(0).begin() + 24);
    expect_close(part.top(0), begin, {1e-6, 1e-6}, text("pass ", pass));
  }
  const int64_t count = std::ssize(dynamic_cast<CarriesState&>(joined.layer()).carried());
  EXPECT_EQ(count, type_ == "LSTM" ? 2 : 1);
}

TEST_P(Recurrent, LargeProblemsRunOnTheEngineByThemselves) {
  const LayerCase c = make_case(type_, {2, 16, 8, 300});
  EXPECT_EQ(LayerRun(c, {.engine = ""}).engine(), "native");
  check_engines(c, {1e-4, 1e-4});
}

// --- The state between passes --------------------------------------------------------------------

/// Rows [first, first + count) of x, and `cont`.
std::vector<Input> part_of(LayerRun& run, int64_t first, int64_t count, const Sizes& s) {
  const auto cut = [&](const Values& all, int64_t row) {
    return Values(all.begin() + first * row, all.begin() + (first + count) * row);
  };
  return {given({count, s.batch, s.inputs}, cut(run.bottom_values(0), s.batch * s.inputs)),
          given({count, s.batch}, cut(run.bottom_values(1), s.batch))};
}

TEST_P(Recurrent, AStateIsCarriedToTheNextPass) {
  const Sizes s{7, 3, 2, 4};
  for (const char* engine : {"reference", "native"}) {
    LayerRun whole(make_case(type_, s), {.engine = engine});
    LayerRun parts(make_case(type_, s), {.engine = engine});
    whole.forward();
    Values joined;
    for (const auto& [first, count] : {std::pair{0, 3}, {3, 1}, {4, 3}}) {
      parts.reshape(part_of(whole, first, count, s));
      parts.forward();
      joined.insert(joined.end(), parts.top(0).begin(), parts.top(0).end());
    }
    expect_close(joined, whole.top(0), {1e-6, 1e-6}, engine);
  }
}

TEST_P(Recurrent, TheFirstStateIsZeroAndSoIsThatOfAnotherBatchSize) {
  const Sizes s{2, 3, 2, 4}, more{2, 5, 2, 4};
  const auto ones = [](const Sizes& of) { return Values(size_t(of.steps * of.batch), 1.0); };
  LayerRun carried(make_case(type_, s, ones(s)));
  carried.forward();
  const Values first = carried.top(0);
  expect_close(first, expected_tops(type_, s, carried)[0], {1e-5, 1e-5}, "from zeros");
  carried.forward();
  EXPECT_NE(carried.top(0), first);
  carried.reshape(make_case(type_, more, ones(more)).bottoms);
  carried.forward();
  expect_close(carried.top(0), expected_tops(type_, more, carried)[0], {1e-5, 1e-5}, "another N");
}

// `recompute: true` repeats a pass; the next one continues where the first had ended.
TEST_P(Recurrent, ARepeatedPassBeginsAsTheFirst) {
  const Sizes s{3, 2, 2, 4};
  const LayerCase c = make_case(type_, s, Values(6, 1.0));
  LayerRun plain(c), repeated(c);
  for (int pass = 0; pass < 3; ++pass) {
    plain.forward();
    repeated.forward();
    EXPECT_EQ(repeated.top(0), plain.top(0));
    repeated.state().recomputing = true;
    repeated.forward();
    repeated.state().recomputing = false;
    EXPECT_EQ(repeated.top(0), plain.top(0));
  }
}

TEST_P(Recurrent, TheStateStaysOnTheDevice) {
  if (kBuiltWithCuda)
    GTEST_SKIP() << "needs a build without CUDA, whose kernels the host cannot run: configure with "
                    "CREMA_CUDA=OFF";
  const Sizes s{3, 2, 2, 4};
  const LayerCase c = make_case(type_, s, Values(6, 1.0));
  FakeDevice device;  // outlives what the layers hold there
  LayerRun host(c), there(c);
  there.forward();
  host.forward();
  Blob top(Shape{3, 2, 4});
  Blob* const bottoms[] = {&there.bottom_blob(0), &there.bottom_blob(1)};
  Blob* const tops[] = {&top};
  for (int pass = 0; pass < 3; ++pass) {
    host.forward();
    dynamic_cast<TwoSidedLayer&>(there.layer()).run_forward(ComputeDevice(device), bottoms, tops);
    EXPECT_EQ(device.downloads, 0);
    expect_close(values_of(top.data), host.top(0), {1e-6, 1e-5}, text("pass ", pass));
    device.downloads = 0;
  }
  top = Blob();
  for (Blob* blob : bottoms) blob->data = blob->diff = Tensor();
}

// --- Masks ---------------------------------------------------------------------------------------

/// Whether the values of sequence n from step `first` on are finite.
bool finite_from(const Values& values, const Sizes& s, int64_t row, int64_t first, int64_t n) {
  for (int64_t t = first; t < s.steps; ++t) {
    const auto begin = values.begin() + (t * s.batch + n) * row;
    if (!std::all_of(begin, begin + row, [](double v) { return std::isfinite(v); })) return false;
  }
  return true;
}

TEST_P(Recurrent, WhatAnIndicatorMasksDoesNotLeak) {
  const Sizes s{4, 2, 3, 5, 0, true};
  for (const char* engine : {"reference", "native"}) {
    // Sequence 0 begins anew at step 2; before that, all of it is NaN.
    LayerRun run(make_case(type_, s, {1, 1, 1, 1, 0, 1, 1, 1}), {.engine = engine});
    for (const size_t at : {0, 1, 2, 6, 7, 8}) run.bottom_values(0)[at] = kNaN;
    for (size_t u = 0; u < 5; ++u) run.bottom_values(2)[u] = kNaN;
    run.forward();
    EXPECT_TRUE(std::isnan(run.top(0)[0]));
    EXPECT_TRUE(finite_from(run.top(0), s, s.units, 2, 0));
    EXPECT_TRUE(finite_from(run.top(0), s, s.units, 0, 1));
    run.backward();
    EXPECT_TRUE(finite_from(run.bottom_diff(0), s, s.inputs, 2, 0));
    EXPECT_TRUE(finite_from(run.bottom_diff(0), s, s.inputs, 0, 1));
  }
}

TEST_P(Recurrent, MaskedStatesAndDiffsAreZero) {
  const Sizes s{3, 2, 3, 4, 0, true};
  for (const char* engine : {"reference", "native"}) {
    LayerRun run(make_case(type_, s, {0, 0, 1, 1, 0, 1}), {.engine = engine});
    for (int i = 2; i < run.num_bottoms(); ++i) {
      std::fill(run.bottom_values(i).begin(), run.bottom_values(i).end(), kNaN);
    }
    // Nothing of the last step of sequence 0 reaches the steps before it.
    Values diff(24, 0.0);
    std::fill(diff.begin() + 16, diff.begin() + 20, std::numeric_limits<double>::infinity());
    run.set_top_diff(0, diff);
    for (int i = 1; i < run.num_tops(); ++i) run.set_top_diff(i, Values(8, 0.0));
    run.forward();
    for (const double value : run.top(0)) EXPECT_TRUE(std::isfinite(value));
    run.backward();
    const Values dx = run.bottom_diff(0);
    EXPECT_FALSE(std::isfinite(dx[12]));
    for (size_t i = 0; i < 12; ++i) EXPECT_EQ(dx[i], 0) << i;
    for (int i = 2; i < run.num_bottoms(); ++i) {
      EXPECT_THAT(run.bottom_diff(i), testing::Each(0)) << i;
    }
  }
}

// --- Shapes and errors ---------------------------------------------------------------------------

TEST_P(Recurrent, ShapesMayChange) {
  LayerCase c = make_case(type_, {4, 2, 5, 3, 2, true});
  LayerRun run(c);
  for (const Sizes& s :
       {Sizes{4, 2, 5, 3, 2, true}, {1, 7, 5, 3, 2, true}, {6, 1, 5, 3, 2, true}}) {
    run.reshape(make_case(type_, s).bottoms);
    run.forward();
    EXPECT_EQ(run.top_blob(0).shape(), (Shape{s.steps, s.batch, 3}));
    EXPECT_EQ(run.top_blob(1).shape(), (Shape{1, s.batch, 3}));
    expect_close(run.top(0), expected_tops(type_, s, run)[0], {2e-5, 2e-5}, "top");
    run.backward();
  }
  // Axes behind the sequences are one vector.
  c = make_case(type_, {4, 2, 6, 3});
  const Values flat = [&] {
    LayerRun of(c);
    of.forward();
    return of.top(0);
  }();
  c.bottoms[0].shape = {4, 2, 3, 1, 2};
  LayerRun deep(c);
  deep.forward();
  EXPECT_EQ(deep.top(0), flat);
}

TEST_P(Recurrent, NoStepsAndNoSequences) {
  for (const char* engine : {"reference", "native"}) {
    // Without a step, the last states are the first ones, and so are their diffs.
    LayerRun none(make_case(type_, {0, 2, 3, 4, 2, true}), {.engine = engine});
    none.forward();
    none.backward();
    for (int i = 1; i < none.num_tops(); ++i) {
      expect_close(none.top(i), none.bottom_values(2 + i), {1e-6, 1e-6}, "state");
      expect_close(none.bottom_diff(2 + i), none.top_diff(i), {1e-6, 1e-6}, "diff");
    }
    EXPECT_THAT(none.bottom_diff(2), testing::Each(0));
    EXPECT_THAT(none.gradient(0), testing::Each(0));
    LayerRun empty(make_case(type_, {3, 0, 3, 4, 2, true}), {.engine = engine});
    empty.forward();
    empty.backward();
    for (int i = 0; i < empty.num_params(); ++i) {
      EXPECT_THAT(empty.gradient(i), testing::Each(0)) << i;
    }
  }
}

TEST_P(Recurrent, Errors) {
  const Sizes s{4, 2, 5, 3, 2, true};
  const LayerCase good = make_case(type_, s);
  const auto refuses = [&](size_t bottom, Shape shape,
                           std::initializer_list<std::string_view> parts) {
    LayerCase c = good;
    c.bottoms[bottom] = uniform(std::move(shape), 0, 1);
    expect_error([&] { LayerRun{c}; }, parts);
  };
  expect_error(
      [&] {
        LayerRun({.layer = text("layer { type: '", type_.substr(0, type_.find("Reset")), "' }"),
                  .bottoms = {uniform({1, 1, 1}), given({1, 1}, {0})}});
      },
      {"num_output", "recurrent_param"});
  refuses(0, {4}, {"bottom0", "(steps, sequences, ...)"});
  refuses(0, {4, 2, 0}, {"bottom0", "no values"});
  refuses(1, {2, 4}, {"bottom1", "2x4", "4x2"});
  refuses(1, {4, 2, 1}, {"bottom1", "4x2x1", "4x2"});
  refuses(2, {3, 2}, {"bottom2", "3x2", "(2, ...)"});
  refuses(3, {2, 3}, {"bottom3", "2x3", "1x2x3"});
  refuses(3, {1, 3, 3}, {"bottom3", "1x3x3", "1x2x3"});
  const Sizes both{4, 2, 5, 3, 2, true, true};
  expect_error(
      [&] {
        LayerCase c = make_case(type_, both);
        c.bottoms[3] = uniform({1, 2, 3});
        LayerRun{c};
      },
      {"bottom3", "1x2x3", "2x2x3", "each direction"});
  if (type_ == "LSTM" || type_ == "RNN") {
    expect_error(
        [&] {
          LayerRun({.layer = layer_text(type_, 3, "linear_before_reset: true"),
                    .bottoms = good.bottoms});
        },
        {"linear_before_reset", "GRU"});
  }
  LayerRun run(good);
  expect_error(
      [&] {
        run.reshape(make_case(type_, {4, 2, 6, 3, 2, true}).bottoms);
      },
      {"bottom0", "4x2x6", "5"});
  for (const double bad : {-1.0, 2.0, 255.0, kNaN}) {
    LayerRun wrong(good);
    wrong.bottom_values(1)[5] = bad;
    expect_error([&] { wrong.forward(); }, {"step 2, sequence 1", "outside [0, 1]"});
  }
  EXPECT_FALSE(run.layer().can_propagate(1));
  EXPECT_TRUE(run.layer().can_propagate(3));
}

}  // namespace
}  // namespace crema::test
