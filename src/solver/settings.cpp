#include "solver/settings.hpp"

#include <google/protobuf/descriptor.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/counted.hpp"
#include "core/path_advice.hpp"
#include "core/split_list.hpp"
#include "model/binary_format.hpp"
#include "model/hdf5_file.hpp"
#include "model/model_folders.hpp"
#include "model/whole_file.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/solver.pb.h"
#include "solver/average_precision.hpp"
#include "solver/snapshot_files.hpp"

namespace crema {
namespace fs = std::filesystem;
namespace {

/// The net's file as named, or beside the solver where the working directory lacks it.
std::string locate(const std::string& file, const std::string& solver_file) {
  std::error_code none;  // opening the file says what is wrong
  if (fs::exists(file, none) || solver_file.empty() || fs::path(file).is_absolute()) return file;
  const fs::path beside = fs::path(solver_file).parent_path() / file;
  return fs::exists(beside, none) ? beside.string() : file;
}

/// The most bytes of a prefix's last part: file systems allow names of NAME_MAX, and the longest
/// one is that of a file that is being written.
size_t longest_prefix_name() {
  const std::string end =
      unfinished_path(text("_iter_", std::numeric_limits<int>::max(), "_ema.caffemodel.h5"));
  return NAME_MAX - end.size();
}

/// Such as "12 MB", "0.03 MB".
std::string megabytes(size_t bytes) {
  const auto exact = static_cast<double>(bytes) / 1e6;
  return text(exact >= 10 ? std::floor(exact) : std::round(exact * 100) / 100, " MB");
}

NetOptions net_options(const SolverOptions& options, Phase phase, const NetState* state) {
  NetOptions result;
  result.phase = phase;
  if (phase == Phase::train) {
    result.level = options.level;
    result.stages = options.stages;
  }
  result.dtype = options.dtype;
  result.fuse = options.fuse;
  if (state) {
    if (state->has_phase()) {
      // Whether the net learns is not a matter of its layers' phase.
      result.backward =
          phase == Phase::train ? NetOptions::Backward::yes : NetOptions::Backward::no;
      result.phase = state->phase() == TEST ? Phase::test : Phase::train;
    }
    if (state->has_level()) result.level = state->level();
    result.stages.insert(result.stages.end(), state->stage().begin(), state->stage().end());
  }
  return result;
}

}  // namespace

SolverNets resolve_nets(const SolverParameter& param, const SolverOptions& options,
                        const SourceMap& source) {
  SolverNets nets;
  const int given =
      param.has_net() + param.has_net_param() + param.has_train_net() + param.has_train_net_param();
  if (given == 0) throw Error("the solver names no net; add net: \"FILE\"");
  if (given != 1)
    throw Error("the solver names ", given,
                " training nets; keep one of net, net_param, train_net, train_net_param");
  auto from_file = [&](const std::string& file, const NetOptions& net) {
    return NetSource{locate(file, source.file()), nullptr, "", net, nullptr, {}};
  };
  const NetOptions train =
      net_options(options, Phase::train, param.has_train_state() ? &param.train_state() : nullptr);
  if (param.has_net()) nets.train = from_file(param.net(), train);
  if (param.has_train_net()) nets.train = from_file(param.train_net(), train);
  if (param.has_net_param()) nets.train = {"", &param.net_param(), "net_param", train, nullptr, {}};
  if (param.has_train_net_param())
    nets.train = {"", &param.train_net_param(), "train_net_param", train, nullptr, {}};

  // Test nets: test_net_param, then test_net, then as many of `net` as test_iter has left.
  const int own = param.test_net_param_size() + param.test_net_size();
  const int total = param.test_iter_size();
  const bool generic = param.has_net() || param.has_net_param();
  if (!(generic ? total >= own : total == own))
    throw Error("the solver has ", counted(own, "test net"), " but ", total,
                " test_iter; give one a net")
        .at(source.position("test_iter"));
  if (param.test_state_size() != 0 && param.test_state_size() != total)
    throw Error("the solver has ", counted(total, "test net"), " but ", param.test_state_size(),
                " test_state; give one a net, or none")
        .at(source.position("test_state"));
  for (int i = 0; i < total; ++i) {
    const NetOptions net =
        net_options(options, Phase::test, param.test_state_size() ? &param.test_state(i) : nullptr);
    const int file = i - param.test_net_param_size();
    if (i < param.test_net_param_size()) {
      nets.tests.push_back(
          {"", &param.test_net_param(i), text("test_net_param[", i, "]"), net, nullptr, {}});
    } else if (file < param.test_net_size()) {
      nets.tests.push_back(from_file(param.test_net(file), net));
    } else {
      nets.tests.push_back(nets.train);
      nets.tests.back().options = net;
    }
    // 0 is for scripts that run the test net themselves.
    if (param.test_iter(i) < 0)
      throw Error("test_iter ", param.test_iter(i),
                  " must not be negative; give the number of batches of a test")
          .at(source.position(text("test_iter[", i, "]")));
    nets.test_iterations.push_back(param.test_iter(i));
  }
  if (total != 0 && param.test_interval() <= 0 && !param.has_test_every_epochs())
    throw Error(
        "the solver has test nets but no test_interval; add it or test_every_epochs, "
        "or remove test_iter")
        .at(source.position("test_iter"));
  return nets;
}

std::shared_ptr<NetParameter> message_of(NetSource& net, const SourceMap& solver) {
  if (net.changed) return std::make_shared<NetParameter>(*net.changed);
  auto message = std::make_shared<NetParameter>();
  if (net.inlined) {
    *message = *net.inlined;
    net.source = solver.nested(net.place);
  } else {
    read_net(net.file, *message, &net.source);
  }
  return message;
}

bool is_of_fork(int field_number) {
  constexpr int kLastPublished = SolverParameter::kWeightsFieldNumber;
  constexpr int kFirstOwn = 10000, kLastOwn = 10499;
  return field_number > kLastPublished && (field_number < kFirstOwn || field_number > kLastOwn);
}

namespace {

/// Error for a number of the solver that is none.
void check_finite(const SolverParameter& param, const google::protobuf::FieldDescriptor& field,
                  const SourceMap& source) {
  using Field = google::protobuf::FieldDescriptor;
  const bool is_double = field.cpp_type() == Field::CPPTYPE_DOUBLE;
  if (field.cpp_type() != Field::CPPTYPE_FLOAT && !is_double) return;
  const auto* reflection = param.GetReflection();
  const std::string name(field.name());
  const auto check = [&](double value, const std::string& place) {
    if (!std::isfinite(value))
      throw Error(name, " is ", value, "; give a number").at(source.position(place));
  };
  if (!field.is_repeated())
    return check(
        is_double ? reflection->GetDouble(param, &field) : reflection->GetFloat(param, &field),
        name);
  for (int i = 0; i < reflection->FieldSize(param, &field); ++i) {
    check(is_double ? reflection->GetRepeatedDouble(param, &field, i)
                    : reflection->GetRepeatedFloat(param, &field, i),
          text(name, "[", i, "]"));
  }
}

/// Settings of forks that the solver, RatePolicy and UpdateRule read.
bool has_effect(int field_number) {
  using P = SolverParameter;
  static const std::set<int> fields = {P::kEvalTypeFieldNumber,
                                       P::kApVersionFieldNumber,
                                       P::kShowPerClassResultFieldNumber,
                                       P::kPlateauWinsizeFieldNumber,
                                       P::kStagelrFieldNumber,
                                       P::kStageiterFieldNumber,
                                       P::kWarmupIterFieldNumber,
                                       P::kWarmupStartLrFieldNumber,
                                       P::kRampupIntervalFieldNumber,
                                       P::kRampupLrFieldNumber,
                                       P::kMinLrFieldNumber,
                                       P::kMomentumPolicyFieldNumber,
                                       P::kMaxMomentumFieldNumber,
                                       P::kMomentumPowerFieldNumber,
                                       P::kWeightDecayPolicyFieldNumber,
                                       P::kWeightDecayPowerFieldNumber,
                                       P::kMaxWeightDecayFieldNumber,
                                       P::kLarcFieldNumber,
                                       P::kLarcPolicyFieldNumber,
                                       P::kLarcEtaFieldNumber,
                                       P::kLocalLrAutoFieldNumber,
                                       P::kLocalGwRatioFieldNumber};
  return fields.count(field_number) != 0;
}

/// Adds a note if the setting is given and not read.
void note_unread(bool given, bool read, const char* field, const char* what,
                 std::vector<std::string>& notes) {
  if (given && !read)
    notes.push_back(text("the solver's ", field, " has no effect without ", what));
}

/// Notes of settings that belong to a policy of the rate, of momentum or of decay, or to a warm-up.
void note_policies(const SolverParameter& param, std::vector<std::string>& notes) {
  const auto of_policy = [&](bool given, const char* field, const std::set<std::string>& policies) {
    if (given && policies.count(param.lr_policy()) == 0)
      notes.push_back(text("the solver's ", field, " has no effect with lr_policy '",
                           param.lr_policy(), "'; it belongs to ", joined(policies)));
  };
  of_policy(param.has_gamma(), "gamma", {"step", "exp", "inv", "multistep", "sigmoid", "plateau"});
  of_policy(param.has_power(), "power", {"inv", "poly"});
  of_policy(param.has_stepsize(), "stepsize", {"step", "sigmoid"});
  of_policy(param.stepvalue_size() > 0, "stepvalue", {"multistep"});
  of_policy(param.stepvalue_percent_size() > 0, "stepvalue_percent", {"multistep"});
  of_policy(param.plateau_winsize_size() > 0, "plateau_winsize", {"plateau"});
  of_policy(param.stagelr_size() > 0, "stagelr", {"multifixed"});
  of_policy(param.stageiter_size() > 0, "stageiter", {"multifixed"});
  of_policy(param.has_onecycle_rise(), "onecycle_rise", {"onecycle"});
  of_policy(param.has_onecycle_div(), "onecycle_div", {"onecycle"});
  of_policy(param.has_onecycle_final_div(), "onecycle_final_div", {"onecycle"});
  of_policy(param.has_onecycle_three_phase(), "onecycle_three_phase", {"onecycle"});
  of_policy(param.has_onecycle_anneal(), "onecycle_anneal", {"onecycle"});
  of_policy(param.has_restart_iter(), "restart_iter", {"cosine_restarts"});
  of_policy(param.has_restart_mult(), "restart_mult", {"cosine_restarts"});
  if (param.min_lr() > 0 && param.lr_policy() == "fixed") {
    notes.emplace_back(
        "the solver's min_lr has no effect with lr_policy 'fixed', whose rate is base_lr");
  }
  const bool warms_up = param.warmup_iter() > 0 || param.rampup_interval() > 0;
  if (param.lr_policy() == "multifixed") {
    note_unread(param.has_base_lr(), warms_up, "base_lr",
                "a warm-up, as lr_policy 'multifixed' has its rates from stagelr", notes);
  }
  note_unread(param.has_warmup_start_lr(), param.warmup_iter() > 0, "warmup_start_lr",
              "warmup_iter", notes);
  note_unread(param.has_rampup_lr(), param.rampup_interval() > 0, "rampup_lr", "rampup_interval",
              notes);
  if (param.has_momentum() && param.momentum_policy() == "opt") {
    notes.emplace_back(
        "the solver's momentum has no effect with momentum_policy 'opt', which finds it from the "
        "learning rate");
  }
  note_unread(param.has_max_momentum(), param.momentum_policy() != "fixed", "max_momentum",
              "momentum_policy", notes);
  note_unread(param.has_momentum_power(), param.momentum_policy() == "poly", "momentum_power",
              "momentum_policy: \"poly\"", notes);
  const bool decay_changes = param.weight_decay_policy() != "fixed";
  const bool decays = param.weight_decay() > 0 || (decay_changes && param.max_weight_decay() > 0);
  note_unread(decay_changes, decays, "weight_decay_policy", "weight_decay or max_weight_decay",
              notes);
  note_unread(param.has_regularization_type(), decays, "regularization_type", "weight_decay",
              notes);
  note_unread(param.has_max_weight_decay(), decay_changes, "max_weight_decay",
              "weight_decay_policy", notes);
  note_unread(param.has_weight_decay_power(), param.weight_decay_policy() == "poly",
              "weight_decay_power", "weight_decay_policy: \"poly\"", notes);
}

/// Notes of settings of tests and of the average of the weights.
void note_tests_and_average(const SolverParameter& param, std::vector<std::string>& notes) {
  const bool tests = param.test_iter_size() > 0;
  // As in published solvers this is no error: the run trains without tests.
  if (param.test_interval() > 0 && !tests) {
    notes.emplace_back(
        "the solver's test_interval has no effect without test_iter; add test_iter, the number of "
        "batches of a test, or remove test_interval");
  }
  const auto of_tests = [&](bool given, const char* field) {
    note_unread(given, tests, field, "test_iter", notes);
  };
  for (int i = 0; i < param.test_iter_size(); ++i) {
    if (param.test_iter(i) == 0)
      notes.push_back(text("test_iter 0: test net ", i, " is built, and no test of it runs"));
  }
  of_tests(param.has_test_every_epochs(), "test_every_epochs");
  of_tests(param.has_test_compute_loss(), "test_compute_loss");
  of_tests(param.has_test_initialization(), "test_initialization");
  of_tests(param.has_test_at_end(), "test_at_end");
  of_tests(param.has_eval_type(), "eval_type");
  of_tests(param.has_ap_version(), "ap_version");
  of_tests(param.has_show_per_class_result(), "show_per_class_result");
  note_unread(param.has_snapshot_best_net(), !param.snapshot_best().empty(), "snapshot_best_net",
              "snapshot_best", notes);
  note_unread(param.has_snapshot_best_is(), !param.snapshot_best().empty(), "snapshot_best_is",
              "snapshot_best", notes);
  note_unread(param.has_snapshot_best_count(), !param.snapshot_best().empty(),
              "snapshot_best_count", "snapshot_best", notes);
  if (param.has_snapshot_best_count() && !param.snapshot_best().empty() &&
      param.snapshot_keep() == 0)
    notes.push_back(text("the solver's snapshot_best_count ", param.snapshot_best_count(),
                         " removes no snapshot without snapshot_keep: all of them stay; add "
                         "snapshot_keep, the number of the newest that stay besides"));
  const bool averages = param.ema_decay() > 0;
  note_unread(param.has_ema_test(), averages, "ema_test", "ema_decay", notes);
  if (averages) of_tests(param.has_ema_test(), "ema_test");
  note_unread(param.has_ema_warmup(), averages, "ema_warmup", "ema_decay", notes);
  if (averages && param.ema_warmup() > 0 && param.ema_warmup() <= 1) {
    notes.push_back(text("the solver's ema_warmup ", param.ema_warmup(),
                         " has no effect, since (1 + t) / (ema_warmup + t) is not below 1; give "
                         "a greater one, such as 10"));
  }
}

/// Notes of settings of the whole run.
void note_others(const SolverParameter& param, std::vector<std::string>& notes) {
  const bool on_gpu = param.has_solver_mode() && param.solver_mode() == SolverParameter::GPU;
  note_unread(param.device_id() != 0, on_gpu, "device_id", "solver_mode: GPU", notes);
  if (!param.layer_wise_reduce()) {
    notes.emplace_back(
        "the solver's layer_wise_reduce has no effect: a run computes on one device");
  }
  const auto& percents = param.stepvalue_percent();
  if (!percents.empty() && *std::ranges::max_element(percents) < 1)
    notes.push_back(text("the solver's stepvalue_percent ", joined(percents),
                         ": all steps lie in the first hundredth of the run; half of it is 50"));
  const bool averages = param.parallel_mode() != SolverParameter::GRADIENTS;
  note_unread(param.has_average_every(), averages, "average_every",
              "parallel_mode: LOCAL or GOSSIP", notes);
  note_unread(param.has_gossip_partners(), param.parallel_mode() == SolverParameter::GOSSIP,
              "gossip_partners", "parallel_mode: GOSSIP", notes);
  note_unread(param.has_gradient_type(), !averages, "gradient_type", "parallel_mode: GRADIENTS",
              notes);
  const bool goes_back = param.on_nan() == SolverParameter::ROLLBACK;
  note_unread(param.has_rollback_factor(), goes_back, "rollback_factor", "on_nan: ROLLBACK", notes);
  note_unread(param.has_rollback_most(), goes_back, "rollback_most", "on_nan: ROLLBACK", notes);
  note_unread(param.debug_info(), param.display() > 0 || param.test_iter_size() > 0, "debug_info",
              "display", notes);
}

/// Error for lengths that are none, or that are given in two ways.
void check_lengths(const SolverParameter& param, const SourceMap& source) {
  const auto positive = [&](bool given, double value, const char* name) {
    if (given && !(value > 0))
      throw Error(name, " ", value, " must be positive").at(source.position(name));
  };
  positive(param.has_max_epochs(), param.max_epochs(), "max_epochs");
  positive(param.has_test_every_epochs(), param.test_every_epochs(), "test_every_epochs");
  positive(param.has_max_hours(), param.max_hours(), "max_hours");
  const auto one_of = [&](bool both, const char* name, const char* other) {
    if (both)
      throw Error("the solver has both ", other, " and ", name, "; keep one of them")
          .at(source.position(name));
  };
  one_of(param.has_max_epochs() && param.has_max_iter(), "max_epochs", "max_iter");
  one_of(param.has_test_every_epochs() && param.has_test_interval(), "test_every_epochs",
         "test_interval");
  const auto& percents = param.stepvalue_percent();
  if (percents.empty()) return;
  one_of(param.stepvalue_size() > 0, "stepvalue_percent", "stepvalue");
  for (int i = 0; i < percents.size(); ++i) {
    const std::string place = text("stepvalue_percent[", i, "]");
    if (!(percents[i] > 0 && percents[i] < 100))
      throw Error("stepvalue_percent ", percents[i],
                  " must lie in (0, 100): it is a part of the iterations of the run")
          .at(source.position(place));
    if (i > 0 && percents[i] < percents[i - 1])
      throw Error("the stepvalue_percent entries must ascend, and ", percents[i], " follows ",
                  percents[i - 1])
          .at(source.position(place));
  }
  if (param.max_iter() == 0 && !param.has_max_epochs())
    throw Error("stepvalue_percent needs max_iter or max_epochs, of which it is a part")
        .at(source.position("stepvalue_percent"));
}

/// Error for numbers that ending early and going back cannot work with.
void check_ends(const SolverParameter& param, const SourceMap& source) {
  const auto need = [&](bool holds, const char* name, auto value, const char* must) {
    if (!holds) throw Error(name, " ", value, " must ", must).at(source.position(name));
  };
  need(param.snapshot_best_count() >= 1, "snapshot_best_count", param.snapshot_best_count(),
       "be at least 1");
  need(param.rollback_factor() > 0 && param.rollback_factor() < 1, "rollback_factor",
       param.rollback_factor(), "lie in (0, 1): the rate becomes lower by it");
  need(param.rollback_most() >= 1, "rollback_most", param.rollback_most(), "be at least 1");
  if (!param.has_early_stop()) return;
  const EarlyStopParameter& stop = param.early_stop();
  need(stop.patience() >= 1, "early_stop.patience", stop.patience(),
       "be at least 1: the number of tests in a row that may be no better");
  need(stop.min_delta() >= 0 && std::isfinite(stop.min_delta()), "early_stop.min_delta",
       stop.min_delta(), "not be negative, and be a number");
  if (param.test_iter_size() == 0)
    throw Error("early_stop needs tests; add test_iter and test_interval, or remove it")
        .at(source.position("early_stop"));
}

}  // namespace

std::vector<std::string> check_settings(const SolverParameter& param, const SourceMap& source) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  param.GetReflection()->ListFields(param, &fields);
  for (const auto* field : fields) check_finite(param, *field, source);
  const auto need = [&](bool holds, const char* name, auto value, const char* must) {
    if (!holds) throw Error(name, " ", value, " must ", must).at(source.position(name));
  };
  need(param.iter_size() > 0, "iter_size", param.iter_size(), "be at least 1");
  need(param.average_every() > 0, "average_every", param.average_every(), "be at least 1");
  need(param.average_loss() > 0, "average_loss", param.average_loss(), "be at least 1");
  need(param.max_iter() >= 0, "max_iter", param.max_iter(), "not be negative");
  need(param.test_interval() >= 0, "test_interval", param.test_interval(), "not be negative");
  need(param.snapshot() >= 0, "snapshot", param.snapshot(), "not be negative");
  need(param.display() >= 0, "display", param.display(), "not be negative");
  need(param.base_lr() >= 0, "base_lr", param.base_lr(), "not be negative");
  need(param.weight_decay() >= 0, "weight_decay", param.weight_decay(), "not be negative");
  need(param.momentum() >= 0 && param.momentum() < 1, "momentum", param.momentum(),
       "lie in [0, 1)");
  need(param.ema_decay() >= 0 && param.ema_decay() < 1, "ema_decay", param.ema_decay(),
       "lie in [0, 1); 0 is for no average");
  need(param.ema_warmup() >= 0, "ema_warmup", param.ema_warmup(),
       "not be negative; 0 is for no warm-up of the average");
  need(param.loss_scale() > 0, "loss_scale", param.loss_scale(), "be positive");
  for (const auto& [name, value] :
       {std::pair{"clip_gradients", param.clip_gradients()},
        std::pair{"clip_gradient_value", param.clip_gradient_value()}}) {
    need(value != 0, name, value, "be positive, or -1 for no limit");
  }
  need(param.random_seed() >= -1, "random_seed", param.random_seed(),
       "be at least 0; leave it out, or give -1, for 1701");
  need(param.snapshot_keep() >= 0, "snapshot_keep", param.snapshot_keep(), "not be negative");
  check_lengths(param, source);
  check_ends(param, source);
  const std::string& eval = param.eval_type();
  if (eval != "classification" && eval != "detection")
    throw Error("eval_type '", eval, "' is neither classification nor detection",
                did_you_mean(eval, {"classification", "detection"}))
        .at(source.position("eval_type"));
  try {
    ap_version(param.ap_version());
  } catch (Error& error) {
    error.at(source.position("ap_version"));
    throw;
  }
  if (param.snapshot_format() == SolverParameter::HDF5 && !has_hdf5())
    throw Error(
        "snapshot_format HDF5: this build cannot write HDF5 files, since it was configured "
        "with CREMA_HDF5=OFF; use BINARYPROTO, or build with CREMA_HDF5=ON")
        .at(source.position("snapshot_format"));

