// Products of matrices on a device: what a library is told of them, and the layers that are made of
// them, in 16 bits and in f32, against loops and against the reference.
#include "backend/products.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/convert.hpp"
#include "core/dispatch.hpp"
#include "core/tuner.hpp"
#include "crema/net.hpp"
#include "layers/inner_product/products.hpp"
#include "layers/mat_mul/products.hpp"
#include "support/fake_device.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

double rounded_to(DType type, double value) {
  const auto single = static_cast<float>(value);
  if (type == DType::bf16) return convert_value<float>(convert_value<bfloat16>(single));
  if (type == DType::f16) return convert_value<float>(convert_value<float16>(single));
  return single;
}

/// Of a result that is rounded once.
double rounding_of(DType type) {
  return type == DType::bf16 ? 1.0 / 256 : type == DType::f16 ? 1.0 / 2048 : 1e-5;
}

/// Values of a type in memory, of numbers that it holds exactly.
class OperandMemory {
 public:
  OperandMemory(DType type, int64_t count, int seed) : tensor_(Shape{count}, type) {
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>((i * 7 + seed * 5) % 17 - 8) / 8;
      values.push_back(value);
    }
    dispatch_any_float(type, [&]<class T>(T) {
      T* const to = static_cast<T*>(pointer());
      for (int64_t i = 0; i < count; ++i)
        to[i] = convert_value<T>(static_cast<float>(values[static_cast<size_t>(i)]));
    });
  }
  void* pointer() { return tensor_.overwrite_bytes(); }
  std::vector<double> found() const {
    std::vector<double> all;
    for (int64_t i = 0; i < tensor_.count(); ++i) all.push_back(tensor_.at(i));
    return all;
  }

  std::vector<double> values;

 private:
  Tensor tensor_;
};

/// What a DeviceProduct says, by loops over rows.
struct Expected {
  std::vector<double> c, vector;

  Expected(const DeviceProduct& p, float beta, const OperandMemory& a, const OperandMemory& b,
           const OperandMemory& c_in, const OperandMemory& vector_in)
      : c(c_in.values), vector(vector_in.values) {
    const bool biased = p.ending == ProductEnding::bias || p.ending == ProductEnding::bias_relu;
    const bool relu = p.ending == ProductEnding::relu || p.ending == ProductEnding::bias_relu;
    for (int64_t place = 0; place < p.batch; ++place) {
      const auto of_a = [&](int64_t i, int64_t l) {
        return a.values.at(
            static_cast<size_t>(place * p.a_stride + (p.transpose_a ? l * p.m + i : i * p.k + l)));
      };
      const auto of_b = [&](int64_t l, int64_t j) {
        return b.values.at(
            static_cast<size_t>(place * p.b_stride + (p.transpose_b ? j * p.k + l : l * p.n + j)));
      };
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < p.k; ++l) sum += of_a(i, l) * of_b(l, j);
          double& to = c.at(static_cast<size_t>(place * p.c_stride + i * p.n + j));
          to = static_cast<double>(p.scale) * sum + static_cast<double>(beta) * to;
          if (biased) to += vector_in.values.at(static_cast<size_t>(j));
          if (relu) to = std::max(to, 0.0);
        }
      }
      for (int64_t l = 0; l < p.k; ++l) {
        for (int64_t i = 0; i < p.m && p.ending == ProductEnding::sums_of_a; ++i)
          add(static_cast<size_t>(i), l, of_a(i, l));
        for (int64_t j = 0; j < p.n && p.ending == ProductEnding::sums_of_b; ++j)
          add(static_cast<size_t>(j), l, of_b(l, j));
      }
    }
  }
  void add(size_t at, int64_t l, double value) {
    vector.at(at) = (l == 0 ? 0 : vector.at(at)) + value;
  }
};

