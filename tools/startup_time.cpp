#include "tools/startup_time.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/json.hpp"
#include "core/spans.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "model/source_map.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/net.pb.h"
#include "tools/child_process.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"

namespace crema::tools {
namespace {

/// In the environment of a program that is timed: when it was started, in ns of span_clock().
constexpr char kStarted[] = "CREMA_STARTED";
constexpr char kMark[] = "startup:";

struct Part {
  const char *name, *what;
};
// In the order of the values of a start.
constexpr std::array<Part, 8> kParts = {{
    {"program", "from the start of the process to this command"},
    {"read", "settings, measured times, and the prototxt"},
    {"build", "layers and their connections"},
    {"weights", "reading them, or filling them in"},
    {"plan", "choosing kernels, and places in memory"},
    {"first", "the first pass, which packs weights"},
    {"all", "from the start to the first result"},
    {"second", "the second pass"},
}};
constexpr size_t kAll = 6;
using Times = std::array<double, kParts.size()>;

struct Start {
  Times ms{};
  double peak_mb = 0;
};

double ms_between(int64_t begin, int64_t end) { return static_cast<double>(end - begin) / 1e6; }

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

/// Milliseconds of the spans of a net's construction with that name.
double ms_of(const std::vector<ThreadSpans>& threads, const std::string& name) {
  int64_t sum = 0;
  for (const SpanRecord& span : threads.front().spans) {
    if (span.kind == SpanKind::build && span.text.name == name) sum += span.end - span.begin;
  }
  return static_cast<double>(sum) / 1e6;
}

/// Runs the net in this process, which was started at `started`.
Start run_here(int64_t started) {
  Start start;
  const int64_t begin = span_clock();
  NetOptions options = net_options(Phase::test);
  options.weights = split_list(FLAGS_weights);
  options.strict = FLAGS_strict;
  Context context(context_options());
  NetParameter param;
  SourceMap source;
  read_net(FLAGS_model, param, &source);
  const int64_t read = span_clock();
  SpanRecording recording;
  Net net(param, source, context, std::move(options));
  const std::vector<ThreadSpans> spans = recording.finish();
  const int64_t built = span_clock();
  net.forward();
  const int64_t first = span_clock();
  net.forward();
  const int64_t second = span_clock();
  const double weights = ms_of(spans, "weights"), plan = ms_of(spans, "plan");
  start.ms = {ms_between(started, begin),
              ms_between(begin, read),
              ms_between(read, built) - weights - plan,
              weights,
              plan,
              ms_between(built, first),
              ms_between(started, first),
              ms_between(first, second)};
  start.peak_mb = peak_mb();
  return start;
}

/// The words that this process was started with.
std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\0', begin), all.size());
    words.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.empty()) throw Error("--startup: the system does not say how this program was started");
  words[0] = "/proc/self/exe";
  return words;
}

Start run_anew(const std::vector<std::string>& words) {
  setenv(kStarted, std::to_string(span_clock()).c_str(), 1);
  const ChildResult child = run_child(words);
  unsetenv(kStarted);
  const size_t at = child.said.rfind(kMark);
  if (!child.succeeded() || at == std::string::npos)
    throw Error("--startup: the program that is timed fails: ", last_line(child.said));
  Start start;
  const char* next = child.said.data() + at + sizeof kMark - 1;
  const char* const end = child.said.data() + child.said.size();
  const auto read = [&](double& value) {
    while (next < end && *next == ' ') ++next;
    next = std::from_chars(next, end, value).ptr;
  };
  for (double& ms : start.ms) read(ms);
  read(start.peak_mb);
  return start;
}

template <class Value>
double median_of(const std::vector<Start>& starts, const Value& value) {
  std::vector<double> values;
  for (const Start& start : starts) values.push_back(value(start));
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

void time_startup(int starts, bool json) {
  if (const char* const started = std::getenv(kStarted); started != nullptr) {
    const Start start = run_here(std::atoll(started));
    std::printf("%s", kMark);
    for (const double ms : start.ms) std::printf(" %.4f", ms);
    std::printf(" %.1f\n", start.peak_mb);
    return;
  }
  const std::vector<std::string> words = own_words();
  run_anew(words);
  std::vector<Start> all;
  for (int i = 0; i < starts; ++i) all.push_back(run_anew(words));
  Times medians{};
  for (size_t part = 0; part < kParts.size(); ++part) {
    const auto value = [part](const Start& start) { return start.ms[part]; };
    medians[part] = median_of(all, value);
    const auto [least, most] = std::ranges::minmax(all, {}, value);
    if (part == kAll) std::printf("\n");
    std::printf("%-8s %9.2f ms  (%.2f to %.2f)  %s\n", kParts[part].name, medians[part],
                least.ms[part], most.ms[part], kParts[part].what);
  }
  const double peak = median_of(all, [](const Start& start) { return start.peak_mb; });
  std::printf("medians of %d starts; peak memory %.0f MB\n", starts, peak);
  if (!json) return;
  std::printf("{\"net\": %s", json_string(FLAGS_model).c_str());
  for (size_t part = 0; part < kParts.size(); ++part)
    std::printf(", \"%s_ms\": %.4f", kParts[part].name, medians[part]);
  std::printf(", \"peak_rss_mb\": %.1f, \"starts\": %d}\n", peak, starts);
}

}  // namespace crema::tools