  std::vector<std::string> notes;
  note_policies(param, notes);
  note_tests_and_average(param, notes);
  note_others(param, notes);
  for (const auto* field : fields) {
    if (!is_of_fork(field->number()) || has_effect(field->number())) continue;
    notes.push_back(
        text("the solver's setting '", field->name(), "' belongs to a fork and has no effect"));
  }
  return notes;
}

std::string snapshot_prefix(const SolverParameter& param, const std::string& solver_file) {
  const std::string stem =
      solver_file.empty() ? "snapshot" : fs::path(solver_file).replace_extension().string();
  if (!param.has_snapshot_prefix()) return stem;
  std::error_code none;
  if (fs::is_directory(param.snapshot_prefix(), none)) {
    return (fs::path(param.snapshot_prefix()) / fs::path(stem).filename()).string();
  }
  return param.snapshot_prefix();
}

std::vector<std::string> weight_files(const SolverParameter& param) {
  std::vector<std::string> files;
  for (const std::string& entry : param.weights()) {
    const std::vector<std::string> named = split_list(entry);
    files.insert(files.end(), named.begin(), named.end());
  }
  return files;
}

bool takes_snapshots(const SolverParameter& param) {
  const bool ends = param.max_iter() > 0 || param.has_max_epochs();
  return param.snapshot() > 0 || (ends && param.snapshot_after_train()) ||
         !param.snapshot_best().empty() || param.on_nan() == SolverParameter::ROLLBACK;
}