void check_product(const DeviceProduct& p, float beta) {
  SCOPED_TRACE(text(to_string(p.factors), ">", to_string(p.result), " ending ",
                    static_cast<int>(p.ending), p.transpose_a ? " a'" : "",
                    p.transpose_b ? " b'" : "", " batch ", p.batch, " beta ", beta));
  const auto count = [&](int64_t rows, int64_t columns, int64_t stride) {
    return rows * columns + (p.batch - 1) * stride;
  };
  OperandMemory a(p.factors, count(p.m, p.k, p.a_stride), 1);
  OperandMemory b(p.factors, count(p.k, p.n, p.b_stride), 2);
  OperandMemory c(p.result, count(p.m, p.n, p.c_stride), 3);
  OperandMemory vector(p.result, std::max(p.m, p.n), 4);
  const Expected expected(p, beta, a, b, c, vector);
  FakeDevice device;
  std::string why;
  const std::vector<std::string> algorithms = product_algorithms(device, p, {}, why);
  ASSERT_FALSE(algorithms.empty()) << why;
  const auto plan = make_product_plan(device, p, {}, algorithms[0], why);
  ASSERT_NE(plan, nullptr) << why;
  plan->run({.a = a.pointer(),
             .b = b.pointer(),
             .c = c.pointer(),
             .beta = beta,
             .vector = vector.pointer()});
  device.synchronize();
  const double allowed = rounding_of(p.result);
  expect_close(c.found(), expected.c, {allowed, allowed}, "c");
  expect_close(vector.found(), expected.vector, {allowed, allowed}, "vector");
}

// The library stores columns: what it is told computes what is meant for rows.
TEST(DeviceProducts, CallsComputeWhatIsMeant) {
  for (const DType factors : kTypes) {
    for (const DType result : {factors, DType::f32}) {
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) {
          for (const ProductEnding ending :
               {ProductEnding::none, ProductEnding::bias, ProductEnding::relu,
                ProductEnding::bias_relu, ProductEnding::sums_of_a, ProductEnding::sums_of_b}) {
            DeviceProduct p{.factors = factors,
                            .result = result,
                            .transpose_a = transpose_a,
                            .transpose_b = transpose_b,
                            .m = 3,
                            .n = 5,
                            .k = 4,
                            .scale = -0.5,
                            .ending = ending};
            for (const float beta : {0.0F, 1.0F}) check_product(p, beta);
            if (ending != ProductEnding::none) continue;
            p.batch = 3;
            p.a_stride = 12, p.b_stride = 20, p.c_stride = 15;
            check_product(p, 0);
            p.b_stride = 0;
            check_product(p, 0);
          }
        }
      }
    }
  }
}

TEST(DeviceProducts, LeadingDimensionsAreThoseOfRows) {
  // x (7, 800) W', W (500, 800), and a bias.
  const InnerProductProblem problem{
      .batch = 7, .inputs = 800, .outputs = 500, .has_bias = true, .dtype = DType::bf16};
  const ProductCall forward =
      call_of(problem.product(InnerProductPass::forward, ProductEnding::bias));
  EXPECT_TRUE(forward.transpose_a);
  EXPECT_FALSE(forward.transpose_b);
  EXPECT_EQ(forward.a, (ColumnMatrix{DType::bf16, 800, 500, 800}));  // W
  EXPECT_EQ(forward.b, (ColumnMatrix{DType::bf16, 800, 7, 800}));    // x
  EXPECT_EQ(forward.d, (ColumnMatrix{DType::bf16, 500, 7, 500}));
  // dW = dy' x in f32, with the sums of dy, which is the library's b.
  const ProductCall weights =
      call_of(problem.product(InnerProductPass::weights, ProductEnding::sums_of_a));
  EXPECT_EQ(weights.a, (ColumnMatrix{DType::bf16, 800, 7, 800}));
  EXPECT_EQ(weights.b, (ColumnMatrix{DType::bf16, 500, 7, 500}));
  EXPECT_EQ(weights.d, (ColumnMatrix{DType::f32, 800, 500, 800}));
  EXPECT_FALSE(weights.transpose_a);
  EXPECT_TRUE(weights.transpose_b);
  EXPECT_EQ(weights.ending, ProductEnding::sums_of_b);
}

