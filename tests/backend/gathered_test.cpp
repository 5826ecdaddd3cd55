#include "backend/cpu/gathered.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/simd.hpp"
#include "layers/convolution/engine.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

constexpr Tolerance kF32{.absolute = 1e-4, .relative = 2e-5};

ConvolutionProblem problem(Shape source, int64_t outputs, std::vector<int64_t> stride,
                           Format format) {
  std::vector<int64_t> target = {source[0], outputs};
  for (size_t axis = 0; axis < stride.size(); ++axis) {
    target.push_back((source[static_cast<int>(axis) + 2] - 1) / stride[axis] + 1);
  }
  const std::vector<int64_t> ones(stride.size(), 1), zeros(stride.size(), 0);
  return {.source = std::move(source),
          .target = Shape(std::move(target)),
          .kernel = ones,
          .stride = std::move(stride),
          .pad = zeros,
          .dilation = ones,
          .source_format = format,
          .target_format = format};
}

Tensor numbers(const Shape& shape, int seed, Format format = Format::contiguous) {
  Tensor plain(shape);
  float* const values = plain.overwrite<float>();
  for (int64_t i = 0; i < plain.count(); ++i) {
    values[i] = static_cast<float>((i * 37 + seed * 11) % 101) / 50 - 1;
  }
  return plain.to(DType::f32, format);
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> found;
  for (int64_t i = 0; i < tensor.count(); ++i) found.push_back(tensor.at(i));
  return found;
}

/// The definition of all three passes.
struct Truth {
  std::vector<double> y, dx, dw, db;

  Truth(const ConvolutionProblem& p, const Tensor& x, const Tensor& w, const Tensor& b,
        const Tensor& dy)
      : y(static_cast<size_t>(p.target.count())),
        dx(static_cast<size_t>(p.source.count())),
        dw(static_cast<size_t>(w.count())),
        db(static_cast<size_t>(b.count())) {
    const int64_t inputs = p.source[1], outputs = p.target[1];
    const int64_t pixels = p.target.count(2), source_pixels = p.source.count(2);
    for (int64_t n = 0; n < p.source[0]; ++n) {
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        const int64_t from = source_pixel(p, pixel);
        for (int64_t o = 0; o < outputs; ++o) {
          const int64_t to = (n * outputs + o) * pixels + pixel;
          y[static_cast<size_t>(to)] = b.at(o);
          db[static_cast<size_t>(o)] += dy.at(to);
          for (int64_t c = 0; c < inputs; ++c) {
            const int64_t at = (n * inputs + c) * source_pixels + from, weight = o * inputs + c;
            y[static_cast<size_t>(to)] += w.at(weight) * x.at(at);
            dx[static_cast<size_t>(at)] += w.at(weight) * dy.at(to);
            dw[static_cast<size_t>(weight)] += x.at(at) * dy.at(to);
          }
        }
      }
    }
  }

  static int64_t source_pixel(const ConvolutionProblem& p, int64_t pixel) {
    int64_t found = 0, pitch = 1;
    for (int axis = p.target.rank() - 1; axis >= 2; --axis) {
      found += pixel % p.target[axis] * p.stride[static_cast<size_t>(axis - 2)] * pitch;
      pixel /= p.target[axis];
      pitch *= p.source[axis];
    }
    return found;
  }
};

/// With all of its memory, padding too, at 7.
Tensor sevens(const Shape& shape, Format format) {
  Tensor tensor(shape, DType::f32, format);
  std::fill_n(tensor.overwrite<float>(), tensor.storage(), 7.0F);
  return tensor;
}

/// Whether the padding of a blocked format is 0.
bool is_padded_with_zeros(const Tensor& tensor) {
  const Tensor padded = tensor.to(DType::f32, Format::contiguous).to(DType::f32, tensor.format());
  return std::equal(tensor.read<float>(), tensor.read<float>() + tensor.storage(),
                    padded.read<float>());
}

/// Runs a pass of `problem` by all implementations of all libraries that take it gathered. Returns
/// how many there were.
template <class Run>
int each_library(const ConvolutionProblem& problem, ConvolutionPass pass, const Run& run) {
  const std::optional<ConvolutionProblem> dense = gathered_problem(problem);
  int count = 0;
  for (const auto& library : convolution_libraries()) {
    std::string why;
    for (const std::string& name :
         library->implementations(*dense, pass, ConvolutionAlgorithm::any, why)) {
      SCOPED_TRACE(text(library->name(), " ", name, ", ", problem.key()));
      const auto primitive = with_gathered_pixels(problem, library->make(*dense, pass, name));
      run(*primitive);
      ++count;
    }
  }
  return count;
}