bool is_folder_of_model(const std::string& prefix) {
  const std::string folder = fs::path(prefix).parent_path().string();
  const std::string installed = find_model_file(folder);
  std::error_code none;
  return installed != folder && fs::is_directory(installed, none);
}

void make_folder_of_model(const std::string& prefix) {
  std::error_code none;  // check_snapshot_place() says what is wrong
  if (is_folder_of_model(prefix)) fs::create_directories(fs::path(prefix).parent_path(), none);
}

std::string check_snapshot_place(const std::string& prefix, const SolverParameter& param,
                                 size_t weights, size_t state, size_t average) {
  const size_t largest = std::max(weights, state), bytes = weights + state + average;
  if (largest >= static_cast<size_t>(kMostMessageBytes) &&
      param.snapshot_format() == SolverParameter::BINARYPROTO)
    throw Error("snapshots cannot be written: a file of one would have ", largest / 1000000,
                " MB, and the published format takes at most ", kMostMessageBytes / 1000000,
                "; use snapshot_format: HDF5, or train without them (snapshot: 0 "
                "snapshot_after_train: false)");
  fs::path folder = fs::path(prefix).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code reason;
  if (!fs::is_directory(folder, reason))
    throw Error(
        "snapshots cannot be written: ",
        reason && reason != std::errc::no_such_file_or_directory
            ? text(reason.message(), ", so the folder '", folder.string(), "' is out of reach")
            : text("there is no folder '", folder.string(), "'"),
        path_advice(prefix,
                    text("make it, or change snapshot_prefix",
                         *folder.begin() == "models"
                             ? ", or train a copy of the model (crema models NAME --copy FOLDER)"
                             : "")));
  check_new_path(prefix);
  if (access(folder.c_str(), W_OK) != 0)
    throw Error("snapshots cannot be written: no right to write in '", folder.string(),
                "'; change its permissions or snapshot_prefix");
  const std::string name = fs::path(prefix).filename().string();
  if (const size_t most = longest_prefix_name(); name.size() > most)
    throw Error("snapshots cannot be written: '", name, "', with which their names begin, has ",
                name.size(), " bytes, and names of files have no room for more than ", most, "; ",
                param.has_snapshot_prefix()
                    ? "shorten snapshot_prefix"
                    : "set snapshot_prefix, in place of the name of the solver's file");
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  if (!unknown && space.available < bytes)
    throw Error("snapshots cannot be written: '", folder.string(), "' has ",
                megabytes(space.available), " free, one snapshot takes ", megabytes(bytes),
                "; free space there, or change snapshot_prefix");
  const int period = param.snapshot(), last = param.max_iter();
  size_t count = period > 0 ? static_cast<size_t>(last / period) : 0;
  if (param.snapshot_after_train() && (period == 0 || last % period != 0)) ++count;
  // Each test may be better than those before it, and those of a period are counted.
  const bool best = param.has_snapshot_best() && param.test_interval() > 0;
  if (best) {
    const int interval = param.test_interval();
    count += static_cast<size_t>(last / interval) + (param.test_initialization() ? 1 : 0);
    const bool has_last = param.snapshot_after_train() || (period > 0 && last % period == 0);
    if (param.test_at_end() && last % interval != 0 && !has_last) ++count;
    if (period > 0) count -= static_cast<size_t>(last / std::lcm<int64_t>(interval, period));
  }
  // An old one is removed after a new one is complete.
  if (param.snapshot_keep() > 0) {
    const auto kept = static_cast<size_t>(param.snapshot_keep());
    const auto bests = static_cast<size_t>(param.snapshot_best_count());
    count = std::min(count, kept + 1 + (best ? bests : 0));
  }
  if (unknown || bytes == 0) return "";
  size_t all = count * bytes;
  if (best) {
    // The best weights, and a snapshot that is written anew when its test was the best.
    all += weights + bytes;
    if (!takes_links(prefix)) all += bytes;  // of the last
  }
  if (space.available >= all) return "";
  return text("'", folder.string(), "' has ", megabytes(space.available), " free, and the run's ",
              best ? "up to " : "", count, " snapshots", best ? " and the best weights" : "",
              " take ", megabytes(all), "; free space there, or keep fewer with snapshot_keep");
}

}  // namespace crema
