// Context: the device, the threads, the engines and the log of nets. A process may have several
// contexts, also of different devices. There is no global mode.
//
// Threads: any thread may run a net. Nets of one context on the CPU may run at the same time in
// different threads. Nets of one context on CUDA may not, because they share its stream and scratch
// memory. Two contexts on the same CUDA device have separate device memory, so nets on CUDA share
// parameters within one context only. A context holds no state of a run; see RunState.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "crema/layout.hpp"

namespace crema {

class DeviceBackend;
class DeviceRun;
class Tuner;

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

enum class Severity : uint8_t { debug, info, warning, error };
/// Receives every message of the library. It may be called from any thread.
using Logger = std::function<void(Severity, const std::string&)>;

struct ContextOptions {
  Device device = {};
  /// Number of CPU threads. 0: OMP_NUM_THREADS if set, else the number of cores that the process
  /// may use by its affinity and by the CPU quota of its control group, as containers have it.
  int threads = 0;
  /// Default seed of nets and solvers.
  uint64_t seed = 1701;
  /// Name of an engine to force on every layer type that has it ("reference", "onednn", "cudnn",
  /// ...). Empty: each layer takes its fastest engine that supports the problem.
  std::string engine = {};
  /// True: measures the candidates of each problem once and takes the fastest. False: takes the
  /// first candidate that supports the problem.
  bool tune = true;
  /// A file that keeps measured times between processes. A later process does not measure again.
  /// Two processes that start with the same file and measure nothing new make the same choices, so
  /// their results have the same bits. A size that was not measured takes the choice of the nearest
  /// measured size, if one is near. A later process may make other choices if times were added to
  /// the file in between. A run that restores a snapshot makes the choices of that snapshot. Empty:
  /// times are kept in the context only. A tuning file of another processor or library version is
  /// replaced. A file with other contents is not changed, and a warning is logged. A file that
  /// cannot be written is only read. user_tuning_file() is the one that the program `crema` keeps.
  std::string tuning_file = {};
  /// True: data layers of nets on a GPU decode JPEG files there, by nvJPEG: sequential files of
  /// gray or YCbCr that are decoded at their full size. The host decodes the others, those that
  /// nvJPEG refuses, and all where the build or the machine has no nvJPEG, which is logged. Pixels
  /// may differ from the host's, mostly where chroma is interpolated.
  bool device_jpeg = false;
  /// Default: messages are discarded.
  Logger logger = {};
};

/// The file of times in the user's cache, for ContextOptions::tuning_file:
/// $XDG_CACHE_HOME/crema/tuning, else $HOME/.cache/crema/tuning; empty where neither is set. It is
/// made with its folder when the first times are kept.
std::string user_tuning_file();

class Context {
 public:
  /// Error if the device does not exist, or if the library was built without support for it.
  explicit Context(ContextOptions options = {});
  /// With a device of the caller's own, in place of that of ContextOptions::device.
  Context(ContextOptions options, std::unique_ptr<DeviceBackend> backend);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device device() const { return options_.device; }
  bool on_gpu() const { return options_.device.type != DeviceType::cpu; }
  int threads() const { return options_.threads; }
  /// Default seed of nets and solvers.
  uint64_t seed() const { return options_.seed; }
  const std::string& engine() const { return options_.engine; }
  bool tune() const { return options_.tune; }
  bool device_jpeg() const { return options_.device_jpeg; }

  void log(Severity severity, const std::string& message) const;
  /// Memory and libraries of the device. Error on the CPU.
  DeviceBackend& backend() const;
  /// What kernels read of the present pass, and what they report. Error on the CPU.
  DeviceRun& device_run() const;
  /// Measured times and choices, shared by the nets of this context.
  Tuner& tuner() const { return *tuner_; }
  /// Writes the tuning file if there are new times. A net calls this when it has planned.
  void save_tuning() const;

 private:
  ContextOptions options_;
  std::unique_ptr<DeviceBackend> backend_;
  std::unique_ptr<Tuner> tuner_;
  std::unique_ptr<DeviceRun> device_run_;
};

}  // namespace crema
