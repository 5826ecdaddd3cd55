// No accepted setting of a solver, of a net and of a layer's place in it is without effect
// (support/settings_sweep.hpp). Settings of layer types: tests/layers/settings_effect_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "crema/memory_data.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/needs.hpp"
#include "support/net_test.hpp"
#include "support/paths.hpp"
#include "support/settings_sweep.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const char* const kSolver = R"(
  base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01 max_iter: 6 random_seed: 5
  test_iter: 1 test_interval: 2 snapshot_prefix: '$OUT/s' solver_mode: CPU )";
const char* const kData = R"(
  name: 'small'
  layer {
    name: 'data' type: 'DummyData' top: 'data' top: 'label'
    dummy_data_param {
      shape { dim: 4 dim: 6 } shape { dim: 4 }
      data_filler { type: 'gaussian' } data_filler { value: 1 }
    }
  } )";
const char* const kLayers = R"(
  layer {
    name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc' param { name: 'weights' }
    inner_product_param { num_output: 6 weight_filler { type: 'xavier' } }
  }
  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' }
  layer {
    name: 'op' type: 'InnerProduct' bottom: 'fc' top: 'op' loss_weight: 0.01
    inner_product_param { num_output: 6 weight_filler { type: 'xavier' } }
  } )";

/// The nets by name; "" is the standard one.
std::string net_of(const std::string& name) {
  if (name == "rules") {
    std::string rules;
    for (const char* rule : {"phase: TRAIN", "min_level: 1", "stage: 'a'"}) {
      rules += text(" layer { name: '", rules.size(), "' type: 'ReLU' bottom: 'fc' top: 'r",
                    rules.size(), "' include { ", rule, " } }");
    }
    return text(kData, kLayers, rules);
  }
  if (name == "frozen") {
    return text(kData,
                "layer { name: 'first' type: 'InnerProduct' bottom: 'data' top: 'fc' "
                "param { lr_mult: 0 } param { lr_mult: 0 } "
                "inner_product_param { num_output: 6 weight_filler { type: 'xavier' } } } "
                "layer { name: 'in' type: 'Input' top: 'in' input_param { shape { dim: 4 "
                "dim: 6 } } } layer { name: 'loss' type: 'EuclideanLoss' bottom: 'fc' "
                "bottom: 'in' top: 'loss' }");
  }
  if (name == "detection") {
    return text(kData, kLayers, R"(
      layer { name: 'found' type: 'MemoryData' top: 'found' top: 'n' include { phase: TEST }
              memory_data_param { batch_size: 1 channels: 1 height: 4 width: 7 } }
      layer { name: 'true' type: 'MemoryData' top: 'true' top: 'm' include { phase: TEST }
              memory_data_param { batch_size: 1 channels: 1 height: 3 width: 8 } }
      layer { name: 'map' type: 'DetectionEvaluate' bottom: 'found' bottom: 'true' top: 'map'
              include { phase: TEST } detection_evaluate_param { num_classes: 3 } } )");
  }
  return text(kData, kLayers);
}

/// Boxes for a net that evaluates detections.
void give_boxes(Net& net) {
  if (!net.has_layer("found")) return;
  MemoryData::of(net.layer("found"))
      .set(std::vector<float>{0,    1,    0.9F, 0.1F, 0.1F, 0.4F, 0.4F, 0,    1,    0.8F,
                              0.6F, 0.6F, 0.9F, 0.9F, 0,    1,    0.7F, 0.5F, 0.1F, 0.8F,
                              0.4F, 0,    2,    0.6F, 0.1F, 0.6F, 0.3F, 0.9F},
           std::vector<float>{0});
  MemoryData::of(net.layer("true"))
      .set(
          std::vector<float>{0,    1,    0,    0.1F, 0.1F, 0.4F, 0.4F, 0,    0,    1,    0,    0.5F,
                             0.1F, 0.8F, 0.4F, 0,    0,    2,    0,    0.1F, 0.6F, 0.3F, 0.9F, 0},
          std::vector<float>{0});
}

