// A device that lives in host memory and counts what moves.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "backend/conversion_math.hpp"
#include "core/device.hpp"
#include "core/strided.hpp"

namespace crema {

/// A pass over packs (core/float_values.hpp), as a kernel runs it.
template <class T, class Body>
void each_pack(int64_t count, bool vectors, const Body& body) {
  constexpr int64_t kSize = kPackSize<T>;
  for (int64_t first = 0; first < count; first += kSize) {
    const int some = static_cast<int>(std::min(kSize, count - first));
    body(PackAt<T>{first, some, vectors && some == kSize});
  }
}

/// What the engine of conversions does on CUDA. The pointers are valid on the host.
inline void convert_as_devices_do(const Shape& shape, DType from_dtype, Format from_format,
                                  const void* from, DType to_dtype, Format to_format, void* to) {
  const ElementOrder from_order(shape, from_format), to_order(shape, to_format);
  const int64_t count = storage_count(shape, to_format);
  const auto convert_in = [&](auto zero) {
    using T = decltype(zero);
    const ValuesIn<T> x(from, stored_as<T>(from_dtype));
    const ValuesOut<T> y(to, stored_as<T>(to_dtype));
    if (to_order.same_as(from_order)) {
      return each_pack<T>(count, aligned(x, y), ConvertPack<T>{x, y});
    }
    const ConvertOrdered<T> body(from_order, to_order, count, x, y);
    for (int64_t i = 0; i < count; ++i) body(i);
  };
  const bool is_double = from_dtype == DType::f64 || to_dtype == DType::f64;
  is_double ? convert_in(double{}) : convert_in(float{});
}

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
    const auto add_in = [&](auto zero) {
      using T = decltype(zero);
      const SumPack<T> sum(terms, stored_as<T>(dtype), to);
      each_pack<T>(count, sum.are_aligned(), sum);
    };
    dtype == DType::f64 ? add_in(double{}) : add_in(float{});
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
