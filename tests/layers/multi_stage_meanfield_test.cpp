#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "core/parallel.hpp"
#include "layers/multi_stage_meanfield/permutohedral.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

/// Numbers in [0, 1) that look random.
double noise(int64_t i) {
  const double x = std::sin(static_cast<double>(i) * 12.9898 + 4.1) * 43758.5453;
  return x - std::floor(x);
}

std::vector<double> random_points(int64_t points, int64_t dimensions, double extent) {
  std::vector<double> features(static_cast<size_t>(points * dimensions));
  for (size_t i = 0; i < features.size(); ++i) {
    features[i] = extent * noise(static_cast<int64_t>(i));
  }
  return features;
}

/// sum over j of exp(-|f_i - f_j|^2 / 2) x_j, over the same sum of ones.
std::vector<double> gaussian(int64_t points, int64_t dimensions, const std::vector<double>& f,
                             const std::vector<double>& x) {
  std::vector<double> y(static_cast<size_t>(points));
  for (int64_t i = 0; i < points; ++i) {
    double sum = 0, total = 0;
    for (int64_t j = 0; j < points; ++j) {
      double square = 0;
      for (int64_t k = 0; k < dimensions; ++k) {
        const double d =
            f[static_cast<size_t>(i * dimensions + k)] - f[static_cast<size_t>(j * dimensions + k)];
        square += d * d;
      }
      sum += std::exp(-square / 2) * x[static_cast<size_t>(j)];
      total += std::exp(-square / 2);
    }
    y[static_cast<size_t>(i)] = sum / total;
  }
  return y;
}

std::vector<double> filtered(Permutohedral<double>& lattice, const std::vector<double>& x,
                             bool adjoint = false) {
  std::vector<double> y(x.size());
  lattice.filter(ComputeDevice(), 1, adjoint, x.data(), y.data());
  return y;
}

// The lattice is an approximation: Adams et al. give its kernel as a Gaussian up to the variation
// of the splat with the place in a simplex.
TEST(Permutohedral, IsCloseToAGaussianFilter) {
  for (const int64_t dimensions : {1, 2, 3, 5}) {
    const int64_t points = 3000;
    const std::vector<double> f = random_points(points, dimensions, dimensions > 3 ? 3 : 6);
    // A wave, which the filter has to damp, and a step.
    std::vector<double> x(points);
    for (int64_t i = 0; i < points; ++i) {
      const double at = f[static_cast<size_t>(i * dimensions)];
      x[static_cast<size_t>(i)] = std::sin(1.3 * at) + (at > 2 ? 1 : 0);
    }
    Permutohedral<double> lattice;
    lattice.place(points, dimensions, f.data());
    const std::vector<double> ones = filtered(lattice, std::vector<double>(points, 1.0));
    std::vector<double> y = filtered(lattice, x);
    const std::vector<double> expected = gaussian(points, dimensions, f, x);
    double squares = 0, variance = 0, worst = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double error = y[i] / ones[i] - expected[i];
      squares += error * error;
      variance += expected[i] * expected[i];
      worst = std::max(worst, std::abs(error));
    }
    EXPECT_LT(std::sqrt(squares / variance), 0.05) << dimensions;
    EXPECT_LT(worst, 0.25) << dimensions;
  }
}

/// <A x, y> = <x, A' y>, and weights of a simplex add up to 1.
TEST(Permutohedral, HasItsAdjoint) {
  for (const int64_t dimensions : {2, 5}) {
    const int64_t points = 200;
    Permutohedral<double> lattice;
    lattice.place(points, dimensions, random_points(points, dimensions, 4).data());
    EXPECT_LE(lattice.vertices(), points * (dimensions + 1));
    std::vector<double> x(points), y(points);
    for (int64_t i = 0; i < points; ++i) {
      x[static_cast<size_t>(i)] = noise(i + 10000);
      y[static_cast<size_t>(i)] = noise(i + 20000);
    }
    const std::vector<double> ax = filtered(lattice, x), ay = filtered(lattice, y, true);
    double left = 0, right = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      left += ax[i] * y[i];
      right += x[i] * ay[i];
    }
    EXPECT_NEAR(left, right, 1e-12 * std::abs(left));
  }
}

// The simplex around a point at a vertex has two others, and each two of the three are neighbours
// in one direction. Three blurs leave 8 / 2 / 2 / 2 = 1 there; 8 / 4 / 4 / 4 goes around once.
TEST(Permutohedral, OnePointGetsWhatTheBlursLeave) {
  Permutohedral<double> lattice;
  const double origin[2] = {0, 0};
  lattice.place(1, 2, origin);
  EXPECT_EQ(lattice.vertices(), 3);
  EXPECT_NEAR(filtered(lattice, {8.0})[0], 1.125, 1e-12);
}

