// crema device-query: lists the CPU and the GPUs.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "backend/cpu/blas.hpp"
#include "core/device.hpp"
#include "core/thread_limit.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/peak.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

int device_query(const std::vector<std::string>& arguments) {
  refuse_arguments("device-query", arguments, "name a device with --gpu=INDEX");
  const auto wanted = gpu_index();
  const Context context;
  std::printf("CPU: %s, %d threads (%s), %s, BLAS %s\n", processor_name().c_str(),
              context.threads(), thread_limit().str().c_str(), vector_extension().c_str(),
              blas_name().c_str());
  std::string why;
  const auto devices = cuda_devices(why);
  const auto has = [&](int index) {
    return std::any_of(devices.begin(), devices.end(),
                       [&](const DeviceInfo& device) { return device.index == index; });
  };
  if (wanted && !has(*wanted)) {
    throw Error("there is no CUDA device ", *wanted,
                devices.empty() ? ": " + why : text("; there are ", devices.size()));
  }
  if (devices.empty()) std::printf("CUDA: no device: %s\n", why.c_str());
  for (const auto& device : devices) {
    if (wanted && device.index != *wanted) continue;
    std::printf("CUDA %d: %s, compute %d.%d, %d multiprocessors, %s\n", device.index,
                device.name.c_str(), device.compute_major, device.compute_minor,
                device.multiprocessors,
                human_bytes(static_cast<double>(device.total_bytes)).c_str());
  }
  return 0;
}

}  // namespace

extern const Command kDeviceQuery = {"device-query",
                                     "lists the CPU and the GPUs",
                                     "  crema device-query [--gpu=INDEX]\n"
                                     "\n"
                                     "The CPU, and all CUDA devices or the one named.",
                                     {"gpu"},
                                     device_query};

}  // namespace crema::tools