TEST(DeviceProducts, EndingsAreWhatALibraryHas) {
  InnerProductProblem problem{.batch = 2, .inputs = 3, .outputs = 4};
  const auto endings = [&] {
    return std::vector<ProductEnding>{problem.ending(InnerProductPass::forward),
                                      problem.ending(InnerProductPass::data),
                                      problem.ending(InnerProductPass::weights)};
  };
  using enum ProductEnding;
  EXPECT_THAT(endings(), ElementsAre(none, none, none));
  problem.relu = 0;
  EXPECT_THAT(endings(), ElementsAre(relu, none, none));
  problem.has_bias = problem.bias_learns = true;
  // The pass that undoes the ReLU adds up the gradient of the bias.
  EXPECT_THAT(endings(), ElementsAre(bias_relu, none, none));
  problem.relu = 0.1F;
  EXPECT_THAT(endings(), ElementsAre(bias, none, none));
  problem.relu.reset();
  EXPECT_THAT(endings(), ElementsAre(bias, none, sums_of_a));
  problem.transposed = true;
  EXPECT_THAT(endings(), ElementsAre(bias, none, sums_of_b));
  problem.bias_learns = false;
  EXPECT_THAT(endings(), ElementsAre(bias, none, none));
  FakeDevice device;
  const auto forms = [&](std::optional<float> relu, bool has_bias) {
    problem.relu = relu;
    problem.has_bias = has_bias;
    std::vector<std::pair<std::string, ProductEnding>> all;
    for (const ProductWay& way : problem.ways(InnerProductPass::forward, device)) {
      all.emplace_back(way.form, way.product.ending);
      EXPECT_EQ(way.beside != nullptr, way.form.ends_with("@1"));
    }
    return all;
  };
  using Form = std::pair<std::string, ProductEnding>;
  EXPECT_THAT(forms({}, true), ElementsAre(Form("fused", bias), Form("apart@1", none)));
  EXPECT_THAT(forms({}, false), ElementsAre(Form("apart", none)));
  EXPECT_THAT(forms(0, true), ElementsAre(Form("fused", bias_relu), Form("apart@1", none)));
  EXPECT_THAT(forms(0.1F, true), ElementsAre(Form("bias@1", bias), Form("apart@1", none)));
  EXPECT_THAT(forms(0.1F, false), ElementsAre(Form("apart@1", none)));
}

/// Runs each option of the device with rounded values, and the reference in f32 with the same ones.
void check_layer(const LayerCase& layer, DType type, Phase phase, const std::string& detail) {
  SCOPED_TRACE(text(layer.layer, " in ", to_string(type)));
  LayerCase c = layer;
  c.phase = phase;
  const bool trains = phase == Phase::train;
  const RunOptions on_device{
      .engine = "cuda", .device = DeviceType::cuda, .trains = trains, .activations = type};
  const LayerRun probe(c, on_device);
  for (int option = 0; option < static_cast<int>(probe.options().size()); ++option) {
    RunOptions chosen = on_device;
    chosen.option = option;
    LayerRun run(c, chosen), host(c, {.trains = trains});
    EXPECT_EQ(run.option().tops[0].dtype, type);
    EXPECT_EQ(run.kernel().detail(), detail);
    const auto round_all = [&](std::vector<double>& values) {
      for (double& value : values) value = rounded_to(type, value);
    };
    for (int i = 0; i < run.num_bottoms(); ++i) {
      round_all(run.bottom_values(i));
      host.bottom_values(i) = run.bottom_values(i);
    }
    for (int i = 0; i < run.num_params(); ++i) {
      round_all(run.param_values(i));
      host.param_values(i) = run.param_values(i);
    }
    run.forward();
    host.forward();
    const double once = rounding_of(type);
    expect_close(run.top(0), host.top(0), {once, 2 * once}, "top");
    if (!trains) continue;
    std::vector<double> diff = run.top_diff(0);
    round_all(diff);
    run.set_top_diff(0, diff);
    host.set_top_diff(0, diff);
    for (int pass = 0; pass < 2; ++pass) {
      // The second one adds to the gradients of the parameters.
      run.backward();
      host.backward();
      for (int i = 0; i < run.num_bottoms(); ++i) {
        expect_close(run.bottom_diff(i), host.bottom_diff(i), {2 * once, 2 * once},
                     text("diff of bottom ", i));
      }
      for (int i = 0; i < run.num_params(); ++i)
        expect_close(run.gradient(i), host.gradient(i), {1e-4, 1e-4}, text("gradient ", i));
    }
  }
}

