// A device that lives in host memory and counts what moves.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/conversion_math.hpp"
#include "core/device.hpp"
#include "core/device_timer.hpp"
#include "core/strided.hpp"
#include "crema/error.hpp"

namespace crema {

/// What was asked of a fake device's stream, timers and profilers, in order. A word each: "record",
/// "wait", "download", "start", "stop", "begin NAME", "end".
using FakeLog = std::vector<std::string>;

/// Time on a fake device: 1 ms for each copy, sum or download given to it.
class FakeTimer : public DeviceTimer {
 public:
  FakeTimer(size_t points, const int& clock, FakeLog& log)
      : clock_(clock), log_(log), times_(points, -1) {}
  void record(size_t point) override {
    times_.at(point) = clock_;
    log_.push_back("record");
  }
  double milliseconds(size_t from, size_t to) const override {
    if (log_.empty() || log_.back() != "wait") throw Error("read before the device was done");
    if (times_.at(from) < 0 || times_.at(to) < 0) throw Error("a point that was not recorded");
    return times_[to] - times_[from];
  }

 private:
  const int& clock_;
  FakeLog& log_;
  std::vector<double> times_;
};

class FakeProfiler : public DeviceProfiler {
 public:
  explicit FakeProfiler(FakeLog& log) : log_(log) {}
  void start() override { log_.push_back("start"); }
  void stop() override { log_.push_back("stop"); }
  void begin_range(const std::string& name) override { log_.push_back("begin " + name); }
  void end_range() override { log_.push_back("end"); }

 private:
  FakeLog& log_;
};

class FakeDevice : public DeviceBackend {
 public:
  void* allocate(size_t bytes) override {
    auto memory = std::make_unique<std::vector<char>>(bytes, '\xee');
    void* pointer = memory->data();
    memories_[pointer] = std::move(memory);
    ++allocations;
    return pointer;
  }
  void release(void* pointer) noexcept override { memories_.erase(pointer); }
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
    ++uploads;
    bytes_up += bytes;
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
    ++downloads;
    ++clock;
    log.push_back("download");
    bytes_down += bytes;
  }
  void fill_zero(void* device, size_t bytes) override {
    if (bytes > 0) std::memset(device, 0, bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    ++launched;
    ++clock;
  }
  void copy_rows(const RowCopy& copy, const void* from, void* to) override {
    for (int64_t row = 0; row < copy.rows; ++row) {
      std::memcpy(static_cast<char*>(to) + row * copy.to_stride,
                  static_cast<const char*>(from) + row * copy.from_stride,
                  static_cast<size_t>(copy.bytes));
    }
    ++launched;
    ++clock;
  }
  void gather(const StridedGather& box, size_t element_bytes, const void* from, void* to) override {
    crema::gather(ComputeDevice(), box, element_bytes, static_cast<const std::byte*>(from),
                  static_cast<std::byte*>(to));
    ++launched;
    ++clock;
  }
  void add(DType dtype, int64_t count, std::span<const void* const> terms, void* to) override {
    ++launched;
    ++clock;
    dispatch_any_float(dtype, [&](auto zero) {
      using T = decltype(zero);
      const SumElement<T> sum(terms, to);
      for (int64_t i = 0; i < count; ++i) sum(i);
    });
  }
  void fill(DType dtype, int64_t count, double value, bool adds, void* y) override {
    dispatch_float(dtype, [&](auto zero) {
      using T = decltype(zero);
      const FillElement<T> body{static_cast<T>(value), adds, static_cast<T*>(y)};
      for (int64_t i = 0; i < count; ++i) body(i);
    });
  }
  void synchronize() override { log.push_back("wait"); }
  size_t free_bytes() const override { return 0; }
  std::unique_ptr<DeviceTimer> make_timer(size_t points) override {
    return std::make_unique<FakeTimer>(points, clock, log);
  }
  std::unique_ptr<DeviceProfiler> make_profiler() override {
    return std::make_unique<FakeProfiler>(log);
  }
  bool host_can_read() const override { return true; }

  /// Pieces of device memory that nobody has released yet.
  size_t held() const { return memories_.size(); }

  int allocations = 0;  // ever
  int uploads = 0, downloads = 0;
  size_t bytes_up = 0, bytes_down = 0;
  int launched = 0;  // copies and sums within the device
  int clock = 0;     // ms
  FakeLog log;

 private:
  std::map<void*, std::unique_ptr<std::vector<char>>> memories_;
};

}  // namespace crema
