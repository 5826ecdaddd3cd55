// crema find-lr: a range test of the learning rate.
#include <cstdio>

#include "core/utf8.hpp"
#include "model/whole_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"
#include "tools/rate_plot.hpp"
#include "tools/terminal.hpp"
#include "tools/trial_solver.hpp"

DECLARE_string(o);
DECLARE_string(solver);
DEFINE_double(from_rate, 1e-7, "The first learning rate to try.");
DEFINE_double(to_rate, 10, "The last learning rate to try.");
DEFINE_int32(steps, 100, "Number of rates, one an iteration.");
DEFINE_double(smoothing, 0.8,
              "The part of the mean of the losses before in each smoothed loss, in [0, 1).");
DEFINE_double(stop, 4, "Stop where the smoothed loss is so many times the least one.");

namespace crema::tools {
namespace {

/// What to give the solver, as people write it.
std::string rounded(double rate) {
  char said[32];
  std::snprintf(said, sizeof said, "%.2g", rate);
  return said;
}

void print(const RateCurve& curve) {
  for (const std::string& line : rate_plot(curve, terminal_columns(), takes_utf8()))
    std::printf("%s\n", line.c_str());
  std::printf("%zu steps%s\n", curve.steps.size(),
              curve.diverged ? ", up to where the loss left" : "");
  if (!curve.steepest) {
    std::printf(
        "the loss does not fall at any of these rates: begin lower with --from_rate, or check "
        "the data and the net\n");
    return;
  }
  std::printf("the loss falls fastest at %s; a tenth of the rate of the least loss is %s\n",
              rounded(*curve.steepest).c_str(), rounded(*curve.tenth_of_least).c_str());
  std::printf("try it: crema train --solver %s --set base_lr=%s\n", printable(FLAGS_solver).c_str(),
              rounded(*curve.steepest).c_str());
}

int find_lr(const std::vector<std::string>& arguments) {
  refuse_arguments("find-lr", arguments, "give the solver with --solver=FILE");
  if (!FLAGS_o.empty()) {
    check_replaced(FLAGS_o, {FLAGS_solver});
    check_output_file(FLAGS_o, "the curve");
  }
  const TrialSolver trial = make_trial_solver();
  const RateCurve curve = trial.solver->try_rates({.from = FLAGS_from_rate,
                                                   .to = FLAGS_to_rate,
                                                   .steps = FLAGS_steps,
                                                   .smoothing = FLAGS_smoothing,
                                                   .stop = FLAGS_stop});
  if (!FLAGS_o.empty()) {
    WholeFile file(FLAGS_o);
    file.append(rate_svg(curve, "Rates of " + trial.solver->net().name()));
    file.finish();
  }
  if (FLAGS_json) {
    std::printf("%s\n", rate_json(curve).c_str());
  } else {
    print(curve);
  }
  return 0;
}

}  // namespace

extern const Command kFindLr = {
    "find-lr",
    "finds a learning rate, by a short training with rising ones",
    "  crema find-lr --solver solver.prototxt [--weights net.caffemodel] [-o curve.svg]\n"
    "  crema find-lr --solver solver.prototxt --from_rate 1e-6 --to_rate 1 --steps 200 --json\n"
    "\n"
    "Trains one iteration at each rate, from 1e-7 to 10 by the same factor each time, up to where\n"
    "the smoothed loss is four times the least one, and prints the curve. Two rates are proposed:\n"
    "where the loss falls fastest, and a tenth of the one where it is least. The training is of\n"
    "--solver, with its rule, its data and its batch, from its start, from --weights or from\n"
    "--snapshot. No file changes but that of -o. With --json the result is one line: steepest,\n"
    "tenth_of_least, diverged, and the steps with rate, loss and smoothed.",
    {"solver",      "weights",        "snapshot",   "from_rate", "to_rate",       "steps",
     "smoothing",   "stop",           "o",          "overwrite", "json",          "set",
     "freeze",      "strict",         "gpu",        "threads",   "engine",        "tune",
     "tuning_file", "seed",           "plugin",     "fuse",      "memory_budget", "level",
     "stage",       "no_cuda_graphs", "device_jpeg"},
    find_lr,
    1,
    NetUse::runs};

}  // namespace crema::tools