/// A folder of outputs, and one of files that settings name.
struct Folders {
  TempFolder out, data;
  Folders() {
    fs::create_directory(out.path("out"));
    data.write("net.prototxt", net_of("frozen"));
  }
};
const Folders& folders() {
  static const Folders all;
  return all;
}
std::string with_folders(std::string text) {
  for (const auto& [mark, path] : {std::pair{std::string("$OUT"), folders().out.path("out")},
                                   std::pair{std::string("$DATA"), folders().data.path("")}}) {
    for (size_t at; (at = text.find(mark)) != std::string::npos;)
      text.replace(at, mark.size(), path);
  }
  return text;
}

/// A run to its end.
Seen run_solver(const SolverParameter& param) {
  Seen seen = see([&](Context& context, std::string& values) {
    Solver solver(param, context);
    for (const auto& net : solver.test_nets()) give_boxes(*net);
    solver.on_iteration = [&](const IterationReport& report) {
      for (const double value : {report.loss, report.smoothed_loss, report.rate})
        add(values, value);
    };
    solver.on_test = [&](const TestReport& report) {
      values += text("test ", report.iteration, ' ', report.net, ';');
      add(values, report.loss);
      for (const TestReport::Output& output : report.outputs) {
        values += text(output.name, output.index, output.loss_weight, ';');
        add(values, output.value);
      }
      for (const TestReport::Class& one : report.classes) {
        values += text(one.output, one.label, ';');
        add(values, one.average_precision);
      }
    };
    solver.on_snapshot = [&](const std::string& file) { values += file + ';'; };
    solver.solve();
    values += text(solver.net().name(), solver.net().phase() == Phase::train, ';');
    for (const std::string& blob : solver.net().blob_names()) values += blob + ';';
    for (const double value : params_of(solver.net())) add(values, value);
    for (const double value : gradients_of(solver.net())) add(values, value);
    for (const NetStep& step : solver.net().steps()) {
      values += text(step.name, step.type, step.engine, step.recomputed, step.backward,
                     step.top_format, ';');
    }
  });
  add_files(seen.values, folders().out.path("out"));
  return seen;
}

std::unique_ptr<Message> make_solver(const std::string& base) {
  auto param = std::make_unique<SolverParameter>();
  parse_text_proto(with_folders(text(kSolver, "net_param { ", net_of(base), " }")),
                   "solver.prototxt", *param);
  return param;
}

