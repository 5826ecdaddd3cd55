// Flags that several commands share, and what they ask for. A flag of one command is defined in
// that command's file.
#pragma once

#include <gflags/gflags.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crema/context.hpp"
#include "crema/net.hpp"
#include "crema/solver.hpp"

DECLARE_string(model);
DECLARE_int32(iterations);
DECLARE_string(weights);
DECLARE_bool(allow_missing);
DECLARE_bool(strict);
DECLARE_bool(overwrite);
DECLARE_bool(tune);
DECLARE_bool(json);
DECLARE_string(simd);
DECLARE_string(labels);

namespace crema::tools {

/// Loads what --plugin names.
void load_plugins();

/// The context that --gpu, --threads, --engine, --tune and --seed ask for. `solver_wants_gpu`: the
/// solver says solver_mode: GPU without naming a device on the command line; where there is none,
/// the CPU is taken and a warning logged.
ContextOptions context_options(bool solver_wants_gpu = false, int solver_device = 0);

/// The path of the tuning file; "" if it cannot be used, which is an Error if the flag is set. Only
/// the folder of the default file is made.
std::string tuning_file_flag();

/// While there is one, contexts of context_options() log warnings and errors alone: for nets that
/// the user has not asked for.
class WarningsOnly {
 public:
  WarningsOnly();
  ~WarningsOnly();
  WarningsOnly(const WarningsOnly&) = delete;
  WarningsOnly& operator=(const WarningsOnly&) = delete;
};

/// The device that --gpu names: none for 'all' or no flag. Error for what is no index.
std::optional<int> gpu_index();

/// --seed; none where it is left at -1. Error below that.
std::optional<uint64_t> seed_flag();

/// --threads; 0 for all cores. Error where it is negative, or more than a context can use.
int threads_flag();

/// Phase, level, stages and fusion as the flags say; --phase defaults to `phase`.
NetOptions net_options(Phase phase);
/// Logs that nets are made. It may take a minute, if engines are timed for the first time.
void log_planning(const char* nets);

/// Level, stages, fusion and seed as the flags say.
SolverOptions solver_options();

/// Whether the command line gives the flag.
bool is_given(const char* flag);

/// Value of a flag that the command cannot do without; Error that shows how to give it, as
/// --NAME=FILE or, with a name of one letter, -o FILE.
const std::string& required_flag(const char* name, const std::string& value,
                                 const char* what = "FILE");

/// The files that say which weights a net has: those of --weights, and behind them the model, if it
/// is one of ONNX, which has weights of its own.
std::vector<std::string> files_of_weights(const std::string& model, const std::string& weights);

/// Error if the net has parameters that no file gives: --weights is missing, and the model is none
/// of ONNX.
void require_weights(const Net& net, const std::string& model, const std::string& weights);

/// The entries of a flag that may be given several times.
std::vector<std::string> repeated_flag(const std::string& value);

/// (width, height) of a flag's WIDTHxHEIGHT.
std::pair<int, int> parse_size(const char* flag, const std::string& value);

/// Error when both of two flags are given that contradict each other.
void exclusive_flags(const char* first, bool has_first, const char* second, bool has_second);

}  // namespace crema::tools
