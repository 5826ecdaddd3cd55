// Update rules by themselves: what they go over, and their formulas.
#include "solver/update_rule.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/update.hpp"
#include "crema/random.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "solver/settings.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"
#include "support/values.hpp"

namespace crema {
namespace {

using test::values_of;

constexpr uint64_t kSeed = 1701;

/// Parameters on their own, with values, gradients and histories.
class Parameters {
 public:
  struct Entry {
    int64_t count;
    float lr_mult = 1, decay_mult = 1;
    bool learnable = true;
  };

  Parameters(const std::vector<Entry>& entries, DType dtype, int histories = 1) {
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
    for (int i = 0; i < histories; ++i) history_.emplace_back(Shape{arena_.size()}, dtype);
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
    double* to = values.overwrite<double>();
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
struct Added : RuleTraits {
  static constexpr std::string_view kName = "Added";
  static constexpr int kHistories = 2;

  double momentum, momentum2, delta, correction;

  Added(const UpdateSettings& settings, int iteration)
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
    const std::vector<double> rates = {step.rate * learns.rate};
    EXPECT_TRUE(cpu_update(runs, Added(settings, iteration), settings, step, rates, gradients,
                           parameters, histories));
    for (const int64_t i : {int64_t{16}, shape[0] - 1}) {
      EXPECT_NEAR(parameters.at(i), 2 * 0.25 * (iteration + 1), 1e-5) << i;
    }
    EXPECT_EQ(parameters.at(15), 0) << "outside of the run";
  }
  EXPECT_NEAR(histories[0].at(16), -1.5 * (1 - 0.9 * 0.9), 1e-6);
  EXPECT_NEAR(histories[1].at(16), 2.25 * (1 - 0.999 * 0.999), 1e-6);
}

struct PaperCase {
  const char* name;
  const char* settings;
  std::vector<double> weights, first, second;  // after two updates; histories
};

class PaperRule : public ::testing::TestWithParam<PaperCase> {};

// Two parameters, of 2 values and, with lr_mult 2 and decay_mult 0, of 1. The numbers are those of
// the papers' formulas, computed apart from this project.
TEST_P(PaperRule, GivesTheNumbersOfItsFormula) {
  const PaperCase& c = GetParam();
  SolverParameter param;
  parse_text_proto(text(c.settings, " weight_decay: 0.125"), "solver.prototxt", param);
  Context context;
  UpdateRule rule(param, context);
  Parameters parameters({{2}, {1, 2, 0}}, DType::f64, rule.history_count());
  ParameterArena& arena = parameters.arena();
  const auto at = [&](int value) { return value < 2 ? value : arena.segments()[1].offset; };
  for (Tensor& history : parameters.history()) history.fill(0);
  const double start[] = {0.5, -0.25, 1.5};
  const double gradients[2][3] = {{0.25, -0.5, 0.75}, {-0.125, 0.375, 0.5}};
  for (int i = 0; i < 3; ++i) arena.data().change<double>()[at(i)] = start[i];
  for (int iteration = 0; iteration < 2; ++iteration) {
    // As sums over two passes.
    for (int i = 0; i < 3; ++i) arena.diff().change<double>()[at(i)] = 2 * gradients[iteration][i];
    EXPECT_TRUE(rule.update(arena, parameters.history(),
                            {.iteration = iteration, .rate = 0.125, .gradient_scale = 0.5}));
  }
  for (int i = 0; i < 3; ++i) {
    const auto n = static_cast<size_t>(i);
    EXPECT_NEAR(arena.data().at(at(i)), c.weights[n], 1e-14) << i;
    EXPECT_NEAR(parameters.history()[0].at(at(i)), c.first[n], 1e-14) << i;
    if (rule.history_count() == 2) {
      EXPECT_NEAR(parameters.history()[1].at(at(i)), c.second[n], 1e-14) << i;
    }
  }
  EXPECT_EQ(rule.history_count(), c.second.empty() ? 1 : 2);
}

const PaperCase kPapers[] = {
    {"SGD",
     "type: 'SGD' momentum: 0.75",
     {0.4400634765625, -0.17779541015625, 1.046875},
     {0.0208740234375, -0.00579833984375, 0.265625},
     {}},
    {"Nesterov",
     "type: 'Nesterov' momentum: 0.75",
     {0.42520904541015625, -0.17480850219726562, 0.84765625},
     {0.020416259765625, -0.0050201416015625, 0.265625},
     {}},
    {"AdaGrad",
     "type: 'AdaGrad' delta: 0.0009765625",
     {0.4055969987397372, -0.1951577211484798, 1.1118001262634656},
     {0.10375216236740716, 0.41135634758227424, 0.8125},
     {}},
    {"RMSProp",
     "type: 'RMSProp' rms_decay: 0.875 delta: 0.0009765625",
     {0.2693149953078318, -0.1148090120330661, 0.38640807338346095},
     {0.012093798860628436, 0.04965895192912312, 0.0927734375},
     {}},
    {"AdaDelta",
     "type: 'AdaDelta' momentum: 0.75 delta: 0.0009765625",
     {0.4947762391934627, -0.2488046656552429, 1.4710120818313732},
     {0.019317263571012013, 0.08262542828883318, 0.16796875},
     {0.0007992773128228902, 0.0014117279607063454, 0.0014474225134542555}},
    {"Adam",
     "type: 'Adam' momentum: 0.75 momentum2: 0.875 delta: 0.0009765625",
     {0.3259947992206271, -0.11943126685038656, 1.0104342582523709},
     {0.03909672419628421, -0.009785829771566348, 0.265625},
     {0.011441420374131518, 0.04700506882824643, 0.0927734375}},
    {"AdamW",
     "type: 'AdamW' momentum: 0.75 momentum2: 0.875 delta: 0.0009765625",
     {0.33899117873053475, -0.11944151761239036, 1.0094448806213678},
     {0.015625, 0.0, 0.265625},
     {0.0087890625, 0.044921875, 0.0927734375}},
    {"LAMB",
     "type: 'LAMB' momentum: 0.75 momentum2: 0.875 delta: 0.0009765625",
     {0.3886277015771212, -0.19485711835367814, 0.84375},
     {0.015625, 0.0, 0.265625},
     {0.0087890625, 0.044921875, 0.0927734375}},
    {"Lion",
     "type: 'Lion' momentum: 0.75 momentum2: 0.875",
     {0.4864501953125, -0.24420166015625, 1.0},
     {0.01171875, -0.0078125, 0.14453125},
     {}},
    {"LARS",
     "type: 'LARS' momentum: 0.75 larc_eta: 0.5",
     {0.4742641502008485, -0.22331175997167252, 1.0078125},
     {0.008374738688040409, 0.0028256488605614243, 0.3046875},
     {}},
    {"LARC",
     "type: 'SGD' momentum: 0.75 larc: true larc_eta: 0.5",
     {0.4712328106004043, -0.22089005678788, 1.248046875},
     {0.009235939399595734, 0.004093181787880006, 0.158203125},
     {}},
    {"LARCclip",
     "type: 'SGD' momentum: 0.75 larc: true larc_policy: 'clip' larc_eta: 0.5",
     {0.4400634765625, -0.17779541015625, 1.2734375},
     {0.0208740234375, -0.00579833984375, 0.1328125},
     {}},
    // As LARC, but for the decay in the divisor: the solver's, whatever decay_mult says.
    {"LocalLrAuto",
     "type: 'SGD' momentum: 0.75 local_lr_auto: true local_gw_ratio: 0.5",
     {0.4742641502008485, -0.22331175997167252, 1.303081797235023},
     {0.008374738688040409, 0.0028256488605614243, 0.12191820276497697},
     {}},
};

INSTANTIATE_TEST_SUITE_P(Solver, PaperRule, ::testing::ValuesIn(kPapers),
                         [](const auto& one) { return std::string(one.param.name); });

SolverParameter settings_of(const std::string& text) {
  SolverParameter param;
  parse_text_proto(text, "solver.prototxt", param);
  return param;
}

constexpr const char* kTypes[] = {"SGD",  "Nesterov", "AdaGrad", "RMSProp", "AdaDelta",
                                  "Adam", "AdamW",    "LAMB",    "LARS",    "Lion"};

struct AmsgradCase {
  const char* type;
  std::vector<double> weights;
  std::vector<double> histories[3];
};

// Three updates of the parameters of PaperRule, the last one with small gradients: the mean of
// squares falls, and what divides does not. AdamW's numbers are those of torch.optim.AdamW.
TEST(UpdateRule, AmsgradDividesByTheGreatestMeanOfSquares) {
  const AmsgradCase cases[] = {{"Adam",
                                {0.26607587912782243, -0.11757230663618129, 0.8611608328252791},
                                {{0.05518433592291434, -0.0032590994177493417, 0.18359375},
                                 {0.011348907478511699, 0.04116273247877089, 0.0816650390625},
                                 {0.01220703125, 0.04700506882824643, 0.0927734375}}},
                               {"AdamW",
                                {0.29767872261073136, -0.12214201875804023, 0.8599681978377303},
                                {{0.02734375, 0.0078125, 0.18359375},
                                 {0.0081787109375, 0.0394287109375, 0.0816650390625},
                                 {0.0087890625, 0.044921875, 0.0927734375}}}};
  const double start[] = {0.5, -0.25, 1.5};
  const double gradients[3][3] = {
      {0.25, -0.5, 0.75}, {-0.125, 0.375, 0.5}, {0.0625, 0.03125, -0.0625}};
  for (const AmsgradCase& c : cases) {
    SCOPED_TRACE(c.type);
    Context context;
    UpdateRule rule(settings_of(text("type: '", c.type,
                                     "' amsgrad: true momentum: 0.75 momentum2: 0.875 "
                                     "delta: 0.0009765625 weight_decay: 0.125")),
                    context);
    EXPECT_EQ(rule.name(), c.type);
    ASSERT_EQ(rule.history_count(), 3);
    Parameters parameters({{2}, {1, 2, 0}}, DType::f64, 3);
    ParameterArena& arena = parameters.arena();
    const auto at = [&](int value) { return value < 2 ? value : arena.segments()[1].offset; };
    for (Tensor& history : parameters.history()) history.fill(0);
    for (int i = 0; i < 3; ++i) arena.data().change<double>()[at(i)] = start[i];
    for (int iteration = 0; iteration < 3; ++iteration) {
      for (int i = 0; i < 3; ++i) arena.diff().change<double>()[at(i)] = gradients[iteration][i];
      EXPECT_TRUE(
          rule.update(arena, parameters.history(), {.iteration = iteration, .rate = 0.125}));
    }
    for (int i = 0; i < 3; ++i) {
      const auto n = static_cast<size_t>(i);
      EXPECT_NEAR(arena.data().at(at(i)), c.weights[n], 1e-14) << i;
      for (size_t h = 0; h < 3; ++h)
        EXPECT_NEAR(parameters.history()[h].at(at(i)), c.histories[h][n], 1e-14) << h << " " << i;
    }
  }
}

// Norms are sums of sums of chunks, so the bits do not depend on the number of threads; nor on what
// learns beside.
TEST(UpdateRule, HasTheSameBitsOnAnyNumberOfThreads) {
  std::vector<std::string> types(std::begin(kTypes), std::end(kTypes));
  types.insert(types.end(), {"Adam' amsgrad: true #", "AdamW' amsgrad: true #"});
  for (const std::string& type : types) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      std::vector<double> moved[3], averaged[3];
      for (const int threads : {1, 2, 5}) {
        Context context({.threads = threads});
        UpdateRule rule(settings_of(text("weight_decay: 0.01 type: '", type, "'")), context);
        Parameters parameters(kMixed, dtype, rule.history_count());
        // Of squares.
        for (Tensor& history : parameters.history()) history.fill(0.25);
        Tensor average(parameters.arena().data().shape(), dtype);
        const UpdateStep step{.iteration = 3, .rate = 0.1, .average_decay = 0.75};
        EXPECT_TRUE(rule.update(parameters.arena(), parameters.history(), step, &average)) << type;
        moved[threads / 2] = values_of(parameters.arena().data());
        averaged[threads / 2] = values_of(average);
      }
      EXPECT_EQ(moved[0], moved[1]) << type;
      EXPECT_EQ(moved[0], moved[2]) << type;
      EXPECT_EQ(averaged[0], averaged[2]) << type;
      for (const size_t i : {size_t{0}, size_t{99}})
        EXPECT_NEAR(averaged[0][i], 0.25 * moved[0][i], 1e-7) << type;
    }
  }
}

TEST(UpdateRule, MovesOnADeviceAsOnTheCpu) {
  const std::string why = test::why_no_device();
  if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
  for (const std::string settings :
       {"type: 'SGD'", "type: 'Nesterov' regularization_type: 'L1'", "type: 'AdaGrad'",
        "type: 'RMSProp'", "type: 'AdaDelta'", "type: 'Adam' clip_gradient_value: 0.25",
        "type: 'AdamW'", "type: 'LAMB'", "type: 'LARS'", "type: 'Lion'",
        "type: 'SGD' larc: true larc_policy: 'clip' larc_eta: 0.1",
        "type: 'SGD' local_lr_auto: true local_gw_ratio: 0.1", "type: 'Adam' amsgrad: true",
        "type: 'AdamW' amsgrad: true"}) {
    std::vector<double> moved[2], averaged[2];
    for (const bool on_device : {false, true}) {
      Context context({.device = {on_device ? DeviceType::cuda : DeviceType::cpu, 0}});
      UpdateRule rule(settings_of(settings + " weight_decay: 0.01"), context);
      Parameters parameters(kMixed, DType::f64, rule.history_count());
      for (Tensor& history : parameters.history()) history.fill(0.25);
      Tensor average(parameters.arena().data().shape(), DType::f64);
      for (int iteration = 0; iteration < 2; ++iteration) {
        const UpdateStep step{.iteration = iteration, .rate = 0.1, .average_decay = 0.75};
        EXPECT_TRUE(rule.update(parameters.arena(), parameters.history(), step, &average));
      }
      moved[on_device] = values_of(parameters.arena().data());
      averaged[on_device] = values_of(average);
    }
    for (size_t i = 0; i < moved[0].size(); ++i) {
      ASSERT_NEAR(moved[1][i], moved[0][i], 1e-12) << settings << " " << i;
      ASSERT_NEAR(averaged[1][i], averaged[0][i], 1e-12) << settings << " " << i;
    }
  }
}

TEST(UpdateRule, ClipsEachValueOfTheMeanGradient) {
  Context context;
  Parameters parameters({{3}}, DType::f64);
  ParameterArena& arena = parameters.arena();
  UpdateRule rule(settings_of("clip_gradient_value: 0.5 weight_decay: 1"), context);
  const double start[] = {1, 2, 3}, gradients[] = {-8, 0.5, 8};
  parameters.history()[0].fill(0);
  for (int i = 0; i < 3; ++i) {
    arena.data().change<double>()[i] = start[i];
    arena.diff().change<double>()[i] = gradients[i];
  }
  EXPECT_TRUE(rule.update(arena, parameters.history(), {.rate = 1, .gradient_scale = 0.5}));
  // w - (clipped + w): the decay is not clipped.
  EXPECT_EQ(arena.data().at(0), 0.5);
  EXPECT_EQ(arena.data().at(1), -0.25);
  EXPECT_EQ(arena.data().at(2), -0.5);
  arena.diff().change<double>()[1] = HUGE_VAL;
  EXPECT_FALSE(rule.update(arena, parameters.history(), {.rate = 1}))
      << "clipping must not hide it";
}

TEST(UpdateRule, LionSeesAGradientThatIsNotFinite) {
  Context context;
  Parameters parameters({{3}}, DType::f32);
  parameters.arena().diff().change<float>()[1] = NAN;
  EXPECT_FALSE(UpdateRule(settings_of("type: 'Lion'"), context)
                   .update(parameters.arena(), parameters.history(), {.rate = 1}));
}

// As zeros of a fresh layer have no direction: the factor is 1.
TEST(UpdateRule, ParametersOfZerosMoveByThePlainRate) {
  for (const char* type : {"LARS", "LAMB"}) {
    Context context;
    UpdateRule rule(settings_of(text("type: '", type, "'")), context);
    Parameters parameters({{2}}, DType::f64, rule.history_count());
    for (Tensor& history : parameters.history()) history.fill(0);
    parameters.arena().data().fill(0);
    parameters.arena().diff().fill(1);
    EXPECT_TRUE(rule.update(parameters.arena(), parameters.history(), {.rate = 0.25}));
    EXPECT_NEAR(parameters.arena().data().at(0), -0.25, 1e-6) << type;
  }
}

TEST(UpdateRule, RefusesSettingsThatTheTypeCannotWorkWith) {
  Context context;
  const auto refuse = [&](const std::string& text, std::initializer_list<std::string_view> parts) {
    expect_error([&] { UpdateRule(settings_of(text), context); }, parts);
  };
  refuse("type: 'AdaGrad' momentum: 0.9", {"'AdaGrad'", "momentum 0.9 cannot be used", "remove"});
  refuse("type: 'RMSProp' momentum: 0.9", {"'RMSProp'", "momentum 0.9 cannot be used"});
  refuse("solver_type: ADAGRAD momentum: 0.9", {"'AdaGrad'", "momentum 0.9"});
  refuse("type: 'RMSProp' momentum_policy: 'opt'",
         {"'RMSProp'", "momentum_policy 'opt' cannot be used", "remove"});
  refuse("type: 'RMSProp' rms_decay: 1", {"rms_decay 1 must lie in [0, 1)"});
  refuse("type: 'Adam' momentum2: 1", {"'Adam'", "momentum2 1 must lie in [0, 1)"});
  refuse("type: 'Lion' momentum2: nan", {"momentum2 nan must lie in [0, 1)"});
  refuse("type: 'AdaDelta' momentum: 1.5", {"momentum 1.5 must lie in [0, 1)"});
  refuse("type: 'AdamW' delta: 0", {"'AdamW'", "delta 0 must be positive", "1e-08"});
  refuse("type: 'LAMB' delta: -1", {"delta -1 must be positive", "1e-06"});
  refuse("type: 'LAMB' larc: true", {"'LAMB'", "larc", "remove"});
  refuse("type: 'LARS' local_lr_auto: true", {"'LARS'", "local_lr_auto", "remove"});
  refuse("larc: true larc_policy: 'clop'", {"larc_policy 'clop'", "'clip'"});
  refuse("larc: true larc_eta: 0", {"larc_eta 0 must be positive"});
  refuse("local_lr_auto: true local_gw_ratio: -1", {"local_gw_ratio -1 must be positive"});
  for (const char* type : {"SGD", "LAMB", "Lion", "AdaDelta"})
    refuse(text("type: '", type, "' amsgrad: true"),
           {type, "amsgrad true cannot be used", "remove it", "Adam or AdamW"});
  refuse("amsgrad: true", {"'SGD'", "amsgrad true cannot be used"});
  refuse("type: 'AdmaW' amsgrad: true", {"'AdmaW'", "did you mean 'AdamW'?"});
  refuse("type: 'AdmaW'", {"'AdmaW'", "'AdamW'"});
  refuse("solver_type: SAG", {"'SAG'", "is not available"});
  refuse("type: 'SGD' solver_type: SGD", {"both type and the old solver_type"});
}

TEST(UpdateRule, TakesTheOldEnumForAllPublishedTypes) {
  Context context;
  for (const auto& [old, type] : {std::pair{"SGD", "SGD"}, std::pair{"NESTEROV", "Nesterov"},
                                  std::pair{"ADAGRAD", "AdaGrad"}, std::pair{"RMSPROP", "RMSProp"},
                                  std::pair{"ADADELTA", "AdaDelta"}, std::pair{"ADAM", "Adam"}}) {
    EXPECT_EQ(UpdateRule(settings_of(text("solver_type: ", old)), context).name(), type);
  }
}

TEST(UpdateRule, SaysWhichSettingsHaveNoEffect) {
  Context context;
  const auto notes = [&](const std::string& text) {
    const SolverParameter param = settings_of(text);
    return joined(UpdateRule(param, context).notes(param), "; ");
  };
  EXPECT_EQ(notes("type: 'Adam' momentum: 0.9 momentum2: 0.99 delta: 1"), "");
  EXPECT_EQ(notes("momentum2: 0.9"), "the solver's momentum2 has no effect with type 'SGD'");
  EXPECT_EQ(notes("type: 'AdaGrad' rms_decay: 0.9"),
            "the solver's rms_decay has no effect with type 'AdaGrad'");
  EXPECT_EQ(notes("type: 'Lion' delta: 1"), "the solver's delta has no effect with type 'Lion'");
  EXPECT_EQ(notes("larc_eta: 0.1"), "the solver's larc_eta has no effect without larc: true");
  EXPECT_EQ(notes("larc: true larc_eta: 0.1 larc_policy: 'clip'"), "");
  EXPECT_EQ(notes("type: 'LARS' larc_eta: 0.1"), "");
  EXPECT_EQ(notes("type: 'LAMB' larc_eta: 0.1"),
            "the solver's larc_eta has no effect with type 'LAMB'");
  EXPECT_EQ(notes("type: 'LARS' larc_policy: 'clip'"),
            "the solver's larc_policy has no effect with type 'LARS'");
  EXPECT_EQ(notes("larc_policy: 'clip'"),
            "the solver's larc_policy has no effect without larc: true");
  EXPECT_EQ(notes("local_lr_auto: true local_gw_ratio: 0.1"), "");
  EXPECT_EQ(notes("larc: true local_gw_ratio: 0.1"),
            "the solver's local_gw_ratio has no effect without local_lr_auto in place of larc");
  EXPECT_EQ(notes("larc: true local_lr_auto: true"),
            "the solver's local_lr_auto has no effect beside larc: true; keep one");
  EXPECT_NE(notes("type: 'Adam'").find("add momentum: 0.9"), std::string::npos);
  EXPECT_NE(notes("type: 'Adam' amsgrad: true").find("add momentum: 0.9"), std::string::npos);
  EXPECT_EQ(notes("type: 'AdamW' amsgrad: false"), "");
  EXPECT_EQ(notes("type: 'Adam' momentum_policy: 'opt'"), "");
}

TEST(UpdateRule, SaysWhenAStepIsNotFinite) {
  SolverParameter param;
  Context context;
  UpdateRule rule(param, context);
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    Parameters parameters({{10}, {2 * kUpdateChunk}}, DType::f32);
    ParameterArena& arena = parameters.arena();
    EXPECT_TRUE(rule.update(arena, parameters.history(), {.rate = 1}));
    arena.diff().change<float>()[arena.size() - 1] = static_cast<float>(bad);
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
