// What a run's records say, in words and numbers.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "core/less_is_better.hpp"
#include "crema/error.hpp"
#include "monitor/report/page.hpp"
#include "monitor/report/report.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

std::string words_in_quotes(const std::string& value) {
  if (value.size() >= 2 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0])
    return value.substr(1, value.size() - 2);
  return value;
}

/// Of a file in the run's folder, as the working folder of the run names it.
std::string path_in_run(const RunFiles& run, const std::string& name) {
  std::error_code failed;
  const fs::path folder = fs::weakly_canonical(run.folder, failed);
  const fs::path path = (failed ? fs::path(run.folder) : folder) / name;
  if (run.info.folder().empty()) return path.string();
  const fs::path relative = path.lexically_relative(run.info.folder());
  return relative.empty() || relative.native().starts_with("..") ? path.string()
                                                                 : relative.string();
}

/// Whether an error is of a loss or an update that is not finite.
bool is_of_value(const std::string& error) {
  return error.find("the loss is ") != std::string::npos ||
         error.find("the update is not finite") != std::string::npos;
}

}  // namespace

bool is_same_curve(const Curve& a, const Curve& b) {
  return std::ranges::equal(a, b, [](const CurvePoint& x, const CurvePoint& y) {
    if (std::isnan(x.value) || std::isinf(x.value))
      return x.iteration == y.iteration &&
             (x.value == y.value || (std::isnan(x.value) && std::isnan(y.value)));
    return x.iteration == y.iteration &&
           std::abs(x.value - y.value) <= 1e-6 * std::max(1e-30, std::abs(x.value));
  });
}

bool has_loss(const TestCurves& test) {
  return std::ranges::any_of(test.loss, [](const CurvePoint& point) { return point.value != 0; });
}

std::optional<CurvePoint> best_of(const Curve& curve, bool least) {
  std::optional<CurvePoint> best;
  for (const CurvePoint& point : curve) {
    if (!std::isfinite(point.value)) continue;
    if (!best || (least ? point.value < best->value : point.value > best->value)) best = point;
  }
  return best;
}

std::string setting_of(const RunFiles& run, const std::string& name) {
  for (const auto& setting : run.info.settings()) {
    if (setting.name() == name) return words_in_quotes(setting.value());
  }
  return "";
}

std::optional<MainOutput> main_output(const RunFiles& run) {
  if (run.tests.empty()) return std::nullopt;
  MainOutput main;
  const RunRecord* best = run.best();
  main.net = best != nullptr ? best->net() : run.tests.begin()->first;
  const auto of_net = run.tests.find(main.net);
  if (of_net == run.tests.end()) return std::nullopt;
  const TestCurves& test = of_net->second;
  main.name = setting_of(run, "snapshot_best");
  const Curve* curve = nullptr;
  if (const auto found = test.outputs.find(main.name); found != test.outputs.end())
    curve = &found->second;
  for (auto output = test.outputs.begin(); curve == nullptr && output != test.outputs.end();
       ++output) {
    if (less_is_better(output->first)) continue;
    main.name = output->first;
    curve = &output->second;
  }
  if (curve == nullptr) {
    main.name = "loss";
    curve = &test.loss;
  }
  main.least_is_best = less_is_better(main.name);
  const std::string direction = setting_of(run, "snapshot_best_is");
  if (!direction.empty() && main.name == setting_of(run, "snapshot_best"))
    main.least_is_best = direction == "LEAST";
  const auto point = best_of(*curve, main.least_is_best);
  if (!point) return std::nullopt;
  main.best = *point;
  // The solver knows which one it kept.
  if (best != nullptr) {
    const auto kept = best->outputs().find(main.name);
    if (kept != best->outputs().end() && std::isfinite(kept->second))
      main.best = {best->iteration(), kept->second};
  }
  main.last = curve->back();
  return main;
}

bool ends_with_bad_test(const RunFiles& run) {
  const RunRecord* last = nullptr;
  for (const RunRecord& event : run.events) {
    if (event.kind() == RunRecord::TEST) last = &event;
  }
  if (last == nullptr) return false;
  return (last->has_test_loss() && !std::isfinite(last->test_loss())) ||
         std::ranges::any_of(last->outputs(),
                             [](const auto& output) { return !std::isfinite(output.second); });
}

double seconds_of_run(const RunFiles& run) {
  double seconds = run.time.empty() ? 0 : run.time.back().value;
  for (const RunRecord& event : run.events) seconds = std::max(seconds, event.time());
  return seconds;
}

std::optional<double> epochs_of_run(const RunFiles& run) {
  std::optional<double> epochs;
  if (!run.epoch.empty()) epochs = run.epoch.back().value;
  for (const RunRecord& event : run.events) {
    if (event.has_epoch()) epochs = std::max(epochs.value_or(0), event.epoch());
  }
  return epochs;
}

std::string state_words(const RunFiles& run) {
  const char* const tests = ends_with_bad_test(run) ? ", tests not finite" : "";
  switch (run.state()) {
    case RunOutcome::finished:
      return text("finished", tests);
    case RunOutcome::stopped:
      return text("stopped", tests);
    case RunOutcome::early:
      return text("stopped early", tests);
    case RunOutcome::time_over:
      return text("stopped, its time was over", tests);
    case RunOutcome::failed:
      return text("failed", is_of_value(run.end()->text()) ? ": not finite" : "", " at ",
                  count_words(run.end()->iteration()));
    case RunOutcome::unknown:
      break;
  }
  if (run.is_alive) return "running";
  return run.has_records() ? "ended without notice" : "no record yet";
}

std::string commands_of(const RunFiles& run) {
  const RunInfo& info = run.info;
  std::string all;
  if (!info.folder().empty()) all += text("cd ", shell_quoted(info.folder()), "\n");
  if (info.command_size() > 0) {
    std::string again;
    bool skips = false, has_resume = false;
    for (const std::string& word : info.command()) {
      if (skips) {
        skips = false;
        continue;
      }
      std::string name = word.substr(0, word.find('='));
      name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
      const bool is_flag = word.starts_with('-');
      // They are for a run that starts.
      if (is_flag && (name == "snapshot" || name == "weights")) {
        skips = word.find('=') == std::string::npos;
        continue;
      }
      if (is_flag && name == "overwrite") continue;
      has_resume = has_resume || (is_flag && name == "resume");
      again += (again.empty() ? "" : " ") + shell_quoted(word);
    }
    if (!has_resume) again += " --resume";
    const bool is_done = info.max_iterations() > 0 && run.iterations >= info.max_iterations();
    if (is_done) again += text(" --set max_iter=", 2 * static_cast<int64_t>(info.max_iterations()));
    all += text(
        is_done ? "# trains on, to twice the iterations\n" : "# goes on from the last snapshot\n",
        again, "\n");
  }
  const fs::path folder = run.folder;
  std::error_code failed;
  for (const char* weights : {"snapshots/best.caffemodel", "snapshots/best.caffemodel.h5",
                              "snapshots/last.caffemodel", "snapshots/last.caffemodel.h5"}) {
    if (!fs::exists(folder / weights, failed)) continue;
    const char* net = run.test_net_texts.empty() ? "net.prototxt" : "test_net_0.prototxt";
    all += text("# scores the ", std::string_view(weights).substr(10, 4),
                " weights on all test data\n", "crema test --model ",
                shell_quoted(path_in_run(run, net)), " --weights ",
                shell_quoted(path_in_run(run, weights)), "\n");
    break;
  }
  return all;
}

}  // namespace crema
