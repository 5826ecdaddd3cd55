// Products by cuBLASLt, in TF32, f32 and 16 bits, agree with the CPU's in f32; and what the library
// is told of them, for which no device is needed.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "backend/cuda_test.hpp"
#include "support/net_test.hpp"

#if CREMA_BUILT_WITH_CUDA
#include "backend/cuda/lt_gemm.hpp"
#endif

namespace crema::test {
namespace {

using testing::HasSubstr;

#if CREMA_BUILT_WITH_CUDA
TEST(LtProducts, DescriptorsAreMadeWithoutADevice) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const ProductEnding ending :
         {ProductEnding::none, ProductEnding::bias, ProductEnding::relu, ProductEnding::bias_relu,
          ProductEnding::sums_of_a, ProductEnding::sums_of_b}) {
      DeviceProduct product{.factors = type,
                            .result = type,
                            .transpose_b = true,
                            .m = 7,
                            .n = 500,
                            .k = 800,
                            .ending = ending};
      for (const Math math : {Math::tf32, Math::strict}) {
        const LtCall call(product, math);
        EXPECT_EQ(call.compute(), type == DType::f32 && math == Math::tf32
                                      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                      : CUBLAS_COMPUTE_32F);
        cublasLtEpilogue_t epilogue{};
        size_t written = 0;
        EXPECT_EQ(cublasLtMatmulDescGetAttribute(call.operation(), CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                 &epilogue, sizeof(epilogue), &written),
                  CUBLAS_STATUS_SUCCESS);
        // Sums of our a are those of the library's b.
        if (ending == ProductEnding::sums_of_a) {
          EXPECT_EQ(epilogue, CUBLASLT_EPILOGUE_BGRADB);
        }
        int64_t leading = 0;
        EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(call.d(), CUBLASLT_MATRIX_LAYOUT_LD, &leading,
                                                   sizeof(leading), &written),
                  CUBLAS_STATUS_SUCCESS);
        EXPECT_EQ(leading, 500);
      }
      product.batch = 3;
      product.a_stride = 7 * 800;
      const LtCall batched(product, Math::tf32);
      int64_t stride = 0;
      size_t written = 0;
      EXPECT_EQ(
          cublasLtMatrixLayoutGetAttribute(batched.b(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &stride, sizeof(stride), &written),
          CUBLAS_STATUS_SUCCESS);
      EXPECT_EQ(stride, 7 * 800);
      EXPECT_NE(LtPreference(product, {}, 1 << 20, 16).get(), nullptr);
    }
  }
}

TEST(LtProducts, NamesOfAlgorithmsAreTheirBytes) {
  cublasLtMatmulAlgo_t algorithm{};
  EXPECT_EQ(lt_name(algorithm), "algorithm");
  algorithm.data[0] = 0x15;
  algorithm.data[2] = 0x2a0000000000000fULL;
  EXPECT_EQ(lt_name(algorithm), "algorithm 15.0.2a0000000000000f");
  for (const uint64_t last : {uint64_t{0}, uint64_t{7}}) {
    algorithm.data[7] = last;
    const auto again = lt_algorithm(lt_name(algorithm));
    ASSERT_TRUE(again);
    EXPECT_TRUE(std::ranges::equal(again->data, algorithm.data));
  }
  for (const char* other :
       {"engine 4", "algorithm x", "algorithm 1.2.3.4.5.6.7.8.9", "algorithm 1."}) {
    EXPECT_FALSE(lt_algorithm(other)) << other;
  }
}

