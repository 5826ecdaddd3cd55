// Our depthwise convolution, and that of small groups, against the definition, in double, for
// random problems.
//
//   CREMA_FUZZ_PROBLEMS   default 60        CREMA_FUZZ_SEED   default 1
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/convolutions.hpp"
#include "backend/cpu/depthwise_kernels.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "support/draw.hpp"

namespace crema::test {
namespace {

/// What the passes compute, contiguous: forward, backward data, backward weights.
struct Values {
  std::vector<double> y, dx, dw, db;
};

std::vector<float> random_values(const Shape& shape, uint64_t stream) {
  Random random(7, stream);
  std::vector<float> values(static_cast<size_t>(shape.count()));
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

Tensor tensor_of(const std::vector<float>& values, const Shape& shape, Format format) {
  Tensor plain(shape);
  std::copy(values.begin(), values.end(), plain.overwrite<float>());
  return plain.to(DType::f32, format);
}

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor plain = tensor.to(DType::f32, Format::contiguous);
  return {plain.read<float>(), plain.read<float>() + plain.count()};
}

struct Operands {
  explicit Operands(const ConvolutionProblem& p)
      : x(random_values(p.source, 1)),
        w(random_values(p.weights(), 2)),
        bias(random_values({p.target[1]}, 3)),
        dy(random_values(p.target, 4)),
        before(random_values(p.target, 5)) {}

  std::vector<float> x, w, bias, dy;
  std::vector<float> before;  // what the problem adds to
};

Values by_definition(const ConvolutionProblem& p, const Operands& v) {
  Values made{std::vector<double>(v.dy.size()), std::vector<double>(v.x.size()),
              std::vector<double>(v.w.size()), std::vector<double>(v.bias.size())};
  const size_t axes = p.kernel.size();
  const auto extent = [&](const Shape& shape, size_t axis) {
    return axes == 2 || axis == 1 ? shape[static_cast<int>(axis + axes)] : 1;
  };
  // As two axes, the first of which may have extent 1.
  const auto of_axis = [&](const std::vector<int64_t>& settings, size_t axis, int64_t otherwise) {
    return axes == 2 ? settings[axis] : axis == 1 ? settings[0] : otherwise;
  };
  const int64_t h = extent(p.source, 0), w = extent(p.source, 1), channels = p.source[1];
  const int64_t out_h = extent(p.target, 0), out_w = extent(p.target, 1);
  const int64_t kernel_h = of_axis(p.kernel, 0, 1), kernel_w = of_axis(p.kernel, 1, 1);
  const int64_t group = channels / p.groups;
  for (int64_t plane = 0; plane < p.source[0] * channels; ++plane) {
    const auto c = static_cast<size_t>(plane % channels);
    const int64_t first = plane - plane % group;  // of the group's planes
    for (int64_t i = 0; i < out_h; ++i) {
      for (int64_t j = 0; j < out_w; ++j) {
        const auto to = static_cast<size_t>((plane * out_h + i) * out_w + j);
        double sum = p.bias ? static_cast<double>(v.bias[c]) : 0;
        if (p.adds) sum += static_cast<double>(v.before[to]);
        for (int64_t k = 0; k < group * kernel_h * kernel_w; ++k) {
          const int64_t input = k / (kernel_h * kernel_w), t = k % (kernel_h * kernel_w);
          const int64_t row = i * of_axis(p.stride, 0, 1) - of_axis(p.pad, 0, 0) +
                              t / kernel_w * of_axis(p.dilation, 0, 1);
          const int64_t column = j * of_axis(p.stride, 1, 1) - of_axis(p.pad, 1, 0) +
                                 t % kernel_w * of_axis(p.dilation, 1, 1);
          if (row < 0 || row >= h || column < 0 || column >= w) continue;
          const auto from = static_cast<size_t>(((first + input) * h + row) * w + column);
          const size_t weight =
              c * static_cast<size_t>(group * kernel_h * kernel_w) + static_cast<size_t>(k);
          const auto x = static_cast<double>(v.x[from]), factor = static_cast<double>(v.w[weight]);
          const auto dy = static_cast<double>(v.dy[to]);
          sum += factor * x;
          made.dx[from] += factor * dy;
          made.dw[weight] += dy * x;
        }
        if (p.relu && sum < 0) sum *= static_cast<double>(*p.relu);
        made.y[to] = sum;
        made.db[c] += static_cast<double>(v.dy[to]);
      }
    }
  }
  return made;
}

/// `add`: to gradients that are what the operands are.
Values by_library(const ConvolutionProblem& p, const Operands& v, bool add) {
  const auto library = depthwise_convolutions();
  const auto make = [&](ConvolutionPass pass) {
    std::string why;
    const auto names = library->implementations(p, pass, ConvolutionAlgorithm::any, why);
    EXPECT_EQ(names.size(), 1U) << why;
    return library->make(p, pass, names.at(0));
  };
  const Tensor x = tensor_of(v.x, p.source, p.source_format);
  const Tensor dy = tensor_of(v.dy, p.target, p.target_format);
  Tensor y = tensor_of(v.before, p.target, p.target_format);
  Tensor dx = tensor_of(v.x, p.source, p.source_format);
  std::vector<float> dw = v.w, db = v.bias;
  make(ConvolutionPass::forward)
      ->forward(x.read<float>(), {v.w.data()}, p.bias ? v.bias.data() : nullptr, y.change<float>());
  make(ConvolutionPass::backward_data)
      ->backward_data(dy.read<float>(), {v.w.data()}, dx.change<float>());
  make(ConvolutionPass::backward_weights)
      ->backward_weights(x.read<float>(), dy.read<float>(), add, dw.data(), add,
                         p.bias ? db.data() : nullptr);
  // What lies behind the channels of the last block stays zero.
  for (const Tensor* tensor : {&y, &dx}) {
    const Tensor again =
        tensor->to(DType::f32, Format::contiguous).to(DType::f32, tensor->format());
    const int64_t stored = storage_count(tensor->shape(), tensor->format());
    EXPECT_TRUE(
        std::equal(again.read<float>(), again.read<float>() + stored, tensor->read<float>()))
        << "the padding of blocks";
  }
  return {values_of(y), values_of(dx), {dw.begin(), dw.end()}, {db.begin(), db.end()}};
}

ConvolutionProblem draw_problem(Draw& draw) {
  const int64_t group = draw.one_of<int64_t>({1, 1, 1, 2, 4, 8, 16});
  const int64_t groups = group > 1        ? draw.between(1, 40 / group)
                         : draw.one_in(2) ? draw.one_of<int64_t>({1, 8, 16, 24, 32, 48})
                                          : draw.between(1, 40);
  const int64_t channels = group * groups;
  ConvolutionProblem p{.source = {}, .target = {}, .groups = groups};
  std::vector<int64_t> source = {draw.between(1, 3), channels}, target = source;
  const int64_t axes = draw.one_of<int64_t>({1, 2, 2, 2, 2});
  const bool alike = draw.between(0, 2) > 0;
  for (int64_t axis = 0; axis < axes; ++axis) {
    if (axis > 0 && alike) {
      for (auto* settings : {&p.kernel, &p.stride, &p.pad, &p.dilation})
        settings->push_back(settings->back());
    } else {
      p.kernel.push_back(draw.one_of<int64_t>({1, 2, 3, 3, 3, 4, 5, 7}));
      p.stride.push_back(draw.one_of<int64_t>({1, 1, 2, 2, 3}));
      p.dilation.push_back(draw.one_of<int64_t>({1, 1, 2, 3}));
      p.pad.push_back(draw.one_in(2) ? (p.kernel.back() - 1) / 2 : draw.between(0, 8));
    }
    const int64_t reach = (p.kernel.back() - 1) * p.dilation.back() + 1;
    const int64_t padding = 2 * p.pad.back();
    const int64_t extent = std::max<int64_t>(1, reach - padding) + draw.between(0, 30);
    source.push_back(extent);
    target.push_back((extent + padding - reach) / p.stride.back() + 1);
  }
  p.source = Shape(source);
  p.target = Shape(target);
  p.bias = draw.one_in(2);
  p.adds = draw.one_in(3);
  if (draw.one_in(2)) p.relu = draw.one_of({0.0F, 0.25F});
  return p;
}

bool takes(const ConvolutionProblem& problem) {
  std::string why;
  const bool taken =
      !depthwise_convolutions()
           ->implementations(problem, ConvolutionPass::forward, ConvolutionAlgorithm::any, why)
           .empty();
  EXPECT_EQ(taken, why.empty());
  return taken;
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-4 + 1e-5 * std::abs(expected[i])) << what << " " << i;
  }
}

