// What tests need of the build and of the machine. A test that misses it skips, and says what it
// is and how to get it: "needs X: how to get it".
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/device.hpp"

namespace crema::test {

inline constexpr bool kBuiltWithCuda = CREMA_BUILT_WITH_CUDA;
inline constexpr bool kBuiltWithOpenCv = CREMA_BUILT_WITH_OPENCV;
inline constexpr bool kBuiltWithLibjpeg = CREMA_BUILT_WITH_LIBJPEG;
inline constexpr bool kBuiltWithLibpng = CREMA_BUILT_WITH_LIBPNG;
inline constexpr bool kBuiltWithLibgif = CREMA_BUILT_WITH_LIBGIF;
inline constexpr bool kBuiltWithHdf5 = CREMA_BUILT_WITH_HDF5;
inline constexpr bool kBuiltWithLevelDb = CREMA_BUILT_WITH_LEVELDB;
inline constexpr bool kBuiltWithLibarchive = CREMA_BUILT_WITH_LIBARCHIVE;
inline constexpr bool kBuiltWithHttplib = CREMA_BUILT_WITH_HTTPLIB;
inline constexpr bool kBuiltWithMpi = CREMA_BUILT_WITH_MPI;
inline constexpr bool kBuiltWithAnnotations = CREMA_BUILT_WITH_ANNOTATIONS;

/// Why there is no CUDA device; "" if there is one. The test fails if the machine has a device that
/// the library does not find, unless CUDA_VISIBLE_DEVICES says which devices to use.
inline std::string why_no_device() {
  std::string why;
  if (cuda_devices(why).empty() && kBuiltWithCuda && !std::getenv("CUDA_VISIBLE_DEVICES")) {
    EXPECT_FALSE(std::filesystem::exists("/dev/nvidiactl")) << why;
  }
  return why;
}

}  // namespace crema::test
