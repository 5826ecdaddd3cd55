// The losses of a pass.
#include "backend/cuda/kernels.cuh"
#include "backend/report.hpp"
#include "core/dispatch.hpp"

namespace crema {
namespace {

constexpr int kMostTerms = 16;      // of a launch
constexpr int64_t kFewValues = 64;  // of a loss that one thread adds up

struct LossTerms {
  LossTerm terms[kMostTerms];
  int count = 0;
};

__global__ void losses_kernel(RunBlock* block, LossTerms terms, bool begins, bool ends,
                              bool first_pass) {
  double all = 0;
  for (int k = 0; k < terms.count; ++k) {
    const LossTerm& term = terms.terms[k];
    if (term.count <= kFewValues) {
      if (threadIdx.x == 0) all += sum_of(term);
      continue;
    }
    double sum = 0;
    for (int64_t i = threadIdx.x; i < term.count; i += kBlockThreads) {
      sum += term.dtype == DType::f32
                 ? static_cast<double>(static_cast<const float*>(term.values)[i])
                 : static_cast<const double*>(term.values)[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) all += sum * term.weight;
  }
  if (threadIdx.x != 0) return;
  DeviceReport& report = block->report;
  if (block->failed()) return;
  report.pass_loss = begins ? all : report.pass_loss + all;
  if (ends) finish_losses(*block, first_pass);
}

}  // namespace

void device_losses(DeviceBackend& device, RunBlock* block, std::span<const LossTerm> terms,
                   bool first_pass) {
  CudaBackend& backend = cuda(device);
  size_t done = 0;
  do {
    LossTerms some;
    const bool begins = done == 0;
    for (; some.count < kMostTerms && done < terms.size(); ++done)
      some.terms[some.count++] = terms[done];
    losses_kernel<<<1, kBlockThreads, 0, backend.stream()>>>(block, some, begins,
                                                             done == terms.size(), first_pass);
  } while (done < terms.size());
  cuda_check(cudaGetLastError(), "launching a sum of losses");
}

void device_seed(DeviceBackend& device, const LossScaleState* scale, DType dtype, int64_t count,
                 double weight, bool adds, void* diff) {
  dispatch_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    cuda_for_each(cuda(device), count, SeedElement<T>{scale, weight, adds, static_cast<T*>(diff)});
  });
}

}  // namespace crema
