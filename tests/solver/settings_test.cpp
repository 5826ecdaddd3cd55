// Settings of a solver that have no effect, and what is said of them.
#include "solver/settings.hpp"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>

#include "crema/error.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"

namespace crema {
namespace {

SolverParameter settings_of(const std::string& text) {
  SolverParameter param;
  parse_text_proto(text, "solver.prototxt", param);
  return param;
}

std::string notes_of(const std::string& text) {
  return joined(check_settings(settings_of(text), {}), "; ");
}

TEST(SolverSettings, OfPoliciesThatAreNotSetHaveNoEffect) {
  EXPECT_EQ(notes_of("warmup_start_lr: 0.1"),
            "the solver's warmup_start_lr has no effect without warmup_iter");
  EXPECT_EQ(notes_of("warmup_iter: 3 warmup_start_lr: 0.1"), "");
  EXPECT_EQ(
      notes_of("stepsize: 10 lr_policy: 'fixed'"),
      "the solver's stepsize has no effect with lr_policy 'fixed'; it belongs to sigmoid, step");
  EXPECT_EQ(notes_of("stepvalue: 10 stepvalue: 20 lr_policy: 'poly'"),
            "the solver's stepvalue has no effect with lr_policy 'poly'; it belongs to multistep");
  EXPECT_EQ(notes_of("gamma: 0.1 stepsize: 10 lr_policy: 'step'"), "");
  EXPECT_EQ(notes_of("gamma: 0.1 power: 0.75 lr_policy: 'inv'"), "");
  EXPECT_EQ(notes_of("rampup_lr: 0.1"),
            "the solver's rampup_lr has no effect without rampup_interval");
  EXPECT_EQ(notes_of("max_momentum: 0.9"),
            "the solver's max_momentum has no effect without momentum_policy");
  EXPECT_EQ(notes_of("max_momentum: 0.9 momentum_policy: 'opt'"), "");
  EXPECT_EQ(notes_of("momentum_power: 2 momentum_policy: 'opt'"),
            "the solver's momentum_power has no effect without momentum_policy: \"poly\"");
  EXPECT_EQ(notes_of("max_weight_decay: 0.9"),
            "the solver's max_weight_decay has no effect without weight_decay_policy");
  EXPECT_EQ(notes_of("weight_decay_power: 2"),
            "the solver's weight_decay_power has no effect without weight_decay_policy: \"poly\"");
}

TEST(SolverSettings, OfOtherRatePoliciesHaveNoEffect) {
  const auto expect = [](const std::string& setting, const std::string& policy) {
    const std::string field = setting.substr(0, setting.find(':'));
    EXPECT_EQ(notes_of(setting + " lr_policy: 'inv'"),
              text("the solver's ", field, " has no effect with lr_policy 'inv'; it belongs to ",
                   policy));
    EXPECT_EQ(notes_of(text(setting, " lr_policy: '", policy, "'")), "");
  };
  expect("onecycle_rise: 0.2", "onecycle");
  expect("onecycle_div: 10", "onecycle");
  expect("onecycle_final_div: 10", "onecycle");
  expect("onecycle_three_phase: true", "onecycle");
  expect("onecycle_anneal: LINEAR", "onecycle");
  expect("restart_iter: 10", "cosine_restarts");
  expect("restart_mult: 2", "cosine_restarts");
  expect("plateau_winsize: 10", "plateau");
  expect("stagelr: 0.1", "multifixed");
  expect("stageiter: 10", "multifixed");
  EXPECT_EQ(notes_of("min_lr: 0.1 lr_policy: 'fixed'"),
            "the solver's min_lr has no effect with lr_policy 'fixed', whose rate is base_lr");
  EXPECT_EQ(notes_of("min_lr: 0.1 lr_policy: 'exp'"), "");
  EXPECT_NE(notes_of("base_lr: 0.1 lr_policy: 'multifixed'").find("base_lr has no effect"),
            std::string::npos);
  EXPECT_EQ(notes_of("base_lr: 0.1 lr_policy: 'multifixed' warmup_iter: 2"), "");
}

TEST(SolverSettings, WithoutWhatTheyActOnHaveNoEffect) {
  const auto expect = [](const std::string& setting, const std::string& what,
                         const std::string& with) {
    const std::string field = setting.substr(0, setting.find(':'));
    EXPECT_EQ(notes_of(setting), text("the solver's ", field, " has no effect without ", what));
    EXPECT_EQ(notes_of(setting + " " + with), "");
  };
  expect("test_compute_loss: true", "test_iter", "test_iter: 1");
  expect("test_initialization: false", "test_iter", "test_iter: 1");
  expect("test_at_end: false", "test_iter", "test_iter: 1");
  expect("eval_type: 'detection'", "test_iter", "test_iter: 1");
  expect("ap_version: '11point'", "test_iter", "test_iter: 1");
  expect("show_per_class_result: true", "test_iter", "test_iter: 1");
  expect("snapshot_best_net: 1", "snapshot_best", "snapshot_best: 'loss'");
  expect("snapshot_best_is: LEAST", "snapshot_best", "snapshot_best: 'loss'");
  expect("snapshot_best_count: 2", "snapshot_best", "snapshot_best: 'loss' snapshot_keep: 1");
  expect("test_every_epochs: 2", "test_iter", "test_iter: 1");
  expect("rollback_factor: 0.1", "on_nan: ROLLBACK", "on_nan: ROLLBACK");
  expect("rollback_most: 2", "on_nan: ROLLBACK", "on_nan: ROLLBACK");
  expect("ema_test: false", "ema_decay", "ema_decay: 0.9 test_iter: 1");
  expect("ema_warmup: 10", "ema_decay", "ema_decay: 0.9");
  expect("regularization_type: 'L1'", "weight_decay", "weight_decay: 0.1");
  expect("weight_decay_policy: 'poly'", "weight_decay or max_weight_decay", "weight_decay: 0.1");
  expect("device_id: 1", "solver_mode: GPU", "solver_mode: GPU");
  EXPECT_EQ(notes_of("ema_decay: 0.9 ema_test: false"),
            "the solver's ema_test has no effect without test_iter");
  EXPECT_NE(notes_of("ema_decay: 0.9 ema_warmup: 1").find("ema_warmup 1 has no effect"),
            std::string::npos);
  EXPECT_NE(notes_of("layer_wise_reduce: false").find("layer_wise_reduce has no effect"),
            std::string::npos);
  EXPECT_NE(notes_of("momentum: 0.5 momentum_policy: 'opt'").find("momentum has no effect"),
            std::string::npos);
  expect_error([] { notes_of("ema_warmup: -1"); }, {"ema_warmup -1 must not be negative"});
}

// Each setting is read, or has a word where it is not: this is the list of those that are read
// whatever the others are. A new setting has to be added here, or to what the solver says.
TEST(SolverSettings, EachIsReadOrSaysThatItIsNot) {
  const std::set<std::string> read = {
      // the nets, and an Error for what is too much of them
      "net", "net_param", "train_net", "test_net", "train_net_param", "test_net_param",
      "train_state", "test_state", "test_iter", "display", "average_loss", "max_iter", "iter_size",
      // Errors and notes of RatePolicy and UpdateRule
      "base_lr", "min_lr", "lr_policy", "type", "solver_type", "momentum", "momentum2", "rms_decay",
      "delta", "amsgrad", "weight_decay", "momentum_policy", "warmup_iter", "rampup_interval",
      "larc", "larc_policy", "larc_eta", "local_lr_auto", "local_gw_ratio", "clip_gradients",
      "clip_gradient_value", "loss_scale", "ema_decay", "snapshot", "snapshot_prefix",
      "snapshot_diff", "snapshot_format", "snapshot_after_train", "snapshot_keep", "snapshot_best",
      "weights", "solver_mode", "random_seed",
      // lengths and ends, and Errors for what contradicts them
      "max_epochs", "max_hours", "early_stop", "on_nan", "on_oom",
      // several processes (solver/trainer_processes.cpp)
      "batch_semantics", "parallel_mode", "gradient_type"};
  const auto* type = SolverParameter::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    using Field = google::protobuf::FieldDescriptor;
    std::string value = field->cpp_type() == Field::CPPTYPE_FLOAT ? "0.5" : "1";
    if (field->cpp_type() == Field::CPPTYPE_STRING) value = "'poly'";
    if (field->cpp_type() == Field::CPPTYPE_BOOL)
      value = field->default_value_bool() ? "false" : "true";
    if (field->cpp_type() == Field::CPPTYPE_ENUM)
      value = field->enum_type()->value(field->enum_type()->value_count() - 1)->name();
    if (field->cpp_type() == Field::CPPTYPE_MESSAGE) value = "{}";
    if (field->name() == "early_stop") value = "{ output: 'loss' patience: 1 } test_iter: 1";
    if (field->name() == "stepvalue_percent") value = "1 max_iter: 9";
    if (field->name() == "rollback_factor") value = "0.5";
    if (field->name() == "eval_type") value = "'detection'";
    if (field->name() == "ap_version") value = "'11point'";
    const std::string name(field->name());
    if (name == "debug_info") continue;  // the nets' passes read it, or a note says so
    const std::string notes = notes_of(text(name, ": ", value));
    EXPECT_EQ(notes.find(name) == std::string::npos, read.count(name) == 1)
        << name << ": " << notes;
  }
}

TEST(SettingsNotes, PercentsThatPassForFractions) {
  EXPECT_NE(notes_of("max_iter: 100 lr_policy: 'multistep' stepvalue_percent: 0.5 "
                     "stepvalue_percent: 0.75")
                .find("stepvalue_percent 0.5, 0.75: all steps lie in the first hundredth"),
            std::string::npos);
  EXPECT_EQ(notes_of("max_iter: 100 lr_policy: 'multistep' stepvalue_percent: 0.5 "
                     "stepvalue_percent: 75"),
            "");
}

TEST(SettingsNotes, ACountOfBestsNeedsKeep) {
  const std::string best = "snapshot_best: 'accuracy' snapshot_best_count: 3 ";
  EXPECT_NE(notes_of(best).find("snapshot_best_count 3 removes no snapshot without snapshot_keep"),
            std::string::npos);
  EXPECT_EQ(notes_of(best + "snapshot_keep: 2"), "");
}

}  // namespace
}  // namespace crema