TEST(GatheredConvolution, AgreesWithTheDefinition) {
  if (simd_level() < SimdLevel::avx2)
    GTEST_SKIP() << "needs AVX2, for a library that takes these: run on a processor that has it";
  const Format blocked = simd_level() == SimdLevel::avx512 ? Format::blocked16 : Format::blocked8;
  for (const Format format : {Format::contiguous, Format::channels_last, blocked}) {
    int forwards = 0, to_data = 0, to_weights = 0;
    for (const ConvolutionProblem& p :
         {problem({2, 24, 11, 13}, 18, {2, 2}, format), problem({3, 5, 8, 7}, 16, {3, 1}, format),
          problem({2, 16, 9}, 32, {4}, format), problem({1, 7, 3, 4, 6}, 16, {2, 1, 5}, format)}) {
      const Tensor x = numbers(p.source, 1, format), dy = numbers(p.target, 2, format);
      const Tensor w = numbers(p.weights(), 3), b = numbers(Shape{p.target[1]}, 4);
      const Truth truth(p, x, w, b, dy);
      forwards += each_library(p, ConvolutionPass::forward, [&](ConvolutionPrimitive& primitive) {
        Tensor y = sevens(p.target, format);
        primitive.forward(x.read<float>(), {w.read<float>()}, b.read<float>(), y.change<float>());
        expect_close(values(y), truth.y, kF32, "y");
        EXPECT_TRUE(is_padded_with_zeros(y));
      });
      to_data +=
          each_library(p, ConvolutionPass::backward_data, [&](ConvolutionPrimitive& primitive) {
            Tensor dx = sevens(p.source, format);
            primitive.backward_data(dy.read<float>(), {w.read<float>()}, dx.change<float>());
            expect_close(values(dx), truth.dx, kF32, "dx");
            EXPECT_TRUE(is_padded_with_zeros(dx));
          });
      const auto gradients = [&](ConvolutionPrimitive& primitive) {
        Tensor dw(p.weights()), db(Shape{p.target[1]});
        for (const bool add : {false, true}) {
          primitive.backward_weights(x.read<float>(), dy.read<float>(), add, dw.change<float>(),
                                     add, db.change<float>());
        }
        std::vector<double> twice = truth.dw, twice_bias = truth.db;
        for (double& value : twice) value *= 2;
        for (double& value : twice_bias) value *= 2;
        expect_close(values(dw), twice, {2e-4, 2e-5}, "dw");
        expect_close(values(db), twice_bias, {2e-4, 2e-5}, "db");
      };
      to_weights += each_library(p, ConvolutionPass::backward_weights, gradients);
    }
    EXPECT_GT(forwards, 0) << to_string(format);
    EXPECT_GT(to_data, 0) << to_string(format);
    EXPECT_GT(to_weights, 0) << to_string(format);
  }
}

TEST(GatheredConvolution, LeavesOtherProblemsAlone) {
  const auto taken = [](auto change) {
    ConvolutionProblem p = problem({2, 4, 9, 9}, 8, {2, 2}, Format::contiguous);
    change(p);
    return gathered_problem(p).has_value();
  };
  EXPECT_TRUE(taken([](ConvolutionProblem&) {}));
  EXPECT_FALSE(taken([](ConvolutionProblem& p) { p.stride = {1, 1}; }));
  EXPECT_FALSE(taken([](ConvolutionProblem& p) { p.kernel = {1, 3}; }));
  EXPECT_FALSE(taken([](ConvolutionProblem& p) { p.pad = {0, 1}; }));
  const auto dense = gathered_problem(problem({2, 4, 9, 8}, 6, {2, 3}, Format::contiguous));
  EXPECT_EQ(dense->source, (Shape{2, 4, 5, 3}));
  EXPECT_EQ(dense->target, (Shape{2, 6, 5, 3}));
  EXPECT_EQ(dense->stride, (std::vector<int64_t>{1, 1}));
}

}  // namespace
}  // namespace crema::test
