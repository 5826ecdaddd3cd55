#include "tools/flags.hpp"

#include <glog/logging.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "core/device.hpp"
#include "core/parse_number.hpp"
#include "core/path_advice.hpp"
#include "core/split_list.hpp"
#include "core/thread_limit.hpp"
#include "core/tuning_file.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "crema/parameter_arena.hpp"
#include "crema/plugin.hpp"
#include "crema/registry.hpp"
#include "onnx/model_file.hpp"
#include "tools/command_line.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

DEFINE_string(model, "",
              "The net: a prototxt, or a model of ONNX (.onnx), which has weights of its own.");
DEFINE_int32(iterations, 50,
             "Batches to run. Of test: Without it, each record of the data once, where they can be "
             "counted. Of profile: Default: 5.");
DEFINE_string(weights, "",
              "Of new: Start from these weights, a .caffemodel or .onnx, or auto, which looks for "
              "some. Of others: Start from these weights (.caffemodel or .onnx; several separated "
              "by commas).");
DEFINE_bool(allow_missing, false,
            "Layers that --weights lacks keep the values of their fillers, in place of an error.");
DEFINE_bool(strict, false, "With --weights: error unless file and net have the same layers.");
DEFINE_string(plugin, "",
              "Plug-ins to load, with layer types for the nets (libmine.so; several "
              "separated by commas, or the flag again).");
DEFINE_bool(
    overwrite, false,
    "Of classify, detect: Replace images in the folder of --save_images. Of others: Replace what "
    "exists: the database, or the files.");
DEFINE_bool(json, false, "JSON on standard output. Of time: The last line is JSON.");
DEFINE_string(
    labels, "",
    "Of classify: A text file with the name of each class, a line each. Of test: The blob "
    "of labels that belongs to --scores.");
DEFINE_string(gpu, "",
              "The device to run on: its index, or 'all' for the only one. Default: the CPU.");
DEFINE_int32(threads, 0, "CPU threads. 0: OMP_NUM_THREADS, or all cores.");
DEFINE_string(engine, "",
              "Force an engine on all layers that have it, such as reference or onednn. Error "
              "where it refuses a layer.");
DEFINE_bool(
    device_jpeg, false,
    "Decode JPEG files on the GPU, by nvJPEG, where it can. Pixels may differ slightly from "
    "those of the host.");
DEFINE_bool(
    tune, true,
    "Measure the engines of each problem once, and use the fastest. Of summary: Measure those "
    "that were not measured yet; without it, nothing is measured.");
DEFINE_string(tuning_file, "",
              "The file of measured times. Default: crema/tuning in $XDG_CACHE_HOME or ~/.cache.");
DEFINE_int64(
    seed, -1,
    "Of train: Seed of all random numbers. Default: the solver's random_seed, or 1701; a continued "
    "run keeps its seed. Of convert-imageset, convert-annotations: Seed of --shuffle. Default: "
    "1701. Of new: Seed of the division into training and tests. Default: 1. Of others: Seed of "
    "all random numbers. Default: 1701.");
DEFINE_bool(
    fuse, true,
    "Fuse layers. Where nothing trains, BatchNorm and Scale are folded into convolutions, which "
    "rounds differently.");
DEFINE_bool(no_cuda_graphs, false,
            "Do not record passes on a GPU to run them as CUDA graphs. Results are the same.");
DEFINE_string(simd, "",
              "The widest vectors to use: baseline, sse4, avx2 or avx512. Default: the widest that "
              "the processor has. Has a default --tuning_file of its own. OpenBLAS chooses by "
              "itself: set OPENBLAS_CORETYPE.");
DEFINE_bool(verbose, false,
            "Say more. Of train: Also the published lines of each display and test, on a terminal "
            "too, and what is logged for debugging. Of test: Log the outputs of each batch, as "
            "--iterations does.");
DEFINE_string(memory_budget, "",
              "The most memory to plan for a net, such as 2GB, 500MB or 1.5GiB: tops are dropped "
              "after forward and computed again in backward until it fits, with the same results. "
              "Of train: It is for the training net and the arrays of the update rule.");