std::string layer(const std::string& settings) {
  return text("layer { type: 'MultiStageMeanfield' multi_stage_meanfield_param { ", settings,
              " } }");
}
const std::string kWidths = "theta_alpha: 3 theta_beta: 40 theta_gamma: 1.5 ";
const std::string kWeights = "spatial_filter_weight: 3 bilateral_filter_weight: 5 ";

/// Colours are whole numbers, the same in f32: which corners a lattice has depends on the last bit
/// of a point between two simplices.
LayerCase small(const std::string& settings, const Shape& shape = {2, 3, 4, 5}) {
  return {.layer = layer(kWidths + settings),
          .bottoms = {uniform(shape, -2, 2), uniform(shape, -2, 2),
                      labels({shape[0], 3, shape[2], shape[3]}, 200)}};
}

LayerCase with_parameters(LayerCase c, int64_t labels) {
  c.params.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    for (int64_t k = 0; k < labels * labels; ++k) {
      c.params[i].push_back(2 * noise(k + 100 * static_cast<int64_t>(i)) - 1);
    }
  }
  return c;
}

TEST(MultiStageMeanfield, GradientsAndEngines) {
  for (const char* iterations : {"num_iterations: 1", "num_iterations: 3"}) {
    SCOPED_TRACE(iterations);
    const LayerCase c = with_parameters(small(iterations), 3);
    check_gradients(c);
    check_engines(c);
    check_gradients(small(kWeights + iterations));
  }
  check_gradients(with_parameters(small("num_iterations: 2", {1, 2, 1, 1}), 2));
}

TEST(MultiStageMeanfield, ParametersBeginAsPublished) {
  LayerRun run(small(kWeights + "num_iterations: 1"));
  ASSERT_EQ(run.num_params(), 3);
  EXPECT_EQ(run.layer().params()[0]->shape(), (Shape{1, 1, 3, 3}));
  EXPECT_THAT(run.param(0), testing::ElementsAre(3, 0, 0, 0, 3, 0, 0, 0, 3));
  EXPECT_THAT(run.param(1), testing::ElementsAre(5, 0, 0, 0, 5, 0, 0, 0, 5));
  EXPECT_THAT(run.param(2), testing::ElementsAre(-1, 0, 0, 0, -1, 0, 0, 0, -1));
}

// One iteration with a sum over all pairs of pixels, for the lattice's filter.
TEST(MultiStageMeanfield, IsMeanFieldInferenceWithTheLatticesFilter) {
  const int64_t height = 24, width = 20, pixels = height * width;
  LayerCase c{.layer = layer("theta_alpha: 8 theta_beta: 60 theta_gamma: 3 num_iterations: 1"),
              .bottoms = {uniform({1, 2, height, width}), uniform({1, 2, height, width}, -3, 3),
                          uniform({1, 3, height, width}, 0, 90)},
              .params = {{1.5, 0.2, -0.1, 0.8}, {2, -0.3, 0.4, 1}, {-1, 0.1, 0.3, -0.9}}};
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  const auto &unary = run.bottom_values(0), &before = run.bottom_values(1);
  const auto& image = run.bottom_values(2);
  std::vector<double> position, colour, p[2];
  for (int64_t i = 0; i < pixels; ++i) {
    const auto k = static_cast<size_t>(i), n = static_cast<size_t>(pixels);
    const auto x = static_cast<double>(i % width), y = static_cast<double>(i / width);
    for (const double v : {x / 3, y / 3}) position.push_back(v);
    for (const double v : {x / 8, y / 8, image[k] / 60, image[n + k] / 60, image[2 * n + k] / 60})
      colour.push_back(v);
    const double a = std::exp(before[k]), b = std::exp(before[n + k]);
    p[0].push_back(a / (a + b));
    p[1].push_back(b / (a + b));
  }
  std::vector<double> expected(static_cast<size_t>(2 * pixels));
  const std::vector<double> spatial[2] = {gaussian(pixels, 2, position, p[0]),
                                          gaussian(pixels, 2, position, p[1])};
  const std::vector<double> bilateral[2] = {gaussian(pixels, 5, colour, p[0]),
                                            gaussian(pixels, 5, colour, p[1])};
  for (size_t i = 0; i < static_cast<size_t>(pixels); ++i) {
    double message[2];
    for (size_t a = 0; a < 2; ++a) {
      message[a] = 0;
      for (size_t b = 0; b < 2; ++b) {
        message[a] += c.params[0][2 * a + b] * spatial[b][i];
        message[a] += c.params[1][2 * a + b] * bilateral[b][i];
      }
    }
    for (size_t a = 0; a < 2; ++a) {
      const size_t at = a * static_cast<size_t>(pixels) + i;
      expected[at] =
          unary[at] - c.params[2][2 * a] * message[0] - c.params[2][2 * a + 1] * message[1];
    }
  }
  expect_close(run.top(0), expected, {0.25, 0.05}, "top");
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) error += std::abs(run.top(0)[i] - expected[i]);
  EXPECT_LT(error / static_cast<double>(expected.size()), 0.05);
}

