// Update rules by themselves: what they go over, and their formulas.
#include "solver/update_rule.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/update.hpp"
#include "crema/random.hpp"
#include "proto/solver.pb.h"
#include "support/values.hpp"

namespace crema {
namespace {

using test::values_of;

constexpr uint64_t kSeed = 1701;

/// Parameters on their own, with values, gradients and a history of SGD.
class Parameters {
 public:
  struct Entry {
    int64_t count;
    float lr_mult = 1, decay_mult = 1;
    bool learnable = true;
  };

  Parameters(const std::vector<Entry>& entries, DType dtype) {
    std::vector<ParameterArena::Segment> segments;
    for (const Entry& entry : entries) {
      owners_.push_back(std::make_unique<Parameter>(Shape{entry.count}, Filler::constant(0)));
      owners_.back()->attach(std::make_shared<ParameterStorage>(Tensor(Shape{entry.count}, dtype),
                                                                Tensor(Shape{entry.count}, dtype)));
      Parameter& owner = *owners_.back();
      owner.learnable = entry.learnable;
      owner.lr_mult = entry.lr_mult;
      owner.decay_mult = entry.decay_mult;
      segments.push_back({&owner, "layer", 0, 0, entry.count});
    }
    arena_.build(std::move(segments), dtype, true);
    history_.emplace_back(Shape{arena_.size()}, dtype);
    arena_.settle_gradients();
    uint64_t stream = 0;
    for (Tensor* tensor : {&arena_.data(), &arena_.diff(), &history_[0]}) draw(*tensor, ++stream);
  }

  ParameterArena& arena() { return arena_; }
  std::vector<Tensor>& history() { return history_; }

 private:
  static void draw(Tensor& tensor, uint64_t stream) {
    Random random(kSeed, stream);
    Tensor values(tensor.shape(), DType::f64);
    double* to = values.host_overwrite<double>();
    for (int64_t i = 0; i < values.count(); ++i) to[i] = random.uniform(-1, 1);
    tensor.copy_from(values);
  }