void add_solver(std::vector<SettingsTrial>& all) {
  const auto field = [](const std::string& name) { return "SolverParameter." + name; };
  all.push_back(
      {.field = field("net"), .set = "net: '$DATA/net.prototxt'", .error = "training nets"});
  all.push_back({.field = field("train_net"),
                 .set = "train_net: '$DATA/net.prototxt'",
                 .error = "training nets"});
  all.push_back({.field = field("test_net"), .set = "test_net: '$DATA/net.prototxt'"});
  all.push_back({.field = field("train_state"), .base = "rules"});
  all.push_back({.field = field("test_state"), .base = "rules"});
  all.push_back({.field = "Solver train_state.phase", .given = "train_state { phase: TEST }"});
  all.push_back({.field = "NetState.stage", .set = "stage: 'a'"});
  for (const char* name : {"test_compute_loss", "display", "solver_mode", "device_id"})
    all.push_back({.field = field(name), .because = "the program reads it"});
  all.push_back({.field = field("test_at_end"), .given = "test_interval: 4"});
  all.push_back({.field = field("layer_wise_reduce"), .because = "one device is used"});
  // tests/parallel has their effects.
  for (const char* const name :
       {"batch_semantics", "parallel_mode", "average_every", "gossip_partners", "gradient_type"})
    all.push_back({.field = field(name), .because = "one process trains"});
  all.push_back({.field = field("lr_policy"), .set = "lr_policy: 'linear'"});
  for (const char* name : {"rise", "div", "final_div", "three_phase", "anneal"}) {
    all.push_back({.field = field(text("onecycle_", name)), .given = "lr_policy: 'onecycle'"});
  }
  all.push_back({.field = field("restart_iter"),
                 .set = "restart_iter: 3",
                 .given = "lr_policy: 'cosine_restarts' restart_iter: 2"});
  all.push_back(
      {.field = field("restart_mult"), .given = "lr_policy: 'cosine_restarts' restart_iter: 2"});
  for (const auto& [name, policy] :
       {std::pair{"gamma", "exp"}, std::pair{"power", "poly"}, std::pair{"stepsize", "step"}}) {
    all.push_back({.field = field(name),
                   .given = text("lr_policy: '", policy, "' gamma: 0.3 power: 1.5 stepsize: 4")});
  }
  all.push_back({.field = field("stepvalue"),
                 .set = "stepvalue: 5",
                 .given = "lr_policy: 'multistep' gamma: 0.3 stepvalue: 2"});
  all.push_back({.field = field("plateau_winsize"),
                 .set = "plateau_winsize: 1",
                 .given = "base_lr: 1e-9 lr_policy: 'plateau' gamma: 0.3 plateau_winsize: 1"});
  const std::string stages =
      "lr_policy: 'multifixed' stagelr: 0.1 stagelr: 0.2 stageiter: 2 "
      "stageiter: 6 ";
  all.push_back(
      {.field = field("stagelr"), .set = "stagelr: 0.3", .given = stages, .error = "stagelr"});
  all.push_back(
      {.field = field("stageiter"), .set = "stageiter: 9", .given = stages, .error = "stageiter"});
  all.push_back({.field = field("type"), .set = "type: 'Nesterov'"});
  for (const char* type : {"ADAGRAD", "RMSPROP"}) {
    all.push_back({.field = field(text("solver_type=", type)), .error = "momentum 0.9"});
  }
  all.push_back({.field = field("solver_type=SAG"), .error = "SAG"});
  all.push_back({.field = field("amsgrad"), .given = "type: 'Adam'"});
  for (const auto& [name, type] : {std::pair{"momentum2", "Adam"}, std::pair{"delta", "Adam"}})
    all.push_back({.field = field(name), .given = text("type: '", type, "'")});
  all.push_back({.field = field("regularization_type"), .set = "regularization_type: 'L1'"});
  all.push_back({.field = field("ema_test"), .given = "ema_decay: 0.5"});
  all.push_back({.field = field("ema_warmup"), .given = "ema_decay: 0.9"});
  all.push_back({.field = field("snapshot_prefix"), .set = "snapshot_prefix: '$OUT/t'"});
  all.push_back({.field = field("weights"),
                 .set = "weights: '$DATA/missing.caffemodel'",
                 .error = "missing.caffemodel"});
  all.push_back(
      {.field = field("eval_type"), .set = "eval_type: 'detection'", .error = "eval_type"});
  all.push_back(
      {.field = field("ap_version"), .set = "ap_version: '11point'", .base = "detection"});
  all.push_back({.field = field("show_per_class_result"), .base = "detection"});
  all.push_back({.field = field("warmup_start_lr"), .given = "warmup_iter: 3"});
  all.push_back({.field = field("rampup_lr"), .given = "rampup_interval: 3"});
  all.push_back({.field = field("momentum_policy"), .set = "momentum_policy: 'poly'"});
  for (const char* name : {"max_momentum", "momentum_power"})
    all.push_back({.field = field(name), .given = "momentum_policy: 'poly'"});
  all.push_back({.field = field("weight_decay_policy"), .set = "weight_decay_policy: 'poly'"});
  for (const char* name : {"max_weight_decay", "weight_decay_power"})
    all.push_back({.field = field(name), .given = "weight_decay_policy: 'poly'"});
  all.push_back({.field = field("larc_policy"),
                 .set = "larc_policy: 'clip'",
                 .given = "larc: true larc_eta: 0.9"});
  all.push_back({.field = field("larc_eta"), .given = "larc: true"});
  all.push_back({.field = field("local_gw_ratio"), .given = "local_lr_auto: true"});
  all.push_back({.field = field("engine"), .set = "engine: 'CAFFE'"});
  all.push_back({.field = field("debug_info"), .because = "adds lines to the log"});
  all.push_back(
      {.field = field("snapshot_keep"), .set = "snapshot_keep: 1", .given = "snapshot: 1"});
  all.push_back({.field = field("snapshot_best"), .set = "snapshot_best: 'loss'"});
  all.push_back({.field = field("snapshot_best_net"), .given = "snapshot_best: 'loss'"});
  all.push_back({.field = field("snapshot_best_is"), .given = "snapshot_best: 'loss'"});
  all.push_back(
      {.field = field("max_epochs"), .set = "max_epochs: 2", .error = "both max_iter and"});
  all.push_back({.field = field("test_every_epochs"),
                 .set = "test_every_epochs: 2",
                 .error = "both test_interval and"});
  all.push_back({.field = field("stepvalue_percent"),
                 .set = "stepvalue_percent: 50",
                 .given = "lr_policy: 'multistep' gamma: 0.3 stepvalue_percent: 10"});
  all.push_back({.field = field("max_hours"), .set = "max_hours: 1e-9"});
  all.push_back({.field = field("early_stop"),
                 .set = "early_stop { output: 'loss' patience: 1 min_delta: 100 }"});
  const std::string stop = "output: 'loss' patience: 1 min_delta: ";
  for (const char* name : {"output", "patience", "net"})
    all.push_back({.field = text("EarlyStopParameter.", name), .given = stop + "100"});
  all.push_back({.field = "EarlyStopParameter.min_delta",
                 .set = "min_delta: 1e-9",
                 .given = stop + "100",
                 .here = true});
  all.push_back({.field = "EarlyStopParameter.best_is", .given = stop + "0"});
  all.push_back(
      {.field = "EarlyStopParameter.best_is=LEAST", .given = stop + "0 best_is: GREATEST"});
  all.push_back({.field = field("snapshot_best_count"),
                 .set = "snapshot_best_count: 2",
                 .given = "snapshot: 1 snapshot_keep: 1 snapshot_best: 'loss' snapshot_best_is: "
                          "GREATEST"});
  // Rates with which the second iteration is not finite.
  const std::string fails = "on_nan: ROLLBACK base_lr: 1e30 rollback_factor: ";
  all.push_back({.field = field("rollback_factor"),
                 .set = "rollback_factor: 1e-31",
                 .given = fails + "1e-30"});
  all.push_back({.field = field("rollback_most"),
                 .set = "rollback_most: 1",
                 .given = fails + "1e-15",
                 .error = "went back to a snapshot 1 time before"});
  all.push_back({.field = field("on_oom=HALVE_BATCH"), .because = "the memory suffices"});
  all.push_back({.field = field("snapshot_best_is=LEAST"),
                 .given = "snapshot_best: 'loss' snapshot_best_is: GREATEST"});
}

