// Our direct convolution against the sum by its definition, in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/cpu/convolutions.hpp"
#include "backend/cpu/direct_plan.hpp"
#include "core/cache_size.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/random.hpp"

namespace crema {
namespace {

/// A problem of two spatial axes; of one if h is 0.
struct Case {
  std::string name;
  int64_t batch, in, out, h, w;
  std::vector<int64_t> kernel, stride, pad, dilation;
  int threads = 3;

  ConvolutionProblem problem() const {
    ConvolutionProblem p{.kernel = kernel, .stride = stride, .pad = pad, .dilation = dilation};
    std::vector<int64_t> source = {batch, in}, target = {batch, out};
    for (size_t axis = 0; axis < kernel.size(); ++axis) {
      const int64_t extent = kernel.size() == 2 && axis == 0 ? h : w;
      source.push_back(extent);
      const int64_t reach = dilation[axis] * (kernel[axis] - 1) + 1;
      target.push_back((extent + 2 * pad[axis] - reach) / stride[axis] + 1);
    }
    p.source = Shape(source);
    p.target = Shape(target);
    return p;
  }
};

Tensor random_tensor(const Shape& shape, uint64_t stream) {
  Random random(11, stream);
  Tensor values(shape);
  float* const to = values.overwrite<float>();
  for (int64_t i = 0; i < shape.count(); ++i) to[i] = 2 * random.uniform() - 1;
  return values;
}

struct Expected {
  std::vector<double> y, dx, dw, db;

  Expected(const ConvolutionProblem& p, const Tensor& x_in, const Tensor& w_in, const Tensor& b_in,
           const Tensor& dy_in)
      : y(count(p.target)), dx(count(p.source)), dw(count(p.weights())), db(count({p.target[1]})) {
    const auto x = x_in.values<float>(), w = w_in.values<float>(), b = b_in.values<float>(),
               dy = dy_in.values<float>();
    const bool flat = p.kernel.size() == 1;
    const auto axis = [&](const std::vector<int64_t>& of, int i, int64_t otherwise) {
      return !flat ? of[static_cast<size_t>(i)] : i == 1 ? of[0] : otherwise;
    };
    const int64_t in_h = flat ? 1 : p.source[2], in_w = p.source[-1], in = p.source[1];
    const int64_t out_h = flat ? 1 : p.target[2], out_w = p.target[-1], out = p.target[1];
    const int64_t kh = axis(p.kernel, 0, 1), kw = axis(p.kernel, 1, 1);
    for (int64_t at = 0; at < static_cast<int64_t>(y.size()); ++at) {
      const int64_t j = at % out_w, i = at / out_w % out_h, o = at / (out_w * out_h) % out;
      const int64_t n = at / (out_w * out_h * out);
      const double gradient = dy[static_cast<size_t>(at)];
      double sum = b[static_cast<size_t>(o)];
      for (int64_t c = 0; c < in; ++c) {
        for (int64_t t = 0; t < kh * kw; ++t) {
          const int64_t row =
              i * axis(p.stride, 0, 1) - axis(p.pad, 0, 0) + t / kw * axis(p.dilation, 0, 1);
          const int64_t column =
              j * axis(p.stride, 1, 1) - axis(p.pad, 1, 0) + t % kw * axis(p.dilation, 1, 1);
          if (row < 0 || row >= in_h || column < 0 || column >= in_w) continue;
          const auto from = static_cast<size_t>(((n * in + c) * in_h + row) * in_w + column);
          const auto by = static_cast<size_t>((o * in + c) * kh * kw + t);
          sum += static_cast<double>(x[from]) * static_cast<double>(w[by]);
          dx[from] += gradient * static_cast<double>(w[by]);
          dw[by] += gradient * static_cast<double>(x[from]);
        }
      }
      y[static_cast<size_t>(at)] = sum;
      db[static_cast<size_t>(o)] += gradient;
    }
  }

 private:
  static size_t count(const Shape& shape) { return static_cast<size_t>(shape.count()); }
};

void expect_near(const std::string& what, std::span<const float> actual,
                 const std::vector<double>& expected) {
  double largest = 1e-3;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], 1e-5 * largest) << what << " " << i;
}

class DirectConvolution : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (simd_level() < SimdLevel::avx2)
      GTEST_SKIP() << "needs AVX2: run on a processor that has it";
  }
};

