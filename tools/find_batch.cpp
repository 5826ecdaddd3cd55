// crema find-batch: which sizes of a batch fit into the memory, and which is the fastest.
#include <algorithm>
#include <cstdio>

#include "core/json.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"
#include "tools/trial_solver.hpp"

DEFINE_string(
    memory, "",
    "The most memory that a plan may take, such as 2GB or 1.5GiB. Default: what is free.");
DEFINE_int32(max_batch, 4096, "The largest batch to try.");

namespace crema::tools {
namespace {

constexpr int kTimed = 5;  // iterations of each size

size_t memory_flag() {
  if (FLAGS_memory.empty()) return 0;
  const auto bytes = parse_bytes(FLAGS_memory);
  if (!bytes || *bytes == 0)
    throw Error("--memory=", FLAGS_memory, " is no size; give one such as 2GB or 1.5GiB");
  return *bytes;
}

/// The largest that fits; null without one.
const BatchResult* largest(const std::vector<BatchResult>& results) {
  const BatchResult* found = nullptr;
  for (const BatchResult& result : results) {
    if (result.fits && (found == nullptr || result.batch > found->batch)) found = &result;
  }
  return found;
}

const BatchResult* fastest(const std::vector<BatchResult>& results) {
  const BatchResult* found = nullptr;
  for (const BatchResult& result : results) {
    if (result.fits && (found == nullptr || result.images > found->images)) found = &result;
  }
  return found;
}

std::string row(const BatchResult& result) {
  char said[120];
  if (!result.fits) {
    std::snprintf(said, sizeof said, "%8ld  %10s  does not fit", static_cast<long>(result.batch),
                  human_bytes(static_cast<double>(result.planned)).c_str());
  } else {
    std::snprintf(said, sizeof said, "%8ld  %10s  %12.1f  %10.0f  %9.0f%%",
                  static_cast<long>(result.batch),
                  human_bytes(static_cast<double>(result.planned)).c_str(), 1000 * result.seconds,
                  result.images, 100 * result.data_wait);
  }
  return said;
}

std::string json(const std::vector<BatchResult>& results) {
  std::string all;
  for (const BatchResult& result : results) {
    all +=
        text(all.empty() ? "" : ",", "{\"batch\":", result.batch,
             ",\"planned_bytes\":", result.planned, ",\"fits\":", result.fits ? "true" : "false");
    if (result.fits)
      all += text(",\"seconds\":", json_number(result.seconds),
                  ",\"images_per_second\":", json_number(result.images),
                  ",\"data_wait\":", json_number(result.data_wait));
    all += "}";
  }
  const auto number = [](const BatchResult* result) {
    return result == nullptr ? std::string("null") : text(result->batch);
  };
  return text("{\"largest\":", number(largest(results)), ",\"fastest\":", number(fastest(results)),
              ",\"sizes\":[", all, "]}");
}

int find_batch(const std::vector<std::string>& arguments) {
  refuse_arguments("find-batch", arguments, "give the solver with --solver=FILE");
  const size_t memory = memory_flag();
  if (FLAGS_max_batch < 1) throw Error("--max_batch ", FLAGS_max_batch, " must be at least 1");
  const TrialSolver trial = make_trial_solver();
  ProgressLine line;
  std::vector<BatchResult> results =
      trial.solver->try_batches({.memory = memory, .most = FLAGS_max_batch, .iterations = kTimed},
                                [&](const BatchResult& result) {
                                  if (shows_lines())
                                    line.draw(text("tried ", result.batch, " records in a batch"));
                                });
  line.end();
  std::ranges::sort(results, {}, &BatchResult::batch);
  if (FLAGS_json) {
    std::printf("%s\n", json(results).c_str());
    return 0;
  }
  std::printf("%8s  %10s  %12s  %10s  %10s\n", "batch", "planned", "ms/iteration", "images/s",
              "data wait");
  for (const BatchResult& result : results) std::printf("%s\n", row(result).c_str());
  const BatchResult* const most = largest(results);
  if (most == nullptr) {
    std::printf("not even a batch of one record fits\n");
    return 1;
  }
  std::printf("the largest that fits: %ld%s; the fastest: %ld\n", static_cast<long>(most->batch),
              most->batch == FLAGS_max_batch ? " (--max_batch)" : "",
              static_cast<long>(fastest(results)->batch));
  return 0;
}

}  // namespace

extern const Command kFindBatch = {
    "find-batch",
    "finds the batch sizes that fit into the memory, and the fastest one",
    "  crema find-batch --solver solver.prototxt [--memory 8GB] [--max_batch 512] [--json]\n"
    "\n"
    "Plans the training net of --solver with batches of 1, 2, 4, ... records, times those whose\n"
    "plan fits, and looks for the largest one between the last that fits and the first that does\n"
    "not, to an eighth of its size. The memory is that of --memory, or what is free; the plan has\n"
    "the net and the arrays of the update rule, without the batches that are loaded ahead. All\n"
    "data layers get the same size. Nothing is written. images/s counts iter_size batches as one\n"
    "iteration.",
    {"solver", "memory", "max_batch", "json",    "weights", "snapshot",       "set",
     "freeze", "strict", "gpu",       "threads", "engine",  "tune",           "tuning_file",
     "seed",   "plugin", "fuse",      "level",   "stage",   "no_cuda_graphs", "device_jpeg"},
    find_batch,
    1,
    NetUse::runs};

}  // namespace crema::tools
