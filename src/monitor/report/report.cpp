#include "monitor/report/report.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <set>
#include <string_view>

#include "core/less_is_better.hpp"
#include "crema/error.hpp"
#include "model/text_file.hpp"
#include "monitor/report/parts.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostOutputCharts = 40, kMostTests = 200, kMostEvents = 60;

/// "prob" of "prob[3]".
std::string output_base(const std::string& name) {
  const size_t bracket = name.find('[');
  return bracket == std::string::npos || !name.ends_with(']') ? name : name.substr(0, bracket);
}

std::string test_words(const RunFiles& run, int net) {
  return run.tests.size() > 1 || net > 0 ? text("test net ", net) : "test";
}

std::vector<ChartMark> marks_of(const RunFiles& run) {
  std::vector<ChartMark> marks;
  for (const RunRecord& event : run.events) {
    if (event.kind() == RunRecord::RESUME)
      marks.push_back({event.iteration(), text("resumed at ", count_words(event.iteration()))});
    if (event.kind() == RunRecord::NOTE) marks.push_back({event.iteration(), event.text()});
  }
  if (marks.size() > 30) marks.erase(marks.begin(), marks.end() - 30);
  return marks;
}

Chart loss_chart(const RunFiles& run) {
  Chart chart{.id = "chart-loss", .title = "Loss", .unit = "", .lines = {}, .can_be_log = true};
  chart.lines.push_back(
      {.name = "training", .curve = &run.loss, .kind = ChartLine::Kind::smooth, .color = 1});
  int color = 2;
  for (const auto& [net, test] : run.tests) {
    if (!has_loss(test)) continue;
    chart.lines.push_back({.name = test_words(run, net),
                           .curve = &test.loss,
                           .kind = ChartLine::Kind::points,
                           .color = std::min(8, color++)});
  }
  return chart;
}

