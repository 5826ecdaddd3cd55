// crema scale: predicts how fast several processes would train a net.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <numeric>

#include "analysis/scale_model.hpp"
#include "core/data_source.hpp"
#include "core/json.hpp"
#include "core/parse_number.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "crema/parameter_arena.hpp"
#include "proto/solver.pb.h"
#include "solver/update_rule.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/text.hpp"

DEFINE_string(ranks, "", "The numbers of processes, separated by commas, such as 8,64,1024.");
DEFINE_string(bandwidth, "10Gb",
              "What the network of a process carries in a second, in each direction: bits as in "
              "25Gb or 800Mb, bytes as in 3GB.");
DEFINE_string(latency, "20us", "How long a message of a few bytes is under way, such as 20us.");

namespace crema::tools {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The number with its unit; Error for another one. `example`: a value that could be given.
double measure_of(const char* flag, const std::string& given,
                  const std::map<std::string, double>& units, const char* example) {
  const size_t end = given.find_last_of("0123456789.") + 1;
  const auto number = parse_number<double>(given.substr(0, end));
  const auto unit = units.find(given.substr(end));
  if (!number || !(*number > 0) || unit == units.end())
    throw Error("--", flag, "=", given, " is none; give one such as ", example);
  return *number * unit->second;
}

std::vector<int64_t> ranks_flag() {
  std::vector<int64_t> ranks;
  for (const std::string& word : split_list(required_flag("ranks", FLAGS_ranks, "N,N,..."))) {
    const auto number = parse_number<int64_t>(word);
    if (!number || *number < 1)
      throw Error("--ranks=", FLAGS_ranks, ": '", word, "' is no number of processes");
    ranks.push_back(*number);
  }
  return ranks;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Runs the net, and the update of SGD with momentum. Two iterations more come first, which take
/// memory and fill caches.
MeasuredIteration measure(Net& net, int iterations) {
  const size_t steps = net.steps().size();
  MeasuredIteration measured;
  std::vector<size_t> order;  // steps of backward
  for (size_t s = steps; s-- > 0;) {
    if (net.steps()[s].backward) order.push_back(s);
  }
  measured.backward.resize(order.size());
  size_t running = 0;
  net.on_gradient([&](size_t segment) {
    measured.backward[running].bytes = measured.backward[running].bytes +
                                       static_cast<double>(net.params().segments()[segment].count) *
                                           static_cast<double>(size_of(net.params().dtype()));
  });
  SolverParameter settings;
  settings.set_base_lr(0);
  settings.set_momentum(0.9F);
  UpdateRule rule(settings, net.context());
  std::vector<Tensor> history = {Tensor(Shape{net.params().size()}, net.params().dtype())};
  std::vector<double> forward, update;
  std::vector<std::vector<double>> backward(order.size());
  for (int i = -2; i < iterations; ++i) {
    net.run_state().iteration = static_cast<uint64_t>(i + 2);
    net.clear_gradients();
    auto start = Clock::now();
    for (size_t s = 0; s < steps; ++s) net.forward_step(s);
    if (i >= 0) forward.push_back(seconds_since(start));
    for (MeasuredIteration::Step& step : measured.backward) step.bytes = 0;
    for (running = 0; running < order.size(); ++running) {
      start = Clock::now();
      net.backward_step(order[running]);
      if (i >= 0) backward[running].push_back(seconds_since(start));
    }
    start = Clock::now();
    net.params().settle_gradients();
    UpdateStep step;
    step.rate = 0;
    rule.update(net.params(), history, step);
    if (i >= 0) update.push_back(seconds_since(start));
  }
  net.on_gradient({});
  measured.forward = median(forward);
  measured.update = median(update);
  for (size_t b = 0; b < order.size(); ++b) measured.backward[b].seconds = median(backward[b]);
  return measured;
}

/// Bytes a second that one thread adds to others.
double sum_rate() {
  std::vector<float> to(size_t{1} << 21, 1), from(to.size(), 1);
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const auto start = Clock::now();
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    best = std::max(best, static_cast<double>(to.size() * sizeof(float)) / seconds_since(start));
  }
  return to[0] > 0 ? best : 0;  // so that the sums are computed
}

int64_t records_of(const Net& net) {
  int64_t records = 0;
  for (const Layer* layer : net.layers()) {
    if (const DataSource* const source = layer->data_source())
      records = std::max(records, source->records_per_batch());
  }
  return records;
}

std::string row(int64_t ranks, const ScaledIteration& scaled, double bucket, int64_t records) {
  char rate[32] = "-", line[160];
  if (records > 0)
    std::snprintf(rate, sizeof rate, "%.0f",
                  static_cast<double>(records) * static_cast<double>(ranks) / scaled.seconds);
  std::snprintf(line, sizeof line, "%8ld %14.2f %14.2f %11.1f%% %12s %10.0f MB",
                static_cast<long>(ranks), 1e3 * scaled.seconds, 1e3 * scaled.exposed,
                100 * scaled.efficiency, rate, bucket / (1 << 20));
  return line;
}

int scale(const std::vector<std::string>& arguments) {
  refuse_arguments("scale", arguments, "give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  const std::vector<int64_t> ranks = ranks_flag();
  NetworkModel network;
  network.bandwidth = measure_of("bandwidth", FLAGS_bandwidth,
                                 {{"Gb", 1e9 / 8}, {"Mb", 1e6 / 8}, {"GB", 1e9}, {"MB", 1e6}},
                                 "25Gb, 800Mb or 3GB");
  network.latency = measure_of("latency", FLAGS_latency,
                               {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}, "20us");
  if (FLAGS_iterations <= 0) throw Error("--iterations ", FLAGS_iterations, " must be at least 1");
  Context context(context_options());
  if (context.on_gpu()) throw Error("several processes train on the CPU alone; leave out --gpu");
  NetOptions options = net_options(Phase::train);
  log_planning("net");
  Net net(FLAGS_model, context, std::move(options));
  if (net.phase() != Phase::train) throw Error("a net of phase TEST does not train");
  const MeasuredIteration one = measure(net, FLAGS_iterations);
  network.sum_rate = sum_rate();
  const int64_t records = records_of(net);
  if (!FLAGS_json) {
    std::printf(
        "%s, one process of %d threads: %.2f ms an iteration (forward %.2f, update %.2f), "
        "%.1f MB of gradients\n\n%8s %14s %14s %12s %12s %13s\n",
        net.name().empty() ? "net" : printable(net.name()).c_str(), context.threads(),
        1e3 * one.seconds(), 1e3 * one.forward, 1e3 * one.update, one.bytes() / 1e6, "ranks",
        "iteration ms", "waiting ms", "efficiency", "records/s", "best bucket");
  }
  std::string results;
  for (const int64_t number : ranks) {
    const double bucket = best_bucket(one, number, network);
    // Buckets of a run are of 25 MB.
    const ScaledIteration scaled = scaled_iteration(one, number, network, 25 << 20);
    if (!FLAGS_json) std::printf("%s\n", row(number, scaled, bucket, records).c_str());
    results += text(results.empty() ? "" : ",", "{\"ranks\":", number,
                    ",\"seconds\":", json_number(scaled.seconds),
                    ",\"waiting\":", json_number(scaled.exposed),
                    ",\"efficiency\":", json_number(scaled.efficiency),
                    ",\"best_bucket\":", json_number(bucket), "}");
  }
  if (FLAGS_json)
    std::printf("{\"net\":%s,\"seconds\":%s,\"gradient_bytes\":%s,\"ranks\":[%s]}\n",
                json_string(net.name()).c_str(), json_number(one.seconds()).c_str(),
                json_number(one.bytes()).c_str(), results.c_str());
  return 0;
}

}  // namespace

extern const Command kScale = {
    "scale",
    "predicts how fast several processes would train a net",
    "  crema scale --model train_val.prototxt --ranks 8,64,1024 --bandwidth 25Gb --latency 20us\n"
    "\n"
    "Times each layer here, as one of the processes with its part of the batch, and prints for\n"
    "each number of processes the time of an iteration, how much of it waits for gradients, the\n"
    "part of the rate that is left, and which size of buckets would be best. The network is what\n"
    "--bandwidth and --latency say, the same between any two processes. tools/parallel.md has the\n"
    "model, and what it does not know.",
    {"model", "ranks", "bandwidth", "latency", "iterations", "threads", "engine", "tune",
     "tuning_file", "seed", "plugin", "fuse", "level", "stage", "json"},
    scale,
    1,
    NetUse::runs};

}  // namespace crema::tools