/// All passes with all formats that they take. With `kept`, packed weights are kept, as in
/// inference.
void check(const Case& given, bool kept = false) {
  const ThreadScope threads(given.threads);
  ConvolutionProblem p = given.problem();
  p.training = !kept;
  const Tensor x = random_tensor(p.source, 1), w = random_tensor(p.weights(), 2);
  const Tensor b = random_tensor(Shape{p.target[1]}, 3), dy = random_tensor(p.target, 4);
  const Expected expected(p, x, w, b, dy);
  std::vector<double> twice = expected.dw, twice_bias = expected.db;
  for (double& value : twice) value *= 2;
  for (double& value : twice_bias) value *= 2;
  const Format blocked = direct_kernels().width == 16 ? Format::blocked16 : Format::blocked8;
  ParameterStorage storage(w, Tensor());
  const ConvolutionWeights weights{w.read<float>(), kept ? &storage : nullptr};
  const auto library = direct_convolutions();
  const auto make = [&](ConvolutionPass pass) {
    std::string why;
    EXPECT_EQ(library->implementations(p, pass, ConvolutionAlgorithm::any, why).size(), 1U) << why;
    return library->make(p, pass, "");
  };
  for (const Format made : {blocked, Format::channels_last}) {
    for (const Format read : {blocked, Format::channels_last, Format::contiguous}) {
      SCOPED_TRACE(text(given.name, " reads ", to_string(read), ", makes ", to_string(made)));
      p.source_format = read;
      p.target_format = made;
      const Tensor from = x.to(DType::f32, read), gradient = dy.to(DType::f32, made);
      Tensor y(p.target, DType::f32, made);
      make(ConvolutionPass::forward)
          ->forward(from.read<float>(), weights, b.read<float>(), y.overwrite<float>());
      expect_near("y", y.contiguous().values<float>(), expected.y);

      std::vector<float> dw(expected.dw.size(), NAN), db(expected.db.size(), NAN);
      const auto learns = make(ConvolutionPass::backward_weights);
      learns->backward_weights(from.read<float>(), gradient.read<float>(), false, dw.data(), false,
                               db.data());
      expect_near("dw", dw, expected.dw);
      expect_near("db", db, expected.db);
      learns->backward_weights(from.read<float>(), gradient.read<float>(), true, dw.data(), true,
                               db.data());
      expect_near("dw added", dw, twice);
      expect_near("db added", db, twice_bias);

      p.source_format = made;
      p.target_format = read;
      Tensor dx(p.source, DType::f32, made);
      dx.fill(NAN);
      make(ConvolutionPass::backward_data)
          ->backward_data(dy.to(DType::f32, read).read<float>(), weights, dx.change<float>());
      expect_near("dx", dx.contiguous().values<float>(), expected.dx);
    }
  }
}

