#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>
#include <cstring>
#include <typeinfo>
#include <utility>

#include "backend/cuda/dnn_plans.hpp"
#include "core/memory_error.hpp"

namespace crema {
namespace {

/// Devices of this machine; 0 and the reason in `why` where there are none.
int device_count(std::string& why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  // The error has been reported; a later call must not find it again.
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    why = driver == 0 ? text("this machine has no CUDA driver; install NVIDIA's")
                      : text("the CUDA driver knows version ", driver / 1000, ".",
                             driver % 1000 / 10, ", but this build needs ", runtime / 1000, ".",
                             runtime % 1000 / 10, "; install a newer driver");
  } else if (status == cudaSuccess || status == cudaErrorNoDevice) {
    why = "this machine shows no CUDA device; see CUDA_VISIBLE_DEVICES and nvidia-smi";
  } else {
    why = text("CUDA cannot count its devices: ", cudaGetErrorString(status));
  }
  return 0;
}

[[noreturn]] void fail(const char* what, const char* reason) {
  throw Error(what, " failed on the GPU: ", reason);
}

struct CudaEvent : DeviceEvent {
  CudaEvent() {
    cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~CudaEvent() override { cudaEventDestroy(event); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t event = nullptr;
};

cudaEvent_t event_of(const DeviceEvent& event) {
  return static_cast<const CudaEvent&>(event).event;
}

struct CudaGraph : DeviceGraph {
  explicit CudaGraph(cudaGraph_t graph) {
    const cudaError_t status = cudaGraphInstantiateWithFlags(&exec, graph, 0);
    cudaGraphDestroy(graph);
    cuda_check(status, "cudaGraphInstantiate");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(exec); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  cudaGraphExec_t exec = nullptr;
};

}  // namespace

void cuda_check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail(what, cudaGetErrorString(status));
}

void cuda_check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(what, cublasGetStatusString(status));
}

void cuda_check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) fail(what, cudnnGetErrorString(status));
}

CudaBackend::CudaBackend(int index) : index_(index) {
  std::string why;
  const int count = device_count(why);
  if (count <= 0) throw Error("cannot use CUDA device ", index, ": ", why, ", or run on the CPU");
  if (index < 0 || index >= count)
    throw Error("there is no CUDA device ", index, "; this machine has ", count,
                ", counted from 0");
  activate();
  cuda_check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, index),
             "cudaDeviceGetAttribute");
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  cuda_check(cudaStreamCreateWithFlags(&upload_stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  make_pool();
}

void CudaBackend::make_pool() {
  int has_pools = 0;
  cuda_check(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, index_),
             "cudaDeviceGetAttribute");
  if (has_pools == 0) return;
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = index_;
  cuda_check(cudaMemPoolCreate(&pool_, &props), "cudaMemPoolCreate");
  // Memory that is released stays in the pool: the next shapes take it without a wait.
  uint64_t kept = ~uint64_t{0};
  cuda_check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept),
             "cudaMemPoolSetAttribute");
}

// Failures are of no use to anyone by now.
CudaBackend::~CudaBackend() {
  cudaSetDevice(index_);
  cudaStreamSynchronize(upload_stream_);
  cudaStreamSynchronize(stream_);
  dnn_plans_.reset();
  if (dnn_) cudnnDestroy(dnn_);
  if (blas_) cublasDestroy(blas_);
  release(scratch_);
  release(blas_workspace_);
  cudaStreamSynchronize(stream_);
  if (pool_) cudaMemPoolDestroy(pool_);
  cudaStreamDestroy(upload_stream_);
  cudaStreamDestroy(stream_);
}

void CudaBackend::activate() const { cuda_check(cudaSetDevice(index_), "cudaSetDevice"); }

void* CudaBackend::allocate(size_t bytes) {
  refuse_in_capture("takes memory");
  activate();
  void* pointer = nullptr;
  const auto take = [&] {
    const size_t wanted = std::max<size_t>(bytes, 1);
    return pool_ ? cudaMallocFromPoolAsync(&pointer, wanted, pool_, stream_)
                 : cudaMalloc(&pointer, wanted);
  };
  cudaError_t status = take();
  if (status == cudaErrorMemoryAllocation && pool_) {
    // What the pool keeps may lie in pieces that are too small.
    cudaGetLastError();
    trim();
    status = take();
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw MemoryError("cannot allocate ", bytes, " bytes (", bytes >> 20, " MiB) on CUDA device ",
                      index_, ", which has ", free_bytes() >> 20,
                      " MiB free; use a smaller batch or fewer nets at once");
  }
  cuda_check(status, "cudaMalloc");
  return pointer;
}