std::string inner_product(std::string_view settings) {
  return text(
      "layer { type: 'InnerProduct' inner_product_param { num_output: 37 weight_filler { "
      "type: 'xavier' } bias_filler { type: 'gaussian' std: 0.3 } ",
      settings, " } }");
}

TEST(DeviceProducts, InnerProductAgreesWithTheReference) {
  const Input images = uniform({5, 6, 7, 3}), pooled = uniform({5, 48, 1, 1});
  const std::string relu = "layer { type: 'ReLU' }";
  const std::string leaky = "layer { type: 'ReLU' relu_param { negative_slope: 0.25 } }";
  for (const DType type : kTypes) {
    for (const char* transpose : {"", "transpose: true"}) {
      const std::string plain = inner_product(transpose);
      const std::string bare = inner_product(text("bias_term: false ", transpose));
      const auto check = [&](const LayerCase& c, const std::string& forward,
                             const std::string& weights) {
        check_layer(c, type, Phase::train,
                    text("forward ", forward, ", data apart, weights ", weights));
        check_layer(c, type, Phase::test, text("forward ", forward));
      };
      check({.layer = plain, .bottoms = {images}}, "fused", "fused");
      check({.layer = plain, .bottoms = {pooled}}, "fused", "fused");
      check({.layer = plain, .bottoms = {images}, .tail = {relu}}, "fused", "apart");
      check({.layer = plain, .bottoms = {images}, .tail = {leaky}}, "bias", "apart");
      check({.layer = bare, .bottoms = {images}}, "apart", "apart");
      check({.layer = bare, .bottoms = {images}, .tail = {relu}}, "fused", "apart");
      check({.layer = bare, .bottoms = {images}, .tail = {leaky}}, "apart", "apart");
    }
    check_layer({.layer = inner_product("axis: 2"), .bottoms = {images}}, type, Phase::train,
                "forward fused, data apart, weights fused");
  }
}

// What a library without endings leaves to our own pass: bias and ReLU, of rounded products.
TEST(DeviceProducts, InnerProductAddsBiasAndReLUApart) {
  for (const float slope : {0.0F, 0.25F}) {
    for (const DType type : kTypes) {
      SCOPED_TRACE(text("slope ", slope, " in ", to_string(type)));
      const NetParameter param = net_param(text(
          "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 5 dim: 16 } } } "
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
          "num_output: 24 weight_filler { type: 'xavier' } bias_filler { type: 'gaussian' } } } "
          "layer { name: 'r' type: 'ReLU' bottom: 'y' top: 'y' relu_param { negative_slope: ",
          slope, " } }"));
      Context cpu, gpu({.device = {.type = DeviceType::cuda}});
      const InnerProductProblem problem{
          .batch = 5, .inputs = 16, .outputs = 24, .has_bias = true, .relu = slope, .dtype = type};
      std::string library = product_library(gpu.backend());
      if (type == DType::f32) library += ", TF32";
      gpu.tuner().choose(problem.tuned(InnerProductPass::forward, library).name(),
                         "apart@1 algorithm of the tests");
      Net exact(param, cpu, {.phase = Phase::test});
      Net net(param, gpu, {.phase = Phase::test, .activations = type});
      for (Net* each : {&exact, &net}) fill_inputs(*each), each->forward();
      for (const NetStep& step : net.steps()) {
        if (step.type == "InnerProduct") {
          EXPECT_EQ(step.detail, "forward apart");
        }
      }
      // x, weights and the product are rounded, the bias is not, and the sum is.
      const double allowed = 4 * rounding_of(type);
      expect_close(values_of(net.blob("y").data), values_of(exact.blob("y").data),
                   {allowed, allowed}, "y");
    }
  }
}

