// Stands in for NVIDIA's driver, libcuda.so.1: says when it is called, and that it cannot.
#include <cstdio>

namespace {

constexpr int kNotInitialized = 3;  // CUDA_ERROR_NOT_INITIALIZED

int called(const char* what) {
  std::fprintf(stderr, "the fake CUDA driver was called: %s\n", what);
  return kNotInitialized;
}

}  // namespace

extern "C" {

int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
int cuGetProcAddress(const char* symbol, void** function, int version, unsigned long long flags);
int cuGetProcAddress_v2(const char* symbol, void** function, int version, unsigned long long flags,
                        void* status);

int cuInit(unsigned) { return called("cuInit"); }

int cuDriverGetVersion(int*) { return called("cuDriverGetVersion"); }

int cuGetProcAddress(const char* symbol, void**, int, unsigned long long) { return called(symbol); }

int cuGetProcAddress_v2(const char* symbol, void**, int, unsigned long long, void*) {
  return called(symbol);
}
}