void CudaBackend::trim() {
  if (!pool_) return;
  cudaStreamSynchronize(stream_);
  cudaMemPoolTrimTo(pool_, 0);
}

void CudaBackend::release(void* pointer) noexcept {
  if (pointer == nullptr) return;
  if (captures_) return released_.push_back(pointer);
  cudaSetDevice(index_);
  if (pool_) {
    cudaFreeAsync(pointer, stream_);
  } else {
    cudaFree(pointer);
  }
}

void CudaBackend::copy_to_device(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  refuse_in_capture("copies from the host");
  activate();
  for (PinnedRing* ring : {&small_, &large_}) {
    if (bytes <= ring->bytes()) return ring->copy(stream_, device, host, bytes);
  }
  cuda_check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_),
             "copying to the device");
  cuda_check(cudaStreamSynchronize(stream_), "copying to the device");
}

void CudaBackend::copy_to_host(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return;
  refuse_in_capture("copies to the host");
  activate();
  cuda_check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_),
             "copying to the host");
  cuda_check(cudaStreamSynchronize(stream_), "copying to the host");
}

void CudaBackend::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  activate();
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
             "copying on the device");
}

void CudaBackend::fill_zero(void* device, size_t bytes) {
  if (bytes == 0) return;
  activate();
  cuda_check(cudaMemsetAsync(device, 0, bytes, stream_), "cudaMemset");
}

void CudaBackend::synchronize() {
  refuse_in_capture("waits for the device");
  activate();
  cuda_check(cudaStreamSynchronize(stream_), "a kernel");
}

size_t CudaBackend::free_bytes() const {
  activate();
  size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (!pool_) return free;
  uint64_t held = 0, used = 0;
  cuda_check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &held),
             "cudaMemPoolGetAttribute");
  cuda_check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used),
             "cudaMemPoolGetAttribute");
  return free + static_cast<size_t>(held - used);
}

void CudaBackend::refuse_in_capture(const char* what) const {
  if (captures_) throw Error(what, " in each pass");
}

PinnedRing::~PinnedRing() {
  for (const Slot& slot : slots_) {
    if (slot.taken) cudaEventDestroy(slot.taken);
    if (slot.pinned) cudaFreeHost(slot.pinned);
  }
}

void PinnedRing::copy(cudaStream_t stream, void* device, const void* host, size_t bytes) {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  if (slot.pinned == nullptr) {
    cuda_check(cudaMallocHost(&slot.pinned, bytes_), "cudaMallocHost");
    cuda_check(cudaEventCreateWithFlags(&slot.taken, cudaEventDisableTiming), "cudaEventCreate");
  } else {
    cuda_check(cudaEventSynchronize(slot.taken), "copying to the device");
  }
  std::memcpy(slot.pinned, host, bytes);
  cuda_check(cudaMemcpyAsync(device, slot.pinned, bytes, cudaMemcpyHostToDevice, stream),
             "copying to the device");
  cuda_check(cudaEventRecord(slot.taken, stream), "copying to the device");
}

void* CudaBackend::allocate_pinned(size_t bytes) {
  refuse_in_capture("takes host memory");
  activate();
  void* pointer = nullptr;
  const cudaError_t status = cudaMallocHost(&pointer, std::max<size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error("cannot allocate ", bytes, " bytes (", bytes >> 20,
                " MiB) of host memory that the GPU copies from; use a smaller batch");
  }
  cuda_check(status, "cudaMallocHost");
  return pointer;
}

void CudaBackend::release_pinned(void* pointer) noexcept {
  cudaSetDevice(index_);
  cudaFreeHost(pointer);
}

void CudaBackend::upload(void* device, const void* pinned, size_t bytes) {
  refuse_in_capture("copies from the host");
  activate();
  cuda_check(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, upload_stream_),
             "copying to the device");
}

void CudaBackend::download(void* pinned, const void* device, size_t bytes) {
  refuse_in_capture("copies to the host");
  activate();
  cuda_check(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, stream_),
             "copying to the host");
}