TEST_P(DirectConvolution, EqualsTheSum) { check(GetParam()); }
TEST_P(DirectConvolution, EqualsTheSumWithKeptWeights) { check(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, DirectConvolution,
    ::testing::Values(
        // A window of all channels exceeds every cache that a plan counts on: chunks, the last one
        // smaller.
        Case{"chunks", 1, 1290, 21, 20, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        Case{"chunks_in_place", 2, 1290, 40, 18, 19, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 2},
        // Images that are joined, in uneven numbers, split by outputs.
        Case{"small_images", 11, 40, 150, 7, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 4},
        Case{"one_row", 1, 17, 130, 1, 40, {1, 3}, {1, 1}, {0, 1}, {1, 1}, 5},
        // More threads than rows and panels.
        Case{"many_threads", 1, 5, 7, 3, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 16},
        Case{"signal", 2, 9, 33, 0, 700, {5}, {2}, {4}, {3}},
        Case{"stride_above_kernel", 2, 20, 18, 13, 11, {1, 2}, {2, 3}, {0, 1}, {1, 1}},
        Case{"stride_and_dilation", 2, 18, 20, 23, 21, {3, 4}, {3, 2}, {2, 5}, {2, 3}},
        // Dilation that the stride divides: most residues see no tap.
        Case{"residues", 1, 16, 16, 15, 17, {3, 3}, {2, 4}, {1, 0}, {2, 4}},
        Case{"pad_above_kernel", 1, 4, 16, 5, 6, {2, 2}, {1, 2}, {4, 3}, {1, 1}}),
    [](const auto& test) { return test.param.name; });

TEST_F(DirectConvolution, EqualsTheSumForRandomProblems) {
  Random random(5, 0);
  const auto draw = [&](int64_t least, int64_t most) {
    return least +
           static_cast<int64_t>(random.next_u32() % static_cast<uint32_t>(most - least + 1));
  };
  for (int i = 0; i < 60 && !HasFatalFailure(); ++i) {
    Case one{text("problem ", i), draw(1, 4), draw(1, 40), draw(1, 70), draw(8, 14), draw(8, 14)};
    for (int axis = 0; axis < 2; ++axis) {
      one.kernel.push_back(draw(1, 4));
      one.stride.push_back(draw(1, 4));
      one.pad.push_back(draw(0, 5));
      one.dilation.push_back(draw(1, 2));
    }
    one.threads = static_cast<int>(draw(1, 7));
    check(one);
  }
}

TEST(DirectPlan, CutsTheFirstCaseIntoChunks) {
  ConvolutionProblem p = Case{"", 1, 1290, 21, 20, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1}}.problem();
  p.source_format = p.target_format = Format::blocked8;
  const DirectPlan plan(direct_forward(p), direct_kernels(), 512);
  EXPECT_GT(plan.chunks(), 1) << "with a cache of " << second_level_cache_bytes();
  EXPECT_LT(plan.blocks_of(plan.chunks() - 1), plan.chunk_blocks);
}

/// How much of all work the most loaded thread has.
double largest_share(const DirectProduct& product, const std::vector<DirectPanel>& panels,
                     const DirectSplit& split) {
  const int64_t rows = product.batch * product.h.pixels;
  const auto count = std::ssize(panels);
  double widest = 0;
  for (int64_t k = 0; k < split.panels; ++k) {
    double vectors = 0;
    for (int64_t i = count * k / split.panels; i < count * (k + 1) / split.panels; ++i)
      vectors += panels[static_cast<size_t>(i)].vectors;
    widest = std::max(widest, vectors);
  }
  const double all = static_cast<double>(panels.back().first + panels.back().vectors);
  return static_cast<double>((rows + split.rows - 1) / split.rows) / static_cast<double>(rows) *
         widest / all;
}

TEST(DirectPlan, ManyThreadsHaveEqualWork) {
  for (const int64_t extent : {7, 14, 28, 56}) {
    ConvolutionProblem p =
        Case{"", 1, 256, 512, extent, extent, {3, 3}, {1, 1}, {1, 1}, {1, 1}}.problem();
    p.source_format = p.target_format = Format::blocked16;
    const DirectProduct product = direct_forward(p);
    const auto panels = direct_panels(direct_kernels(), 512 / direct_kernels().width);
    for (const int threads : {2, 8, 16}) {
      const DirectSplit split =
          direct_split(product, panels, direct_kernels().width, threads, 1000);
      EXPECT_LE(split.rows * split.panels, threads);
      EXPECT_LE(largest_share(product, panels, split), 1.25 / threads)
          << extent << " pixels, " << threads << " threads: " << split.rows << " x "
          << split.panels;
    }
  }
}

// A deconvolution reads it as backward data.
TEST(DirectPlan, AHugeStrideIsLeftToOthers) {
  if (simd_level() < SimdLevel::avx2) GTEST_SKIP() << "needs AVX2: run on a processor that has it";
  ConvolutionProblem p = Case{"", 1, 16, 16, 1, 1, {2, 2}, {1, 1}, {0, 0}, {1, 1}}.problem();
  p.stride = {1000000, 1000000};
  p.source = Shape{1, 16, 7000002, 7000002};
  p.target = Shape{1, 16, 8, 8};
  p.source_format = p.target_format =
      direct_kernels().width == 16 ? Format::blocked16 : Format::blocked8;
  std::string why;
  EXPECT_TRUE(
      direct_convolutions()
          ->implementations(p, ConvolutionPass::backward_data, ConvolutionAlgorithm::any, why)
          .empty());
  EXPECT_NE(why.find("too many residues"), std::string::npos) << why;
}

}  // namespace
}  // namespace crema
