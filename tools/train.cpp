// crema train: runs a solver.
#include <glog/logging.h>

#include <cstdio>
#include <memory>

#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "crema/solver.hpp"
#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/progress_line.hpp"
#include "tools/required_data.hpp"
#include "tools/signals.hpp"
#include "tools/text.hpp"

DEFINE_string(solver, "", "The solver prototxt.");
DEFINE_string(snapshot, "", "Continue from this .solverstate.");
DEFINE_bool(resume, false,
            "Continue from the newest whole snapshot of the solver's snapshot_prefix; without one, "
            "start from scratch.");
DEFINE_string(sigint_effect, "stop",
              "What SIGINT and SIGTERM do: snapshot, stop (after a snapshot, where the solver "
              "takes any) or none.");
DEFINE_string(sighup_effect, "snapshot", "What SIGHUP does: snapshot, stop or none.");

namespace crema::tools {
namespace {

/// Writes what the solver reports: lines that published log parsers read, or one line that redraws
/// itself on a terminal.
class Progress {
 public:
  Progress(Solver& solver, const SolverParameter& param)
      : solver_(solver),
        display_(param.display()),
        shows_test_loss_(param.test_compute_loss()),
        terminal_(on_terminal()) {
    solver.on_iteration = [this](const IterationReport& report) { iteration(report); };
    solver.on_test = [this](const TestReport& report) { test(report); };
    solver.on_snapshot = [this](const std::string& path) {
      end_line();
      LOG(INFO) << "Snapshotting to " << printable(path) << " and its .caffemodel";
    };
  }

  /// What is said once at the end.
  void finish() {
    end_line();
    if (iterations_ == 0) return;
    char text[160], rest[80] = "";
    std::snprintf(text, sizeof text, "%lld iterations in %s: %.1f iterations/s",
                  static_cast<long long>(iterations_), human_seconds(seconds_).c_str(),
                  static_cast<double>(iterations_) / seconds_);
    if (images_ > 0) {  // else the net has no data layer that counts them
      std::snprintf(rest, sizeof rest, ", %.0f images/s, %.1f%% of the time waiting for data",
                    static_cast<double>(images_) / seconds_, 100 * waited_ / seconds_);
    }
    LOG(INFO) << text << rest;
    if (waited_ > 0.1 * seconds_) {
      LOG(WARNING) << "training waited for data for more than 10% of the time; use faster storage, "
                      "smaller images, or more threads of the data layer";
    }
  }

  void end_line() { line_.end(); }

 private:
  void iteration(const IterationReport& report) {
    ++iterations_;
    seconds_ += report.seconds;
    waited_ += report.data_wait;
    images_ += report.images;
    recent_seconds_ += report.seconds;
    recent_waited_ += report.data_wait;
    recent_images_ += report.images;
    ++recent_;
    const bool due = display_ > 0 && report.iteration % display_ == 0;
    if (terminal_) {
      if (line_.due(report.iteration + 1 == report.max_iterations)) draw(report);
    } else if (due) {
      log(report);
    }
  }

  void draw(const IterationReport& report) {
    const double rate = recent_ / recent_seconds_;
    const double left = (report.max_iterations - report.iteration - 1) / rate;
    char text[200];
    std::snprintf(text, sizeof text,
                  "iteration %d/%d  loss %.4f  lr %.4g  %.0f images/s  %.1f it/s  data wait "
                  "%.1f%%  %s left",
                  report.iteration + 1, report.max_iterations, report.smoothed_loss, report.rate,
                  static_cast<double>(recent_images_) / recent_seconds_, rate,
                  100 * recent_waited_ / recent_seconds_, human_seconds(left).c_str());
    line_.draw(text);
    forget_recent();
  }

  void log(const IterationReport& report) {
    char text[200];
    std::snprintf(text, sizeof text, "Iteration %d (%.4g iter/s, %.3gs/%d iters), loss = %g",
                  report.iteration, recent_ / recent_seconds_, recent_seconds_, recent_,
                  report.smoothed_loss);
    LOG(INFO) << text;
    int number = 0;
    Net& net = solver_.net();
    for (const auto& name : net.outputs()) {
      const Tensor values = net.output(name);
      const float weight = net.loss_weight(name);
      for (int64_t i = 0; i < values.count(); ++i, ++number) {
        log_output("Train", number, name, values.at(i), weight);
      }
    }
    LOG(INFO) << "Iteration " << report.iteration << ", lr = " << report.rate;
    forget_recent();
  }

  static void log_output(const char* which, int number, const std::string& name, double value,
                         float weight) {
    std::string loss;
    if (weight != 0) loss = text(" (* ", weight, " = ", weight * value, " loss)");
    LOG(INFO) << "    " << which << " net output #" << number << ": " << printable(name) << " = "
              << value << loss;
  }

  void test(const TestReport& report) {
    end_line();
    LOG(INFO) << "Iteration " << report.iteration << ", Testing net (#" << report.net << ")";
    if (shows_test_loss_) LOG(INFO) << "Test loss: " << report.loss;
    int number = 0;
    for (const auto& output : report.outputs) {
      for (const auto& one : report.classes) {
        if (one.output == output.name)
          LOG(INFO) << "class" << one.label << ": " << one.average_precision
                    << (one.name.empty() ? "" : " (" + printable(one.name) + ")");
      }
      log_output("Test", number++, output.name, output.value, output.loss_weight);
    }
  }

