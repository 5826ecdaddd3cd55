// An H200 that is described to cuDNN, which then says what it would run there.
#pragma once

namespace crema::test {

/// The library's own form of what cudaGetDeviceProperties says of an H200.
inline constexpr const char* kH200 =
    R"({"cudaDeviceId":0,"deviceId":0,"deviceVer":900,"driverVer":13000,
"totalGlobalMem":150000000000,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],
"regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,
"maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,
"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,
"deviceName":"NVIDIA H200"})";

}  // namespace crema::test