void add_net(std::vector<SettingsTrial>& all) {
  const auto field = [](const std::string& name) { return "NetParameter." + name; };
  all.push_back({.field = field("name"), .set = "name: 'other'"});
  all.push_back({.field = field("input"), .set = "input: 'x'"});
  all.push_back({.field = field("force_backward"), .base = "frozen"});
  all.push_back({.field = field("debug_info"), .because = "adds lines to the log"});
  all.push_back({.field = field("state"), .base = "rules"});
  all.push_back({.field = "Net net_param.state.phase", .because = "the phase is the caller's"});
  for (const char* name : {"math", "deterministic", "workspace_limit"}) {
    all.push_back({.field = text("Net net_param.", name), .because = "of GPUs"});
  }
  all.push_back({.field = field("origin"),
                 .set = "origin { net: 'other.prototxt' }",
                 .because = "how a file came about"});
  all.push_back({.field = field("checksum"), .set = "checksum: 5"});
  all.push_back({.field = field("engine"), .set = "engine: 'CAFFE'"});
  all.push_back(
      {.field = field("compile_net_state"), .set = "compile_net_state { is_init: false }"});
  all.push_back(
      {.field = field("multinode"), .set = "multinode { model_parallel { layer_from: 'a' } }"});
  all.push_back({.field = field("default_conv_algos_override"),
                 .set = "default_conv_algos_override: '1,1,1'"});
}