TEST(DeviceProducts, InnerProductWithoutRowsHasGradientsOfZero) {
  for (const DType type : {DType::f32, DType::bf16}) {
    LayerRun run({.layer = inner_product(""), .bottoms = {uniform({0, 6})}},
                 {.engine = "cuda", .device = DeviceType::cuda, .activations = type});
    run.forward();
    run.backward();
    EXPECT_THAT(run.gradient(0), testing::Each(0));
    EXPECT_THAT(run.gradient(1), testing::Each(0));
  }
}

TEST(DeviceProducts, InnerProductInDoubleRunsAsBefore) {
  LayerRun run({.layer = inner_product(""), .bottoms = {uniform({3, 6})}},
               {.dtype = DType::f64, .engine = "cuda", .device = DeviceType::cuda});
  EXPECT_EQ(run.option().tops[0].dtype, DType::f64);
  EXPECT_EQ(run.kernel().detail(), "");
}

TEST(DeviceProducts, MatMulAgreesWithTheReference) {
  for (const DType type : kTypes) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        const std::string layer = text(
            "layer { type: 'MatMul' matmul_param { scale: -0.5 transpose_a: ", a ? "true" : "false",
            " transpose_b: ", b ? "true" : "false", " } }");
        const auto sizes = [](bool transposed, int64_t rows, int64_t columns) {
          return transposed ? Shape{columns, rows} : Shape{rows, columns};
        };
        const auto batched = [](const Shape& matrix) { return Shape{2, 3, matrix[0], matrix[1]}; };
        const Shape left = sizes(a, 4, 5), right = sizes(b, 5, 3);
        const char* const detail = "forward in one, of A in one, of B in one";
        check_layer({.layer = layer, .bottoms = {uniform(left), uniform(right)}}, type,
                    Phase::train, detail);
        check_layer({.layer = layer, .bottoms = {uniform(batched(left)), uniform(batched(right))}},
                    type, Phase::train, detail);
        const LayerCase shared{.layer = layer, .bottoms = {uniform(batched(left)), uniform(right)}};
        // The gradient of B is a sum of products.
        if (a) continue;
        check_layer(shared, type, Phase::train, detail);
        check_layer(shared, type, Phase::test, "forward in one");
      }
    }
  }
}

TEST(DeviceProducts, OneMatrixForAllIsOneTallProduct) {
  MatMulProblem problem{.batch = 6, .m = 4, .n = 3, .k = 5, .shared = true};
  const DeviceProduct forward = problem.pass(MatMulPass::forward).product;
  EXPECT_EQ(forward.batch, 1);
  EXPECT_EQ(forward.m, 24);
  const DeviceProduct of_b = problem.pass(MatMulPass::of_b).product;
  EXPECT_EQ(of_b.k, 24);
  EXPECT_TRUE(of_b.transpose_a);
  EXPECT_FALSE(problem.needs_several(MatMulPass::of_b));
  problem.transpose_a = true;
  EXPECT_TRUE(problem.needs_several(MatMulPass::of_b));
  EXPECT_EQ(problem.pass(MatMulPass::forward).product.batch, 6);
  EXPECT_EQ(problem.pass(MatMulPass::forward).product.b_stride, 0);
}

