#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/less_is_better.hpp"
#include "crema/error.hpp"
#include "monitor/report/report.hpp"

namespace crema {
namespace {

constexpr size_t kMostSettingColumns = 12, kMostOutputColumns = 8, kMostOutputLines = 400;

/// Each run's name, with its folder where two have one.
std::vector<std::string> names_of_runs(const std::vector<RunFiles>& runs) {
  std::map<std::string, int> times;
  for (const RunFiles& run : runs) ++times[run.info.name()];
  std::vector<std::string> names;
  for (const RunFiles& run : runs)
    names.push_back(times[run.info.name()] > 1 ? run.folder : run.info.name());
  return names;
}

/// What a run was started with, by name.
std::map<std::string, std::string> configuration_of(const RunFiles& run) {
  std::map<std::string, std::string> all;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (value.empty()) return;
    std::string& here = all[name];
    here += (here.empty() ? "" : ", ") + value;
  };
  const RunInfo& info = run.info;
  for (const auto& setting : info.settings()) add(setting.name(), setting.value());
  add("(device)", info.device());
  if (info.threads() > 0) add("(threads)", std::to_string(info.threads()));
  if (info.has_seed()) add("(seed)", std::to_string(info.seed()));
  add("(version)", info.version());
  add("(git)", text(info.git().commit(), info.git().changed() ? " with changes" : ""));
  for (const auto& data : info.data())
    add(text("(data of ", data.phase(), ", ", data.layer(), ")"),
        text(data.source(), data.fingerprint().empty() ? "" : " " + data.fingerprint()));
  return all;
}

/// As people write it: "net.ip1.num_output" of "net.ip1.inner_product_param.num_output".
std::string short_setting(const std::string& name) {
  constexpr std::string_view kEnd = "_param.";
  const size_t end = name.rfind(kEnd);
  if (!name.starts_with("net.") || end == std::string::npos) return name;
  const size_t begin = name.rfind('.', end);
  // "net.loss_param.x" has no layer before it.
  if (begin == std::string::npos || begin <= std::string_view("net.").size()) return name;
  return name.substr(0, begin + 1) + name.substr(end + kEnd.size());
}

/// The names of what differs.
std::vector<std::string> differing(
    const std::vector<std::map<std::string, std::string>>& configurations) {
  std::set<std::string> names;
  for (const auto& one : configurations) {
    for (const auto& [name, value] : one) names.insert(name);
  }
  // They follow from another setting, or name a file alone.
  for (const char* name : {"snapshot_prefix", "net", "train_net", "test_net"}) names.erase(name);
  std::vector<std::string> found;
  for (const std::string& name : names) {
    std::set<std::string> values;
    for (const auto& one : configurations) {
      const auto value = one.find(name);
      values.insert(value == one.end() ? "" : value->second);
    }
    if (values.size() > 1) found.push_back(name);
  }
  // Settings of the solver first, then those of layers, then what is around the run.
  std::ranges::stable_sort(found, [](const std::string& a, const std::string& b) {
    const auto rank = [](const std::string& name) {
      return name.starts_with('(') ? 2 : name.find('.') != std::string::npos ? 1 : 0;
    };
    return rank(a) < rank(b);
  });
  return found;
}

/// A test output of any run.
struct TestOutput {
  int net;
  std::string name;
  bool least;
  auto operator<=>(const TestOutput&) const = default;

  std::string words() const { return net > 0 ? text(name, " of test net ", net) : name; }
  const Curve* of(const RunFiles& run) const {
    const auto test = run.tests.find(net);
    if (test == run.tests.end()) return nullptr;
    const auto output = test->second.outputs.find(name);
    return output == test->second.outputs.end() ? nullptr : &output->second;
  }
};

std::vector<TestOutput> outputs_of_runs(const std::vector<RunFiles>& runs) {
  std::set<TestOutput> all;
  for (const RunFiles& run : runs) {
    for (const auto& [net, test] : run.tests) {
      // The loss has a chart of its own.
      for (const auto& [name, curve] : test.outputs) {
        if (net > 0 || !is_same_curve(curve, test.loss))
          all.insert({net, name, less_is_better(name)});
      }
    }
  }
  // What the runs are told apart by is first.
  std::set<std::string> main_names;
  for (const RunFiles& run : runs) {
    if (const auto main = main_output(run)) main_names.insert(main->name);
  }
  std::vector<TestOutput> list(all.begin(), all.end());
  std::ranges::stable_sort(list, [&](const TestOutput& a, const TestOutput& b) {
    return main_names.contains(a.name) > main_names.contains(b.name);
  });
  return list;
}

class Comparison {
 public:
  explicit Comparison(const std::vector<RunFiles>& runs)
      : runs_(runs),
        names_(names_of_runs(runs)),
        outputs_(outputs_of_runs(runs)),
        charts_(runs.size() * (6 + outputs_.size())) {
    for (const RunFiles& run : runs) configurations_.push_back(configuration_of(run));
    differing_ = differing(configurations_);
  }