/// The lattice's filter from its definition, with all coordinates of vertices in a map: the simplex
/// of a point from its coordinates rounded down.
std::vector<double> plain_lattice(int64_t points, int64_t dimensions, const std::vector<double>& f,
                                  const std::vector<double>& x) {
  using Vertex = std::vector<int>;
  const auto d = static_cast<size_t>(dimensions), n = d + 1;
  const auto size = static_cast<double>(n);
  std::map<Vertex, double> values;
  std::vector<std::vector<std::pair<Vertex, double>>> simplices;
  for (size_t p = 0; p < static_cast<size_t>(points); ++p) {
    std::vector<double> at(n, 0.0), rest(n);
    for (size_t j = d; j-- > 0;) {
      const auto k = static_cast<double>(j + 1);
      const double scaled = f[p * d + j] * (size * std::sqrt(2.0 / 3)) / std::sqrt(k * (k + 1));
      for (size_t i = 0; i <= j; ++i) at[i] += scaled;
      at[j + 1] -= k * scaled;
    }
    Vertex base(n);
    int missing = 0;
    for (size_t i = 0; i < n; ++i) {
      const int multiple = static_cast<int>(std::floor(at[i] / size));
      base[i] = multiple * static_cast<int>(n);
      missing -= multiple;
      rest[i] = at[i] - base[i];
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    const auto sort = [&] {
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return rest[a] > rest[b]; });
    };
    sort();
    for (size_t i = 0; i < static_cast<size_t>(missing); ++i) {
      base[order[i]] += static_cast<int>(n);
      rest[order[i]] -= size;
    }
    sort();
    auto& simplex = simplices.emplace_back();
    for (size_t k = 0; k < n; ++k) {
      Vertex vertex = base;
      for (size_t i = 0; i < n; ++i)
        vertex[order[i]] += static_cast<int>(k) - (i + k >= n ? static_cast<int>(n) : 0);
      const double weight = k == 0 ? 1 - (rest[order[0]] - rest[order[d]]) / size
                                   : (rest[order[d - k]] - rest[order[d - k + 1]]) / size;
      values[vertex] += weight * x[p];
      simplex.emplace_back(vertex, weight);
    }
  }
  for (size_t direction = 0; direction < n; ++direction) {
    std::map<Vertex, double> blurred;
    for (const auto& [vertex, value] : values) {
      blurred[vertex] = 0.5 * value;
      for (const int step : {1, -1}) {
        Vertex other = vertex;
        for (size_t i = 0; i < n; ++i)
          other[i] += i == direction ? -step * static_cast<int>(d) : step;
        const auto found = values.find(other);
        if (found != values.end()) blurred[vertex] += 0.25 * found->second;
      }
    }
    values = std::move(blurred);
  }
  std::vector<double> y(static_cast<size_t>(points), 0.0);
  for (size_t p = 0; p < y.size(); ++p) {
    for (const auto& [vertex, weight] : simplices[p]) y[p] += weight * values.at(vertex);
  }
  return y;
}

