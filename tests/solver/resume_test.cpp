// Runs that are continued end with the bits of runs without a break, for each update rule; and the
// average of the weights (ema_decay).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <tuple>

#include "core/loss_scaler.hpp"
#include "crema/parameter_arena.hpp"
#include "crema/solver.hpp"
#include "model/binary_format.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/memory_limit.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::fill_inputs;
using test::params_of;

const std::string kInput = R"(
  layer { name: "data" type: "Input" top: "data" top: "label"
          input_param { shape { dim: 4 dim: 2 dim: 6 dim: 6 } shape { dim: 4 } } })";

const std::string kLayers = R"(
  layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
          param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
          convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
  layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
  layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
  layer { name: "drop" type: "Dropout" bottom: "conv" top: "conv" }
  layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
          param { noise { std: 0.02 relative_to: RANGE in_test: false } }
          inner_product_param { num_output: 40 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" } }
)";

/// A net over the layer with the data.
std::string net_on(const std::string& data) { return "net_param { name: 'tiny' " + data + kLayers; }

class Training {
 public:
  /// The reference: runs that are compared must not choose engines by their times.
  explicit Training(const std::string& settings, DType dtype = DType::f32,
                    const std::string& engine = "reference", const std::string& data = kInput)
      : context_(
            {.engine = engine, .logger = [this](Severity severity, const std::string& message) {
               if (severity == Severity::warning) warnings += message + "\n";
             }}) {
    SolverParameter param;
    parse_text_proto(net_on(data) + settings, "solver.prototxt", param);
    SolverOptions options;
    options.dtype = dtype;
    solver_ = std::make_unique<Solver>(param, context_, options);
    fill_inputs(solver_->net());
    for (auto& net : solver_->test_nets()) fill_inputs(*net);
  }

  Solver* operator->() { return solver_.get(); }
  std::vector<double> params() { return params_of(solver_->net()); }

  std::string warnings;

 private:
  Context context_;
  std::unique_ptr<Solver> solver_;
};

struct ResumeCase {
  const char* name;
  const char* settings;
};

const ResumeCase kTypes[] = {
    {"SGD", "type: 'SGD' momentum: 0.9"},
    {"Nesterov", "type: 'Nesterov' momentum: 0.9"},
    {"AdaGrad", "type: 'AdaGrad'"},
    {"RMSProp", "type: 'RMSProp'"},
    {"AdaDelta", "type: 'AdaDelta' momentum: 0.95 delta: 1e-6"},
    {"Adam", "type: 'Adam' momentum: 0.9"},
    {"AdamW", "type: 'AdamW'"},
    {"AdamAmsgrad", "type: 'Adam' momentum: 0.9 momentum2: 0.9 amsgrad: true"},
    {"AdamWAmsgrad", "type: 'AdamW' momentum2: 0.9 amsgrad: true"},
    {"LAMB", "type: 'LAMB'"},
    {"LARS", "type: 'LARS' larc_eta: 0.1"},
    {"Lion", "type: 'Lion'"},
    {"LarcClip", "type: 'SGD' momentum: 0.9 larc: true larc_policy: 'clip'"},
};

// What a run may have beside its rule.
const ResumeCase kSettings[] = {
    {"plain", "lr_policy: 'fixed'"},
    {"average", "lr_policy: 'cosine' max_iter: 12 ema_decay: 0.75 ema_warmup: 20"},
    {"iter_size",
     "lr_policy: 'cosine_restarts' restart_iter: 4 restart_mult: 2 iter_size: 2 ema_decay: 0.5 "
     "clip_gradients: 0.5 loss_scale: 8"},
    {"plateau",
     "lr_policy: 'plateau' gamma: 0.5 plateau_winsize: 2 plateau_winsize: 1 plateau_winsize: 3 "
     "average_loss: 3 clip_gradient_value: 0.01"},
};

class Resume : public ::testing::TestWithParam<std::tuple<ResumeCase, ResumeCase, DType>> {};

