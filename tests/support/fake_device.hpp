// A device that lives in host memory and counts what moves.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "backend/conversion_math.hpp"
#include "core/device.hpp"
#include "core/device_timer.hpp"
#include "core/strided.hpp"

namespace crema {

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
    bytes_down += bytes;
  }
  void fill_zero(void* device, size_t bytes) override {
    if (bytes > 0) std::memset(device, 0, bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    ++launched;
  }
  void copy_rows(const RowCopy& copy, const void* from, void* to) override {
    for (int64_t row = 0; row < copy.rows; ++row) {
      std::memcpy(static_cast<char*>(to) + row * copy.to_stride,
                  static_cast<const char*>(from) + row * copy.from_stride,
                  static_cast<size_t>(copy.bytes));
    }
    ++launched;
  }
  void gather(const StridedGather& box, size_t element_bytes, const void* from, void* to) override {
    crema::gather(ComputeDevice(), box, element_bytes, static_cast<const std::byte*>(from),
                  static_cast<std::byte*>(to));
    ++launched;
  }
  void add(DType dtype, int64_t count, std::span<const void* const> terms, void* to) override {
    ++launched;
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
  void synchronize() override {}
  size_t free_bytes() const override { return 0; }
  std::unique_ptr<DeviceTimer> make_timer(size_t) override { return nullptr; }
  std::unique_ptr<DeviceProfiler> make_profiler() override { return nullptr; }
  bool host_can_read() const override { return true; }

  /// Pieces of device memory that nobody has released yet.
  size_t held() const { return memories_.size(); }

  int allocations = 0;  // ever
  int uploads = 0, downloads = 0;
  size_t bytes_up = 0, bytes_down = 0;
  int launched = 0;  // copies and sums within the device

 private:
  std::map<void*, std::unique_ptr<std::vector<char>>> memories_;
};

}  // namespace crema
