// crema tuning: the file of measured times.
#include <cstdio>
#include <filesystem>
#include <limits>

#include "core/tuning_file.hpp"
#include "core/utf8.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"

namespace crema::tools {
namespace {

/// The fastest measured candidate of a problem; null if there is none.
const std::pair<const std::string, TunedTime>* fastest(const TuningProblem& problem) {
  const std::pair<const std::string, TunedTime>* best = nullptr;
  for (const auto& time : problem.times) {
    if (time.second.state == TimeState::pruned) continue;
    if (best == nullptr || time.second.seconds < best->second.seconds) best = &time;
  }
  return best;
}

/// Error if the file cannot be used by this program on this machine.
void check_header(const std::string& path) {
  const std::string header = tuning_file_header(path), own = tuning_file_header();
  if (header == own) return;
  throw Error("'", path, "' holds times of '", printable(header),
              "', and this machine and program are '", own, "'; times count on equal ones only");
}

std::string file_in_use() {
  const std::string path = tuning_file_flag();
  if (path.empty())
    throw Error(
        "there is no place for a tuning file: neither XDG_CACHE_HOME nor HOME is set, or "
        "the folder cannot be written; name a file with --tuning_file=FILE");
  return path;
}

size_t count_of(const TuningTimes& times) {
  size_t count = 0;
  for (const auto& [name, problem] : times) {
    for (const auto& [candidate, time] : problem.times) count += time.state != TimeState::pruned;
  }
  return count;
}

int list(const std::string& path, const std::string& prefix) {
  if (!std::filesystem::exists(path)) {
    std::printf("%s: nothing was measured yet\n", printable(path).c_str());
    return 0;
  }
  check_header(path);
  const TuningTimes times = read_tuning_file(path);
  size_t problems = 0, open = 0;
  std::printf("ms\truns\twaiting\tstolen\tinterrupted\tstate\tfastest\tof\tproblem\n");
  for (const auto& [name, problem] : times) {
    const auto* const best = fastest(problem);
    if (best == nullptr || !name.starts_with(prefix)) continue;
    const auto& [candidate, time] = *best;
    ++problems;
    open += time.is_open();
    std::printf("%.4f\t%d\t%d\t%.2f\t%.2f\t%s\t%s\t%zu\t%s\n", time.seconds * 1e3, time.runs,
                time.waiting, time.stolen, time.switched,
                std::string(to_string(time.state)).c_str(), printable(candidate).c_str(),
                problem.times.size(), printable(name).c_str());
  }
  std::printf("%zu problems; of %zu the fastest time is measured again in later runs\n", problems,
              open);
  return 0;
}

int clear(const std::string& path) {
  const std::string why = why_no_tuning_file(path);
  if (!why.empty()) throw Error("'", path, "' ", why, "; nothing is removed");
  std::error_code failed;
  const bool removed = std::filesystem::remove(path, failed);
  if (failed) throw Error("'", path, "' cannot be removed: ", failed.message());
  std::printf("%s: %s\n", printable(path).c_str(),
              removed ? "removed" : "nothing was measured yet");
  return 0;
}

int export_to(const std::string& path, const std::string& to) {
  if (!std::filesystem::exists(path))
    throw Error("'", path,
                "' does not exist: nothing was measured yet; `crema time --model=FILE` "
                "measures what a net needs");
  check_header(path);
  if (!FLAGS_overwrite && std::filesystem::exists(to))
    throw Error("'", to, "' exists; name another file, or add --overwrite");
  if (const std::string why = why_no_tuning_file(to); !why.empty())
    throw Error("'", to, "' ", why, "; name another file");
  const TuningTimes times = read_tuning_file(path);
  if (!write_tuning_file(to, times)) throw Error("'", to, "' cannot be written");
  std::printf("%s: %zu times of %zu problems\n", printable(to).c_str(), count_of(times),
              times.size());
  return 0;
}

int import_from(const std::string& path, const std::string& from) {
  if (!std::filesystem::exists(from))
    throw Error("'", from, "' does not exist; make it with `crema tuning export FILE`");
  if (const std::string why = why_no_tuning_file(from); !why.empty())
    throw Error("'", from, "' ", why, "; name a file of `crema tuning export`");
  check_header(from);
  TuningTimes times = read_tuning_file(path);
  size_t taken = 0;
  for (const auto& [name, problem] : read_tuning_file(from)) {
    TuningProblem& known = times[name];
    if (known.workload.multiply_adds <= 0) known.workload = problem.workload;
    for (const auto& [candidate, time] : problem.times) {
      const auto [own, is_new] = known.times.try_emplace(candidate, time);
      // A time of this machine stays, unless the other one was taken at rest and it was not.
      const bool better =
          time.state != TimeState::pruned &&
          (own->second.state == TimeState::pruned || (own->second.is_open() && !time.is_open()));
      if (!is_new && !better) continue;
      own->second = time;
      taken += time.state != TimeState::pruned;
    }
  }
  if (!write_tuning_file(path, times)) throw Error("'", path, "' cannot be written");
  std::printf("%s: %zu times taken, %zu problems now\n", printable(path).c_str(), taken,
              times.size());
  return 0;
}

int tuning(const std::vector<std::string>& arguments) {
  const std::string verb = arguments.empty() ? "" : arguments[0];
  const size_t count = arguments.size();
  if (verb == "list" && count <= 2) return list(file_in_use(), count > 1 ? arguments[1] : "");
  if (verb == "clear" && count == 1) return clear(file_in_use());
  if (verb == "export" && count == 2) return export_to(file_in_use(), arguments[1]);
  if (verb == "import" && count == 2) return import_from(file_in_use(), arguments[1]);
  throw Error("tuning takes list [PROBLEM], clear, export FILE or import FILE");
}

}  // namespace

extern const Command kTuning = {
    "tuning",
    "shows, clears and shares the measured times of engines",
    "  crema tuning list [PROBLEM]\n"
    "  crema tuning clear\n"
    "  crema tuning export times\n"
    "  crema tuning import times\n"
    "\n"
    "The times are those of --tuning_file. list: a line each problem whose name begins with\n"
    "PROBLEM, with the fastest candidate and the load while it was measured: threads that waited\n"
    "for a processor, the share of stolen time and that of interrupted runs. A provisional time\n"
    "was taken under load, a doubted one was much shorter than the net's; both count, and later\n"
    "runs measure them again, for up to 50 ms a run.\n"
    "clear: removes the file. export: writes its times to a file for machines with the same\n"
    "processor and the same build. import: takes the times of such a file that are unknown here,\n"
    "or were taken under load here and at rest there; a file of another processor is refused.",
    {"tuning_file", "simd", "overwrite"},
    tuning};

}  // namespace crema::tools