std::unique_ptr<DeviceEvent> CudaBackend::make_event() {
  activate();
  return std::make_unique<CudaEvent>();
}

void CudaBackend::record(DeviceEvent& event, DeviceQueue queue) {
  activate();
  cuda_check(
      cudaEventRecord(event_of(event), queue == DeviceQueue::work ? stream_ : upload_stream_),
      "cudaEventRecord");
}

void CudaBackend::queue_wait(DeviceQueue queue, const DeviceEvent& event) {
  activate();
  cuda_check(cudaStreamWaitEvent(queue == DeviceQueue::work ? stream_ : upload_stream_,
                                 event_of(event), 0),
             "cudaStreamWaitEvent");
}

void CudaBackend::wait(const DeviceEvent& event) {
  refuse_in_capture("waits for the device");
  activate();
  cuda_check(cudaEventSynchronize(event_of(event)), "a kernel");
}

void CudaBackend::begin_capture() {
  activate();
  cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  captures_ = true;
}

void CudaBackend::finish_capture() noexcept {
  captures_ = false;
  for (void* pointer : std::exchange(released_, {})) release(pointer);
}

std::unique_ptr<DeviceGraph> CudaBackend::end_capture() {
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &graph);
  finish_capture();
  cuda_check(status, "cudaStreamEndCapture");
  return std::make_unique<CudaGraph>(graph);
}

void CudaBackend::abandon_capture() noexcept {
  if (!captures_) return;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
  cudaGetLastError();
  finish_capture();
}

void CudaBackend::launch(DeviceGraph& graph) {
  activate();
  cuda_check(cudaGraphLaunch(static_cast<CudaGraph&>(graph).exec, stream_), "cudaGraphLaunch");
}

cublasHandle_t CudaBackend::blas() {
  if (!blas_) {
    cuda_check(cublasCreate(&blas_), "cublasCreate");
    cuda_check(cublasSetStream(blas_, stream_), "cublasSetStream");
    // Its own workspace would be taken anew in each record, and differ from run to run.
    constexpr size_t kWorkspace = size_t{32} << 20;
    blas_workspace_ = allocate(kWorkspace);
    cuda_check(cublasSetWorkspace(blas_, blas_workspace_, kWorkspace), "cublasSetWorkspace");
  }
  return blas_;
}

cudnnHandle_t CudaBackend::dnn() {
  if (!dnn_) {
    cuda_check(cudnnCreate(&dnn_), "cudnnCreate");
    cuda_check(cudnnSetStream(dnn_, stream_), "cudnnSetStream");
  }
  return dnn_;
}

DnnPlans& CudaBackend::dnn_plans() {
  if (!dnn_plans_) {
    cudaDeviceProp properties{};
    cuda_check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
    int driver = 0;
    cuda_check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    dnn_plans_ = std::make_unique<DnnPlans>(DnnDevice(
        dnn(), text(properties.name, ", cuDNN ", cudnnGetVersion(), ", driver ", driver)));
  }
  return *dnn_plans_;
}

void* CudaBackend::scratch(size_t bytes) {
  if (bytes > scratch_bytes_) {
    refuse_in_capture("takes scratch memory");
    // Released in the order of the stream, behind the kernels that use the old piece.
    release(std::exchange(scratch_, nullptr));
    scratch_bytes_ = 0;
    ++generation_;
    scratch_ = allocate(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_;
}

CudaBackend& cuda(const Context& context) { return cuda(context.backend()); }

CudaBackend& cuda(DeviceBackend& backend) {
  // A context may have been given another one, such as the device of the tests.
  if (typeid(backend) != typeid(CudaBackend))
    throw Error("the device of this context is none of CUDA, and CUDA's kernels were asked for");
  auto& result = static_cast<CudaBackend&>(backend);
  result.activate();
  return result;
}

std::unique_ptr<DeviceBackend> make_cuda_backend(int index) {
  return std::make_unique<CudaBackend>(index);
}

std::vector<DeviceInfo> cuda_devices(std::string& why) {
  std::vector<DeviceInfo> devices;
  const int count = device_count(why);
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    cuda_check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    devices.push_back({index, properties.name, properties.totalGlobalMem, properties.major,
                       properties.minor, properties.multiProcessorCount});
  }
  return devices;
}

}  // namespace crema
