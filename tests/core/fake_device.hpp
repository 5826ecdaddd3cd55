// A device that lives in host memory and counts what moves.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "backend/device.hpp"

namespace crema {

class FakeDevice : public DeviceBackend {
 public:
  void* allocate(size_t bytes) override {
    auto memory = std::make_unique<std::vector<char>>(bytes, '\xee');
    void* pointer = memory->data();
    memories_[pointer] = std::move(memory);
    return pointer;
  }
  void release(void* pointer) noexcept override { memories_.erase(pointer); }
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
    ++uploads;
    bytes_up += bytes;
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
    ++downloads;
    bytes_down += bytes;
  }
  void fill_zero(void* device, size_t bytes) override { std::memset(device, 0, bytes); }
  void add(int64_t count, size_t element, const void* x, void* y) override {
    for (int64_t i = 0; i < count; ++i) {
      if (element == sizeof(float)) {
        static_cast<float*>(y)[i] += static_cast<const float*>(x)[i];
      } else {
        static_cast<double*>(y)[i] += static_cast<const double*>(x)[i];
      }
    }
  }
  void synchronize() override {}
  size_t free_bytes() const override { return 0; }

  /// Pieces of device memory that nobody has released yet.
  size_t held() const { return memories_.size(); }

  int uploads = 0, downloads = 0;
  size_t bytes_up = 0, bytes_down = 0;

 private:
  std::map<void*, std::unique_ptr<std::vector<char>>> memories_;
};

}  // namespace crema
