// Spans of time: which thread of the process did what, from when to when, for traces.
//
// There is one recorder in a process: what a run consists of happens in threads that know nothing
// of each other, such as those that load data. As long as nothing is recorded, a Span costs one
// load and one test. While it records, each thread writes to a buffer of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace crema {

enum class SpanKind : uint8_t {
  build,  // of a net, and its parts
  iteration,
  pass,       // forward or backward of a net
  forward,    // of one step
  backward,   // of one step
  recompute,  // forward of a step in the backward pass, for values that were dropped
  sum,        // of the diffs of a value with several readers
  seed,       // the diff that a loss begins with, or zeros
  update,     // of the parameters
  wait,       // for another thread
  batch,      // loading one
  read,       // a record
  decode,     // its pixels
  transform,  // of its pixels
};
const char* to_string(SpanKind kind);

struct SpanText {
  std::string name;
  std::string type = {};  // of a layer
};

/// As profilers show it: of a step with the kind behind it, "conv1 forward".
std::string shown_name(SpanKind kind, const SpanText& text);

/// Times are nanoseconds of std::chrono::steady_clock.
struct SpanRecord {
  SpanKind kind = SpanKind::iteration;
  SpanText text = {};
  int64_t begin = 0, end = 0;
};

/// A value that changes, such as memory.
struct CounterRecord {
  std::string name;
  int64_t at = 0;
  double value = 0;
};

struct ThreadSpans {
  std::string thread;             // its name
  std::vector<SpanRecord> spans;  // in the order of their ends: those inside of one before it
  std::vector<CounterRecord> counters;
};

/// Told of the spans of the thread that records, while they begin and end.
class SpanListener {
 public:
  virtual ~SpanListener() = default;
  virtual void begin(SpanKind kind, const SpanText& text) = 0;
  virtual void end(SpanKind kind) = 0;
};

/// Records the spans that begin and end while this lives, in the thread that made it. Error if
/// another recording runs.
class SpanRecording {
 public:
  /// The listener, which may be null, hears of the calling thread.
  explicit SpanRecording(SpanListener* listener = nullptr);
  ~SpanRecording();
  SpanRecording(const SpanRecording&) = delete;
  SpanRecording& operator=(const SpanRecording&) = delete;

  /// Ends the recording. The calling thread comes first, then the others that have spans, by name.
  std::vector<ThreadSpans> finish();

  static bool is_on() { return is_on_.load(std::memory_order_relaxed); }

 private:
  static std::atomic<bool> is_on_;
  bool finished_ = false;
};

/// Nanoseconds of std::chrono::steady_clock.
int64_t span_clock();
/// Names the calling thread in recordings.
void name_thread(const std::string& name);
/// Notes a value now. Nothing where nothing is recorded.
void record_counter(const std::string& name, double value);

/// The time from here to the end of the scope. `describe()` returns a SpanText or the name, and is
/// called only while spans are recorded.
class Span {
 public:
  template <class Describe>
  Span(SpanKind kind, const Describe& describe) {
    if (SpanRecording::is_on()) [[unlikely]]
      begin(kind, {describe()});
  }
  ~Span() {
    if (open_) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  struct Open {
    SpanRecord record;
    uint64_t recording;
  };

  void begin(SpanKind kind, SpanText text);
  void end();

  std::optional<Open> open_;
};

}  // namespace crema
