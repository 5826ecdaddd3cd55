// crema device-query: what there is to compute on.
#include <omp.h>

#include <cstdio>
#include <fstream>

#include "backend/cpu/blas.hpp"
#include "backend/device.hpp"
#include "tools/command.hpp"
#include "tools/peak.hpp"

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
  require(arguments.empty(), "device-query takes no arguments");
  const Context context;
  std::printf("CPU: %s, %d threads, %s, BLAS %s\n", processor_name().c_str(), context.threads(),
              vector_extension().c_str(), blas_name().c_str());
  std::string why;
  const auto devices = cuda_devices(why);
  if (devices.empty()) std::printf("CUDA: no device: %s\n", why.c_str());
  for (const auto& device : devices) {
    std::printf("CUDA %d: %s, compute %d.%d, %d multiprocessors, %s\n", device.index,
                device.name.c_str(), device.compute_major, device.compute_minor,
                device.multiprocessors,
                human_bytes(static_cast<double>(device.total_bytes)).c_str());
  }
  return 0;
}

}  // namespace

const Command kDeviceQuery = {"device-query",         {}, "lists what there is to compute on",
                              "  crema device-query", {}, device_query};

}  // namespace crema::tools