  /// Display covers what happened since the last one: tests between do not count as training time.
  void forget_recent() {
    recent_seconds_ = recent_waited_ = 0;
    recent_images_ = 0;
    recent_ = 0;
  }

  Solver& solver_;
  int display_;
  bool shows_test_loss_;
  bool terminal_;
  ProgressLine line_;
  int64_t iterations_ = 0, images_ = 0, recent_images_ = 0;
  int recent_ = 0;
  double seconds_ = 0, waited_ = 0, recent_seconds_ = 0, recent_waited_ = 0;
};

/// Whether the run continues, as --snapshot or --resume asks for.
bool continues(const SolverParameter& param, const SourceMap& source) {
  if (!FLAGS_resume) return !FLAGS_snapshot.empty();
  if (Solver::has_snapshot(param, source)) return true;
  LOG(INFO) << "No snapshot to resume from: starting from "
            << (FLAGS_weights.empty() ? "scratch" : printable(FLAGS_weights));
  return false;
}

void continue_run(Solver& solver, const SolverParameter& param) {
  std::string from = FLAGS_snapshot;
  if (FLAGS_resume) {
    from = solver.resume();
    if (from.empty())
      throw Error(
          "the snapshots to resume from were removed while the nets were made; run the "
          "command again to start without one");
  } else {
    solver.restore(from);
  }
  LOG(INFO) << "Resuming from " << printable(from) << " at iteration " << solver.iteration();
  if (solver.iteration() >= param.max_iter()) {
    LOG(WARNING) << "the snapshot is at iteration " << solver.iteration() << ", max_iter is "
                 << param.max_iter() << ": nothing to train; raise max_iter";
  }
}

int train(const std::vector<std::string>& arguments) {
  refuse_arguments("train", arguments, "give the solver with --solver=FILE");
  exclusive_flags("snapshot", !FLAGS_snapshot.empty(), "weights", !FLAGS_weights.empty());
  exclusive_flags("snapshot", !FLAGS_snapshot.empty(), "resume", FLAGS_resume);
  SolverParameter param;
  SourceMap source;
  read_text_proto(required_flag("solver", FLAGS_solver), param, &source);
  if (!param.has_max_iter()) throw Error(FLAGS_solver, ": the solver has no max_iter; add it");
  check_signal_effects(FLAGS_sigint_effect, FLAGS_sighup_effect);

  const bool wants_gpu = param.has_solver_mode() && param.solver_mode() == SolverParameter::GPU;
  Context context(context_options(wants_gpu, param.device_id()));
  SolverOptions options = solver_options();
  if (!FLAGS_weights.empty()) options.weights = split_list(FLAGS_weights);
  const bool is_continued = continues(param, source);
  if (is_continued) options.weights.emplace();  // a snapshot has its own
  options.strict_weights = FLAGS_strict;
  log_planning("nets");
  Solver solver(param, source, context, options);
  warn_of_inputs(solver.net());
  for (size_t n = 0; n < solver.test_nets().size(); ++n)
    warn_of_repeats(*solver.test_nets()[n], param.test_iter(static_cast<int>(n)), "test_iter");
  // Until here the signals end the program.
  const SignalActions signals(FLAGS_sigint_effect, FLAGS_sighup_effect);

  Progress progress(solver, param);
  solver.poll = [&] { return signals.take(); };
  if (is_continued) continue_run(solver, param);
  const MemoryPlan memory = solver.net().memory();
  LOG(INFO) << "Solving " << printable(solver.net().name()) << " on " << context.threads()
            << " threads; memory: " << human_bytes(static_cast<double>(memory.activations))
            << " activations, " << human_bytes(static_cast<double>(memory.parameters))
            << " parameters, " << human_bytes(static_cast<double>(memory.engines)) << " engines";
  bool finished = false;
  try {
    finished = solver.solve();
  } catch (...) {
    progress.end_line();
    throw;
  }
  progress.finish();
  LOG(INFO) << (finished ? "Optimization Done." : "Optimization stopped early.");
  return 0;
}

}  // namespace

extern const Command kTrain = {
    "train",
    "trains a net, or continues training",
    "  crema train --solver solver.prototxt [--weights net.caffemodel | --snapshot "
    "run.solverstate]\n"
    "  crema train --solver solver.prototxt --resume [--weights net.caffemodel]\n"
    "\n"
    "--resume continues from the newest whole snapshot of the solver, and names damaged ones. If\n"
    "there is none, the run starts from scratch, or from --weights.\n"
    "\n"
    "Paths inside prototxt files are relative to the working directory. On a terminal one line\n"
    "shows the progress; otherwise lines are logged as published tools do, so that log parsers\n"
    "read them.\n"
    "\n"
    "SIGINT (Ctrl-C) and SIGTERM stop the run after a snapshot, where the solver takes any, and a\n"
    "second one ends it at once; SIGHUP takes a snapshot. --sigint_effect and --sighup_effect\n"
    "change this. When the reader of the messages ends, as tee does at Ctrl-C (SIGPIPE), the run\n"
    "stops after a snapshot, too.",
    {"solver", "snapshot", "resume", "weights", "strict", "gpu", "threads", "engine", "tune",
     "tuning_file", "seed", "plugin", "fuse", "memory_budget", "level", "stage", "sigint_effect",
     "sighup_effect"},
    train,
    1,
    NetUse::runs};

}  // namespace crema::tools
