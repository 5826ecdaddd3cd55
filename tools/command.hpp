// A command of the `crema` program. Each command is a file that defines one `Command` and a line in
// main.cpp's table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/split_list.hpp"
#include "crema/context.hpp"
#include "crema/error.hpp"
#include "crema/net.hpp"

namespace crema::tools {

struct Command {
  std::string name;                  // "train"
  std::vector<std::string> aliases;  // published names: "convert_imageset"
  std::string summary;               // one line
  std::string usage;                 // what `crema help NAME` prints below the summary
  std::vector<std::string> flags;    // gflags that the command takes, beside the common ones
  /// Positional arguments that follow the command. Returns the exit status.
  int (*run)(const std::vector<std::string>& arguments);
};

extern const Command kTrain, kTest, kTime, kSummary, kConvertMnist, kConvertImageset, kDeviceQuery;

/// The context that --gpu, --threads, --engine, --tune and --seed ask for. `solver_wants_gpu`: the
/// solver says solver_mode: GPU without naming a device on the command line; where there is none,
/// the CPU is taken and a warning logged.
ContextOptions context_options(bool solver_wants_gpu = false, int solver_device = 0);

/// The device that --gpu names: none for 'all' or no flag. Error for what is no index.
std::optional<int> gpu_index();

/// --seed; none where it is left at -1. Error below that.
std::optional<uint64_t> seed_flag();

/// Phase, level, stages and fusion as the flags say; --phase defaults to `phase`.
NetOptions net_options(Phase phase);

/// Value of a flag that the command cannot do without; Error that shows how to give it.
const std::string& required_flag(const char* name, const std::string& value);

/// Error when both of two flags are given that contradict each other.
void exclusive_flags(const char* first, bool has_first, const char* second, bool has_second);

/// Whether stderr is a terminal that a progress line can be drawn on.
bool on_terminal();

/// "1.2 GB", "345 MB", "12.0 kB".
std::string human_bytes(double bytes);
/// "1h02m", "3m20s", "12s".
std::string human_seconds(double seconds);

}  // namespace crema::tools
