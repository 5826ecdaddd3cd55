#include "analysis/profile.hpp"

#include <unistd.h>

#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "analysis/device_times.hpp"
#include "analysis/step_run.hpp"
#include "core/device.hpp"

namespace crema {
namespace {

/// Counts the spans that end.
class Counting : public SpanListener {
 public:
  void begin(SpanKind /*kind*/, const SpanText& /*text*/) override {}
  void end(SpanKind /*kind*/) override { ++spans; }
  size_t spans = 0;
};

/// Whether a device has work of its own in the span, behind which a point lies.
bool has_point(SpanKind kind) {
  switch (kind) {
    case SpanKind::forward:
    case SpanKind::backward:
    case SpanKind::recompute:
    case SpanKind::sum:
    case SpanKind::seed:
    case SpanKind::update:
      return true;
    default:
      return false;
  }
}

/// Puts a point into the device's queue behind each step, and tells its profiler of all spans.
class DeviceRanges : public SpanListener {
 public:
  DeviceRanges(DeviceBackend& backend, size_t points)
      : backend_(backend),
        timer_(backend.make_timer(points)),
        profiler_(backend.make_profiler()),
        points_(points) {}

  /// Returns why the device does not tell of its kernels; "" where it does.
  std::string start() {
    backend_.synchronize();
    std::string missing = profiler_->record_activities();
    profiler_->start();
    timer_->record(next_++);
    return missing;
  }

  void begin(SpanKind kind, const SpanText& text) override {
    profiler_->begin_range(shown_name(kind, text));
    open_.push_back({{kind, text}, next_ - 1, 0});
  }

  void end(SpanKind kind) override {
    // An iteration with more spans than the one that was counted has times up to that number.
    if (has_point(kind) && next_ < points_) timer_->record(next_++);
    profiler_->end_range();
    Range range = std::move(open_.back());
    open_.pop_back();
    range.to = next_ - 1;
    if (kind != SpanKind::wait) done_.push_back(std::move(range));
  }

  void finish(ProfileRun& run) {
    backend_.synchronize();
    profiler_->stop();
    run.activities = profiler_->activities();
    backend_.synchronize();
    for (Range& range : done_) {
      SpanRecord& record = range.record;
      const auto at = [&](size_t point) {
        return run.start + static_cast<int64_t>(1e6 * timer_->milliseconds(0, point));
      };
      record.begin = at(range.from);
      record.end = at(range.to);
      run.on_device.push_back(std::move(record));
    }
  }

 private:
  struct Range {
    SpanRecord record;
    size_t from, to;  // points; `from` is the last one before it
  };

  DeviceBackend& backend_;
  std::unique_ptr<DeviceTimer> timer_;
  std::unique_ptr<DeviceProfiler> profiler_;
  size_t points_, next_ = 0;
  std::vector<Range> open_, done_;
};

/// Iteration i of all, with those that are not recorded.
void run_iteration(Net& net, const Profile& profile, int i) {
  const Span iteration(SpanKind::iteration, [&] { return text("iteration ", i); });
  net.run_state().iteration = static_cast<uint64_t>(i);
  std::optional<Span> pass;
  bool is_backward = false;
  pass.emplace(SpanKind::pass, [] { return "forward"; });
  run_steps(net, profile.with_backward, {.before = [&](size_t, Pass which) {
              if (which != Pass::backward || std::exchange(is_backward, true)) return;
              pass.reset();
              pass.emplace(SpanKind::pass, [] { return "backward"; });
            }});
  pass.reset();
  if (profile.update) {
    const Span update(SpanKind::update, [] { return "update"; });
    profile.update();
  }
  record_memory();
}

}  // namespace

void record_memory() {
  if (!SpanRecording::is_on()) return;
  // Pages: of the whole program, and of those the ones that are resident.
  std::ifstream file("/proc/self/statm");
  double program = 0, resident = 0;
  if (file >> program >> resident)
    record_counter("memory of the process, MB",
                   resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6);
}

ProfileRun profile_net(Net& net, const Profile& profile) {
  int done = 0;
  const auto iterate = [&](int iterations) {
    if (profile.iterate) return profile.iterate(iterations);
    for (int i = 0; i < iterations; ++i) run_iteration(net, profile, done++);
  };
  iterate(kFirstIterations - 1);
  size_t spans = 0;
  {
    Counting counting;
    SpanRecording recording(&counting);
    iterate(1);
    recording.finish();
    spans = counting.spans;
  }
  ProfileRun run;
  run.iterations = profile.iterations;
  std::optional<DeviceRanges> ranges;
  if (net.context().on_gpu()) {
    // One at the start.
    ranges.emplace(net.context().backend(),
                   static_cast<size_t>(profile.iterations) * (spans + spans / 4) + 1);
    run.no_activities = ranges->start();
  }
  run.start = span_clock();
  SpanRecording recording(ranges ? &*ranges : nullptr);
  iterate(profile.iterations);
  run.threads = recording.finish();
  run.threads[0].thread = "net";
  if (ranges) ranges->finish(run);
  return run;
}

}  // namespace crema