/// As the titles beside it begin: "Accuracy" of "accuracy". Names of other forms stay.
std::string title_of(std::string name) {
  const bool is_word = std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z'); });
  if (is_word && !name.empty()) name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

/// Outputs of tests and displays, those of one base name in one chart.
std::vector<Chart> output_charts(const RunFiles& run) {
  std::vector<Chart> charts;
  const auto chart_of = [&](const std::string& base) -> Chart& {
    for (Chart& chart : charts) {
      if (chart.title == base) return chart;
    }
    charts.push_back({.id = text("chart-output-", charts.size()),
                      .title = base,
                      .unit = "",
                      .lines = {},
                      .can_be_log = less_is_better(base)});
    return charts.back();
  };
  const auto add = [&](const std::string& name, const Curve& curve, ChartLine::Kind kind,
                       const std::string& from) {
    Chart& chart = chart_of(output_base(name));
    constexpr size_t kMostLines = 16;
    if (chart.lines.size() >= kMostLines) return;
    const std::string part = name.substr(output_base(name).size());
    chart.lines.push_back({.name = from + part,
                           .curve = &curve,
                           .kind = kind,
                           .color = static_cast<int>(chart.lines.size() % 8) + 1,
                           .is_dashed = chart.lines.size() >= 8});
  };
  // The main one is first.
  if (const auto first = main_output(run)) chart_of(output_base(first->name));
  for (const auto& [net, test] : run.tests) {
    for (const auto& [name, curve] : test.outputs) {
      if (!is_same_curve(curve, test.loss))
        add(name, curve, ChartLine::Kind::points, test_words(run, net));
    }
  }
  for (const auto& [name, curve] : run.outputs) {
    if (!is_same_curve(curve, run.loss)) add(name, curve, ChartLine::Kind::smooth, "training");
  }
  std::erase_if(charts, [](const Chart& chart) { return chart.lines.empty(); });
  for (Chart& chart : charts) chart.title = title_of(chart.title);
  return charts;
}

/// The largest so far, over the whole run: a process that goes on with it begins anew.
Curve largest_so_far(const Curve& curve) {
  Curve all = curve;
  for (size_t i = 1; i < all.size(); ++i) all[i].value = std::max(all[i].value, all[i - 1].value);
  return all;
}

/// Without the displays of a first iteration alone, whose batch was loaded before its time began.
Curve without_first_iterations(const RunFiles& run, const Curve& curve) {
  Curve all = curve;
  for (const RunRecord& event : run.events) {
    if (event.kind() != RunRecord::RESUME && event.kind() != RunRecord::START) continue;
    if (all.size() < 3) break;
    std::erase_if(all, [&](const CurvePoint& p) { return p.iteration == event.iteration() + 1; });
  }
  return all;
}

Chart single_chart(const char* id, const char* title, const char* unit, const Curve& curve,
                   ChartLine::Kind kind, bool from_zero) {
  return {.id = id,
          .title = title,
          .unit = unit,
          .lines = {{.name = "training", .curve = &curve, .kind = kind, .color = 1}},
          .from_zero = from_zero};
}

/// One test a line.
std::string tests_table(const RunFiles& run) {
  std::set<std::pair<int, std::string>> losses;  // outputs that the loss of the test repeats
  for (const auto& [net, test] : run.tests) {
    for (const auto& [name, curve] : test.outputs) {
      if (is_same_curve(curve, test.loss)) losses.insert({net, name});
    }
  }
  std::vector<const RunRecord*> tests;
  std::vector<std::string> names;
  for (const RunRecord& event : run.events) {
    if (event.kind() != RunRecord::TEST) continue;
    tests.push_back(&event);
    std::vector<std::string> own;
    for (const auto& [name, value] : event.outputs()) {
      if (!losses.contains({event.net(), name})) own.push_back(name);
    }
    std::ranges::sort(own);
    for (const std::string& name : own) {
      constexpr size_t kMostColumns = 12;
      if (names.size() < kMostColumns && std::ranges::count(names, name) == 0)
        names.push_back(name);
    }
  }
  if (tests.empty()) return "";
  const size_t all_tests = tests.size();
  if (tests.size() > kMostTests) tests.erase(tests.begin(), tests.end() - kMostTests);
  const RunRecord* best = run.best();
  std::string rows;
  for (const RunRecord* test : tests) {
    const bool is_best = test == best;
    rows += "<tr>" + number_cell(test->iteration(), count_words(test->iteration()));
    if (run.tests.size() > 1) rows += number_cell(test->net(), std::to_string(test->net()));
    rows += test->has_test_loss() && has_loss(run.tests.at(test->net()))
                ? number_cell(test->test_loss(), value_words(test->test_loss()))
                : number_cell(std::nullopt, "");
    for (const std::string& name : names) {
      const auto found = test->outputs().find(name);
      rows += found == test->outputs().end()
                  ? number_cell(std::nullopt, "")
                  : number_cell(found->second, value_words(found->second));
    }
    rows += text("<td", is_best ? " class=\"best\">best" : ">", "</td></tr>\n");
  }
  std::vector<std::string> head = {"#iteration"};
  if (run.tests.size() > 1) head.push_back("#test net");
  head.push_back("#loss");
  for (const std::string& name : names) head.push_back("#" + name);
  head.push_back("");
  return text("<details", tests.size() <= 12 ? " open=\"open\"" : "", "><summary>Tests</summary>\n",
              all_tests > tests.size()
                  ? text("<p class=\"faint\">The last ", tests.size(), " of ", all_tests, "</p>")
                  : "",
              table("Tests", head, rows), "</details>\n");
}

std::string class_average_precisions(const RunFiles& run) {
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    if (event->kind() != RunRecord::TEST || event->classes().empty()) continue;
    std::string rows;
    for (const auto& one : event->classes())
      rows += text("<tr>", text_cell(one.output()), text_cell(class_words(one.name(), one.label())),
                   number_cell(one.average_precision(), value_words(one.average_precision())),
                   "</tr>\n");
    return text("<details><summary>Average precision of each class in the test at ",
                count_words(event->iteration()), "</summary>\n",
                table("Average precision of each class", {"output", "class", "#AP"}, rows),
                "</details>\n");
  }
  return "";
}