// Several iterations, the second of two samples with another image, to the last digits.
TEST(MultiStageMeanfield, IterationsAreThoseOfTheDefinition) {
  const int64_t labels = 3, height = 9, width = 11, pixels = height * width, samples = 2;
  const int iterations = 4;
  const LayerCase c = with_parameters(
      {.layer = layer("theta_alpha: 5 theta_beta: 30 theta_gamma: 2 num_iterations: 4"),
       .bottoms = {uniform({samples, labels, height, width}, -2, 2),
                   uniform({samples, labels, height, width}, -3, 3),
                   uniform({samples, 3, height, width}, 0, 90)}},
      labels);
  LayerRun run(c, {.dtype = DType::f64});
  run.forward();
  const auto n = static_cast<size_t>(labels), count = static_cast<size_t>(pixels);
  std::vector<double> expected;
  for (size_t sample = 0; sample < static_cast<size_t>(samples); ++sample) {
    const auto value = [&](int bottom, size_t channel, size_t i) {
      const size_t channels = bottom == 2 ? 3 : n;
      return run.bottom_values(bottom)[(sample * channels + channel) * count + i];
    };
    std::vector<double> position, colour;
    for (size_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(i % static_cast<size_t>(width));
      const auto y = static_cast<double>(i / static_cast<size_t>(width));
      position.insert(position.end(), {x / 2, y / 2});
      colour.insert(colour.end(),
                    {x / 5, y / 5, value(2, 0, i) / 30, value(2, 1, i) / 30, value(2, 2, i) / 30});
    }
    const std::vector<double> ones(count, 1.0);
    const std::vector<double> of_ones[2] = {plain_lattice(pixels, 2, position, ones),
                                            plain_lattice(pixels, 5, colour, ones)};
    std::vector<double> state;
    for (size_t l = 0; l < n; ++l) {
      for (size_t i = 0; i < count; ++i) state.push_back(value(1, l, i));
    }
    for (int iteration = 0; iteration < iterations; ++iteration) {
      std::vector<std::vector<double>> filtered[2];
      for (size_t l = 0; l < n; ++l) {
        std::vector<double> p(count);
        for (size_t i = 0; i < count; ++i) {
          double sum = 0;
          for (size_t other = 0; other < n; ++other) sum += std::exp(state[other * count + i]);
          p[i] = std::exp(state[l * count + i]) / sum;
        }
        filtered[0].push_back(plain_lattice(pixels, 2, position, p));
        filtered[1].push_back(plain_lattice(pixels, 5, colour, p));
      }
      for (size_t i = 0; i < count; ++i) {
        std::vector<double> message(n, 0.0);
        for (size_t l = 0; l < n; ++l) {
          for (size_t other = 0; other < n; ++other) {
            for (const size_t k : {size_t{0}, size_t{1}})
              message[l] += c.params[k][l * n + other] * filtered[k][other][i] / of_ones[k][i];
          }
        }
        for (size_t l = 0; l < n; ++l) {
          double pairwise = 0;
          for (size_t other = 0; other < n; ++other)
            pairwise += c.params[2][l * n + other] * message[other];
          state[l * count + i] = value(0, l, i) - pairwise;
        }
      }
    }
    expected.insert(expected.end(), state.begin(), state.end());
  }
  expect_close(run.top(0), expected, {1e-9, 1e-9}, "top");
}

TEST(MultiStageMeanfield, ResultsDoNotDependOnThreads) {
  const auto results = [](int threads) {
    const ThreadScope scope(threads);
    LayerRun run(with_parameters(small("num_iterations: 2", {1, 5, 61, 70}), 5));
    run.forward();
    run.backward();
    return std::vector<std::vector<double>>{run.top(0),      run.bottom_diff(0), run.bottom_diff(1),
                                            run.gradient(0), run.gradient(1),    run.gradient(2)};
  };
  const auto one = results(1);
  EXPECT_EQ(results(2), one);
  EXPECT_EQ(results(3), one);
}

TEST(MultiStageMeanfield, ImagesGetNoGradient) {
  LayerRun run(small("num_iterations: 1"));
  EXPECT_TRUE(run.layer().can_propagate(0));
  EXPECT_TRUE(run.layer().can_propagate(1));
  EXPECT_FALSE(run.layer().can_propagate(2));
}

TEST(MultiStageMeanfield, EmptyBatch) {
  LayerRun run(small("num_iterations: 2", {0, 3, 4, 5}));
  run.forward();
  run.backward();
  EXPECT_EQ(run.top_blob(0).shape(), (Shape{0, 3, 4, 5}));
  EXPECT_THAT(run.gradient(2), testing::Each(0));
}

TEST(MultiStageMeanfield, Refuses) {
  expect_error([] { LayerRun(small("")); }, {"num_iterations"});
  LayerCase c = small("num_iterations: 1");
  c.layer = layer("theta_alpha: 1 theta_gamma: 1 num_iterations: 1");
  expect_error([&] { LayerRun{c}; }, {"theta_beta", "above 0"});
  c = small("num_iterations: 1");
  c.bottoms[1] = uniform({2, 3, 4, 4});
  expect_error([&] { LayerRun{c}; }, {"2x3x4x5", "2x3x4x4", "same shape"});
  c = small("num_iterations: 1");
  c.bottoms[2] = uniform({2, 1, 4, 5});
  expect_error([&] { LayerRun{c}; }, {"bottom2", "2x1x4x5", "3 channels"});
  c = small("num_iterations: 1");
  c.bottoms[2].values = std::vector<double>(120, std::numeric_limits<double>::quiet_NaN());
  LayerRun run(c);
  expect_error([&] { run.forward(); }, {"colour", "no number"});
}

}  // namespace
}  // namespace crema::test