  PageContent content() {
    const std::string curves = curves_part();
    std::string title = title_of_runs();
    std::string head = text("<h1>", html(title), "</h1>\n");
    for (size_t i = 0; i < runs_.size(); ++i) {
      for (const std::string& warning : runs_[i].warnings)
        head += text("<p class=\"note\">", html(names_[i] + ": " + warning), "</p>\n");
    }
    return {title,
            head,
            {{"results", "What was reached", results_part()},
             {"curves", "Curves", curves},
             {"differences", "What differs", differences_part()}},
            charts_.data()};
  }

 private:
  /// "Sweep rates-1: 6 trials" where all are of one.
  std::string title_of_runs() const {
    const std::string& sweep = runs_.empty() ? "" : runs_[0].info.parent();
    const bool is_sweep = !sweep.empty() && std::ranges::all_of(runs_, [&](const RunFiles& run) {
      return run.info.parent() == sweep;
    });
    if (is_sweep) return text("Sweep ", sweep, ": ", count_of(runs_.size(), "trial"));
    return text("Comparison of ", count_of(runs_.size(), "run"));
  }

  static std::string count_of(size_t count, const char* what) {
    return text(count, " ", what, count == 1 ? "" : "s");
  }

  template <class Of>
  std::string chart(const std::string& id, const std::string& title, const std::string& unit,
                    ChartLine::Kind kind, const Of& of, bool can_be_log, bool from_zero) {
    Chart chart{.id = id, .title = title, .unit = unit, .lines = {}};
    chart.can_be_log = can_be_log;
    chart.from_zero = from_zero;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const Curve* curve = of(runs_[i]);
      if (curve == nullptr || curve->empty()) continue;
      chart.lines.push_back({.name = names_[i],
                             .curve = curve,
                             .kind = kind,
                             .color = static_cast<int>(i % 8) + 1,
                             .is_dashed = i / 8 % 2 == 1,
                             .clock = static_cast<int>(i)});
    }
    return charts_.add(chart);
  }

  std::string curves_part() {
    int last = 1;
    for (const RunFiles& run : runs_) {
      last = std::max(last, run.iterations);
      charts_.add_clock(run.epoch, run.time);
    }
    charts_.set_last(last);
    using Kind = ChartLine::Kind;
    std::string large, small;
    size_t count = 0;
    for (const TestOutput& output : outputs_) {
      if (++count * runs_.size() > kMostOutputLines) break;
      std::string one = chart(
          text("chart-output-", count), "Test: " + output.words(), "", Kind::points,
          [&](const RunFiles& run) { return output.of(run); }, output.least, false);
      (count <= 2 ? large : small) += one;
    }
    large = chart(
                "chart-test-loss", "Test loss", "", Kind::points,
                [](const RunFiles& run) -> const Curve* {
                  if (run.tests.empty() || !has_loss(run.tests.begin()->second)) return nullptr;
                  return &run.tests.begin()->second.loss;
                },
                true, false) +
            large;
    large = chart(
                "chart-loss", "Training loss", "", Kind::smooth,
                [](const RunFiles& run) { return &run.loss; }, true, false) +
            large;
    small += chart(
        "chart-rate", "Learning rate", "", Kind::plain,
        [](const RunFiles& run) { return &run.rate; }, false, true);
    small += chart(
        "chart-speed", "Throughput", "images/s", Kind::smooth,
        [](const RunFiles& run) { return &run.images_per_second; }, false, true);
    small += chart(
        "chart-gradient", "Gradient norm", "", Kind::smooth,
        [](const RunFiles& run) { return &run.gradient_norm; }, false, true);
    if (large.empty() && small.empty()) return "";
    return charts_.tools() + "<div class=\"charts large\">\n" + large +
           "</div>\n<div class=\"charts\">\n" + small + "</div>\n";
  }

