#include "analysis/device_times.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "analysis/step_run.hpp"
#include "core/device.hpp"
#include "core/device_timer.hpp"

namespace crema {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Points of several iterations, each with the same number of them.
class Points {
 public:
  Points(DeviceBackend& backend, int iterations, size_t each)
      : backend_(backend),
        timer_(backend.make_timer(static_cast<size_t>(iterations) * each)),
        iterations_(static_cast<size_t>(iterations)),
        each_(each) {}

  /// Records the next point; those of an iteration that does not count are none.
  void record() {
    if (counts_) timer_->record(next_++);
  }
  void count(bool counts) { counts_ = counts; }
  void wait() { backend_.synchronize(); }
  /// Of the interval between two points of an iteration.
  double milliseconds(size_t from, size_t to) const {
    std::vector<double> all;
    for (size_t i = 0; i < iterations_; ++i)
      all.push_back(timer_->milliseconds(i * each_ + from, i * each_ + to));
    return median(std::move(all));
  }

 private:
  DeviceBackend& backend_;
  std::unique_ptr<DeviceTimer> timer_;
  size_t iterations_, each_, next_ = 0;
  bool counts_ = false;
};

size_t steps_back(const Net& net, bool with_backward) {
  return with_backward ? static_cast<size_t>(std::ranges::count_if(net.steps(), &NetStep::backward))
                       : 0;
}

void time_steps(Net& net, const DeviceTiming& timing, DeviceTimes& times) {
  const size_t steps = net.steps().size(), back = steps_back(net, timing.with_backward);
  // A point at the start, and one behind each step.
  Points points(net.context().backend(), timing.iterations, 1 + steps + back);
  const StepHooks hooks{.behind = [&](size_t, Pass) { points.record(); }};
  for (int i = -kFirstIterations; i < timing.iterations; ++i) {
    net.run_state().iteration = static_cast<uint64_t>(i + kFirstIterations);
    points.count(i >= 0);
    points.record();
    run_steps(net, timing.with_backward, hooks);
  }
  points.wait();
  times.forward.resize(steps);
  times.backward.resize(steps);
  size_t point = 0;
  for (size_t s = 0; s < steps; ++s, ++point)
    times.forward[s] = points.milliseconds(point, point + 1);
  for (size_t s = steps; timing.with_backward && s-- > 0;) {
    if (!net.steps()[s].backward) continue;
    times.backward[s] = points.milliseconds(point, point + 1);
    ++point;
  }
  times.forward_total = points.milliseconds(0, steps);
  times.backward_total = points.milliseconds(steps, steps + back);
}

void time_passes(Net& net, const DeviceTiming& timing, DeviceTimes& times) {
  Points points(net.context().backend(), timing.iterations, 3);
  for (int i = -kFirstIterations; i < timing.iterations; ++i) {
    net.run_state().iteration = static_cast<uint64_t>(i + kFirstIterations);
    points.count(i >= 0);
    points.record();
    net.forward();
    points.record();
    if (timing.with_backward) {
      net.clear_gradients();
      net.backward();
    }
    points.record();
  }
  points.wait();
  times.whole_forward = points.milliseconds(0, 1);
  times.whole_backward = points.milliseconds(1, 2);
}

void time_iterations(Net& net, const DeviceTiming& timing, DeviceTimes& times) {
  const auto iterate = [&](int iterations) {
    if (timing.iterate) return timing.iterate(iterations);
    for (int i = 0; i < iterations; ++i) {
      net.forward();
      if (!timing.with_backward) continue;
      net.clear_gradients();
      net.backward();
    }
  };
  iterate(kFirstIterations);
  Points points(net.context().backend(), 1, 2);
  points.count(true);
  points.wait();
  const auto start = std::chrono::steady_clock::now();
  points.record();
  iterate(timing.iterations);
  points.record();
  points.wait();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  times.iteration = points.milliseconds(0, 1) / timing.iterations;
  times.host_iteration = taken.count() / timing.iterations;
}

/// Device memory that is given back at the end.
class DeviceArray {
 public:
  DeviceArray(DeviceBackend& backend, size_t bytes)
      : backend_(backend), bytes_(bytes), data_(backend.allocate(bytes)) {}
  ~DeviceArray() { backend_.release(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void* data() const { return data_; }
  /// Fills the array with copies of a block, which is no larger.
  void fill(const std::vector<float>& block) {
    size_t filled = std::min(block.size() * sizeof(float), bytes_);
    backend_.copy_to_device(data_, block.data(), filled);
    for (; filled < bytes_; filled *= 2) {
      backend_.copy(static_cast<char*>(data_) + filled, data_, std::min(filled, bytes_ - filled));
    }
  }

 private:
  DeviceBackend& backend_;
  size_t bytes_;
  void* data_;
};

/// The least milliseconds of several runs of `body`, each of `repeats`, divided by that number.
template <class Body>
double least_milliseconds(DeviceBackend& backend, int repeats, const Body& body) {
  constexpr size_t kRuns = 5;
  const std::unique_ptr<DeviceTimer> timer = backend.make_timer(kRuns + 1);
  body();
  timer->record(0);
  for (size_t run = 1; run <= kRuns; ++run) {
    for (int i = 0; i < repeats; ++i) body();
    timer->record(run);
  }
  backend.synchronize();
  double least = timer->milliseconds(0, 1);
  for (size_t run = 1; run < kRuns; ++run)
    least = std::min(least, timer->milliseconds(run, run + 1));
  return least / repeats;
}

}  // namespace

DeviceTimes time_on_device(Net& net, const DeviceTiming& timing) {
  DeviceTimes times;
  time_steps(net, timing, times);
  time_passes(net, timing, times);
  time_iterations(net, timing, times);
  return times;
}

DeviceCeilings measure_ceilings(DeviceBackend& backend) {
  // As large as the figures need it, where there is room: caches hold none of it.
  const size_t room = backend.free_bytes() / 8;
  const int64_t n = room >= (size_t{8192} * 8192 * 4) ? 8192
                    : room >= (size_t{64} << 20)      ? 4096
                                                      : 256;
  const size_t bytes = static_cast<size_t>(n * n) * sizeof(float);
  DeviceArray a(backend, bytes), b(backend, bytes), c(backend, bytes);
  // Random factors: with zeros, a device takes less power and is faster than with any data. The two
  // halves of a float here are bf16 numbers in [1, 2) too.
  std::vector<float> block(std::min<size_t>(bytes / sizeof(float), 1 << 20));
  std::vector<uint32_t> bits(block.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    const uint32_t noise = static_cast<uint32_t>(i) * 2654435761U;
    bits[i] = 0x3F803F80U | (noise >> 9 & 0x007F0000U) | (noise >> 5 & 0x7FU);
  }
  std::copy_n(reinterpret_cast<const char*>(bits.data()), bits.size() * sizeof(float),
              reinterpret_cast<char*>(block.data()));
  a.fill(block);
  b.fill(block);
  DeviceCeilings ceilings;
  const double copied =
      least_milliseconds(backend, 10, [&] { backend.copy(c.data(), a.data(), bytes); });
  if (copied > 0) ceilings.copy_bytes = 2e3 * static_cast<double>(bytes) / copied;
  const double operations =
      2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  for (const auto& [kind, rate] : {std::pair(ProductKind::f32, &DeviceCeilings::f32),
                                   {ProductKind::tf32, &DeviceCeilings::tf32},
                                   {ProductKind::bf16, &DeviceCeilings::bf16}}) {
    bool known = false;
    const double taken =
        least_milliseconds(backend, kind == ProductKind::f32 ? 1 : 4, [&, kind = kind] {
          known = multiply_at_full_speed(backend, kind, n, a.data(), b.data(), c.data());
        });
    if (known && taken > 0) ceilings.*rate = 1e3 * operations / taken;
  }
  return ceilings;
}

CeilingShare share_of(const DeviceCeilings& ceilings, const NetStep& step, bool tf32,
                      double milliseconds, double bytes, double flops) {
  if (milliseconds <= 0) return {};
  const double seconds = milliseconds / 1e3;
  CeilingShare best;
  const auto consider = [&](double rate, double ceiling, const char* name) {
    if (ceiling > 0 && rate / ceiling > best.share) best = {rate / ceiling, name};
  };
  consider(bytes / seconds, ceilings.copy_bytes, "copy");
  const bool is_bf16 = step.bottom_format.find("bf16") != std::string::npos;
  if (is_bf16) {
    consider(flops / seconds, ceilings.bf16, "bf16");
  } else if (tf32) {
    consider(flops / seconds, ceilings.tf32, "tf32");
  } else {
    consider(flops / seconds, ceilings.f32, "f32");
  }
  return best;
}

}  // namespace crema
