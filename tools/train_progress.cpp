#include "tools/train_progress.hpp"

#include <cmath>
#include <cstdio>
#include <utility>

#include "core/less_is_better.hpp"
#include "core/utf8.hpp"
#include "proto/solver.pb.h"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

void log_output(const char* which, int number, const std::string& name, double value,
                float weight) {
  std::string loss;
  if (weight != 0) loss = text(" (* ", weight, " = ", weight * value, " loss)");
  log_aside(
      text("    ", which, " net output #", number, ": ", printable(name), " = ", value, loss));
}

/// "46 it/s", "4.6 it/s", "0.46 it/s".
std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text,
                rate >= 10  ? "%.0f it/s"
                : rate >= 1 ? "%.1f it/s"
                            : "%.2f it/s",
                rate);
  return text;
}

/// As the line has room for it.
std::string short_name(const std::string& output, float loss_weight) {
  if (output == "accuracy") return "acc";
  return (loss_weight != 0 ? "test " : "") + output;
}

}  // namespace

void TrainProgress::Sums::add(const IterationReport& report) {
  ++iterations;
  seconds += report.seconds;
  waited += report.data_wait;
  images += static_cast<double>(report.images);
  losses += report.loss;
}

void TrainProgress::Sums::fade(double part) {
  for (double* sum : {&seconds, &waited, &images, &iterations, &losses}) *sum *= part;
}

TrainProgress::TrainProgress(Solver& solver, const SolverParameter& param)
    : solver_(solver),
      display_(param.display()),
      best_net_(param.snapshot_best_net()),
      best_output_(param.snapshot_best()),
      shows_test_loss_(param.test_compute_loss()),
      losses_(8) {
  solver.on_iteration = [this](const IterationReport& report) { iteration(report); };
  solver.on_test = [this](const TestReport& report) { test(report); };
  solver.on_snapshot = [](const std::string& path) {
    say(text("Snapshotting to ", printable(path), " and its .caffemodel"));
  };
}

void TrainProgress::finish() {
  // With the last test.
  if (shows_lines() && last_) draw(*last_);
  end_line();
  if (all_.iterations == 0) return;
  char said[160], rest[80] = "";
  std::snprintf(said, sizeof said, "%.0f iterations in %s: %.1f iterations/s", all_.iterations,
                human_seconds(all_.seconds).c_str(), all_.iterations / all_.seconds);
  if (all_.images > 0) {  // else the net has no data layer that counts them
    std::snprintf(rest, sizeof rest, ", %.0f images/s, %.1f%% of the time waiting for data",
                  all_.images / all_.seconds, 100 * all_.waited / all_.seconds);
  }
  say(text(said, rest));
  // A run of seconds waits for its first batches for the most part.
  if (all_.seconds > 5 && all_.waited > 0.1 * all_.seconds) {
    say(Severity::warning,
        "training waited for data for more than 10% of the time; use faster storage, smaller "
        "images, or more threads of the data layer");
  }
}

void TrainProgress::iteration(const IterationReport& report) {
  all_.add(report);
  recent_.add(report);
  logged_.add(report);
  last_ = report;
  losses_.add(report.smoothed_loss);
  if (display_ > 0 && report.iteration % display_ == 0) log(report);
  if (shows_lines() && line_.due(report.iteration + 1 == report.max_iterations)) draw(report);
}

void TrainProgress::draw(const IterationReport& report) {
  // A test between does not count as training time.
  const double rate = recent_.iterations / recent_.seconds;
  const double left = (report.max_iterations - report.iteration - 1) / rate;
  const int done = report.iteration + 1;
  std::vector<Field> fields = {
      {report.max_iterations > 0 ? text(done, "/", report.max_iterations) : text(done)}};
  if (const std::string epoch = epoch_text(done); !epoch.empty()) fields.push_back({epoch});
  fields.push_back({"loss " + human_value(recent_.losses / recent_.iterations),
                    takes_utf8() ? losses_.text() : "", Tone::dim});
  if (watched_) {
    const std::string last = watched_->last ? human_value(*watched_->last) : "-";
    fields.push_back({text(watched_->label, " ", last)});
    if (watched_->best) fields.back().text += text(" (best ", human_value(*watched_->best), ")");
  }
  fields.push_back({rate_text(rate)});
  if (report.max_iterations > 0) fields.push_back({human_seconds(left) + " left"});
  char more[48];
  if (all_.images > 0) {
    std::snprintf(more, sizeof more, "data %.0f%%", 100 * recent_.waited / recent_.seconds);
    fields.push_back({more});
  }
  std::snprintf(more, sizeof more, "lr %.3g", report.rate);
  fields.push_back({more});
  if (all_.images > 0) {
    std::snprintf(more, sizeof more, "%.0f images/s", recent_.images / recent_.seconds);
    fields.push_back({more});
  }
  line_.draw(fields);
  recent_.fade(0.8);  // so that the figures are steady
}

std::string TrainProgress::epoch_text(int iterations) const {
  const auto length = solver_.iterations_of_epoch();
  if (!length) return "";
  char said[32];
  std::snprintf(said, sizeof said, "epoch %.1f", iterations / *length);
  return said;
}

void TrainProgress::log(const IterationReport& report) {
  char said[200];
  std::snprintf(said, sizeof said, "Iteration %d (%.4g iter/s, %.3gs/%.0f iters), loss = %g",
                report.iteration, logged_.iterations / logged_.seconds, logged_.seconds,
                logged_.iterations, report.smoothed_loss);
  log_aside(said);
  int number = 0;
  Net& net = solver_.net();
  for (const auto& name : net.outputs()) {
    const Tensor values = net.output(name);
    const float weight = net.loss_weight(name);
    for (int64_t i = 0; i < values.count(); ++i, ++number) {
      log_output("Train", number, name, values.at(i), weight);
    }
  }
  log_aside(text("Iteration ", report.iteration, ", lr = ", report.rate));
  logged_ = {};
}