/// Checks a run that is continued in the middle against one without a break.
void expect_same_bits(const ResumeCase& type, const ResumeCase& settings, DType dtype,
                      const std::string& data) {
  const TempFolder folder;
  const std::string prototxt =
      text(type.settings, " ", settings.settings, " base_lr: 0.02 weight_decay: 0.01 ",
           "snapshot_after_train: false snapshot_prefix: '", folder.path("snap"), "'");
  const auto finish = [](Training& run) {
    std::vector<double> losses;
    run->on_iteration = [&](const IterationReport& report) {
      losses.insert(losses.end(), {report.loss, report.smoothed_loss, report.rate});
    };
    run->step(6);
    std::vector<double> all = run.params();
    all.insert(all.end(), losses.begin(), losses.end());
    return all;
  };
  // A resumed run takes the engines of the state.
  Training straight(prototxt, dtype, "", data), resumed(prototxt, dtype, "", data);
  straight->step(5);
  const std::string state = straight->snapshot();
  const std::vector<double> expected = finish(straight);
  resumed->step(2);  // it has a state of its own
  resumed->restore(state);
  EXPECT_EQ(finish(resumed), expected);
  const std::string end = folder.path("snap_iter_11_ema.caffemodel");
  straight->snapshot();
  const bool averages = std::string(settings.settings).find("ema_decay") != std::string::npos;
  ASSERT_EQ(fs::exists(end), averages);
  if (!averages) return;
  const auto average = [&](Training& run) {
    run->net().load_weights(end);
    return run.params();
  };
  const std::vector<double> of_straight = average(straight);
  fs::remove(end);
  resumed->snapshot();
  EXPECT_EQ(average(resumed), of_straight);
  EXPECT_EQ(resumed.warnings.find("average"), std::string::npos);
}

TEST_P(Resume, EndsWithTheSameBits) {
  const auto& [type, settings, dtype] = GetParam();
  expect_same_bits(type, settings, dtype, kInput);
}

// 37 records and batches of 5: the order changes with each epoch, in the middle of a batch.
TEST_P(Resume, EndsWithTheSameBitsOverShuffledRecords) {
  const auto& [type, settings, dtype] = GetParam();
  const TempFolder folder;
  test::write_counting_database(folder.path("records"), 37, 2, 9, 9);
  expect_same_bits(type, settings, dtype,
                   text("layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
                        "transform_param { mirror: true crop_size: 6 scale: 0.01 } data_param { "
                        "source: '",
                        folder.path("records"), "' backend: LMDB batch_size: 5 shuffle: true } }"));
}

INSTANTIATE_TEST_SUITE_P(Solver, Resume,
                         ::testing::Combine(::testing::ValuesIn(kTypes),
                                            ::testing::ValuesIn(kSettings),
                                            ::testing::Values(DType::f32, DType::f64)),
                         [](const auto& one) {
                           return text(std::get<0>(one.param).name, "_",
                                       std::get<1>(one.param).name,
                                       std::get<2>(one.param) == DType::f32 ? "_f32" : "_f64");
                         });

TEST(WeightAverage, FollowsTheWeightsByItsFormula) {
  const TempFolder folder;
  Training run(text("base_lr: 0.1 lr_policy: 'fixed' ema_decay: 0.75 max_iter: 4 "
                    "snapshot_prefix: '",
                    folder.path("snap"), "'"),
               DType::f64);
  std::vector<double> expected = run.params();
  for (int i = 0; i < 3; ++i) {
    run->step(1);
    const std::vector<double> weights = run.params();
    for (size_t k = 0; k < weights.size(); ++k)
      expected[k] = 0.75 * expected[k] + 0.25 * weights[k];
  }
  const std::vector<double> weights = run.params();
  run->snapshot();
  EXPECT_EQ(run.params(), weights) << "a snapshot leaves the weights";
  const auto statistics = [](Net& net) {
    std::vector<double> values;
    for (const auto& parameter : net.layer("bn").params()) {
      for (const double value : test::values_of(parameter->data)) values.push_back(value);
    }
    return values;
  };
  const std::vector<double> running = statistics(run->net());
  run->net().load_weights(folder.path("snap_iter_3_ema.caffemodel"));
  EXPECT_EQ(statistics(run->net()), running) << "statistics have no second average";
  double difference = 0;
  // params_of() is segment by segment.
  const std::vector<double> averaged = run.params();
  size_t at = 0;
  for (const auto& segment : run->net().params().segments()) {
    for (int64_t i = 0; i < segment.count; ++i, ++at) {
      if (!segment.parameter->learnable) continue;
      EXPECT_NEAR(averaged[at], expected[at], 1e-12);
      difference += std::abs(averaged[at] - weights[at]);
    }
  }
  EXPECT_GT(difference, 1e-3);
}