  /// A row a run: what was reached, beside the settings that differ.
  std::string results_part() const {
    std::vector<TestOutput> shown = outputs_;
    if (shown.size() > kMostOutputColumns) shown.resize(kMostOutputColumns);
    std::vector<std::string> settings = differing_;
    if (settings.size() > kMostSettingColumns) settings.resize(kMostSettingColumns);
    std::vector<std::string> head = {"run", "state"};
    for (const TestOutput& output : shown) head.push_back("#best " + output.words());
    const bool has_test_loss = std::ranges::any_of(runs_, [](const RunFiles& run) {
      return !run.tests.empty() && has_loss(run.tests.begin()->second);
    });
    if (has_test_loss) head.emplace_back("#best test loss");
    for (const char* name : {"#training loss", "#iterations", "#epochs", "#time", "#images/s"})
      head.emplace_back(name);
    for (const std::string& name : settings) head.push_back(short_setting(name));
    std::vector<std::optional<double>> bests;
    for (const TestOutput& output : shown) {
      std::optional<double> best;
      for (const RunFiles& run : runs_) {
        const auto value = best_in(run, output);
        if (value && (!best || (output.least ? *value < *best : *value > *best))) best = value;
      }
      bests.push_back(best);
    }
    std::string rows;
    for (const size_t i : ranked(shown)) {
      const RunFiles& run = runs_[i];
      rows += text("<tr><th scope=\"row\">", html(names_[i]), "</th>", state_cell(run));
      for (size_t k = 0; k < shown.size(); ++k) {
        const auto value = best_in(run, shown[k]);
        std::string cell = number_cell(value, value ? value_words(*value) : "");
        // What looks alike is the best alike.
        if (value && bests[k] && value_words(*value) == value_words(*bests[k]))
          cell.replace(cell.find("class=\"number\""), 14, "class=\"number best\"");
        rows += cell;
      }
      std::optional<CurvePoint> test_loss;
      if (!run.tests.empty() && has_loss(run.tests.begin()->second))
        test_loss = best_of(run.tests.begin()->second.loss, true);
      if (has_test_loss)
        rows += test_loss ? number_cell(test_loss->value, value_words(test_loss->value))
                          : number_cell(std::nullopt, "");
      const Curve& loss = run.smoothed_loss.empty() ? run.loss : run.smoothed_loss;
      rows += last_cell(loss, value_words);
      rows += number_cell(run.iterations, count_words(run.iterations));
      const auto epochs = epochs_of_run(run);
      rows += number_cell(epochs, epochs ? value_words(*epochs) : "");
      const double seconds = seconds_of_run(run);
      rows += seconds > 0 ? number_cell(seconds, time_words(seconds)) : number_cell({}, "");
      rows += median_cell(run.images_per_second);
      for (const std::string& name : settings) rows += text_cell(value_in(i, name));
      rows += "</tr>\n";
    }
    return table("What was reached", head, rows);
  }

  /// By the best value of the first output, else by that of the test loss; runs without one last.
  std::vector<size_t> ranked(const std::vector<TestOutput>& outputs) const {
    std::vector<std::optional<double>> values;
    const bool least = outputs.empty() || outputs[0].least;
    for (const RunFiles& run : runs_) {
      if (!outputs.empty()) {
        values.push_back(best_in(run, outputs[0]));
        continue;
      }
      const auto loss = run.tests.empty() ? std::optional<CurvePoint>()
                                          : best_of(run.tests.begin()->second.loss, true);
      values.push_back(loss ? std::optional(loss->value) : std::nullopt);
    }
    std::vector<size_t> order(runs_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      if (!values[a] || !values[b]) return values[a].has_value() && !values[b];
      return least ? *values[a] < *values[b] : *values[a] > *values[b];
    });
    return order;
  }

  /// In a few words; a tooltip has the rest.
  static std::string state_cell(const RunFiles& run) {
    const std::string why = run.end() == nullptr ? "" : run.end()->text();
    const bool is_bad = run.state() == RunOutcome::failed || ends_with_bad_test(run);
    return text("<td", is_bad ? " class=\"bad\"" : "",
                why.empty() ? "" : text(" title=\"", html(why), "\""), ">", html(state_words(run)),
                "</td>");
  }

  std::string differences_part() const {
    if (differing_.empty()) return "<p>The runs have the same configuration.</p>\n";
    std::vector<std::string> head = {"setting"};
    head.insert(head.end(), names_.begin(), names_.end());
    std::string rows;
    for (const std::string& name : differing_) {
      rows += text("<tr><th scope=\"row\">", html(short_setting(name)), "</th>");
      for (size_t i = 0; i < runs_.size(); ++i)
        rows += text("<td class=\"wrap few\">", html(value_in(i, name)), "</td>");
      rows += "</tr>\n";
    }
    return table("What differs", head, rows);
  }

  static std::optional<double> best_in(const RunFiles& run, const TestOutput& output) {
    const Curve* curve = output.of(run);
    if (curve == nullptr) return std::nullopt;
    const auto best = best_of(*curve, output.least);
    return best ? std::optional(best->value) : std::nullopt;
  }

  static std::string last_cell(const Curve& curve, std::string (*words)(double)) {
    if (curve.empty()) return number_cell(std::nullopt, "");
    return number_cell(curve.back().value, words(curve.back().value));
  }

  static std::string median_cell(const Curve& curve) {
    std::vector<double> values;
    for (const CurvePoint& point : curve) {
      if (std::isfinite(point.value)) values.push_back(point.value);
    }
    if (values.empty()) return number_cell(std::nullopt, "");
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return number_cell(*middle, value_words(*middle));
  }

  std::string value_in(size_t run, const std::string& name) const {
    const auto found = configurations_[run].find(name);
    return found == configurations_[run].end() ? "" : found->second;
  }

  const std::vector<RunFiles>& runs_;
  std::vector<std::string> names_;
  std::vector<TestOutput> outputs_;
  std::vector<std::map<std::string, std::string>> configurations_;
  std::vector<std::string> differing_;
  ChartPage charts_;
};

}  // namespace

PageContent comparison_content(const std::vector<RunFiles>& runs) {
  return Comparison(runs).content();
}

std::string comparison_report(const std::vector<RunFiles>& runs) {
  return page(comparison_content(runs));
}

}  // namespace crema