DEFINE_string(
    phase, "",
    "TRAIN or TEST: which layers of the net to use. Of test: Default: TEST. Of draw: Default: "
    "those of both. Of others: Default: TRAIN.");
DEFINE_int32(level, 0,
             "Level of the net, for its include and exclude rules. Of train: It is that of the "
             "training net.");
DEFINE_string(
    stage, "",
    "Stages of the net, separated by commas, for its rules. Of train: They are those of the "
    "training net; test nets have those of test_state.");

namespace crema::tools {
namespace {

std::atomic<int> warnings_only = 0;

/// The usual place of the tuning file.
std::string default_tuning_file() {
  // A file holds the times of one level of vectors.
  const std::string usual = user_tuning_file();
  return usual.empty() || FLAGS_simd.empty() ? usual : text(usual, "-", FLAGS_simd);
}

/// Bytes of --memory_budget; 0 without it.
size_t memory_budget() {
  if (FLAGS_memory_budget.empty()) return 0;
  const auto bytes = parse_bytes(FLAGS_memory_budget);
  if (!bytes || *bytes == 0)
    throw Error("--memory_budget ", FLAGS_memory_budget,
                " is no size of memory; give bytes, or a number with kB, MB, GB, KiB, MiB or GiB, "
                "such as 1.5GB");
  return *bytes;
}

/// What NetOptions and SolverOptions have in common.
template <class Options>
void set_net_rules(Options& options) {
  options.level = FLAGS_level;
  options.stages = split_list(FLAGS_stage);
  options.fuse = FLAGS_fuse;
  options.memory_budget = memory_budget();
  options.graphs = !FLAGS_no_cuda_graphs;
}

/// The one device to compute on.
int device_to_use() {
  if (const auto index = gpu_index()) return *index;
  std::string why;
  const size_t devices = cuda_devices(why).size();
  if (devices > 1)
    throw Error("--gpu all: there are ", devices,
                " devices, and several at once are not supported yet; give one index such as 0");
  return 0;
}

/// Error unless some layer has the engine, before a net is built.
void check_engine(DeviceType device) {
  if (FLAGS_engine.empty()) return;
  try {
    Registry::instance().require_engine(FLAGS_engine, device);
  } catch (const Error& error) {
    throw Error("--engine=", FLAGS_engine, ": ", error.message());
  }
}

}  // namespace

std::string tuning_file_flag() {
  const std::string path = FLAGS_tuning_file.empty() ? default_tuning_file() : FLAGS_tuning_file;
  if (path.empty()) return "";
  const std::string why = why_no_tuning_file(path);
  if (FLAGS_tuning_file.empty()) {
    if (!why.empty() && FLAGS_tune) {
      say(Severity::warning, text("measured times are not kept: the tuning file ", printable(path),
                                  " ", why, "; name another one with --tuning_file=FILE"));
    }
    return why.empty() ? path : "";
  }
  if (!why.empty())
    throw Error("--tuning_file=", path, " ", why, "; name another file, or a new one");
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code unknown;
  if (!folder.empty() && !std::filesystem::is_directory(folder, unknown))
    throw Error("--tuning_file=", path, ": there is no folder '", folder.string(), "'",
                path_advice(path, "make it, or name another file"));
  return path;
}

void load_plugins() {
  for (const std::string& path : split_list(FLAGS_plugin)) {
    const Plugin plugin = load_plugin(path);
    say(text("Plug-in ", printable(plugin.name), " brings ", joined(plugin.types)));
  }
}

std::optional<int> gpu_index() {
  if (FLAGS_gpu.empty() || FLAGS_gpu == "all") return std::nullopt;
  const auto index = parse_number<int>(FLAGS_gpu);
  if (!index || *index < 0)
    throw Error("--gpu ", FLAGS_gpu,
                ": give one device index such as 0; several devices are not supported yet");
  return index;
}

std::optional<uint64_t> seed_flag() {
  if (FLAGS_seed < -1) throw Error("--seed ", FLAGS_seed, " is negative; give a number from 0 on");
  if (FLAGS_seed < 0) return std::nullopt;
  return static_cast<uint64_t>(FLAGS_seed);
}

WarningsOnly::WarningsOnly() { ++warnings_only; }
WarningsOnly::~WarningsOnly() { --warnings_only; }

ContextOptions context_options(bool solver_wants_gpu, int solver_device) {
  ContextOptions options;
  options.threads = threads_flag();
  if (const int cores = thread_limit().threads(); FLAGS_threads > cores) {
    say(Severity::warning,
        text("--threads=", FLAGS_threads, ": this process may use ", cores,
             cores == 1 ? " core" : " cores", "; more threads than cores make it slower"));
  }
  options.engine = FLAGS_engine;
  options.tune = FLAGS_tune;
  options.device_jpeg = FLAGS_device_jpeg;
  options.tuning_file = tuning_file_flag();
  options.seed = seed_flag().value_or(options.seed);
  // The library does not say where in it a message was written.
  options.logger = [](Severity severity, const std::string& message) {
    if (severity < Severity::warning && warnings_only > 0) return;
    say(severity, message, {"libcrema", 0});
  };
  if (!FLAGS_gpu.empty()) {
    options.device = {DeviceType::cuda, device_to_use()};
  } else if (solver_wants_gpu) {
    std::string why;
    if (cuda_devices(why).empty()) {
      say(Severity::warning,
          text("the solver asks for solver_mode: GPU, but ", why, "; training on the CPU"));
    } else {
      options.device = {DeviceType::cuda, solver_device};
    }
  }
  check_engine(options.device.type);
  return options;
}

int threads_flag() {
  if (FLAGS_threads < 0 || FLAGS_threads > kMaxThreads)
    throw Error("--threads=", FLAGS_threads, " is no number of threads; use 1 to ", kMaxThreads,
                ", or 0 for all cores");
  return FLAGS_threads;
}

void log_planning(const char* nets) {
  say(text("Making the ", nets,
           FLAGS_tune ? "; engines are timed for what this machine has not run yet" : ""));
}

NetOptions net_options(Phase phase) {
  NetOptions options;
  options.phase = phase;
  if (FLAGS_phase == "TRAIN") {
    options.phase = Phase::train;
  } else if (FLAGS_phase == "TEST") {
    options.phase = Phase::test;
  } else if (!FLAGS_phase.empty()) {
    throw Error("--phase ", FLAGS_phase, " is neither TRAIN nor TEST");
  }
  set_net_rules(options);
  return options;
}

SolverOptions solver_options() {
  SolverOptions options;
  set_net_rules(options);
  options.seed = seed_flag();
  return options;
}

const std::string& required_flag(const char* name, const std::string& value, const char* what) {
  if (!value.empty()) return value;
  const std::string flag = spelled_flag(name);
  throw Error(flag, " is missing; give it as ", flag, flag.size() == 2 ? " " : "=", what);
}

std::vector<std::string> files_of_weights(const std::string& model, const std::string& weights) {
  std::vector<std::string> files = split_list(weights);
  if (onnx::is_onnx_name(model)) files.push_back(model);
  return files;
}

void require_weights(const Net& net, const std::string& model, const std::string& weights) {
  if (!net.params().segments().empty() && files_of_weights(model, weights).empty())
    required_flag("weights", weights);
}

std::vector<std::string> repeated_flag(const std::string& flag) {
  std::vector<std::string> found;
  for (size_t begin = 0; begin < flag.size();) {
    const size_t end = std::min(flag.find('\n', begin), flag.size());
    found.push_back(flag.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

std::pair<int, int> parse_size(const char* flag, const std::string& value) {
  const size_t cross = std::min(value.find('x'), value.size());
  const std::string_view text = value;
  const auto width = parse_number<int>(text.substr(0, cross));
  const auto height = parse_number<int>(text.substr(std::min(cross + 1, text.size())));
  if (!width || !height || *width <= 0 || *height <= 0)
    throw Error("--", flag, " ", value, " is not of the form 256x256");
  return {*width, *height};
}

bool is_given(const char* flag) { return !gflags::GetCommandLineFlagInfoOrDie(flag).is_default; }

void exclusive_flags(const char* first, bool has_first, const char* second, bool has_second) {
  if (has_first && has_second)
    throw Error("--", first, " and --", second, " exclude each other; give one of them");
}

}  // namespace crema::tools
