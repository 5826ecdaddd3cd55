#include "monitor/sweep/sweep_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "crema/error.hpp"
#include "crema/random.hpp"
#include "model/text_format.hpp"
#include "onnx/importing/net_file.hpp"
#include "solver/overrides.hpp"
#include "solver/settings.hpp"

namespace crema {
namespace {

constexpr int64_t kMostTrials = 10000;

/// As people write it; "0.001", "256".
std::string value_text(double value, bool integer) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), integer ? "%.0f" : "%.6g", value);
  std::string all = buffer.data();
  std::ranges::replace(all, ',', '.');  // of the user's language
  return all;
}

/// The value at a part of the range, 0 to 1.
std::string value_at(const SweptRange& range, double part) {
  double value = 0;
  if (range.log()) {
    value = range.least() * std::pow(range.greatest() / range.least(), part);
  } else {
    value = range.least() + part * (range.greatest() - range.least());
  }
  if (range.integer())
    value = std::clamp(std::round(value), std::ceil(range.least()), std::floor(range.greatest()));
  return value_text(value, range.integer());
}

/// In [0, 1), of a trial and a setting alone.
double drawn(uint64_t seed, size_t setting, int64_t trial) {
  return Random(seed, setting, static_cast<uint64_t>(trial)).uniform(0.0, 1.0);
}

class Planner {
 public:
  Planner(SweepPlan& plan, const SourceMap& source) : plan_(plan), source_(source) {}

  void check() {
    const SweepParameter& param = plan_.param;
    if (param.vary_size() == 0)
      throw Error(
          "the sweep varies nothing; add vary { field: \"base_lr\" value: \"0.1\" value: "
          "\"0.01\" }")
          .at(source_.position(""));
    if (param.parallel() < 1)
      fail("parallel", "parallel ", param.parallel(), " must be at least 1");
    if (param.has_trials() && param.trials() < 1)
      fail("trials", "trials ", param.trials(), " must be at least 1");
    if (param.search() == SweepParameter::RANDOM && !param.has_trials())
      fail("search", "a random search needs trials, the number of them");
    if (param.has_hopeless()) {
      if (param.hopeless().from_iteration() < 1)
        fail("hopeless", "hopeless needs from_iteration, of 1 or more");
      if (param.hopeless().least_trials() < 1)
        fail("hopeless.least_trials", "least_trials ", param.hopeless().least_trials(),
             " must be at least 1");
    }
    std::set<std::string> fields;
    for (int i = 0; i < param.vary_size(); ++i) check_setting(i, fields);
  }

  void list_trials() {
    const SweepParameter& param = plan_.param;
    const bool is_random = param.search() == SweepParameter::RANDOM;
    int64_t count = 1;
    if (is_random) {
      count = param.trials();
    } else {
      for (const auto& values : values_) {
        count *= static_cast<int64_t>(values.size());
        if (count > kMostTrials) break;
      }
      if (param.has_trials()) count = std::min<int64_t>(count, param.trials());
    }
    if (count > kMostTrials)
      fail(param.has_trials() ? "trials" : "vary", "these are more than ", kMostTrials,
           " trials; name fewer values, or search: RANDOM with trials");
    const size_t digits = std::to_string(count).size();
    for (int64_t number = 0; number < count; ++number) {
      std::string name = std::to_string(number + 1);
      PlannedTrial trial{"trial-" + std::string(digits - name.size(), '0') + name, {}};
      std::vector<std::string> chosen(values_.size());
      int64_t rest = number;
      for (size_t i = values_.size(); i-- > 0;) {
        const auto size = static_cast<int64_t>(values_[i].size());
        const SweptSetting& setting = param.vary(static_cast<int>(i));
        const double part = drawn(param.seed(), i, number);
        if (is_random && size == 0) {
          chosen[i] = value_at(setting.range(), part);
        } else if (is_random) {
          chosen[i] = values_[i][static_cast<size_t>(part * static_cast<double>(size))];
        } else {
          chosen[i] = values_[i][static_cast<size_t>(rest % size)];
          rest /= size;
        }
      }
      for (size_t i = 0; i < chosen.size(); ++i) {
        for (const std::string& field : param.vary(static_cast<int>(i)).field())
          trial.vary.push_back(field + "=" + chosen[i]);
      }
      plan_.trials.push_back(std::move(trial));
    }
  }

 private:
  template <class... Words>
  [[noreturn]] void fail(const std::string& place, const Words&... words) const {
    throw Error(words...).at(source_.position(place));
  }