TEST(Depthwise, FollowsTheDefinition) {
  const uint64_t seed = number_from("CREMA_FUZZ_SEED", 1);
  for (uint64_t i = 0; i < number_from("CREMA_FUZZ_PROBLEMS", 60); ++i) {
    Draw draw(seed, i);
    ConvolutionProblem problem = draw_problem(draw);
    const Operands operands(problem);
    const Values expected = by_definition(problem, operands);
    const bool add = draw.one_in(2);
    for (const Format format : {Format::channels_last, Format::blocked8, Format::blocked16}) {
      problem.source_format = problem.target_format = format;
      for (const SimdLevel level :
           {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
        const SimdLimit limit(std::min(level, simd_level()));
        const int64_t group = problem.source[1] / problem.groups;
        const bool fits = depthwise_kernels().width % group == 0 &&
                          (format == Format::channels_last || block_of(format) % group == 0);
        ASSERT_EQ(takes(problem), fits) << problem.key();
        if (!fits) continue;
        SCOPED_TRACE(text("CREMA_FUZZ_SEED=", seed, ", problem ", i, ": ", problem.key(), ", ",
                          to_string(level)));
        Values made = by_library(problem, operands, add);
        for (size_t k = 0; add && k < made.dw.size(); ++k)
          made.dw[k] -= static_cast<double>(operands.w[k]);
        for (size_t k = 0; add && k < made.db.size(); ++k)
          made.db[k] -= static_cast<double>(operands.bias[k]);
        expect_close(made.y, expected.y, "y");
        expect_close(made.dx, expected.dx, "dx");
        expect_close(made.dw, expected.dw, "dw");
        if (problem.bias) expect_close(made.db, expected.db, "db");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Depthwise, ThreadsChangeNoBit) {
  for (const auto& [format, groups] : {std::pair{Format::channels_last, int64_t{40}},
                                       {Format::blocked16, int64_t{40}},
                                       {Format::blocked16, int64_t{10}}}) {
    for (const int64_t extent : {7, 40}) {
      const ConvolutionProblem p{.source = {3, 40, extent, extent},
                                 .target = {3, 40, extent, extent},
                                 .kernel = {3, 3},
                                 .stride = {1, 1},
                                 .pad = {1, 1},
                                 .dilation = {1, 1},
                                 .groups = groups,
                                 .source_format = format,
                                 .target_format = format};
      const Operands operands(p);
      const Values expected = by_library(p, operands, false);
      for (const int threads : {1, 2, 3, 7}) {
        const ThreadScope scope(threads);
        const Values made = by_library(p, operands, false);
        EXPECT_EQ(made.y, expected.y) << threads;
        EXPECT_EQ(made.dx, expected.dx) << threads;
        EXPECT_EQ(made.dw, expected.dw) << threads;
        EXPECT_EQ(made.db, expected.db) << threads;
      }
    }
  }
}

// The weights of both directions, and those of other groups, are kept side by side.
TEST(Depthwise, KeepsPackedWeightsApart) {
  if (simd_level() < SimdLevel::sse4) GTEST_SKIP() << "needs vectors: run on another processor";
  const Shape shape{2, 16, 9, 9};
  // 16 x 2 x 18 and 16 x 4 x 9 weights are equally many.
  const ConvolutionProblem narrow{.source = shape,
                                  .target = {2, 16, 9, 4},
                                  .kernel = {3, 6},
                                  .stride = {1, 1},
                                  .pad = {1, 0},
                                  .dilation = {1, 1},
                                  .groups = 8,
                                  .bias = false,
                                  .source_format = Format::channels_last,
                                  .target_format = Format::channels_last,
                                  .training = false};
  ConvolutionProblem fours = narrow;
  fours.target = shape;
  fours.kernel = {3, 3};
  fours.pad = {1, 1};
  fours.groups = 4;
  const auto library = depthwise_convolutions();
  const Operands operands(narrow);
  Tensor kept(narrow.weights());
  std::copy(operands.w.begin(), operands.w.end(), kept.overwrite<float>());
  kept.seal();
  ParameterStorage storage(kept, Tensor());
  const ConvolutionWeights weights{kept.read<float>(), &storage};
  for (const ConvolutionProblem& p : {narrow, fours}) {
    Operands of_problem(p);
    of_problem.w = operands.w;
    const Values expected = by_definition(p, of_problem);
    const Tensor x = tensor_of(of_problem.x, p.source, p.source_format);
    const Tensor dy = tensor_of(of_problem.dy, p.target, p.target_format);
    Tensor y(p.target, DType::f32, p.target_format), dx(p.source, DType::f32, p.source_format);
    const auto forward = library->make(p, ConvolutionPass::forward, "");
    const auto backward = library->make(p, ConvolutionPass::backward_data, "");
    for (int time = 0; time < 2; ++time) {
      forward->forward(x.read<float>(), weights, nullptr, y.overwrite<float>());
      backward->backward_data(dy.read<float>(), weights, dx.overwrite<float>());
      expect_close(values_of(y), expected.y, "y");
      expect_close(values_of(dx), expected.dx, "dx");
    }
  }
}

TEST(Depthwise, TakesOnlyWhatItComputes) {
  const ConvolutionProblem good{.source = {1, 8, 6, 6},
                                .target = {1, 8, 4, 4},
                                .kernel = {3, 3},
                                .stride = {1, 1},
                                .pad = {0, 0},
                                .dilation = {1, 1},
                                .groups = 8,
                                .source_format = Format::channels_last,
                                .target_format = Format::channels_last};
  EXPECT_TRUE(takes(good));
  ConvolutionProblem other = good;
  other.groups = 4;
  EXPECT_TRUE(takes(other)) << "two channels a group";
  other.source = {1, 24, 6, 6};
  other.target = {1, 24, 4, 4};
  other.groups = 8;
  EXPECT_FALSE(takes(other)) << "three channels a group";
  other.source = {1, 64, 6, 6};
  other.target = {1, 64, 4, 4};
  other.groups = 2;
  EXPECT_FALSE(takes(other)) << "32 channels a group";
  other.groups = 4;
  other.source_format = other.target_format = Format::blocked8;
  EXPECT_FALSE(takes(other)) << "16 channels a group in blocks of 8";
  other = good;
  other.target = {1, 16, 4, 4};
  EXPECT_FALSE(takes(other)) << "two outputs a channel";
  other = good;
  other.target_format = Format::blocked8;
  EXPECT_FALSE(takes(other)) << "two formats";
  other.source_format = other.target_format = Format::contiguous;
  EXPECT_FALSE(takes(other)) << "contiguous";
}

}  // namespace
}  // namespace crema::test
