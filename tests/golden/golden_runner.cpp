// Compares this project with recorded results of the published implementation.
//
//   golden_runner [--engine=NAME] [--threads=N] [--gpu=INDEX] [--only=TEXT]
//                 [--strict] [--refuses=CASE,CASE...] FOLDER...
//
// A folder holds layer cases or solver cases. Layer cases run with every blob kept, and again
// fused, where only what fusion leaves is compared. Solver cases run from the start, and again from
// a snapshot in the middle: their own, and the published one where there is one.
// A line a case: its largest relative error and PASS, FAIL with the first difference, or
// unsupported-type with the type that is not there yet. A case whose layers refuse the engine is
// "refused". With --strict these two are failures, except that the cases of --refuses have to be
// refused. The closing line counts them; the exit status is 1 when any failed, or when none passed.
#include <charconv>
#include <cstdio>
#include <functional>
#include <iostream>
#include <optional>
#include <sstream>

#include "crema/parameter_arena.hpp"
#include "crema/registry.hpp"
#include "crema/solver.hpp"
#include "golden/case_file.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/temp_folder.hpp"

namespace crema::golden {
namespace {

constexpr double kValues = 1e-4;     // relative tolerance of values
constexpr double kGradients = 1e-3;  // of gradients, and of parameters after training

struct Counts {
  int passed = 0, failed = 0, unsupported = 0, refused = 0;
};

void load_params(const Case& golden, const std::string& kind, Net& net) {
  for (const LayerParameter* entry : golden.entries(kind)) {
    auto& params = net.layer(entry->name()).params();
    if (static_cast<int>(params.size()) != entry->blobs_size())
      throw Error("layer '", entry->name(), "' has ", params.size(), " parameters instead of ",
                  entry->blobs_size());
    for (int i = 0; i < entry->blobs_size(); ++i) {
      assign(entry->blobs(i), params[static_cast<size_t>(i)]->data);
    }
  }
}

void load_inputs(const Case& golden, Net& net) {
  for (const LayerParameter* entry : golden.entries("InputData")) {
    assign(entry->blobs(0), net.input(entry->name()));
  }
}

void compare_params(const Case& golden, const std::string& kind, Net& net, bool gradients,
                    double tolerance, Comparison& result) {
  for (const LayerParameter* entry : golden.entries(kind)) {
    Layer& layer = net.layer(entry->name());
    for (int i = 0; i < entry->blobs_size(); ++i) {
      Parameter& parameter = *layer.params().at(static_cast<size_t>(i));
      const std::string what = text(kind, " ", entry->name(), " ", i);
      result.compare(what, parameter.data, entry->blobs(i).data(), tolerance);
      if (gradients && parameter.needs_gradient && entry->blobs(i).diff_size()) {
        result.compare(what + " gradient", parameter.gradient(), entry->blobs(i).diff(),
                       kGradients);
      }
    }
  }
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The type of the first layer that is not there, or "".
std::string missing_type(const NetParameter& net) {
  for (const auto& layer : net.layer()) {
    if (!Registry::instance().has(layer.type())) return layer.type();
  }
  return "";
}

void run_layer_case(const Case& golden, NetParameter param, Context& context, bool fused,
                    Comparison& result) {
  const bool backward = !golden.no_backward;
  param.set_force_backward(backward && !golden.no_force);
  NetOptions options;
  options.phase = golden.test_phase ? Phase::test : Phase::train;
  options.backward = backward ? NetOptions::Backward::yes : NetOptions::Backward::no;
  options.fuse = fused;
  options.math = Math::strict;
  options.keep_all = !fused;
  Net net(param, context, options);
  load_params(golden, "Param", net);
  load_inputs(golden, net);

  const double loss = net.forward();
  for (const LayerParameter* entry : golden.entries("Loss")) {
    result.compare("loss", loss, static_cast<double>(entry->blobs(0).data(0)), kValues);
  }
  auto comparable = [&](const LayerParameter& entry) {
    return entry.name().find("_split_") == std::string::npos && net.has_blob(entry.name()) &&
           (!fused || has(net.inputs(), entry.name()) || has(net.outputs(), entry.name()));
  };
  for (const LayerParameter* entry : golden.entries("Blob")) {
    if (!comparable(*entry)) continue;
    result.compare(entry->name(), net.blob(entry->name()).data, entry->blobs(0).data(), kValues);
  }
  if (backward) {
    for (const LayerParameter* entry : golden.entries("Blob")) {
      const bool given = has(net.outputs(), entry->name()) && entry->blobs(0).diff_size() &&
                         (entry->loss_weight_size() == 0 || entry->loss_weight(0) == 0);
      Blob* output = given ? &net.blob(entry->name()) : nullptr;
      if (!output || !net.has_diff(*output)) continue;
      Tensor diff(output->shape(), output->diff.dtype());
      for (int i = 0; i < entry->blobs(0).diff_size(); ++i) {
        diff.change<float>()[i] = entry->blobs(0).diff(i);
      }
      output->diff.copy_from(diff);
    }
    net.clear_gradients();
    net.backward();
    for (const LayerParameter* entry : golden.entries("Blob")) {
      if (!comparable(*entry) || entry->blobs(0).diff_size() == 0) continue;
      const std::vector<Blob*> versions = net.blob_versions(entry->name());
      if (versions.empty() || !net.has_diff(*versions.front())) continue;
      // An in-place name means, going back, its first value; only kept nets have it for sure.
      if (fused && versions.size() > 1) continue;
      result.compare(entry->name() + " diff", versions.front()->diff, entry->blobs(0).diff(),
                     kGradients);
    }
  }
  compare_params(golden, "ParamAfter", net, backward, kValues, result);
}

/// Iterations that the case recorded.
int iterations_of(const Case& golden) {
  int iterations = 0;
  for (const LayerParameter* entry : golden.entries("LossPerIter")) {
    iterations += entry->blobs(0).data_size();
  }
  if (iterations <= 0) throw Error("LossPerIter holds no loss");
  return iterations;
}

/// Starts from a state in the middle and goes to the end.
void run_resumed(const Case& golden, const SolverParameter& param, Context& context,
                 const std::string& state, int half, Comparison& result) {
  Solver solver(param, context);
  load_inputs(golden, solver.net());
  solver.restore(state);
  if (solver.iteration() != half)
    throw Error(state, " is of iteration ", solver.iteration(), " instead of ", half);
  solver.step(iterations_of(golden) - half);
  compare_params(golden, "ParamAfter", solver.net(), false, kGradients, result);
}

void run_solver_case(const Case& golden, SolverParameter param, Context& context,
                     Comparison& result) {
  const int iterations = iterations_of(golden);
  const std::optional<Snapshot> published = find_snapshot(golden);
  const int half = published ? published->iteration : iterations / 2;
  if (half >= iterations)
    throw Error("the snapshot is of iteration ", half, ", the case ends at ", iterations);
  const TempFolder folder;
  param.set_snapshot_prefix(folder.path(golden.name));
  param.mutable_net_param()->set_math(NetParameter::STRICT);

  Solver solver(param, context);
  load_params(golden, "Param", solver.net());
  load_inputs(golden, solver.net());
  std::vector<double> losses;
  solver.on_iteration = [&](const IterationReport& report) { losses.push_back(report.loss); };
  solver.step(half);
  compare_params(golden, "ParamHalf", solver.net(), false, kGradients, result);
  const std::string state = solver.snapshot();
  solver.step(iterations - half);
  compare_params(golden, "ParamAfter", solver.net(), false, kGradients, result);
  size_t iteration = 0;
  for (const LayerParameter* entry : golden.entries("LossPerIter")) {
    for (const float loss : entry->blobs(0).data()) {
      result.compare(text("loss of iteration ", iteration), losses.at(iteration),
                     static_cast<double>(loss), kValues);
      ++iteration;
    }
  }

  run_resumed(golden, param, context, state, half, result);
  if (published) run_resumed(golden, param, context, published->state.string(), half, result);
}

std::string run_case(const std::filesystem::path& path, Context& context, Comparison& result) {
  const Case golden = read_case(path);
  const bool is_solver = !golden.entries("LossPerIter").empty();
  if (is_solver) {
    SolverParameter param;
    parse_text_proto(golden.text, path.string(), param);
    const std::string missing = missing_type(param.net_param());
    if (!missing.empty()) return missing;
    try {
      run_solver_case(golden, param, context, result);
    } catch (const Error& error) {
      if (error.message().find("is not available") == std::string::npos) throw;
      return param.has_solver_type() ? SolverParameter::SolverType_Name(param.solver_type())
                                     : param.type();
    }
    return "";
  }
  NetParameter param;
  parse_text_proto(golden.text, path.string(), param);
  const std::string missing = missing_type(param);
  if (!missing.empty()) return missing;
  run_layer_case(golden, param, context, false, result);
  run_layer_case(golden, param, context, true, result);
  return "";
}

struct Settings {
  ContextOptions context;
  std::string only;
  bool strict = false;
  std::vector<std::string> refuses;
  std::vector<std::string> folders;
};

void run_and_print(const std::filesystem::path& path, Context& context, const Settings& settings,
                   Counts& counts) {
  const bool must_be_refused = has(settings.refuses, path.stem().string());
  Comparison result;
  std::string verdict;
  const auto fail = [&](const std::string& why) {
    ++counts.failed;
    verdict = "FAIL " + why;
  };
  const auto leave_out = [&](int& count, const std::string& why) {
    ++count;
    verdict = why;
  };
  try {
    const std::string missing = run_case(path, context, result);
    if (!missing.empty()) {
      const std::string why = "unsupported-type " + missing;
      settings.strict ? fail(why) : leave_out(counts.unsupported, why);
    } else if (must_be_refused) {
      fail("the engine does not refuse this case");
    } else if (result.passed() && result.compared() > 0) {
      ++counts.passed;
      verdict = "PASS";
    } else {
      fail(result.compared() ? result.failure() : "nothing was compared");
    }
  } catch (const Error& error) {
    const bool refused = error.message().find("refuses this problem") != std::string::npos;
    if (refused && (must_be_refused || !settings.strict)) {
      leave_out(counts.refused, text("refused ", error.what()));
    } else {
      fail(error.what());
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
  std::printf("%-28s %10.3g  %s\n", path.stem().c_str(), result.worst(), verdict.c_str());
}

constexpr const char* kUsage =
    "golden_runner [--engine NAME] [--threads N] [--gpu INDEX] [--only TEXT]\n"
    "              [--strict] [--refuses CASE,CASE...] FOLDER...\n"
    "Runs the cases of the folders, or those whose names hold TEXT, and exits with 1 on any FAIL.\n"
    "With --strict, types that are not there and problems that the engine refuses are failures,\n"
    "except that the cases of --refuses have to be refused.";

int number(const std::string& flag, const std::string& value) {
  int parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size())
    throw Error(flag, " takes a whole number, not '", value, "'");
  return parsed;
}

/// The parts between commas.
std::vector<std::string> names(const std::string& list) {
  std::vector<std::string> result;
  std::stringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) result.push_back(name);
  return result;
}

/// Nothing when the words ask for help.
std::optional<Settings> read_settings(std::vector<std::string> words) {
  Settings settings;
  while (!words.empty()) {
    std::string word = words.front();
    words.erase(words.begin());
    if (word == "--help" || word == "-h") return std::nullopt;
    if (word == "--strict") {
      settings.strict = true;
      continue;
    }
    if (!word.starts_with("-")) {
      settings.folders.push_back(word);
      continue;
    }
    // As --flag=value or as two words.
    if (const size_t equals = word.find('='); equals != std::string::npos) {
      words.insert(words.begin(), word.substr(equals + 1));
      word.resize(equals);
    }
    if (!has({"--engine", "--threads", "--gpu", "--only", "--refuses"}, word))
      throw Error("unknown flag ", word, "; usage: ", kUsage);
    if (words.empty()) throw Error(word, " needs a value; usage: ", kUsage);
    const std::string value = words.front();
    words.erase(words.begin());
    if (word == "--engine") settings.context.engine = value;
    if (word == "--threads") settings.context.threads = number(word, value);
    if (word == "--gpu") settings.context.device = {DeviceType::cuda, number(word, value)};
    if (word == "--only") settings.only = value;
    if (word == "--refuses") settings.refuses = names(value);
  }
  if (settings.folders.empty()) throw Error("which folder? usage: ", kUsage);
  return settings;
}

int run(const std::vector<std::string>& words) {
  const std::optional<Settings> settings = read_settings(words);
  if (!settings) {
    std::puts(kUsage);
    return 0;
  }
  Context context(settings->context);
  Counts counts;
  for (const auto& folder : settings->folders) {
    for (const auto& path : find_cases(folder)) {
      if (path.stem().string().find(settings->only) == std::string::npos) continue;
      run_and_print(path, context, *settings, counts);
    }
  }
  std::printf("%d passed, %d failed, %d unsupported-type, %d refused\n", counts.passed,
              counts.failed, counts.unsupported, counts.refused);
  if (counts.passed + counts.failed <= 0) throw Error("no case was compared");
  return counts.failed ? 1 : 0;
}

}  // namespace
}  // namespace crema::golden

int main(int argc, char** argv) {
  try {
    return crema::golden::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "golden_runner: " << error.what() << "\n";
    return 1;
  }
}
