// A fake device with timers and profilers, which notes what they are asked.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device_timer.hpp"
#include "crema/error.hpp"
#include "support/fake_device.hpp"

namespace crema {

/// In order: "record", "wait", "start", "stop", "begin NAME", "end".
using DeviceNotes = std::vector<std::string>;

class FakeTimer : public DeviceTimer {
 public:
  FakeTimer(size_t points, const int& clock, DeviceNotes& notes)
      : clock_(clock), notes_(notes), times_(points, -1) {}
  void record(size_t point) override {
    times_.at(point) = clock_;
    notes_.push_back("record");
  }
  double milliseconds(size_t from, size_t to) const override {
    if (notes_.empty() || notes_.back() != "wait") throw Error("read before the device was done");
    if (times_.at(from) < 0 || times_.at(to) < 0) throw Error("a point that was not recorded");
    return times_[to] - times_[from];
  }

 private:
  const int& clock_;
  DeviceNotes& notes_;
  std::vector<double> times_;
};

class FakeProfiler : public DeviceProfiler {
 public:
  explicit FakeProfiler(DeviceNotes& notes) : notes_(notes) {}
  void start() override { notes_.push_back("start"); }
  void stop() override { notes_.push_back("stop"); }
  void begin_range(const std::string& name) override { notes_.push_back("begin " + name); }
  void end_range() override { notes_.push_back("end"); }

 private:
  DeviceNotes& notes_;
};

/// Its clock goes on by 1 ms for each copy within it, for each kernel and for each graph.
class TimedDevice : public FakeDevice {
 public:
  void copy(void* to, const void* from, size_t bytes) override {
    FakeDevice::copy(to, from, bytes);
    ++clock;
  }
  void copy_rows(const RowCopy& copy, const void* from, void* to) override {
    FakeDevice::copy_rows(copy, from, to);
    ++clock;
  }
  void queue_loop(const std::function<void()>& loop) override {
    FakeDevice::queue_loop(loop);
    ++clock;
  }
  void launch(DeviceGraph& graph) override {
    FakeDevice::launch(graph);
    ++clock;
  }
  void synchronize() override {
    FakeDevice::synchronize();
    notes.push_back("wait");
  }
  std::unique_ptr<DeviceTimer> make_timer(size_t points) override {
    return std::make_unique<FakeTimer>(points, clock, notes);
  }
  std::unique_ptr<DeviceProfiler> make_profiler() override {
    return std::make_unique<FakeProfiler>(notes);
  }

  int clock = 0;  // ms
  DeviceNotes notes;
};

}  // namespace crema
