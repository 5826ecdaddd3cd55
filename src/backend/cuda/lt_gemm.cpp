#include "backend/cuda/lt_gemm.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "backend/cuda/cuda_backend.hpp"

namespace crema {
namespace {

/// Of memory whose matrices vectors may read. What has less takes an algorithm of its own.
constexpr uint32_t kAlignment = 16;
/// Algorithms that are worth measuring.
constexpr int kMost = 8;
constexpr std::string_view kName = "algorithm";

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw Error("cuBLASLt has no products of ", to_string(dtype), " here");
  }
}

cublasLtEpilogue_t epilogue_of(ProductEnding ending) {
  switch (ending) {
    case ProductEnding::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case ProductEnding::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case ProductEnding::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case ProductEnding::bias_relu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case ProductEnding::sums_of_a:
      return CUBLASLT_EPILOGUE_BGRADA;
    case ProductEnding::sums_of_b:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  throw Error("a product has no such ending");
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, const T& value) {
  cuda_check(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name, const T& value) {
  cuda_check(cublasLtMatrixLayoutSetAttribute(layout, name, &value, sizeof(value)),
             "cublasLtMatrixLayoutSetAttribute");
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
         const T& value) {
  cuda_check(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute");
}

void describe(cublasLtMatrixLayout_t layout, const ColumnMatrix& matrix) {
  cuda_check(
      cublasLtMatrixLayoutInit(layout, type_of(matrix.dtype), static_cast<uint64_t>(matrix.rows),
                               static_cast<uint64_t>(matrix.columns), matrix.leading),
      "cublasLtMatrixLayoutInit");
  if (matrix.batch == 1) return;
  if (matrix.batch > std::numeric_limits<int32_t>::max())
    throw Error("cuBLASLt takes no batch of ", matrix.batch, " products; use a smaller batch");
  set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(matrix.batch));
  set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.stride);
}

cublasLtHandle_t handle_of(CudaBackend& backend) {
  // The library documents that a handle of cuBLAS is one of cuBLASLt, too.
  return reinterpret_cast<cublasLtHandle_t>(backend.blas());
}

std::vector<cublasLtMatmulHeuristicResult_t> suggestions(CudaBackend& backend, const LtCall& call,
                                                         const LtPreference& preference, int most,
                                                         std::string& why) {
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_of(backend), call.operation(), call.a(), call.b(), call.d(), call.d(),
      preference.get(), most, found.data(), &count);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(count) : 0);
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  if (found.empty()) {
    why = text("cuBLASLt has no algorithm for it: ",
               cublasGetStatusString(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED
                                                                     : status));
  }
  return found;
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0;
}

const void* aligned_vector() { return reinterpret_cast<const void*>(uintptr_t{kAlignment}); }

class LtPlan : public ProductPlan {
 public:
  LtPlan(CudaBackend& backend, const DeviceProduct& product, const Arithmetic& arithmetic,
         const cublasLtMatmulAlgo_t& algorithm, size_t workspace)
      : backend_(backend),
        product_(product),
        arithmetic_(arithmetic),
        call_(product, arithmetic.math),
        algorithm_(algorithm),
        workspace_(workspace) {}

  size_t scratch_bytes() const override { return workspace_; }

  void run(const ProductOperands& operands) override {
    if (call_.has_vector()) call_.set_vector(operands.vector);
    const cublasLtMatmulAlgo_t& algorithm = for_pointers(operands);
    const float alpha = call_.call().scale;
    // The library's a is our b.
    cuda_check(cublasLtMatmul(handle_of(backend_), call_.operation(), &alpha, operands.b, call_.a(),
                              operands.a, call_.b(), &operands.beta, operands.c, call_.d(),
                              operands.c, call_.d(), &algorithm, backend_.scratch(workspace_),
                              workspace_, backend_.stream()),
               "cublasLtMatmul");
  }

 private:
  /// Tensors that are parts of others, as Slice makes them, may begin anywhere.
  const cublasLtMatmulAlgo_t& for_pointers(const ProductOperands& o) {
    const bool aligned =
        is_aligned(o.a) && is_aligned(o.b) && is_aligned(o.c) && is_aligned(o.vector);
    if (aligned) return algorithm_;
    if (loose_) return *loose_;
    std::string why;
    if (call_.has_vector()) {
      const size_t element = size_of(product_.result);
      call_.set_vector(reinterpret_cast<const void*>(uintptr_t{element}));
    }
    const LtPreference preference(product_, arithmetic_, workspace_,
                                  static_cast<uint32_t>(size_of(product_.factors)));
    const auto found = suggestions(backend_, call_, preference, 1, why);
    if (found.empty()) throw Error("cannot multiply matrices that begin anywhere: ", why);
    loose_ = found[0].algo;
    if (call_.has_vector()) call_.set_vector(o.vector);
    return *loose_;
  }

  CudaBackend& backend_;
  DeviceProduct product_;
  Arithmetic arithmetic_;
  LtCall call_;
  cublasLtMatmulAlgo_t algorithm_;
  size_t workspace_;
  std::optional<cublasLtMatmulAlgo_t> loose_;
};

}  // namespace