TEST(LtProducts, OnlySumsInF32AndInOrderAreAllowed) {
  const DeviceProduct narrow{.result = DType::bf16}, wide{.result = DType::f32};
  const Arithmetic ordered{.deterministic = true}, any{.deterministic = false};
  for (const auto& [product, arithmetic, in_place] : {std::tuple(narrow, ordered, false),
                                                      {wide, ordered, false},
                                                      {narrow, any, false},
                                                      {wide, any, true}}) {
    const uint32_t mask = lt_reductions(product, arithmetic);
    EXPECT_EQ((mask & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0, in_place);
    EXPECT_EQ(mask & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 0U);
    EXPECT_NE(mask & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 0U);
  }
}
#endif

struct ProductNet {
  const char* name;
  const char* shape;   // dims of the input
  const char* layers;  // "x" to "y"
};

inline void PrintTo(const ProductNet& net, std::ostream* out) { *out << net.name; }

constexpr ProductNet kNets[] = {
    {"bias", "dim: 48 dim: 64", R"(
      layer { name: "a" type: "InnerProduct" bottom: "x" top: "y" inner_product_param {
              num_output: 40 weight_filler { type: "xavier" }
              bias_filler { type: "constant" value: 0.2 } } })"},
    {"odd_sizes", "dim: 5 dim: 3 dim: 7 dim: 9", R"(
      layer { name: "a" type: "InnerProduct" bottom: "x" top: "y" inner_product_param {
              num_output: 37 weight_filler { type: "xavier" } } })"},
    {"relu_and_transposed", "dim: 32 dim: 64", R"(
      layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" inner_product_param {
              num_output: 128 transpose: true weight_filler { type: "xavier" } } }
      layer { name: "r" type: "ReLU" bottom: "a" top: "a" }
      layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" inner_product_param {
              num_output: 64 bias_term: false weight_filler { type: "xavier" } } }
      layer { name: "l" type: "ReLU" bottom: "b" top: "b" relu_param { negative_slope: 0.1 } }
      layer { name: "c" type: "InnerProduct" bottom: "b" top: "y" inner_product_param {
              num_output: 10 transpose: true weight_filler { type: "xavier" } } })"},
    {"positions", "dim: 4 dim: 24 dim: 48", R"(
      layer { name: "q" type: "InnerProduct" bottom: "x" top: "q" inner_product_param {
              num_output: 32 axis: 2 weight_filler { type: "xavier" } } }
      layer { name: "k" type: "InnerProduct" bottom: "x" top: "k" inner_product_param {
              num_output: 32 axis: 2 weight_filler { type: "xavier" } } }
      layer { name: "s" type: "MatMul" bottom: "q" bottom: "k" top: "s"
              matmul_param { transpose_b: true scale: 0.18 } }
      layer { name: "m" type: "MatMul" bottom: "s" bottom: "k" top: "y" })"},
    // The parts of a Slice begin at places that vectors cannot read.
    {"parts", "dim: 6 dim: 33", R"(
      layer { name: "s" type: "Slice" bottom: "x" top: "s" top: "t"
              slice_param { axis: 0 slice_point: 1 } }
      layer { name: "a" type: "InnerProduct" bottom: "t" top: "y" inner_product_param {
              num_output: 24 weight_filler { type: "xavier" } } }
      layer { name: "z" type: "Silence" bottom: "s" })"},
};

struct Result {
  std::vector<double> y, gradients, dx;
  std::vector<NetStep> products;
};

Result run(Context& context, const ProductNet& c, DType activations, const char* settings = "") {
  NetParameter param = net_param(text("force_backward: true ", settings,
                                      " layer { name: 'x' type: 'Input' top: 'x' input_param { "
                                      "shape { ",
                                      c.shape, " } } } ", c.layers));
  Net net(
      param, context,
      {.phase = Phase::train, .activations = activations, .backward = NetOptions::Backward::yes});
  fill_inputs(net);
  net.clear_gradients();
  Result result;
  // The second pass adds to the gradients.
  for (int pass = 0; pass < 2; ++pass) {
    net.forward();
    net.blob("y").diff.fill(0.5);
    net.backward();
  }
  result.y = values_of(net.blob("y").data);
  result.gradients = gradients_of(net);
  result.dx = values_of(net.blob("x").diff);
  for (const NetStep& step : net.steps()) {
    if (step.type == "InnerProduct" || step.type == "MatMul") result.products.push_back(step);
  }
  return result;
}

class CudaProducts : public testing::TestWithParam<ProductNet> {};

TEST_P(CudaProducts, AgreeWithTheCpu) {
  const std::string why = why_no_device();
  if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
  Context cpu;
  const Result exact = run(cpu, GetParam(), DType::f32);
  const auto largest = [](const std::vector<double>& values) {
    double most = 1;
    for (const double value : values) most = std::max(most, std::abs(value));
    return most;
  };
  struct Kind {
    DType type;
    const char* settings;
    double allowed;
  };
  for (const bool tune : {false, true}) {
    Context gpu({.device = {DeviceType::cuda, 0}, .tune = tune});
    for (const Kind& kind : {Kind{DType::f32, "math: STRICT", 1e-5},
                             {DType::f32, "", 5e-3},
                             {DType::f16, "", 1e-2},
                             {DType::bf16, "", 6e-2},
                             {DType::bf16, "deterministic: false", 6e-2},
                             {DType::bf16, "workspace_limit: 0", 6e-2}}) {
      SCOPED_TRACE(text(to_string(kind.type), " ", kind.settings, tune ? " tuned" : ""));
      const Result found = run(gpu, GetParam(), kind.type, kind.settings);
      for (const NetStep& step : found.products) {
        EXPECT_EQ(step.engine, "cuda") << step.name;
        EXPECT_THAT(step.detail, HasSubstr("forward")) << step.name << " is not by cuBLASLt";
      }
      const auto check = [&](const std::vector<double>& got, const std::vector<double>& wanted,
                             const char* what) {
        expect_close(got, wanted, {kind.allowed * largest(wanted), kind.allowed}, what);
      };
      check(found.y, exact.y, "y");
      check(found.dx, exact.dx, "dx");
      check(found.gradients, exact.gradients, "gradients");
      if (std::string_view(kind.settings) == "deterministic: false") continue;
      const Result again = run(gpu, GetParam(), kind.type, kind.settings);
      EXPECT_EQ(again.y, found.y) << "bits";
      EXPECT_EQ(again.gradients, found.gradients) << "bits";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, CudaProducts, testing::ValuesIn(kNets),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace crema::test