bool TrainProgress::watch(const TestReport& report) {
  const int net = best_output_.empty() ? 0 : best_net_;
  if (report.net != net || report.outputs.empty()) return false;
  const TestReport::Output* found = nullptr;
  if (watched_ || !best_output_.empty()) {
    const std::string& name = watched_ ? watched_->name : best_output_;
    for (const auto& output : report.outputs)
      if (found == nullptr && output.name == name) found = &output;
  } else {
    // What tells people most: an accuracy rather than the loss.
    for (const auto& output : report.outputs)
      if (found == nullptr && output.loss_weight == 0) found = &output;
    if (found == nullptr) found = &report.outputs.front();
  }
  if (found == nullptr) return false;
  if (!watched_) {
    watched_ = Watched{.name = found->name,
                       .label = printable(short_name(found->name, found->loss_weight)),
                       .less_is_better = less_is_better(found->name, found->loss_weight),
                       .last = {},
                       .best = {}};
  }
  const bool is_first = !watched_->last && !watched_->best;
  watched_->last = found->value;
  if (!best_output_.empty()) {
    const auto best = solver_.best();
    if (best) watched_->best = best->value;
    if (report.is_best) watched_->best = found->value;
    return report.is_best && !is_first;
  }
  if (!knows_best_) return false;
  const bool is_best =
      std::isfinite(found->value) &&
      (!watched_->best || (watched_->less_is_better ? found->value < *watched_->best
                                                    : found->value > *watched_->best));
  if (is_best) watched_->best = found->value;
  return is_best && !is_first;
}

void TrainProgress::go_on(const std::vector<RunRecord>& before) {
  for (const RunRecord& record : before) {
    const auto& nets = solver_.test_nets();
    if (record.kind() != RunRecord::TEST || record.net() < 0 || record.net() >= std::ssize(nets))
      continue;
    Net& net = *nets[static_cast<size_t>(record.net())];
    TestReport report{.iteration = record.iteration(),
                      .net = record.net(),
                      .loss = record.test_loss(),
                      .outputs = {},
                      .is_best = record.is_best()};
    for (const std::string& name : net.outputs()) {
      for (int64_t i = 0;; ++i) {
        const auto value =
            record.outputs().find(i == 0 ? as_utf8(name) : text(as_utf8(name), "[", i, "]"));
        if (value == record.outputs().end()) break;
        report.outputs.push_back({name, static_cast<int>(i), value->second, net.loss_weight(name)});
        shown_output(report, report.outputs.back(), false);
      }
    }
    watch(report);
  }
  if (watched_) return;
  if (const auto best = solver_.best(); best && !best_output_.empty()) {
    watched_ = Watched{.name = best->output,
                       .label = printable(short_name(best->output, 0)),
                       .less_is_better = less_is_better(best->output),
                       .last = {},
                       .best = best->value};
  } else {
    knows_best_ = false;
  }
}

Field TrainProgress::shown_output(const TestReport& report, const TestReport::Output& output,
                                  bool is_best) {
  const std::string index = output.index > 0 ? text("[", output.index, "]") : "";
  Field field{text(output.name, index, " ", human_value(output.value))};
  double& before =
      before_.try_emplace(text(report.net, ' ', output.name, index), NAN).first->second;
  const double change = output.value - std::exchange(before, output.value);
  // Of no change, and of none that is shown, the line says nothing.
  const std::string size = human_value(std::fabs(change));
  std::string note;
  if (std::isfinite(change) && change != 0) {
    note = (change > 0 ? "+" : "-") + size;
    const bool falls = less_is_better(output.name, output.loss_weight);
    field.tone = (change < 0) == falls ? Tone::good : Tone::bad;
  }
  if (is_best) {
    note += note.empty() ? "best" : ", best";
    field.tone = Tone::good;
  }
  if (!note.empty()) field.note = "(" + note + ")";
  return field;
}

void TrainProgress::show_test(const TestReport& report, bool is_best) {
  if (!shows_lines()) return;
  const std::string net = report.net > 0 ? text(" #", report.net) : "";
  std::vector<Field> fields = {{text("test", net, " at ", report.iteration)}};
  for (const auto& output : report.outputs) {
    const bool is_watched = watched_ && output.name == watched_->name && output.index == 0;
    Field field = shown_output(report, output, is_best && is_watched);
    // A narrow terminal has room for the first ones.
    fields.insert(is_watched ? fields.begin() + 1 : fields.end(), std::move(field));
  }
  if (shows_test_loss_) fields.push_back({"all losses " + human_value(report.loss)});
  show(fields);
  for (const auto& one : report.classes)
    show(text("  class ", one.label, one.name.empty() ? "" : " (" + one.name + ")", ": ",
              human_value(one.average_precision)));
}

void TrainProgress::test(const TestReport& report) {
  log_aside(text("Iteration ", report.iteration, ", Testing net (#", report.net, ")"));
  if (shows_test_loss_) log_aside(text("Test loss: ", report.loss));
  int number = 0;
  for (const auto& output : report.outputs) {
    for (const auto& one : report.classes) {
      if (one.output == output.name)
        log_aside(text("class", one.label, ": ", one.average_precision,
                       one.name.empty() ? "" : " (" + printable(one.name) + ")"));
    }
    log_output("Test", number++, output.name, output.value, output.loss_weight);
  }
  const bool is_best = watch(report);
  show_test(report, is_best);
}

}  // namespace crema::tools
