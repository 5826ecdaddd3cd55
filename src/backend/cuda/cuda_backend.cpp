#include "backend/cuda/cuda_backend.hpp"

#include "backend/cuda/dnn_plans.hpp"
#include "crema/error.hpp"

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
}

// Failures are of no use to anyone by now.
CudaBackend::~CudaBackend() {
  cudaSetDevice(index_);
  cudaStreamSynchronize(stream_);
  dnn_plans_.reset();
  if (dnn_) cudnnDestroy(dnn_);
  if (blas_) cublasDestroy(blas_);
  cudaFree(scratch_);
  cudaStreamDestroy(stream_);
}

void CudaBackend::activate() const { cuda_check(cudaSetDevice(index_), "cudaSetDevice"); }

void* CudaBackend::allocate(size_t bytes) {
  activate();
  void* pointer = nullptr;
  const cudaError_t status = cudaMalloc(&pointer, bytes > 0 ? bytes : 1);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error("cannot allocate ", bytes, " bytes (", bytes >> 20, " MiB) on CUDA device ", index_,
                ", which has ", free_bytes() >> 20,
                " MiB free; use a smaller batch or fewer nets at once");
  }
  cuda_check(status, "cudaMalloc");
  return pointer;
}

void CudaBackend::release(void* pointer) noexcept {
  cudaSetDevice(index_);
  cudaFree(pointer);
}

void CudaBackend::copy_to_device(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  activate();
  cuda_check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_),
             "copying to the device");
  cuda_check(cudaStreamSynchronize(stream_), "copying to the device");
}

void CudaBackend::copy_to_host(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return;
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
  activate();
  cuda_check(cudaStreamSynchronize(stream_), "a kernel");
}

size_t CudaBackend::free_bytes() const {
  activate();
  size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

cublasHandle_t CudaBackend::blas() {
  if (!blas_) {
    cuda_check(cublasCreate(&blas_), "cublasCreate");
    cuda_check(cublasSetStream(blas_, stream_), "cublasSetStream");
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
    // cudaFree waits for the device, so no kernel uses the old piece any more.
    release(scratch_);
    scratch_ = nullptr;
    scratch_bytes_ = 0;
    scratch_ = allocate(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_;
}

CudaBackend& cuda(const Context& context) { return cuda(context.backend()); }

CudaBackend& cuda(DeviceBackend& backend) {
  // The only maker of device backends in a build with CUDA is make_cuda_backend.
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