std::string curves_part(const RunFiles& run, ChartPage& charts) {
  if (!run.has_records()) return "<p>No display or test was recorded yet.</p>\n";
  charts.set_last(run.iterations);
  charts.add_clock(run.epoch, run.time);
  const Curve speed = without_first_iterations(run, run.images_per_second),
              wait = without_first_iterations(run, run.data_wait),
              memory = largest_so_far(run.memory);
  const std::vector<ChartMark> marks = marks_of(run);
  const auto add = [&](Chart chart) {
    chart.marks = marks;
    return charts.add(chart);
  };
  std::string large = add(loss_chart(run)), outputs;
  size_t count = 0;
  std::vector<Chart> all_outputs = output_charts(run);
  for (Chart& chart : all_outputs) {
    if (++count > kMostOutputCharts) break;
    (count == 1 ? large : outputs) += add(std::move(chart));
  }
  using Kind = ChartLine::Kind;
  std::string small =
      add(single_chart("chart-rate", "Learning rate", "", run.rate, Kind::plain, true));
  small += add(single_chart("chart-speed", "Throughput", "images/s", speed, Kind::smooth, true));
  small += add(single_chart("chart-wait", "Data wait", "share", wait, Kind::smooth, true));
  small += add(
      single_chart("chart-gradient", "Gradient norm", "", run.gradient_norm, Kind::smooth, true));
  small += add(single_chart("chart-memory", "Largest memory of the process", "bytes", memory,
                            Kind::plain, true));
  if (run.images_per_second.empty())
    small += add(single_chart("chart-seconds", "Time of an iteration", "s", run.seconds,
                              Kind::smooth, true));
  std::string all;
  if (!large.empty() || !small.empty() || !outputs.empty()) all = charts.tools();
  if (!all.empty() && !marks.empty())
    all +=
        "<p class=\"faint\">A dashed vertical line is where the run was resumed, or did what a "
        "note below says; its words come when the pointer is on it.</p>\n";
  if (!large.empty()) all += "<div class=\"charts large\">\n" + large + "</div>\n";
  if (!outputs.empty()) all += "<div class=\"charts\">\n" + outputs + "</div>\n";
  if (all_outputs.size() > kMostOutputCharts)
    all += text("<p class=\"faint\">", all_outputs.size() - kMostOutputCharts,
                " more outputs are in metrics.jsonl.</p>\n");
  if (!small.empty()) all += "<div class=\"charts\">\n" + small + "</div>\n";
  return all + tests_table(run) + class_average_precisions(run);
}

const char* event_words(RunRecord::Kind kind) {
  switch (kind) {
    case RunRecord::START:
      return "started";
    case RunRecord::RESUME:
      return "resumed";
    case RunRecord::SNAPSHOT:
      return "snapshot";
    case RunRecord::NOTE:
      return "note";
    case RunRecord::END:
      return "ended";
    default:
      return "";
  }
}

std::string events_part(const RunFiles& run) {
  std::vector<const RunRecord*> shown;
  for (const RunRecord& event : run.events) {
    if (event.kind() != RunRecord::TEST && event.kind() != RunRecord::WEIGHTS)
      shown.push_back(&event);
  }
  if (shown.empty()) return "";
  const size_t all_events = shown.size();
  if (shown.size() > kMostEvents) shown.erase(shown.begin(), shown.end() - kMostEvents);
  std::string rows;
  for (const RunRecord* event : shown) {
    std::string words = event->text();
    if (event->kind() == RunRecord::SNAPSHOT) words = event->weights();
    if (event->kind() == RunRecord::END) {
      const std::string why = event->text();
      words = state_words(run) + (why.empty() ? "" : ": " + why);
    }
    rows += text("<tr>", number_cell(event->iteration(), count_words(event->iteration())),
                 text_cell(event_words(event->kind())), text_cell(moment_words(event->wall())),
                 "<td class=\"wrap long\">", html(words), "</td></tr>\n");
  }
  return text(all_events > shown.size()
                  ? text("<p class=\"faint\">The last ", shown.size(), " of ", all_events, "</p>")
                  : "",
              table("What happened", {"#iteration", "what", "when", ""}, rows));
}

std::string file_details(const std::string& name, const std::string& content) {
  if (content.empty()) return "";
  constexpr size_t kMostBytes = 300000;
  const bool is_cut = content.size() > kMostBytes;
  return text("<details><summary>", html(name), "</summary>\n<pre tabindex=\"0\">",
              html_lines(std::string_view(content).substr(0, kMostBytes)), is_cut ? "...\n" : "",
              "</pre></details>\n");
}