  std::vector<std::unique_ptr<Parameter>> owners_;
  ParameterArena arena_;
  std::vector<Tensor> history_;
};

const std::vector<Parameters::Entry> kMixed = {{100},
                                               {kUpdateChunk, 2, 0},
                                               {0},
                                               {3 * kUpdateChunk + 1, 0.5, 3},
                                               {50, 0},
                                               {7, 1, 1, false},
                                               {kUpdateChunk - 1, 1, 2},
                                               {1, 4, 4}};

struct SgdCase {
  const char* name;
  DType dtype;
  const char* regularization;
  int threads;
};

class SgdUpdate : public ::testing::TestWithParam<SgdCase> {};

TEST_P(SgdUpdate, FollowsItsFormula) {
  const SgdCase& c = GetParam();
  const bool l1 = std::string(c.regularization) == "L1";
  Context context({.threads = c.threads});
  SolverParameter param;
  param.set_type("SGD");
  param.set_momentum(0.9F);
  param.set_weight_decay(0.01F);
  param.set_regularization_type(c.regularization);
  Parameters parameters(kMixed, c.dtype);
  ParameterArena& arena = parameters.arena();
  std::vector<double> w = values_of(arena.data()), v = values_of(parameters.history()[0]);
  const std::vector<double> g = values_of(arena.diff());
  const UpdateStep step{.iteration = 3, .rate = 0.1, .gradient_scale = 0.5};
  for (const auto& segment : arena.segments()) {
    if (segment.parameter->lr_mult == 0 || !segment.parameter->learnable) continue;
    for (int64_t k = segment.offset; k < segment.offset + segment.count; ++k) {
      const auto i = static_cast<size_t>(k);
      const double penalty = l1 ? (w[i] > 0) - (w[i] < 0) : w[i];
      const double decay =
          static_cast<double>(0.01F) * static_cast<double>(segment.parameter->decay_mult);
      v[i] = static_cast<double>(0.9F) * v[i] +
             0.1 * static_cast<double>(segment.parameter->lr_mult) * (0.5 * g[i] + decay * penalty);
      w[i] -= v[i];
    }
  }
  UpdateRule rule(param, context);
  EXPECT_TRUE(rule.update(arena, parameters.history(), step));
  const double allowed = c.dtype == DType::f64 ? 1e-14 : 1e-6;
  const std::vector<double> moved = values_of(arena.data());
  const std::vector<double> kept = values_of(parameters.history()[0]);
  for (size_t i = 0; i < w.size(); ++i) {
    ASSERT_NEAR(moved[i], w[i], allowed) << i;
    ASSERT_NEAR(kept[i], v[i], allowed) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Solver, SgdUpdate,
                         ::testing::Values(SgdCase{"f32_l2", DType::f32, "L2", 1},
                                           SgdCase{"f32_l1", DType::f32, "L1", 2},
                                           SgdCase{"f64_l2", DType::f64, "L2", 2},
                                           SgdCase{"f64_l1", DType::f64, "L1", 1}),
                         [](const auto& one) { return std::string(one.param.name); });

/// A rule as somebody may add one: two histories, and the iteration counts.
struct Adam {
  static constexpr std::string_view kName = "Adam";
  static constexpr int kHistories = 2;

  double momentum, momentum2, delta, correction;

  Adam(const UpdateSettings& settings, int iteration)
      : momentum(settings.momentum),
        momentum2(settings.momentum2),
        delta(settings.delta),
        correction(std::sqrt(1 - std::pow(momentum2, iteration + 1)) /
                   (1 - std::pow(momentum, iteration + 1))) {}

  template <class T>
  T operator()(T gradient, T rate, T& first, T& second) const {
    first = static_cast<T>(momentum) * first + static_cast<T>(1 - momentum) * gradient;
    second =
        static_cast<T>(momentum2) * second + static_cast<T>(1 - momentum2) * gradient * gradient;
    return rate * static_cast<T>(correction) * first / (std::sqrt(second) + static_cast<T>(delta));
  }
};

// The first two steps of Adam on one gradient are the rate times its sign, whatever its size.
TEST(UpdateDriver, RunsARuleOfTwoHistoriesAndTheIteration) {
  const UpdateRun learns{.offset = 16, .count = 2 * kUpdateChunk + 3, .rate = 2};
  const UpdateRuns runs{&learns, 1, chunks_of(learns)};
  const Shape shape{learns.offset + learns.count};
  Tensor gradients(shape), parameters(shape);
  std::vector<Tensor> histories = {Tensor(shape), Tensor(shape)};
  gradients.fill(-3);
  const UpdateSettings settings{.momentum = 0.9, .momentum2 = 0.999, .delta = 1e-8};
  for (int iteration = 0; iteration < 2; ++iteration) {
    const UpdateStep step{.iteration = iteration, .rate = 0.25, .gradient_scale = 0.5};
    EXPECT_TRUE(cpu_update(runs, Adam(settings, iteration), settings, step, gradients, parameters,
                           histories));
    for (const int64_t i : {int64_t{16}, shape[0] - 1}) {
      EXPECT_NEAR(parameters.at(i), 2 * 0.25 * (iteration + 1), 1e-5) << i;
    }
    EXPECT_EQ(parameters.at(15), 0) << "outside of the run";
  }
  EXPECT_NEAR(histories[0].at(16), -1.5 * (1 - 0.9 * 0.9), 1e-6);
  EXPECT_NEAR(histories[1].at(16), 2.25 * (1 - 0.999 * 0.999), 1e-6);
}

TEST(UpdateRule, SaysWhenAStepIsNotFinite) {
  SolverParameter param;
  Context context;
  UpdateRule rule(param, context);
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    Parameters parameters({{10}, {2 * kUpdateChunk}}, DType::f32);
    ParameterArena& arena = parameters.arena();
    EXPECT_TRUE(rule.update(arena, parameters.history(), {.rate = 1}));
    arena.diff().host_mut<float>()[arena.size() - 1] = static_cast<float>(bad);
    EXPECT_FALSE(rule.update(arena, parameters.history(), {.rate = 1})) << bad;
  }
}

TEST(UpdateRule, MeasuresTheGradientsOfWhatLearns) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Parameters parameters(kMixed, dtype);
    ParameterArena& arena = parameters.arena();
    const std::vector<double> g = values_of(arena.diff());
    double sum = 0;
    for (const auto& segment : arena.segments()) {
      for (int64_t k = 0;
           segment.parameter->lr_mult != 0 && segment.parameter->learnable && k < segment.count;
           ++k) {
        const double value = g[static_cast<size_t>(segment.offset + k)];
        sum += value * value;
      }
    }
    double norm[2];
    for (const int threads : {1, 2}) {
      Context context({.threads = threads});
      norm[threads - 1] = UpdateRule(SolverParameter(), context).gradient_norm(arena);
    }
    EXPECT_NEAR(norm[0], std::sqrt(sum), 1e-9);
    EXPECT_EQ(norm[0], norm[1]) << "whatever the number of threads";
  }
}

// What had a gradient when the net was built can be frozen, and thawed, in the middle of training;
// where parameters share memory, by the lr_mult of its owner.
TEST(UpdateRule, MultipliersMayChangeBetweenUpdates) {
  Context context;
  Parameters parameters({{10}, {10}}, DType::f32);
  UpdateRule rule(SolverParameter(), context);
  const ParameterArena::Segment& frozen = parameters.arena().segments()[0];
  const std::vector<double> before = values_of(frozen.parameter->data);
  frozen.parameter->lr_mult = 0;
  EXPECT_TRUE(rule.update(parameters.arena(), parameters.history(), {.rate = 1}));
  EXPECT_EQ(values_of(frozen.parameter->data), before);
  frozen.parameter->lr_mult = 1;
  EXPECT_TRUE(rule.update(parameters.arena(), parameters.history(), {.rate = 1}));
  EXPECT_NE(values_of(frozen.parameter->data), before);
}

TEST(UpdateRule, NothingToLearnIsNoError) {
  Context context;
  Parameters parameters({{10, 0}}, DType::f32);
  UpdateRule rule(SolverParameter(), context);
  EXPECT_TRUE(rule.update(parameters.arena(), parameters.history(), {.rate = 1}));
  EXPECT_EQ(rule.gradient_norm(parameters.arena()), 0);
}

}  // namespace
}  // namespace crema