// Each update of the warm-up has a decay of its own.
TEST(WeightAverage, WarmsUpByItsFormula) {
  const TempFolder folder;
  Training run(text("base_lr: 0.1 lr_policy: 'fixed' ema_decay: 0.28125 ema_warmup: 10 "
                    "max_iter: 4 snapshot_prefix: '",
                    folder.path("snap"), "'"),
               DType::f64);
  Parameter& parameter = *run->net().layer("ip").params()[0];
  std::vector<double> expected = test::values_of(parameter.data);
  for (const double decay : {2.0 / 11, 3.0 / 12, 0.28125, 0.28125}) {
    run->step(1);
    const std::vector<double> weights = test::values_of(parameter.data);
    for (size_t k = 0; k < weights.size(); ++k)
      expected[k] = decay * expected[k] + (1 - decay) * weights[k];
  }
  run->snapshot();
  run->net().load_weights(folder.path("snap_iter_4_ema.caffemodel"));
  const std::vector<double> averaged = test::values_of(parameter.data);
  for (size_t i = 0; i < averaged.size(); ++i) ASSERT_NEAR(averaged[i], expected[i], 1e-12) << i;
}

// A state without the greatest means of squares was continued with those of its last update.
TEST(Amsgrad, StatesOfRunsWithoutItAreRefused) {
  const TempFolder folder;
  const std::string prototxt =
      text("base_lr: 0.1 lr_policy: 'fixed' snapshot_prefix: '", folder.path("snap"), "' ");
  for (const char* type : {"Adam", "AdamW"}) {
    const std::string plain = text(prototxt, "momentum: 0.9 type: '", type, "' ");
    Training without(plain), with(plain + "amsgrad: true");
    without->step(2);
    const std::string state = without->snapshot();
    expect_error([&] { with->restore(state); },
                 {state, "without amsgrad", "no third history", "remove amsgrad", "--weights"});
    with->step(3);
    const std::string other = with->snapshot();
    expect_error([&] { without->restore(other); },
                 {other, "with amsgrad", "a third history", "set amsgrad: true", "--weights"});
    Training(plain + "amsgrad: true")->restore(other);
  }
  Training sgd(prototxt), adam(prototxt + "type: 'Adam' momentum: 0.9 amsgrad: true");
  adam->step(1);
  expect_error([&] { sgd->restore(adam->snapshot()); },
               {"of type 'Adam'", "this solver's is 'SGD'"});
}

const std::string kTests =
    "base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 test_iter: 1 test_interval: 2 "
    "test_initialization: false ";

// The same run tells the losses of its tests with the weights, and with their average.
TEST(WeightAverage, IsWhatTestsRunOn) {
  const TempFolder folder;
  const auto losses = [&](const std::string& more) {
    Training run(kTests + more + text(" snapshot_prefix: '", folder.path("snap"), "'"));
    std::vector<double> tested;
    run->on_test = [&](const TestReport& report) { tested.push_back(report.loss); };
    run->solve();
    const std::vector<double> weights = run.params();
    run->test();
    EXPECT_EQ(run.params(), weights) << "a test leaves the weights";
    return tested;
  };
  const std::vector<double> plain = losses("");
  const std::vector<double> averaged = losses("ema_decay: 0.9");
  ASSERT_EQ(plain.size(), 3U);
  EXPECT_EQ(losses("ema_decay: 0.9 ema_test: false"), plain);
  EXPECT_NE(averaged, plain);

  // A net of the file gives the same loss.
  Training other(kTests + text(" snapshot_prefix: '", folder.path("other"), "'"));
  other->net().load_weights(folder.path("snap_iter_4_ema.caffemodel"), true);
  EXPECT_EQ(other->test()[0].loss, averaged[2]);
}