std::string configuration_part(const RunFiles& run) {
  const RunInfo& info = run.info;
  std::string rows;
  const auto row = [&](const std::string& name, const std::string& value) {
    if (!value.empty())
      rows += text("<tr><th scope=\"row\">", html(name), "</th><td class=\"wrap\">", html(value),
                   "</td></tr>\n");
  };
  std::string command;
  for (const std::string& word : info.command())
    command += (command.empty() ? "" : " ") + shell_quoted(word);
  row("command", command);
  row("working folder", info.folder());
  row("solver", info.solver_file());
  row("version", info.version());
  if (info.has_git())
    row("git",
        text(info.git().commit(), info.git().branch().empty() ? "" : " on " + info.git().branch(),
             info.git().changed() ? ", with changes that are not committed" : ""));
  row("host", info.host());
  row("device", info.threads() > 0 ? text(info.device(), ", ", info.threads(),
                                          info.threads() == 1 ? " thread" : " threads")
                                   : info.device());
  row("seed", info.has_seed() ? std::to_string(info.seed()) : "");
  row("started", date_words(info.started()));
  row("trial of", info.parent());
  for (const auto& data : info.data())
    row(text("data of ", data.phase(), ", layer ", data.layer()),
        text(data.source(),
             data.has_records()
                 ? text(", ", count_words(static_cast<int64_t>(data.records())), " records")
                 : "",
             data.fingerprint().empty() ? "" : ", fingerprint " + data.fingerprint()));
  std::string all =
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"The run\"><table><tbody>" +
      rows + "</tbody></table></div>\n";
  if (info.settings_size() > 0) {
    std::string settings;
    for (const auto& setting : info.settings())
      settings += text("<tr><th scope=\"row\">", html(setting.name()), "</th><td class=\"wrap\">",
                       html(setting.value()), "</td></tr>\n");
    all += "<details><summary>Settings</summary>\n" +
           table("Settings", {"setting", "value"}, settings) + "</details>\n";
  }
  all += file_details("solver.prototxt", run.solver_text);
  all += file_details("net.prototxt", run.net_text);
  for (size_t k = 0; k < run.test_net_texts.size(); ++k)
    all += file_details(text("test_net_", k, ".prototxt"), run.test_net_texts[k]);
  return all;
}

std::string continue_part(const RunFiles& run) {
  const std::string commands = commands_of(run);
  if (commands.empty()) return "";
  return "<div class=\"command\"><button type=\"button\" class=\"copy\">Copy</button><pre><code>" +
         html_lines(commands) + "</code></pre></div>\n";
}

