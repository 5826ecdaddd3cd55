// Points in time by CUDA's events, ranges by NVTX, and the products by which a device's ceiling is
// measured.
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include <vector>

#include "backend/cuda/activities.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "core/device_timer.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

class CudaTimer : public DeviceTimer {
 public:
  CudaTimer(const CudaBackend& backend, size_t points) : backend_(backend), events_(points) {
    backend.activate();
    for (cudaEvent_t& event : events_) cuda_check(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~CudaTimer() override {
    for (cudaEvent_t event : events_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  void record(size_t point) override {
    backend_.activate();
    cuda_check(cudaEventRecord(events_.at(point), backend_.stream()), "cudaEventRecord");
  }
  double milliseconds(size_t from, size_t to) const override {
    float result = 0;
    cuda_check(cudaEventElapsedTime(&result, events_.at(from), events_.at(to)),
               "cudaEventElapsedTime");
    return static_cast<double>(result);
  }

 private:
  const CudaBackend& backend_;
  std::vector<cudaEvent_t> events_;
};

class CudaProfiler : public DeviceProfiler {
 public:
  void start() override { cuda_check(cudaProfilerStart(), "cudaProfilerStart"); }
  void stop() override { cuda_check(cudaProfilerStop(), "cudaProfilerStop"); }
  void begin_range(const std::string& name) override { nvtxRangePushA(name.c_str()); }
  void end_range() override { nvtxRangePop(); }
  std::string record_activities() override { return start_activities(); }
  std::vector<DeviceActivity> activities() override { return stop_activities(); }
};

/// Sets how cuBLAS computes f32 as long as it lives.
class MathMode {
 public:
  MathMode(cublasHandle_t blas, cublasMath_t mode) : blas_(blas) {
    cuda_check(cublasGetMathMode(blas, &before_), "cublasGetMathMode");
    cuda_check(cublasSetMathMode(blas, mode), "cublasSetMathMode");
  }
  ~MathMode() { cublasSetMathMode(blas_, before_); }
  MathMode(const MathMode&) = delete;
  MathMode& operator=(const MathMode&) = delete;

 private:
  cublasHandle_t blas_;
  cublasMath_t before_ = CUBLAS_DEFAULT_MATH;
};

}  // namespace

std::unique_ptr<DeviceTimer> CudaBackend::make_timer(size_t points) {
  return std::make_unique<CudaTimer>(*this, points);
}

std::unique_ptr<DeviceProfiler> CudaBackend::make_profiler() {
  return std::make_unique<CudaProfiler>();
}

bool multiply_at_full_speed(DeviceBackend& backend, ProductKind kind, int64_t n, const void* a,
                            const void* b, void* c) {
  const float one = 1, zero = 0;
  const auto rows = static_cast<int>(n);
  const bool is_bf16 = kind == ProductKind::bf16;
  const cudaDataType_t type = is_bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t compute =
      kind == ProductKind::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const cublasHandle_t blas = cuda(backend).blas();
  const MathMode mode(blas, CUBLAS_DEFAULT_MATH);
  cuda_check(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, rows, rows, rows, &one, a, type, rows, b,
                          type, rows, &zero, c, type, rows, compute, CUBLAS_GEMM_DEFAULT),
             "cublasGemmEx");
  return true;
}

}  // namespace crema