TEST(WeightAverage, SnapshotsWithinATestHoldTheWeights) {
  const TempFolder folder;
  const std::string prototxt =
      kTests + text("ema_decay: 0.9 snapshot_prefix: '", folder.path("snap"), "'");
  Training straight(prototxt), asked(prototxt);
  straight->solve();
  int polls = 0;
  asked->poll = [&] {
    return asked->iteration() == 2 && ++polls == 2 ? SolverAction::snapshot : SolverAction::none;
  };
  asked->solve();
  EXPECT_EQ(asked.params(), straight.params());
  Training resumed(prototxt);
  resumed->restore(folder.path("snap_iter_2.solverstate"));
  resumed->solve();
  EXPECT_EQ(resumed.params(), straight.params());
}

// A parameter that is frozen at first has no average until it learns.
TEST(WeightAverage, OfAParameterStartsWhenItBeginsToLearn) {
  const TempFolder folder;
  Training run(text("base_lr: 0.1 lr_policy: 'fixed' ema_decay: 0.75 max_iter: 4 "
                    "snapshot_prefix: '",
                    folder.path("snap"), "'"),
               DType::f64);
  Parameter& thawed = *run->net().layer("ip").params()[0];
  thawed.lr_mult = 0;
  run->step(2);
  const std::vector<double> before = test::values_of(thawed.data);
  thawed.lr_mult = 1;
  run->step(1);
  const std::vector<double> after = test::values_of(thawed.data);
  EXPECT_NE(after, before);
  run->snapshot();
  run->net().load_weights(folder.path("snap_iter_3_ema.caffemodel"));
  const std::vector<double> averaged = test::values_of(thawed.data);
  for (size_t i = 0; i < averaged.size(); ++i) {
    ASSERT_NEAR(averaged[i], 0.75 * before[i] + 0.25 * after[i], 1e-12) << i;
  }
}

TEST(WeightAverage, ThatDoesNotFitTheMemoryLeavesTheWeights) {
  if (!test::kRefusesMemory) GTEST_SKIP() << test::kNeedsRefusedMemory;
  SolverParameter param;
  parse_text_proto(R"(
    net_param {
      layer { name: "x" type: "Input" top: "x" top: "label"
              input_param { shape { dim: 1 dim: 8 } shape { dim: 1 } } }
      layer { name: "small" type: "InnerProduct" bottom: "x" top: "small"
              inner_product_param { num_output: 2000 weight_filler { type: "xavier" } } }
      layer { name: "large" type: "InnerProduct" bottom: "small" top: "large"
              inner_product_param { num_output: 5000 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "large" bottom: "label" top: "loss" } }
    base_lr: 0.1 lr_policy: "fixed" ema_decay: 0.5 snapshot_after_train: false)",
                   "solver.prototxt", param);
  Context context({.engine = "reference"});
  Solver solver(param, context);
  fill_inputs(solver.net());
  solver.step(2);
  const std::vector<double> weights = params_of(solver.net());
  {
    const test::MemoryLimit limit(size_t{16} << 20);  // the large parameter takes 40 MB
    EXPECT_ANY_THROW(solver.test());
  }
  EXPECT_EQ(params_of(solver.net()), weights);
  solver.test();
  EXPECT_EQ(params_of(solver.net()), weights);
}

TEST(WeightAverage, StartsAnewWhereAStateHasNone) {
  const TempFolder folder;
  const std::string prototxt = text(
      "base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 snapshot_prefix: '", folder.path("snap"), "' ");
  Training without(prototxt), with(prototxt + "ema_decay: 0.5"), third(prototxt + "ema_decay: 0.5");
  without->solve();
  with->restore(folder.path("snap_iter_4.solverstate"));
  EXPECT_NE(with.warnings.find("no average of the weights (ema_decay)"), std::string::npos);
  with->step(1);
  const std::string state = with->snapshot();
  EXPECT_EQ(state, folder.path("snap_iter_5.solverstate"));
  fs::remove(folder.path("snap_iter_5_ema.caffemodel"));
  expect_error([&] { third->restore(state); }, {"snap_iter_5_ema.caffemodel", "beside"});
  // A solver without one takes such a state as it is.
  without->restore(state);
  EXPECT_EQ(without->iteration(), 5);
}