constexpr const char* kNet = R"(
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 dim: 16 } } }
    layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 dim: 6 } } }
    layer { name: "q" type: "InnerProduct" bottom: "x" top: "q" inner_product_param {
            num_output: 24 axis: 2 weight_filler { type: "xavier" } } }
    layer { name: "k" type: "InnerProduct" bottom: "x" top: "k" inner_product_param {
            num_output: 24 axis: 2 bias_term: false weight_filler { type: "xavier" } } }
    layer { name: "s" type: "MatMul" bottom: "q" bottom: "k" top: "s"
            matmul_param { transpose_b: true scale: 0.2 } }
    layer { name: "f" type: "InnerProduct" bottom: "s" top: "f" inner_product_param {
            num_output: 32 axis: 2 weight_filler { type: "xavier" } } }
    layer { name: "r" type: "ReLU" bottom: "f" top: "r" }
    layer { name: "g" type: "InnerProduct" bottom: "r" top: "g" inner_product_param {
            num_output: 3 axis: 2 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "g" bottom: "label" top: "loss"
            softmax_param { axis: 2 } })";

/// Half of the ReLU's bottoms are above 0 and half of them below, each further than a rounding
/// reaches: where a sum changes its sign, gradients differ by more than roundings.
void keep_from_zero(Net& net) {
  for (auto& segment : net.params().segments()) {
    Parameter& parameter = *segment.parameter;
    if (parameter.shape() != Shape{32}) continue;
    float* const bias = parameter.data.overwrite<float>();
    for (int i = 0; i < 32; ++i) bias[i] = i % 2 == 0 ? 1.0F : -1.0F;
  }
}

TEST(DeviceProducts, NetsOfThemHaveNoConversionsBetween) {
  Context cpu, gpu({.device = {.type = DeviceType::cuda}});
  Net exact(net_param(kNet), cpu, {.phase = Phase::train, .keep_all = true});
  keep_from_zero(exact);
  fill_inputs(exact);
  exact.forward();
  for (const double sum : values_of(exact.blob("f").data)) ASSERT_GT(std::abs(sum), 0.1);
  for (const DType type : {DType::bf16, DType::f16}) {
    Net net(net_param(kNet), gpu, {.phase = Phase::train, .activations = type});
    keep_from_zero(net);
    int conversions = 0, products = 0;
    for (const NetStep& step : net.steps()) {
      conversions += step.type == "Conversion";
      if (step.type != "InnerProduct" && step.type != "MatMul") continue;
      ++products;
      EXPECT_EQ(step.engine, "cuda") << step.name;
      EXPECT_EQ(step.bottom_format, text(to_string(type), " contiguous")) << step.name;
      EXPECT_THAT(step.detail, HasSubstr("forward")) << step.name;
    }
    EXPECT_EQ(products, 5);
    EXPECT_LE(conversions, 2) << "of the input";
    for (Net* each : {&exact, &net}) fill_inputs(*each);
    const double loss = exact.forward();
    EXPECT_NEAR(net.forward(), loss, 4 * rounding_of(type) * loss);
    exact.clear_gradients();
    exact.backward();
    const std::vector<double> expected = gradients_of(exact);
    std::vector<double> first;
    // Plain passes, one that is recorded, and launches of the record.
    for (int pass = 0; pass < 4; ++pass) {
      net.forward();
      net.clear_gradients();
      net.backward();
      if (pass == 0) first = gradients_of(net);
    }
    EXPECT_EQ(gradients_of(net), first);
    double most = 0;
    for (const double value : expected) most = std::max(most, std::abs(value));
    // 21 roundings lie between x and the gradient of the weights of q: 7 in s (x, weights and
    // result of q and of k, and its own), 4 in f and g and their weights, 5 in the diffs of g, f
    // and s and the weights between them, 5 in the diff of q, in k and in x, by which these are
    // multiplied. Each is even in +-rounding_of(). As independent ones, they have a standard
    // deviation of sqrt(21 / 3) of that, and three of these are 7.9.
    const double allowed = 8 * rounding_of(type);
    expect_close(gradients_of(net), expected, {allowed * most, allowed}, "gradients");
  }
}

}  // namespace
}  // namespace crema::test