  void check_setting(int i, std::set<std::string>& fields) {
    const SweptSetting& setting = plan_.param.vary(i);
    const std::string place = text("vary[", i, "]");
    if (setting.field_size() == 0)
      fail(place, "vary has no field; name one, such as field: \"base_lr\"");
    if (setting.has_range() == (setting.value_size() > 0))
      fail(place, "vary of '", setting.field(0), "' needs values or a range, and has ",
           setting.has_range() ? "both" : "neither");
    for (int k = 0; k < setting.field_size(); ++k) {
      const std::string& field = setting.field(k);
      if (field.find('=') != std::string::npos)
        fail(text(place, ".field[", k, "]"), "field '", field,
             "' has a value; name the field alone, and its values as value: \"0.1\"");
      if (!fields.insert(field).second)
        fail(text(place, ".field[", k, "]"), "field '", field, "' is varied twice");
      if (field == "snapshot_prefix")
        fail(text(place, ".field[", k, "]"),
             "snapshot_prefix cannot be varied: each trial has its own");
    }
    std::vector<std::string> tried(setting.value().begin(), setting.value().end());
    std::vector<std::string> values = tried;
    if (setting.has_range()) {
      check_range(setting, place + ".range");
      const SweptRange& range = setting.range();
      tried = {value_at(range, 0), value_at(range, 1)};
      for (int k = 0; k < range.steps(); ++k) {
        std::string value = value_at(range, static_cast<double>(k) / (range.steps() - 1));
        // Whole numbers may fall together.
        if (values.empty() || values.back() != value) values.push_back(std::move(value));
      }
    }
    values_.push_back(std::move(values));
    for (int k = 0; k < setting.field_size(); ++k) {
      for (size_t v = 0; v < tried.size(); ++v)
        try_setting(
            setting.field(k) + "=" + tried[v],
            setting.has_range() ? text(place, ".field[", k, "]") : text(place, ".value[", v, "]"),
            text(place, ".field[", k, "]"));
    }
  }

  void check_range(const SweptSetting& setting, const std::string& place) const {
    const SweptRange& range = setting.range();
    if (!range.has_least() || !range.has_greatest())
      fail(place, "the range of '", setting.field(0), "' needs least and greatest");
    if (!(range.least() < range.greatest()) || !std::isfinite(range.greatest() - range.least()))
      fail(place, "the range of '", setting.field(0), "' from ", range.least(), " to ",
           range.greatest(), " has no values between; least has to be below greatest");
    if (range.log() && !(range.least() > 0))
      fail(place, "the range of '", setting.field(0), "' from ", range.least(),
           " has no logarithm; least has to be above 0 with log: true");
    if (range.integer() && std::ceil(range.least()) > std::floor(range.greatest()))
      fail(place, "the range of '", setting.field(0), "' has no whole number");
    const bool needs_steps = plan_.param.search() == SweepParameter::GRID;
    if (needs_steps && !range.has_steps())
      fail(place, "a grid needs steps, the number of values in the range of '", setting.field(0),
           "'");
    if (range.has_steps() && (range.steps() < 2 || range.steps() > kMostTrials))
      fail(place + ".steps", "steps ", range.steps(), " must be 2 to ", kMostTrials);
  }

  /// Error with its place if solver and nets refuse it. `value_place` is that of an error of the
  /// value, which only a known field has.
  void try_setting(const std::string& set, const std::string& value_place,
                   const std::string& field_place) const {
    try {
      try_settings({set});
    } catch (const Error& error) {
      const bool is_of_field = error.message().find("has no field") != std::string::npos ||
                               error.message().find("has no layer") != std::string::npos;
      throw Error(error.message()).at(source_.position(is_of_field ? field_place : value_place));
    }
  }

 public:
  void check_common() const {
    for (int k = 0; k < plan_.param.set_size(); ++k) {
      try {
        try_settings({});
      } catch (const Error& error) {
        throw Error(error.message()).at(source_.position(text("set[", k, "]")));
      }
    }
  }

 private:
  void try_settings(const std::vector<std::string>& more) const {
    SolverOptions options;
    options.set.assign(plan_.param.set().begin(), plan_.param.set().end());
    options.set.insert(options.set.end(), more.begin(), more.end());
    SolverParameter solver = plan_.solver;
    SourceMap places = plan_.solver_source;
    Overrides overrides(options.set);
    overrides.apply(solver, places);
    if (!overrides.change_nets()) return;
    SolverNets nets = resolve_nets(solver, options, places);
    const auto try_net = [&](const NetSource& net) {
      NetParameter param;
      SourceMap source;
      if (net.inlined != nullptr) {
        param = *net.inlined;
      } else {
        read_net(net.file, param, &source);
      }
      overrides.apply(param, source, net.options);
    };
    try_net(nets.train);
    for (const NetSource& test : nets.tests) try_net(test);
    overrides.check_found();
  }

  SweepPlan& plan_;
  const SourceMap& source_;
  std::vector<std::vector<std::string>> values_;  // of each setting; none: any of its range
};

}  // namespace

SweepPlan plan_sweep(const std::string& path) {
  SweepPlan plan;
  SourceMap source;
  read_text_proto(path, plan.param, &source);
  if (plan.param.name().empty()) plan.param.set_name(std::filesystem::path(path).stem().string());
  if (plan.param.solver().empty())
    throw Error("the sweep has no solver; name its file, such as solver: \"solver.prototxt\"")
        .at(source.position(""));
  read_text_proto(plan.param.solver(), plan.solver, &plan.solver_source);
  Planner planner(plan, source);
  planner.check_common();
  planner.check();
  planner.list_trials();
  return plan;
}

std::vector<std::string> settings_of(const SweepPlan& plan, const PlannedTrial& trial) {
  std::vector<std::string> all(plan.param.set().begin(), plan.param.set().end());
  all.insert(all.end(), trial.vary.begin(), trial.vary.end());
  return all;
}

}  // namespace crema