double median_of(const Curve& curve) {
  std::vector<double> values;
  for (const CurvePoint& point : curve) {
    if (std::isfinite(point.value)) values.push_back(point.value);
  }
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::string run_head(const RunFiles& run) {
  const RunInfo& info = run.info;
  const RunOutcome state = run.state();
  const char* kind = state == RunOutcome::failed || ends_with_bad_test(run) ? "bad"
                     : state == RunOutcome::finished                        ? "good"
                                                                            : "";
  std::string all =
      text("<h1>", html(info.name()), " <span class=\"state ", kind, "\">",
           html(state == RunOutcome::failed ? "failed" : state_words(run)), "</span></h1>\n");
  std::string about;
  const auto mention = [&](const std::string& words) {
    if (!words.empty()) about += (about.empty() ? "" : " · ") + html(words);
  };
  mention(info.net().empty() || info.net() == info.name() ? "" : "net " + info.net());
  mention(info.started() > 0 ? "started " + date_words(info.started()) : "");
  mention(run.last_wall > 0 ? "last record " + date_words(run.last_wall) : "");
  mention(info.device());
  mention(info.has_git() ? text("git ", info.git().commit().substr(0, 10),
                                info.git().changed() ? " with changes" : "")
                         : "");
  mention(info.version());
  all += "<p class=\"faint\">" + about + "</p>\n";
  if (state == RunOutcome::failed && run.end() != nullptr)
    all += text("<p class=\"fail\" role=\"alert\">", html(run.end()->text()), "</p>\n");
  for (const std::string& warning : run.warnings)
    all += "<p class=\"note\">" + html(warning) + "</p>\n";
  all += "<ul class=\"tiles\">";
  const auto tile = [&](const std::string& value, const std::string& what) {
    all += text("<li><b>", html(value), "</b><span>", html(what), "</span></li>");
  };
  if (const auto main = main_output(run)) {
    tile(value_words(main->best.value),
         text("best ", main->name, ", at ", count_words(main->best.iteration)));
    if (main->last.iteration != main->best.iteration)
      tile(value_words(main->last.value),
           text("last ", main->name, ", at ", count_words(main->last.iteration)));
  }
  if (!run.loss.empty()) {
    const Curve& loss = run.smoothed_loss.empty() ? run.loss : run.smoothed_loss;
    tile(value_words(loss.back().value),
         text("training loss at ", count_words(loss.back().iteration)));
  }
  tile(info.max_iterations() > 0
           ? text(count_words(run.iterations), " of ", count_words(info.max_iterations()))
           : count_words(run.iterations),
       "iterations");
  if (const auto epochs = epochs_of_run(run)) tile(value_words(*epochs), "epochs");
  if (const double seconds = seconds_of_run(run); seconds > 0)
    tile(time_words(seconds), "of training");
  if (const double speed = median_of(run.images_per_second); speed > 0)
    tile(value_words(speed), "images/s, median");
  if (!run.data_wait.empty()) tile(share_words(median_of(run.data_wait)), "data wait, median");
  if (!run.memory.empty())
    tile(bytes_words(largest_so_far(run.memory).back().value), "largest memory");
  if (run.layers && run.layers->parameters() > 0)
    tile(count_words(static_cast<int64_t>(run.layers->parameters())), "parameters");
  return all + "</ul>\n";
}

namespace {

std::string why_not_evaluated(const RunFiles& run) {
  const bool has_snapshot = std::ranges::any_of(run.events, [](const RunRecord& event) {
    return event.kind() == RunRecord::SNAPSHOT && event.has_weights();
  });
  if (has_snapshot)
    return text("The weights were not evaluated. `crema report ", shell_quoted(run.folder),
                "` does it, with those of the last snapshot.");
  if (run.state() == RunOutcome::unknown && run.is_alive)
    return "The run has no snapshot yet whose weights could be evaluated.";
  return "The run ended without a snapshot, so that there are no weights to evaluate.";
}

}  // namespace

std::vector<PageSection> run_sections(const RunFiles& run, ChartPage& charts) {
  std::vector<PageSection> sections = {{"curves", "Curves", curves_part(run, charts)}};
  if (run.evaluation) {
    const Evaluation& evaluation = *run.evaluation;
    const std::string classes = classes_part(evaluation), detections = detections_part(evaluation);
    sections.push_back(
        {"evaluation", "Evaluation", evaluation_head(evaluation) + classes + detections});
    sections.push_back({"mistakes", "Most confident mistakes", mistakes_part(evaluation)});
    sections.push_back({"boxes", "Detections", boxes_part(evaluation)});
    sections.push_back({"masks", "Masks", masks_part(evaluation)});
  }
  if (!run.evaluation && !run.test_net_texts.empty())
    sections.push_back({"evaluation", "Evaluation",
                        "<p class=\"faint\">" + html(why_not_evaluated(run)) + "</p>\n"});
  sections.push_back({"net", "Net", net_part(run)});
  sections.push_back({"layers", "Layers", layers_part(run)});
  sections.push_back({"weights", "Weights", histograms_part(run)});
  sections.push_back({"events", "What happened", events_part(run)});
  sections.push_back({"configuration", "Configuration", configuration_part(run)});
  sections.push_back({"continue", "Continue this run", continue_part(run)});
  return sections;
}

PageContent run_content(const RunFiles& run) {
  size_t lines = 8 + run.outputs.size();
  for (const auto& [net, test] : run.tests) lines += 1 + test.outputs.size();
  ChartPage charts(lines);
  PageContent content{run.info.name(), run_head(run), run_sections(run, charts), ""};
  content.curves = charts.data();
  return content;
}

std::string run_report(const RunFiles& run) { return page(run_content(run)); }

std::vector<std::string> write_report(const std::string& folder) {
  const RunFiles run = read_run(folder);
  write_text_unsynced((fs::path(folder) / "report.html").string(), run_report(run));
  return run.warnings;
}

}  // namespace crema
