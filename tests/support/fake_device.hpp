// A device that lives in host memory. It counts what moves, and keeps a list of what was queued and
// waited for. It records work as a device does: as closures with the addresses and numbers of the
// time. It does its work at once, or late: see fake_queues.hpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/conversion_math.hpp"
#include "core/device.hpp"
#include "core/device_timer.hpp"
#include "core/memory_error.hpp"
#include "core/strided.hpp"
#include "support/fake_queues.hpp"

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
  /// What was queued, and the waits of the host.
  struct Step {
    enum class Kind { work, upload, download, graph, wait, stall };
    Kind kind;
    size_t bytes = 0;
  };

  explicit FakeDevice(FakeQueues::Mode mode = FakeQueues::mode_of_environment()) : queues_(mode) {}
  ~FakeDevice() override = default;
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  void* allocate(size_t bytes) override {
    refuse_in_capture("takes memory");
    if (most_bytes > 0 && bytes > free_bytes()) {
      throw MemoryError("cannot allocate ", bytes, " bytes on the device of the tests, which has ",
                        free_bytes(), " free");
    }
    taken_ += bytes;
    auto memory = std::make_unique<std::vector<char>>(bytes, '\xee');
    void* pointer = memory->data();
    memories_[pointer] = std::move(memory);
    ++allocations;
    // Memory comes in the order of the work: an upload that does not wait for that is lost.
    if (queues_.is_late() && bytes > 0)
      queues_.add(DeviceQueue::work, [=] { std::memset(pointer, 0xee, bytes); });
    return pointer;
  }
  void release(void* pointer) noexcept override {
    if (captures_) {
      released_.push_back(pointer);
    } else {
      // What is queued may use it yet.
      const auto found = memories_.find(pointer);
      if (found == memories_.end()) return;
      std::shared_ptr<std::vector<char>> kept = std::move(found->second);
      taken_ -= kept->size();
      memories_.erase(found);
      if (queues_.is_late()) queues_.add(DeviceQueue::work, [kept] {});
    }
  }
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    refuse_in_capture("copies from the host");
    const char* const contents = static_cast<const char*>(host);
    add_work([device, kept = std::vector<char>(contents, contents + bytes)] {
      std::ranges::copy(kept, static_cast<char*>(device));
    });
    ++uploads;
    bytes_up += bytes;
    // As on CUDA, where larger ones do not fit what is pinned.
    constexpr size_t kPinned = size_t{1} << 20;
    if (bytes > kPinned) stall();
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    refuse_in_capture("copies to the host");
    queues_.run_all();
    if (bytes > 0) std::memcpy(host, device, bytes);
    ++downloads;
    bytes_down += bytes;
    stall();
  }
  void fill_zero(void* device, size_t bytes) override {
    queue([=] {
      if (bytes > 0) std::memset(device, 0, bytes);
    });
  }
  void copy(void* to, const void* from, size_t bytes) override {
    queue([=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
    ++launched;
  }
  void copy_rows(const RowCopy& copy, const void* from, void* to) override {
    queue([=] {
      for (int64_t row = 0; row < copy.rows; ++row) {
        std::memcpy(static_cast<char*>(to) + row * copy.to_stride,
                    static_cast<const char*>(from) + row * copy.from_stride,
                    static_cast<size_t>(copy.bytes));
      }
    });
    ++launched;
  }
  void gather(const StridedGather& box, size_t element_bytes, const void* from, void* to) override {
    queue([=] {
      crema::gather(ComputeDevice(), box, element_bytes, static_cast<const std::byte*>(from),
                    static_cast<std::byte*>(to));
    });
    ++launched;
  }
  void add(DType dtype, int64_t count, std::span<const void* const> terms, void* to) override {
    ++launched;
    const auto add_in = [&](auto zero) {
      using T = decltype(zero);
      const SumPack<T> sum(terms, stored_as<T>(dtype), to);
      queue([sum, count] { each_pack<T>(count, sum.are_aligned(), sum); });
    };
    dtype == DType::f64 ? add_in(double{}) : add_in(float{});
  }
  void fill(DType dtype, int64_t count, double value, bool adds, void* y) override {
    dispatch_float(dtype, [&](auto zero) {
      using T = decltype(zero);
      queue([body = FillElement<T>{static_cast<T>(value), adds, static_cast<T*>(y)}, count] {
        for (int64_t i = 0; i < count; ++i) body(i);
      });
    });
  }
  void synchronize() override {
    refuse_in_capture("waits for the device");
    stall();
  }
  size_t free_bytes() const override { return most_bytes - std::min(most_bytes, taken_); }
  std::unique_ptr<DeviceTimer> make_timer(size_t) override { return nullptr; }
  std::unique_ptr<DeviceProfiler> make_profiler() override { return nullptr; }
  bool host_can_read() const override { return true; }
  void queue_loop(const std::function<void()>& loop) override { queue(loop); }

  void* allocate_pinned(size_t bytes) override {
    refuse_in_capture("takes memory");
    auto memory = std::make_unique<std::vector<char>>(std::max<size_t>(bytes, 1));
    void* pointer = memory->data();
    pinned_[pointer] = std::move(memory);
    return pointer;
  }
  void release_pinned(void* pointer) noexcept override {
    const auto found = pinned_.find(pointer);
    if (found == pinned_.end() || !queues_.is_late()) {
      pinned_.erase(pointer);
      return;
    }
    // A copy that nobody has waited for finds other values there.
    std::ranges::fill(*found->second, '\xdd');
    given_back_.push_back(std::move(found->second));
    pinned_.erase(found);
  }
  void upload(void* device, const void* pinned, size_t bytes) override {
    refuse_in_capture("copies from the host");
    queues_.add(DeviceQueue::upload, [=] { std::memcpy(device, pinned, bytes); });
    note(Step::Kind::upload, bytes);
    ++uploads;
    bytes_up += bytes;
  }
  void download(void* pinned, const void* device, size_t bytes) override {
    refuse_in_capture("copies to the host");
    add_work([=] { std::memcpy(pinned, device, bytes); });
    note(Step::Kind::download, bytes);
  }
  void copy_unless(const int32_t* stop, void* to, const void* from, size_t bytes) override {
    queue([=] {
      if (*stop == 0) std::memcpy(to, from, bytes);
    });
  }
  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(); }
  void record(DeviceEvent& event, DeviceQueue queue) override {
    refuse_in_capture("records an event");
    auto& at = static_cast<Event&>(event);
    at.queue = queue;
    at.place = queued_[static_cast<size_t>(queue)];
    at.ticket = queues_.mark(queue);
  }
  void queue_wait(DeviceQueue queue, const DeviceEvent& event) override {
    refuse_in_capture("waits for the other queue");
    queues_.wait_in(queue, static_cast<const Event&>(event).ticket);
  }
  void wait(const DeviceEvent& event) override {
    refuse_in_capture("waits for the device");
    const auto& at = static_cast<const Event&>(event);
    // Work behind the event keeps the device busy while the host waits.
    const bool busy = at.place < queued_[static_cast<size_t>(at.queue)] ||
                      (at.queue == DeviceQueue::upload && queued_[0] > 0);
    queues_.run_until(at.ticket);
    busy ? note(Step::Kind::wait) : note(Step::Kind::stall);
  }

  void begin_capture() override {
    captures_ = true;
    recorded_.clear();
  }
  std::unique_ptr<DeviceGraph> end_capture() override {
    abandon_capture();
    ++captures;
    auto graph = std::make_unique<Graph>();
    graph->work = std::make_shared<std::vector<std::function<void()>>>(std::move(recorded_));
    recorded_.clear();
    return graph;
  }
  void abandon_capture() noexcept override {
    captures_ = false;
    for (void* pointer : std::exchange(released_, {})) release(pointer);
  }
  void launch(DeviceGraph& graph) override {
    add_work([recorded = static_cast<Graph&>(graph).work] {
      for (const auto& work : *recorded) work();
    });
    note(Step::Kind::graph);
    ++launches;
  }

  /// Pieces of device memory that nobody has released yet.
  size_t held() const { return memories_.size(); }
  /// How many steps of a kind there were since clear().
  int64_t count(Step::Kind kind) const { return std::ranges::count(steps, kind, &Step::kind); }
  void clear() { steps.clear(); }

  size_t most_bytes = 0;  // of its memory; 0: no limit
  int allocations = 0;    // ever
  int uploads = 0, downloads = 0;
  size_t bytes_up = 0, bytes_down = 0;
  int launched = 0;                // copies and sums within the device
  int captures = 0, launches = 0;  // of graphs
  std::vector<Step> steps;

 private:
  struct Event : DeviceEvent {
    DeviceQueue queue = DeviceQueue::work;
    size_t place = 0;     // steps of the queue before it
    uint64_t ticket = 0;  // of FakeQueues
  };
  struct Graph : DeviceGraph {
    std::shared_ptr<std::vector<std::function<void()>>> work;
  };

  void add_work(std::function<void()> work) { queues_.add(DeviceQueue::work, std::move(work)); }
  template <class Work>
  void queue(const Work& work) {
    if (captures_) {
      recorded_.emplace_back(work);
      return;
    }
    add_work(work);
    note(Step::Kind::work);
  }
  void note(Step::Kind kind, size_t bytes = 0) {
    steps.push_back({kind, bytes});
    if (kind == Step::Kind::wait || kind == Step::Kind::stall) return;
    ++queued_[kind == Step::Kind::upload ? 1 : 0];
  }
  /// The host waits for all work: the device has none then.
  void stall() {
    queues_.run_all();
    note(Step::Kind::stall);
  }
  void refuse_in_capture(const char* what) const {
    if (captures_) throw Error(what, " in each pass");
  }

  FakeQueues queues_;
  std::map<void*, std::unique_ptr<std::vector<char>>> memories_, pinned_;
  std::vector<std::unique_ptr<std::vector<char>>> given_back_;  // pinned memory
  size_t queued_[2] = {};                                       // steps ever, of each queue
  size_t taken_ = 0;                                            // bytes of memories_
  bool captures_ = false;
  std::vector<std::function<void()>> recorded_;
  std::vector<void*> released_;
};

}  // namespace crema
