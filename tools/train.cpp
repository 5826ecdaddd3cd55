// crema train: runs a solver.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "crema/solver.hpp"
#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "monitor/report/run_files.hpp"
#include "proto/solver.pb.h"
#include "solver/idle_settings.hpp"
#include "solver/overrides.hpp"
#include "tools/command.hpp"
#include "tools/command_line.hpp"
#include "tools/flags.hpp"
#include "tools/processes.hpp"
#include "tools/required_data.hpp"
#include "tools/run_recording.hpp"
#include "tools/run_start.hpp"
#include "tools/signals.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"
#include "tools/train_progress.hpp"

DEFINE_string(solver, "", "The solver prototxt.");
DEFINE_string(snapshot, "", "Continue from this .solverstate.");
DEFINE_bool(resume, false,
            "Continue from the newest whole snapshot of the solver's snapshot_prefix; without one, "
            "start from scratch.");
DEFINE_string(sigint_effect, "stop",
              "What SIGINT and SIGTERM do: snapshot, stop (after a snapshot, where the solver "
              "takes any) or none.");
DEFINE_string(sighup_effect, "snapshot", "What SIGHUP does: snapshot, stop or none.");
DEFINE_string(set, "",
              "A value in place of that in the files, such as base_lr=0.01 of the solver or "
              "net.conv1.num_output=32 of a layer. The flag again sets more.");
DEFINE_string(freeze, "",
              "The last layer that does not learn, with all before it; or a regular expression "
              "between slashes for the names of layers, such as '/conv.*/'. The flag again "
              "freezes more.");
DEFINE_bool(quiet, false,
            "Say nothing but warnings and errors. The files of --log_dir have all lines.");
DEFINE_bool(allow_no_loss, false, "Train a net without a loss, in place of an error.");

DECLARE_bool(verbose);

