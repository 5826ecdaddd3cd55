// Context: where and how a net computes. There is no global mode: contexts of any devices live side
// by side in one process.
//
// Threads: any thread may run a net. Nets of one context on the CPU may run at the same time in
// different threads; those of one context on CUDA may not, as they share its stream and scratch
// memory. A context on CUDA has device memory of its own, even beside another one on the same
// device: what nets share, they share within a context. A context holds nothing that a run changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "crema/layout.hpp"

namespace crema {

class DeviceBackend;
class Tuner;

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

enum class Severity : uint8_t { debug, info, warning, error };
/// Receives every message of the library; called from any thread.
using Logger = std::function<void(Severity, const std::string&)>;

struct ContextOptions {
  Device device = {};
  /// CPU threads; 0 means OMP_NUM_THREADS, or else all cores that the process may use.
  int threads = 0;
  /// Seed of nets and solvers that are given none.
  uint64_t seed = 1701;
  /// Name of an engine to force on every layer that has it ("reference", "onednn", "cudnn", ...);
  /// empty: each layer takes the fastest that supports its problem.
  std::string engine = {};
  /// Measure the candidates of a problem once and remember the fastest. Off: the first that
  /// supports it.
  bool tune = true;
  /// File in which measured times are kept between processes, so that a later one starts without
  /// measuring and makes the same choices, to the bit. Empty: they live as long as the context.
  /// A file of another processor or library version is replaced, one of something else left alone
  /// with a warning; where it cannot be written, its times count and new ones are not kept.
  std::string tuning_file = {};
  /// Default: nothing is printed.
  Logger logger = {};
};

class Context {
 public:
  /// Error when the device does not exist, or the library was built without support for it.
  explicit Context(ContextOptions options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device device() const { return options_.device; }
  bool on_gpu() const { return options_.device.type != DeviceType::cpu; }
  int threads() const { return options_.threads; }
  /// Of nets and solvers that are given no seed.
  uint64_t seed() const { return options_.seed; }
  const std::string& engine() const { return options_.engine; }
  bool tune() const { return options_.tune; }

  void log(Severity severity, const std::string& message) const;
  /// Device memory and libraries; Error on the CPU.
  DeviceBackend& backend() const;
  /// Which engine was fastest for each problem met so far; shared by nets of this context.
  Tuner& tuner() const { return *tuner_; }
  /// Writes the tuning file when something new was measured. Nets do so once they are planned.
  void save_tuning() const;

 private:
  ContextOptions options_;
  std::unique_ptr<DeviceBackend> backend_;
  std::unique_ptr<Tuner> tuner_;
};

}  // namespace crema