TEST(Restore, RefusesAStateOfAnotherType) {
  const TempFolder folder;
  const std::string more =
      text(" base_lr: 0.1 lr_policy: 'fixed' snapshot_prefix: '", folder.path("snap"), "'");
  Training adam("type: 'Adam' momentum: 0.9" + more), sgd(more),
      nesterov("type: 'Nesterov'" + more);
  adam->step(1);
  std::string path = adam->snapshot();
  expect_error([&] { sgd->restore(path); },
               {path, "type 'Adam'", "'SGD'", "set type: \"Adam\"", "--weights"});
  // Published states do not say their type.
  SolverState state;
  read_binary_proto(path, state);
  state.clear_type();
  write_binary_proto_atomically(path, state);
  expect_error([&] { sgd->restore(path); },
               {"history blobs", "type 'SGD'", "AdaDelta, Adam, AdamW, LAMB"});
  path = sgd->snapshot();
  expect_error([&] { nesterov->restore(path); }, {"type 'SGD'", "'Nesterov'"});
}

// Momentum 1 would make NaN of the first update.
TEST(MomentumPolicy, AWarmUpFromZeroTrainsAdam) {
  Training run(
      "type: 'Adam' momentum_policy: 'opt' base_lr: 0.01 lr_policy: 'fixed' warmup_iter: 2 "
      "snapshot_after_train: false");
  run->step(4);
  for (const double value : run.params()) ASSERT_TRUE(std::isfinite(value));
}

// Steps are divided by the factor, so that only the range of gradients changes.
TEST(LossScale, IsDividedOutOfTheUpdate) {
  const auto after = [](const std::string& more, double scale = 0) {
    Training run(
        "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 clip_gradients: 0.5 "
        "snapshot_after_train: false " +
        more);
    run->step(2);
    if (scale != 0) run->set_loss_scale(scale);
    run->step(2);
    return run.params();
  };
  const std::vector<double> plain = after("");
  EXPECT_EQ(after("loss_scale: 1024"), plain) << "a power of 2 is exact";
  EXPECT_EQ(after("loss_scale: 1024", 8), plain);
  Training run("base_lr: 1 lr_policy: 'fixed' loss_scale: 4");
  EXPECT_EQ(run->net().loss_scale(), 4);
  EXPECT_EQ(run->loss_scale(), 4);
  Net& net = run->net();
  net.clear_gradients();
  net.forward();
  net.backward();
  const std::vector<double> scaled = test::gradients_of(net);
  run->set_loss_scale(1);
  net.run_state().iteration = 0;
  net.clear_gradients();
  net.forward();
  net.backward();
  const std::vector<double> once = test::gradients_of(net);
  for (size_t i = 0; i < once.size(); ++i) ASSERT_EQ(scaled[i], 4 * once[i]) << i;
  expect_error([&] { run->set_loss_scale(0); }, {"loss_scale 0"});
}

// 6 is no power of 2: each change of the scale changes bits.
TEST(LossScale, ThatTheProgramSetIsResumed) {
  const TempFolder folder;
  const std::string prototxt = text(
      "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 loss_scale: 8 "
      "snapshot_after_train: false snapshot_prefix: '",
      folder.path("snap"), "'");
  Training straight(prototxt), resumed(prototxt);
  straight->step(2);
  const std::string first = straight->snapshot();
  straight->set_loss_scale(6);
  straight->step(1);
  const std::string second = straight->snapshot();
  straight->step(3);
  resumed->restore(second);
  EXPECT_EQ(resumed->loss_scale(), 6);
  EXPECT_EQ(resumed->net().loss_scale(), 6);
  resumed->step(3);
  EXPECT_EQ(resumed.params(), straight.params());
  resumed->restore(first);
  EXPECT_EQ(resumed->loss_scale(), 8);
  SolverState state;
  read_binary_proto(second, state);
  state.set_loss_scale(-1);
  write_binary_proto_atomically(second, state);
  expect_error([&] { resumed->restore(second); }, {second, "loss_scale -1", "positive"});
}

