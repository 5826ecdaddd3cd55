// CUDA devices and their memory.
#include <numeric>

#include "backend/cuda_test.hpp"

namespace crema::test {
namespace {

TEST(CudaDevices, AreThereOrTheReasonIs) {
  std::string why;
  const std::vector<DeviceInfo> devices = cuda_devices(why);
  EXPECT_EQ(devices.empty(), !why.empty()) << why;
  for (const DeviceInfo& device : devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.total_bytes, 0u);
    EXPECT_GT(device.multiprocessors, 0);
  }
}

TEST(CudaDevices, OneThatIsNotThereIsAnError) {
  expect_error([] { Context({.device = {DeviceType::cuda, 1000}}); }, {"CUDA device", "1000"});
}

Tensor counting(int64_t count) {
  Tensor tensor(Shape{count});
  float* values = tensor.overwrite<float>();
  std::iota(values, values + count, 1.0F);
  return tensor;
}

TEST_F(Cuda, MemoryGoesThereAndBack) {
  Tensor source = counting(100003), target(Shape{100003});
  const float* there = source.read<float>(&backend());
  const void* const terms[] = {there, there};
  backend().add(DType::f32, 100003, terms, target.change<float>(&backend()));
  backend().synchronize();
  EXPECT_EQ(target.at(0), 2);
  EXPECT_EQ(target.at(100002), 200006);
  EXPECT_EQ(source.at(100002), 100003) << "what was only read";
}

TEST_F(Cuda, NewMemoryIsZeroAndCanBeClearedAgain) {
  Tensor tensor(Shape{1000});
  tensor.change<float>(&backend());
  EXPECT_EQ(tensor.at(999), 0);
  tensor = counting(1000);
  backend().fill_zero(tensor.change<float>(&backend()), 500 * sizeof(float));
  EXPECT_EQ(tensor.at(499), 0);
  EXPECT_EQ(tensor.at(500), 501);
}

TEST_F(Cuda, TooMuchMemoryIsAnErrorThatSaysHowMuchThereIs) {
  expect_error([&] { backend().allocate(size_t{1} << 60); },
               {"cannot allocate", "MiB free", "smaller batch"});
  EXPECT_GT(backend().free_bytes(), 0u);
  backend().release(backend().allocate(64));  // and it goes on
}

TEST_F(Cuda, TwoContextsLiveSideBySide) {
  Context other({.device = {DeviceType::cuda, 0}});
  Tensor mine = counting(10);
  mine.read<float>(&backend());
  expect_error([&] { mine.read<float>(&other.backend()); }, {"in use on another device"});
}

}  // namespace
}  // namespace crema::test
