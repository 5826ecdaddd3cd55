// CUDA: one device, one stream, cuBLAS and cuDNN bound to it. The only folder, with the rooms' .cu
// and _cudnn.cpp files, that knows CUDA's headers.
//
// All work of a context runs in its stream, in order, so scratch memory is shared and nothing need
// wait for anything but copies to the host. f32 is computed in f32: TF32, which keeps 10 bits of
// the fraction, is not used.
//
// Threads: a context on CUDA serves one thread at a time; give each thread a context of its own.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "core/device.hpp"
#include "crema/context.hpp"

namespace crema {

/// Error with the library's own words unless the call succeeded. `what` names the call.
void cuda_check(cudaError_t status, const char* what);
void cuda_check(cublasStatus_t status, const char* what);
void cuda_check(cudnnStatus_t status, const char* what);

class CudaBackend : public DeviceBackend {
 public:
  /// Error when there is no driver, or no such device.
  explicit CudaBackend(int index);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  void* allocate(size_t bytes) override;
  void release(void* pointer) noexcept override;
  void copy_to_device(void* device, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* device, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void copy_rows(const RowCopy& copy, const void* from, void* to) override;
  void gather(const StridedGather& box, size_t element_bytes, const void* from, void* to) override;
  void add(DType dtype, int64_t count, std::span<const void* const> terms, void* sum) override;
  void fill(DType dtype, int64_t count, double value, bool adds, void* y) override;
  void fill_zero(void* device, size_t bytes) override;
  void synchronize() override;
  size_t free_bytes() const override;
  std::unique_ptr<DeviceTimer> make_timer(size_t points) override;
  std::unique_ptr<DeviceProfiler> make_profiler() override;

  /// Makes this the calling thread's device.
  void activate() const;
  cudaStream_t stream() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  /// Made at the first call.
  cublasHandle_t blas();
  cudnnHandle_t dnn();

  /// Memory for one piece of work, until the next call: what runs in the stream later may overwrite
  /// it.
  void* scratch(size_t bytes);

 private:
  int index_;
  int multiprocessors_ = 1;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
};

/// The backend of a context on CUDA, made the calling thread's device.
CudaBackend& cuda(const Context& context);
CudaBackend& cuda(DeviceBackend& backend);

}  // namespace crema