TEST(LossScaler, FollowsTheGradients) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_TRUE(scaler.overflowed());
  EXPECT_EQ(scaler.scale(), 32768);
  for (int update = 1; update < LossScaler::kPatience; ++update) scaler.updated();
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.updated();
  EXPECT_EQ(scaler.scale(), 65536);
  // One overflow begins the count again.
  for (int update = 1; update < LossScaler::kPatience; ++update) scaler.updated();
  EXPECT_TRUE(scaler.overflowed());
  scaler.updated();
  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_EQ(scaler.held(), 1);
  // It has an end at both sides.
  LossScaler low(2), high(LossScaler::kMost, LossScaler::kPatience - 1);
  EXPECT_TRUE(low.overflowed());
  EXPECT_FALSE(low.overflowed());
  high.updated();
  EXPECT_EQ(high.scale(), LossScaler::kMost);
}

// The gradient of the scores is 8 * 65536 at first, beyond f16.
TEST(LossScaler, LeavesOutUpdatesOfF16ThatOverflow) {
  const TempFolder folder;
  const std::string input = "precision: F16 " + kInput;
  const std::string settings = text(
      "base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 snapshot_after_train: false "
      "snapshot_prefix: '",
      folder.path("snap"), "'");
  Training run(settings, DType::f32, "reference", input);
  EXPECT_EQ(run->loss_scale(), 65536);
  EXPECT_EQ(run->net().loss_scale(), 65536);
  // Statistics of BatchNorm follow the batches, with or without an update.
  const auto weights = [&] {
    return test::values_of(run->net().layer("ip").params()[0]->storage()->data());
  };
  const auto scaled_by = [&](double scale) {
    run->set_loss_scale(scale);
    const std::vector<double> before = weights();
    run->step(1);
    return std::pair(run->loss_scale(), weights() != before);
  };
  EXPECT_EQ(scaled_by(16777216), std::pair(8388608.0, false));
  EXPECT_EQ(scaled_by(1024), std::pair(1024.0, true));

  // The factor and the count of updates go into snapshots.
  Training straight(settings, DType::f32, "reference", input);
  Training resumed(settings, DType::f32, "reference", input);
  straight->set_loss_scale(1048576);
  straight->step(3);
  const std::string snapshot = straight->snapshot();
  SolverState state;
  read_binary_proto(snapshot, state);
  EXPECT_EQ(state.loss_scale(), straight->loss_scale());
  straight->step(3);
  resumed->restore(snapshot);
  resumed->step(3);
  EXPECT_EQ(resumed->loss_scale(), straight->loss_scale());
  EXPECT_EQ(resumed.params(), straight.params());

  // A solver that gives one keeps it, and a net of another precision has none that follows.
  Training given(settings + " loss_scale: 128", DType::f32, "reference", input);
  EXPECT_EQ(given->loss_scale(), 128);
  Training rounded(settings, DType::f32, "reference", "precision: BF16 " + kInput);
  EXPECT_EQ(rounded->loss_scale(), 1);
}

TEST(SolverSettings, WrongNumbersAreRefused) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    expect_error([&] { Training(text + " base_lr: 0.1 lr_policy: 'fixed'"); }, parts);
  };
  refuse("ema_decay: 1", {"ema_decay 1 must lie in [0, 1)"});
  refuse("loss_scale: 0", {"loss_scale 0 must be positive"});
  refuse("clip_gradient_value: 0", {"clip_gradient_value 0 must be positive, or -1"});
  refuse("clip_gradients: 0", {"clip_gradients 0 must be positive, or -1"});
  refuse("delta: nan", {"delta is nan"});
  refuse("ema_decay: inf", {"ema_decay is inf"});
  refuse("stagelr: 1 stagelr: nan", {"stagelr is nan"});
  refuse("type: 'AdaGrad' momentum: 0.5", {"momentum 0.5 cannot be used"});
}

}  // namespace
}  // namespace crema