namespace crema::tools {
namespace {

/// Whether the run continues, as --snapshot or --resume asks for.
bool continues(const SolverParameter& param, const SourceMap& source) {
  if (!FLAGS_resume) return !FLAGS_snapshot.empty();
  if (Solver::has_snapshot(param, source)) return true;
  say(text("No snapshot to resume from: starting from ",
           FLAGS_weights.empty() ? "scratch" : printable(FLAGS_weights)));
  return false;
}

void continue_run(Solver& solver) {
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
  say(text("Resuming from ", printable(from), " at iteration ", solver.iteration()));
  if (solver.iteration() >= solver.max_iterations()) {
    say(Severity::warning,
        text("the snapshot is at iteration ", solver.iteration(), ", max_iter is ",
             solver.max_iterations(), ": nothing to train; raise max_iter"));
  }
}

/// The solver, whose nets this makes.
Solver make_solver(const SolverParameter& param, const SourceMap& source, Context& context,
                   const SolverOptions& options) {
  try {
    return {param, source, context, options};
  } catch (const NoLossError& error) {
    throw Error(error.what(), "; --allow_no_loss trains it all the same");
  }
}

/// The last line: where the best weights are.
void say_best(const Solver& solver) {
  const auto best = solver.best();
  if (!best) return;
  say(text("best: ", printable(best->output), " ", human_value(best->value),
           best->iteration >= 0 ? text(" at iteration ", best->iteration) : "",
           best->file.empty() ? "" : ", " + printable(best->file)));
}

/// What the run's folder has of tests before the iteration that the run goes on from.
std::vector<RunRecord> tests_before(const Solver& solver) {
  const std::string folder = solver.run_folder();
  std::error_code unknown;
  if (folder.empty() || !std::filesystem::is_directory(folder, unknown)) return {};
  try {
    return read_run(folder).events;
  } catch (const Error&) {
    return {};  // the line says less
  }
}

int train(const Processes& processes, const std::vector<std::string>& given_arguments) {
  std::vector<std::string> arguments = given_arguments;
  if (FLAGS_solver.empty() && arguments.size() == 1 && !called_as_caffe()) {
    FLAGS_solver = arguments[0];
    arguments.clear();
  }
  refuse_arguments("train", arguments, "give the solver with --solver=FILE");
  exclusive_flags("snapshot", !FLAGS_snapshot.empty(), "weights", !FLAGS_weights.empty());
  exclusive_flags("snapshot", !FLAGS_snapshot.empty(), "resume", FLAGS_resume);
  exclusive_flags("quiet", FLAGS_quiet, "verbose", FLAGS_verbose);
  if (FLAGS_quiet && processes.is_first()) set_loudness(Loudness::quiet);
  if (FLAGS_verbose && processes.is_first()) set_loudness(Loudness::verbose);
  SolverParameter given;
  SourceMap source;
  read_text_proto(required_flag("solver", FLAGS_solver), given, &source);
  SolverOptions options = solver_options();
  options.set = repeated_flag(FLAGS_set);
  options.freeze = repeated_flag(FLAGS_freeze);
  options.needs_loss = !FLAGS_allow_no_loss && !called_as_caffe();
  SolverParameter param = given;  // with what --set gives; the solver sets it anew, and says so
  SourceMap places = source;
  Overrides(options.set).apply(param, places);
  if (!param.has_max_iter() && !param.has_max_epochs())
    throw Error(FLAGS_solver, ": the solver has no max_iter; add it, or max_epochs");
  check_signal_effects(FLAGS_sigint_effect, FLAGS_sighup_effect);
  RunRecording recording;
  options.keep_scores = recording.wanted();

  const bool wants_gpu = param.has_solver_mode() && param.solver_mode() == SolverParameter::GPU;
  ContextOptions how = context_options(wants_gpu, param.device_id());
  processes.share_machine(how);
  Context context(std::move(how));
  options.processes = processes.communicator();
  if (!FLAGS_weights.empty()) options.weights = split_list(FLAGS_weights);
  const bool is_continued = continues(param, source);
  OtherRun other;
  // --resume goes on with the snapshots that have the prefix.
  if (processes.is_first() && (!is_continued || !FLAGS_resume))
    other.look_for(param, source, FLAGS_snapshot,
                   FLAGS_sigint_effect == "snapshot" || FLAGS_sighup_effect == "snapshot");
  if (is_continued) options.weights.emplace();  // a snapshot has its own
  options.strict_weights = FLAGS_strict;
  if (!options.freeze.empty() && !is_continued && FLAGS_weights.empty() &&
      param.weights_size() == 0) {
    say(Severity::warning,
        "--freeze without --weights: the frozen layers keep the values of their fillers");
  }
  log_planning("nets");
  Solver solver = make_solver(given, source, context, options);
  warn_of_inputs(solver.net());
  for (size_t n = 0; n < solver.test_nets().size(); ++n)
    warn_of_repeats(*solver.test_nets()[n], param.test_iter(static_cast<int>(n)), "test_iter");
  // Until here the signals end the program.
  const SignalActions signals(FLAGS_sigint_effect, FLAGS_sighup_effect);

  TrainProgress progress(solver, param);
  solver.poll = [&] { return other.allowed(signals.take()); };
  other.replace_with(solver);
  if (is_continued) continue_run(solver);
  recording.start(solver, context, param, places, is_continued);
  if (is_continued) progress.go_on(tests_before(solver));
  say_what_trains(solver, param);
  bool finished = false;
  try {
    finished = solver.solve();
  } catch (const std::exception& error) {
    progress.end_line();
    recording.end(RunRecord::FAILED, error.what());
    throw;
  } catch (...) {
    progress.end_line();
    throw;
  }
  progress.finish();
  const bool is_cut = solver.end() == SolverEnd::early || solver.end() == SolverEnd::time_over;
  say(finished && !is_cut ? "Optimization Done." : "Optimization stopped early.");
  if (solver.end() == SolverEnd::stopped && Solver::has_snapshot(param, places))
    say("The same command with --resume goes on from here.");
  say_best(solver);
  recording.end(reason_of(solver.end()));
  const int signal = finished ? 0 : signals.stopped_by();
  return signal == 0 ? 0 : 128 + signal;  // as shells do
}

int train_in_processes(const std::vector<std::string>& arguments) {
  return in_processes([&](const Processes& processes) { return train(processes, arguments); });
}

}  // namespace

extern const Command kTrain = {
    "train",
    "trains a net, or continues training",
    "  crema train --solver solver.prototxt [--weights net.caffemodel | --snapshot "
    "run.solverstate]\n"
    "  crema train --solver solver.prototxt --resume [--weights net.caffemodel]\n"
    "  crema train --solver solver.prototxt --set base_lr=0.01 --set net.data.batch_size=32\n"
    "  crema train --solver solver.prototxt --weights net.caffemodel --freeze conv5\n"
    "\n"
    "--resume continues from the newest whole snapshot of the solver, and names damaged ones. If\n"
    "there is none, the run starts from scratch, or from --weights.\n"
    "\n"
    "Paths inside prototxt files are relative to the working directory. On a terminal one line\n"
    "shows the progress, and one each test; otherwise lines are logged as published tools do, so\n"
    "that log parsers read them. The files in --log_dir have these lines in any case. --quiet\n"
    "shows warnings and errors alone, --verbose more. NO_COLOR in the environment turns off\n"
    "colours.\n"
    "\n"
    "--set gives values in place of those in the files, by the names of fields and layers:\n"
    "base_lr=0.01, net.data.batch_size=32, net.conv1.convolution_param.num_output=32. net. is for\n"
    "the layers of that name in all nets, train_net. and test_net. for those of training or "
    "tests.\n"
    "Snapshots name these values (crema inspect).\n"
    "\n"
    "The run has a folder, runs/NET-N below the working directory, or --run_dir: curves, log,\n"
    "settings and nets as they are, events for TensorBoard, and links to its best and its last\n"
    "snapshot. A run that continues goes on in its folder. --run_dir=none, or called as caffe: "
    "none.\n"
    "\n"
    "mpirun -np 4 crema train ... trains in four processes, on one machine or on several: each\n"
    "takes its part of the data, and all of them have the same weights (tools/parallel.md). The\n"
    "first one logs, and writes all files.\n"
    "\n"
    "A run does not write over the snapshots of another one: it is an error without --overwrite,\n"
    "which removes the states of the other run, its best and its last once the run has a snapshot\n"
    "of its own.\n"
    "\n"
    "SIGINT (Ctrl-C) and SIGTERM stop the run after a snapshot, where the solver takes any, and a\n"
    "second one ends it at once; SIGHUP takes a snapshot. --sigint_effect and --sighup_effect\n"
    "change this. When the reader of the messages ends, as tee does at Ctrl-C (SIGPIPE), the run\n"
    "stops after a snapshot, too. The exit status of a run that a signal stopped is 128 and the\n"
    "number of the signal: 130 after Ctrl-C.",
    {"solver",  "snapshot",      "resume",        "weights",     "strict",         "gpu",
     "threads", "engine",        "tune",          "tuning_file", "seed",           "plugin",
     "fuse",    "memory_budget", "level",         "stage",       "sigint_effect",  "sighup_effect",
     "set",     "freeze",        "allow_no_loss", "overwrite",   "no_cuda_graphs", "device_jpeg",
     "quiet",   "verbose",       "run_dir",       "rank_timeout"},
    train_in_processes,
    1,
    NetUse::runs};

}  // namespace crema::tools