LtCall::LtCall(const DeviceProduct& product, Math math)
    : call_(call_of(product)), compute_(CUBLAS_COMPUTE_32F) {
  if (product.factors == DType::f32 && math == Math::tf32) compute_ = CUBLAS_COMPUTE_32F_FAST_TF32;
  cuda_check(cublasLtMatmulDescInit(&operation_, compute_, CUDA_R_32F), "cublasLtMatmulDescInit");
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, operation(call_.transpose_a));
  set(&operation_, CUBLASLT_MATMUL_DESC_TRANSB, operation(call_.transpose_b));
  set(&operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call_.ending));
  if (has_vector()) {
    set(&operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(product.result));
    set_vector(aligned_vector());
  }
  describe(&a_, call_.a);
  describe(&b_, call_.b);
  describe(&d_, call_.d);
}

bool LtCall::has_vector() const {
  return call_.ending != ProductEnding::none && call_.ending != ProductEnding::relu;
}

void LtCall::set_vector(const void* vector) {
  set(&operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
}

LtPreference::LtPreference(const DeviceProduct& product, const Arithmetic& arithmetic,
                           size_t workspace, uint32_t alignment) {
  cuda_check(cublasLtMatmulPreferenceInit(&preference_), "cublasLtMatmulPreferenceInit");
  set(&preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  set(&preference_, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, lt_reductions(product, arithmetic));
  for (const auto name :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(&preference_, name, alignment);
  }
}

uint32_t lt_reductions(const DeviceProduct& product, const Arithmetic& arithmetic) {
  uint32_t mask = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  // In place, parts are added in the type of the result, in the order in which they are done.
  if (!arithmetic.deterministic && product.result == DType::f32)
    mask |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
  return mask;
}

std::string lt_name(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr int kHexadecimal = 16;
  constexpr size_t kDigits = 16;
  std::string name(kName), zeros;
  for (const uint64_t word : algorithm.data) {
    std::array<char, kDigits> digits{};
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), word, kHexadecimal).ptr;
    zeros += name == kName && zeros.empty() ? ' ' : '.';
    zeros.append(digits.data(), end);
    if (word == 0) continue;
    name += std::exchange(zeros, {});
  }
  return name;
}

std::optional<cublasLtMatmulAlgo_t> lt_algorithm(const std::string& name) {
  if (!name.starts_with(kName)) return std::nullopt;
  constexpr int kHexadecimal = 16;
  cublasLtMatmulAlgo_t algorithm{};
  const char* at = name.data() + kName.size();
  const char* const end = name.data() + name.size();
  for (uint64_t& word : algorithm.data) {
    if (at == end) break;
    const auto [next, failure] = std::from_chars(at + 1, end, word, kHexadecimal);
    if (failure != std::errc()) return std::nullopt;
    at = next;
  }
  if (at != end) return std::nullopt;
  return algorithm;
}

std::string product_library(DeviceBackend& backend) {
  cuda(backend);  // the device of this thread from here on
  int device = 0, driver = 0;
  cudaDeviceProp properties{};
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda_check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  cuda_check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return text(properties.name, ", cuBLASLt ", cublasLtGetVersion(), ", driver ", driver);
}

std::vector<std::string> product_algorithms(DeviceBackend& backend, const DeviceProduct& product,
                                            const Arithmetic& arithmetic, std::string& why) {
  const LtCall call(product, arithmetic.math);
  const LtPreference preference(product, arithmetic, arithmetic.workspace_limit, kAlignment);
  std::vector<std::string> names;
  for (const auto& one : suggestions(cuda(backend), call, preference, kMost, why))
    names.push_back(lt_name(one.algo));
  return names;
}

std::unique_ptr<ProductPlan> make_product_plan(DeviceBackend& backend, const DeviceProduct& product,
                                               const Arithmetic& arithmetic,
                                               const std::string& algorithm, std::string& why) {
  const auto known = lt_algorithm(algorithm);
  if (!known) {
    why = text("cuBLASLt has no '", algorithm, "'");
    return nullptr;
  }
  CudaBackend& of_cuda = cuda(backend);
  const LtCall call(product, arithmetic.math);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle_of(of_cuda), call.operation(), call.a(), call.b(), call.d(),
                              call.d(), &*known, &result);
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  size_t written = 0;
  if (status != CUBLAS_STATUS_SUCCESS) {
    why = text("cuBLASLt refuses the algorithm for this shape: ", cublasGetStatusString(status));
    return nullptr;
  }
  cuda_check(cublasLtMatmulAlgoConfigGetAttribute(&*known, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                  &reduction, sizeof(reduction), &written),
             "cublasLtMatmulAlgoConfigGetAttribute");
  if ((reduction & ~lt_reductions(product, arithmetic)) != 0) {
    why = "its sums are rounded or have no order; set deterministic: false in the net";
    return nullptr;
  }
  if (result.workspaceSize > arithmetic.workspace_limit) {
    why = text("it takes ", result.workspaceSize, " bytes of scratch memory, and workspace_limit ",
               "of the net is ", arithmetic.workspace_limit);
    return nullptr;
  }
  return std::make_unique<LtPlan>(of_cuda, product, arithmetic, *known, result.workspaceSize);
}

}  // namespace crema