void add_layer(std::vector<SettingsTrial>& all) {
  const auto field = [](const std::string& name) { return "LayerParameter." + name; };
  all.push_back({.field = field("name"), .set = "name: 'other'"});
  all.push_back({.field = field("type"), .set = "type: 'Nothing'", .error = "Nothing"});
  all.push_back({.field = field("bottom"), .set = "bottom: 'data'", .error = "bottoms"});
  all.push_back({.field = field("top"), .set = "top: 'more'", .error = "tops"});
  all.push_back({.field = field("blobs"),
                 .set = "blobs { shape { dim: 1 } data: 1 }",
                 .error = "1 parameter"});
  all.push_back({.field = field("engine"), .set = "engine: 'nothing'", .error = "nothing"});
  all.push_back({.field = "ParamSpec.name", .set = "name: 'weights'"});
  all.push_back({.field = "ParamSpec.share_mode", .given = "name: 'weights'"});
  all.push_back({.field = "ParamSpec.noise", .given = "noise { std: 0.2 }"});
  all.push_back({.field = "Layer net_param.layer.include.phase=TEST",
                 .error = "is not in the net whose parameters"});
  all.push_back({.field = "Layer net_param.layer.exclude.phase=TRAIN",
                 .error = "is not in the net whose parameters"});
  for (const char* list : {"stage", "not_stage"})
    all.push_back({.field = text("NetStateRule.", list), .set = text(list, ": 'a'")});
  for (const char* name : {"quantization_param", "trt_param", "mn_activation_param",
                           "mn_grad_compress_param", "multinode"}) {
    const std::string inside =
        std::string_view(name) == "trt_param" ? "deploy: 'a' model: 'b'" : "";
    all.push_back({.field = field(name), .set = text(name, " { ", inside, " }")});
  }
}

const std::vector<SettingsTrial>& solver_trials() {
  static const std::vector<SettingsTrial> trials = [] {
    std::vector<SettingsTrial> all;
    add_solver(all);
    add_net(all);
    add_layer(all);
    return all;
  }();
  return trials;
}

/// Whether the program that trains reads the field, or a line of a page or of a message's comments
/// says that it has no effect.
bool is_documented(const FieldDescriptor& field) {
  for (const char* file : {"tools/training.md", "tools/caffe.md", "proto/net.proto",
                           "proto/solver.proto", "tools/train.cpp", "tools/train_progress.cpp"}) {
    std::ifstream in(source_path(file));
    for (std::string line; std::getline(in, line);) {
      const auto has = [&](const std::string& words) {
        return line.find(words) != std::string::npos;
      };
      if (has(text("param.", field.name(), "()")) || (has(field.name()) && has("no effect")))
        return true;
    }
  }
  return false;
}

SettingsSubject subject(const std::string& name) {
  return {.name = name,
          .trials = solver_trials(),
          .make = make_solver,
          .run =
              [](const Message& whole, const std::string&) {
                return run_solver(dynamic_cast<const SolverParameter&>(whole));
              },
          .is_documented = is_documented,
          .expand = with_folders};
}

TEST(SettingsOfSolvers, AreNotWithoutEffect) {
  SettingsSubject solver = subject("Solver");
  solver.own = 0;
  solver.is_of_another = [](const FieldDescriptor& field) {
    return field.message_type() != nullptr && field.message_type()->name() == "NetParameter";
  };
  SettingsSweep(solver).run({});
}

TEST(SettingsOfNets, AreNotWithoutEffect) {
  SettingsSubject net = subject("Net");
  net.is_of_another = [](const FieldDescriptor& field) {
    return field.name() == "layer" || field.name() == "layers";
  };
  SettingsSweep(net).run({&field_of(*SolverParameter::descriptor(), "net_param")});
}

TEST(SettingsOfLayers, AreNotWithoutEffect) {
  SettingsSubject layer = subject("Layer");
  layer.own = 2;
  // Settings of layer types are those of another sweep.
  layer.is_of_another = [](const FieldDescriptor& field) {
    const std::set<std::string> of_forks = {"quantization_param", "trt_param",
                                            "mn_activation_param", "mn_grad_compress_param"};
    const std::string name(field.name());
    return field.containing_type() == LayerParameter::descriptor() && name.ends_with("_param") &&
           of_forks.count(name) == 0;
  };
  SettingsSweep(layer).run({&field_of(*SolverParameter::descriptor(), "net_param"),
                            &field_of(*NetParameter::descriptor(), "layer")});
}

TEST(SettingsOfSolvers, TableNamesFieldsThatAre) {
  check_trials(solver_trials(), *SolverParameter::descriptor(), [](const std::string& name) {
    return name == "Solver" || name == "Net" || name == "Layer";
  });
}

}  // namespace
}  // namespace crema::test
