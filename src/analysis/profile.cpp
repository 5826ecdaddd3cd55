#include "analysis/profile.hpp"

#include <chrono>
#include <memory>
#include <sstream>
#include <utility>

#include "analysis/device_times.hpp"
#include "analysis/step_run.hpp"
#include "core/device.hpp"
#include "core/device_timer.hpp"
#include "core/json.hpp"

namespace crema {
namespace {

using Clock = std::chrono::steady_clock;

/// Ranges of a run: times of the host, and on a device points in its stream and the ranges of its
/// profiler.
class Ranges {
 public:
  /// `points`: those of all iterations.
  Ranges(const Context& context, size_t points) {
    if (!context.on_gpu()) return;
    backend_ = &context.backend();
    timer_ = backend_->make_timer(points);
    profiler_ = backend_->make_profiler();
  }

  void start() {
    if (backend_ != nullptr) {
      backend_->synchronize();
      profiler_->start();
    }
    start_ = Clock::now();
    point();
  }

  void begin(const std::string& name) {
    if (profiler_) profiler_->begin_range(name);
    open_.push_back({Clock::now(), next_ - 1});
  }

  /// Ends the range that was begun last. `timed_on_device`: the device has times of it too.
  void end(const std::string& name, const std::string& kind, bool timed_on_device) {
    const Open open = open_.back();
    open_.pop_back();
    if (profiler_) profiler_->end_range();
    const auto since = [&](Clock::time_point to, Clock::time_point from) {
      return std::chrono::duration<double, std::micro>(to - from).count();
    };
    events_.push_back(
        {name, kind, false, since(open.begin, start_), since(Clock::now(), open.begin)});
    if (timer_ && timed_on_device) on_device_.push_back({name, kind, open.point, next_ - 1});
  }

  /// A point in the device's stream, which the ranges around it share.
  void point() {
    if (timer_) timer_->record(next_++);
  }

  std::vector<TraceEvent> finish() {
    if (backend_ == nullptr) return std::move(events_);
    backend_->synchronize();
    profiler_->stop();
    backend_->synchronize();
    for (const OnDevice& range : on_device_) {
      events_.push_back({range.name, range.kind, true, 1e3 * timer_->milliseconds(0, range.from),
                         1e3 * timer_->milliseconds(range.from, range.to)});
    }
    return std::move(events_);
  }

 private:
  struct Open {
    Clock::time_point begin;
    size_t point;  // the last one before it
  };
  struct OnDevice {
    std::string name, kind;
    size_t from, to;
  };

  DeviceBackend* backend_ = nullptr;
  std::unique_ptr<DeviceTimer> timer_;
  std::unique_ptr<DeviceProfiler> profiler_;
  Clock::time_point start_;
  size_t next_ = 0;
  std::vector<Open> open_;
  std::vector<TraceEvent> events_;
  std::vector<OnDevice> on_device_;
};

void run_iteration(Net& net, const Profile& profile, const std::string& name, Ranges& ranges) {
  const auto pass_name = [](Pass pass) { return pass == Pass::forward ? "forward" : "backward"; };
  const auto& steps = net.steps();
  ranges.begin(name);
  bool has_begun_backward = false;
  ranges.begin("forward");
  run_steps(net, profile.with_backward,
            {.before =
                 [&](size_t step, Pass pass) {
                   if (pass == Pass::backward && !has_begun_backward) {
                     has_begun_backward = true;
                     ranges.end("forward", "pass", true);
                     ranges.begin("backward");
                   }
                   ranges.begin(text(steps[step].name, " ", pass_name(pass)));
                 },
             .behind =
                 [&](size_t step, Pass pass) {
                   ranges.point();
                   ranges.end(text(steps[step].name, " ", pass_name(pass)), steps[step].type, true);
                 }});
  ranges.end(has_begun_backward ? "backward" : "forward", "pass", true);
  if (profile.update) {
    ranges.begin("update");
    profile.update();
    ranges.point();
    ranges.end("update", "update", true);
  }
  ranges.end(name, "iteration", true);
}

}  // namespace

std::vector<TraceEvent> profile_net(Net& net, const Profile& profile) {
  for (int i = 0; i < kFirstIterations; ++i) {
    net.run_state().iteration = static_cast<uint64_t>(i);
    run_steps(net, profile.with_backward, {});
    if (profile.update) profile.update();
  }
  const size_t each = 2 * net.steps().size() + 1;
  Ranges ranges(net.context(), static_cast<size_t>(profile.iterations) * each + 1);
  ranges.start();
  for (int i = 0; i < profile.iterations; ++i) {
    net.run_state().iteration = static_cast<uint64_t>(kFirstIterations + i);
    run_iteration(net, profile, text("iteration ", i), ranges);
  }
  return ranges.finish();
}

std::string trace_json(const std::vector<TraceEvent>& events) {
  std::ostringstream out;
  out << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  const auto name_track = [&](int track, const char* name) {
    out << R"({"ph": "M", "pid": 1, "tid": )" << track
        << R"(, "name": "thread_name", "args": {"name": ")" << name << "\"}}";
  };
  name_track(1, "host");
  out << ",\n";
  name_track(2, "device");
  for (const TraceEvent& event : events) {
    out << ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": " << (event.on_device ? 2 : 1)
        << ", \"name\": " << json_string(event.name) << ", \"cat\": " << json_string(event.kind)
        << ", \"ts\": " << json_number(event.start) << ", \"dur\": " << json_number(event.duration)
        << "}";
  }
  out << "\n]}\n";
  return out.str();
}

}  // namespace crema
