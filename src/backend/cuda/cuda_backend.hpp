// CUDA: one device, one stream, cuBLAS and cuDNN bound to it. The only folder, with the rooms' .cu
// and _cudnn.cpp files, that knows CUDA's headers.
//
// All work of a context runs in its stream, in order, so scratch memory is shared and nothing need
// wait for anything but copies to the host. Batches are copied to the device in a second stream.
// Memory comes from a pool of the context, in the order of the stream. f32 is computed in f32, or
// in TF32, which keeps 10 bits of the fraction, where the net's `math` allows it
// (crema/arithmetic.hpp).
//
// Threads: a context on CUDA serves one thread at a time; give each thread a context of its own.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <memory>
#include <vector>

#include "core/device.hpp"
#include "crema/context.hpp"

namespace crema {

class DnnPlans;  // backend/cuda/dnn_plans.hpp

/// Error with the library's own words unless the call succeeded. `what` names the call.
void cuda_check(cudaError_t status, const char* what);
void cuda_check(cublasStatus_t status, const char* what);
void cuda_check(cudnnStatus_t status, const char* what);

/// Small pieces of host memory on their way to the device: a pinned copy of each lives until the
/// device has taken it.
class PinnedRing {
 public:
  PinnedRing(size_t bytes, size_t slots) : bytes_(bytes), slots_(slots) {}
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  /// The most bytes of a piece.
  size_t bytes() const { return bytes_; }
  /// Queues the copy; waits where all slots are on their way.
  void copy(cudaStream_t stream, void* device, const void* host, size_t bytes);

 private:
  struct Slot {
    void* pinned = nullptr;
    cudaEvent_t taken = nullptr;
  };
  size_t bytes_;
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

class CudaBackend : public DeviceBackend {
 public:
  /// Error when there is no driver, or no such device.
  explicit CudaBackend(int index);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  /// MemoryError (core/memory_error.hpp) where there is not enough.
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

  void* allocate_pinned(size_t bytes) override;
  void release_pinned(void* pointer) noexcept override;
  void upload(void* device, const void* pinned, size_t bytes) override;
  void download(void* pinned, const void* device, size_t bytes) override;
  void copy_unless(const int32_t* stop, void* to, const void* from, size_t bytes) override;
  std::unique_ptr<DeviceEvent> make_event() override;
  void record(DeviceEvent& event, DeviceQueue queue) override;
  void queue_wait(DeviceQueue queue, const DeviceEvent& event) override;
  void wait(const DeviceEvent& event) override;
  void begin_capture() override;
  std::unique_ptr<DeviceGraph> end_capture() override;
  void abandon_capture() noexcept override;
  void launch(DeviceGraph& graph) override;
  uint64_t generation() const override { return generation_; }
  void reserve_scratch(size_t bytes) override { scratch(bytes); }

  /// Makes this the calling thread's device.
  void activate() const;
  cudaStream_t stream() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  /// Made at the first call.
  cublasHandle_t blas();
  cudnnHandle_t dnn();
  DnnPlans& dnn_plans();

  /// Memory for one piece of work, until the next call: what runs in the stream later may overwrite
  /// it.
  void* scratch(size_t bytes);
  /// Gives released memory back to the device, which other contexts and processes use too. Waits.
  void trim();
  /// Error while work is recorded; `what` it does.
  void refuse_in_capture(const char* what) const;

 private:
  void make_pool();
  void finish_capture() noexcept;

  int index_;
  int multiprocessors_ = 1;
  cudaStream_t stream_ = nullptr, upload_stream_ = nullptr;
  cudaMemPool_t pool_ = nullptr;  // null: the device has none
  cublasHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
  std::unique_ptr<DnnPlans> dnn_plans_;  // of dnn_
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
  uint64_t generation_ = 0;
  void* blas_workspace_ = nullptr;
  PinnedRing small_{size_t{16} << 10, 128}, large_{size_t{1} << 20, 4};
  bool captures_ = false;
  std::vector<void*> released_;  // while work is recorded
};

/// The backend of a context on CUDA, made the calling thread's device.
CudaBackend& cuda(const Context& context);
CudaBackend& cuda(DeviceBackend& backend);

}  // namespace crema
