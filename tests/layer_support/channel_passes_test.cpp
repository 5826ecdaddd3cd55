// Sums of channels and maps over channels, as blocks of threads of a device compute them, on the
// host: every block, every thread of it, one after the other.
#include "layer_support/channel_passes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/dispatch.hpp"
#include "core/memory.hpp"
#include "crema/random.hpp"
#include "support/fake_device.hpp"
#include "support/layer_test.hpp"
#include "support/needs.hpp"

namespace crema::test {
namespace {

using channels::Coefficients;
using channels::Mask;

struct MapCase {
  Shape shape;
  Format format = Format::contiguous;
  bool by_sample = false;
};

/// One piece and several, of rows and of planes: whole vectors and not, few channels and many, few
/// positions and many, none.
std::vector<MapCase> cases() {
  const Format last = Format::channels_last;
  return {{{5, 8}},
          {{700, 24}},
          {{70, 300}},
          {{9, 1}},
          {{3, 2100}},
          {{0, 8}},
          {{1, 7}},
          {{4, 0, 3}},
          {{17}},
          {{2, 16, 5, 7}, last},
          {{2, 16, 5, 7}, last, true},
          {{3, 3, 60, 61}, last},
          {{3, 20, 9, 11}, last, true},
          {{2, 64, 56, 56}, last},
          {{1, 2056, 4, 4}, last},
          {{2, 16, 5, 7}},
          {{2, 3, 1, 1}},
          {{5, 6, 2, 2}},
          {{3, 300, 7, 7}},
          {{3, 300, 7, 7}, Format::contiguous, true},
          {{2, 2, 130, 131}},
          {{1, 1, 500, 501}},
          {{40, 3, 33, 40}},
          {{2, 3, 0, 5}},
          {{0, 3, 4, 5}},
          {{2, 5, 3, 4, 6}, last}};
}

std::string name_of(const MapCase& c, DType dtype) {
  return text(c.shape.str(), ' ', to_string(Layout{dtype, c.format}),
              c.by_sample ? " by sample" : "");
}

ChannelMaps maps_of(const MapCase& c, const Tensor& tensor) {
  return c.by_sample ? channels::channels_of_samples(tensor) : channels::channels_of(tensor);
}

/// Drawn values of some mean, rounded as the type stores them.
Tensor drawn(const MapCase& c, DType dtype, uint64_t seed, double mean = 0, double deviation = 1) {
  Tensor tensor(c.shape, DType::f64, Format::contiguous);
  Random random(seed, 0);
  double* const values = tensor.overwrite<double>();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    values[i] = mean + deviation * random.uniform(-1.7, 1.7);
  }
  Tensor result(c.shape, dtype, c.shape.rank() < 3 ? Format::contiguous : c.format);
  result.copy_from(tensor);
  return result;
}

/// Values in the order of memory.
std::vector<double> values_of(const Tensor& tensor) {
  Tensor copy(tensor.shape(), DType::f64, tensor.format());
  copy.copy_from(tensor);
  const double* const values = copy.read<double>();
  return {values, values + tensor.count()};
}

/// The number of the channel of element i of memory.
int64_t channel_of(const ChannelMaps& maps, int64_t i) {
  const ChannelView& view = maps.view;
  return i / view.count() * view.channels + i % view.count() / view.inner % view.channels;
}

std::vector<double> drawn_coefficients(int64_t count, uint64_t seed) {
  Random random(seed, 1);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = static_cast<float>(random.uniform(-2, 2));
  return values;
}

template <class T>
struct CoefficientValues {
  std::vector<T> of[5];
  explicit CoefficientValues(int64_t count) {
    for (uint64_t i = 0; i < 5; ++i) {
      for (const double value : drawn_coefficients(count, 70 + i)) {
        of[i].push_back(static_cast<T>(value));
      }
    }
  }
  Coefficients<const T> all() const {
    return {of[0].data(), of[1].data(), of[2].data(), of[3].data(), of[4].data()};
  }
};

template <class Body>
void for_each_type(const Body& body) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const MapCase& c : cases()) {
      SCOPED_TRACE(name_of(c, dtype));
      if (dtype == DType::f64) {
        body(c, dtype, double{});
      } else {
        body(c, dtype, float{});
      }
    }
  }
}

/// Of results of the type, which are rounded to it.
Tolerance rounding(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-12, 1e-12};
    case DType::f32:
      return {2e-6, 1e-6};
    case DType::bf16:
      return {2e-6, 0x1p-8};
    default:
      return {1e-6, 0x1p-10};
  }
}

bool skips() { return kBuiltWithCuda; }
constexpr const char* kWhy =
    "needs a build without CUDA, where these bodies run on the host: configure with CREMA_CUDA=OFF";

TEST(ChannelPasses, MomentsOfEveryShape) {
  if (skips()) GTEST_SKIP() << kWhy;
  for_each_type([](const MapCase& c, DType dtype, auto) {
    FakeDevice device;
    const Tensor x = drawn(c, dtype, 1);
    const ChannelMaps maps = maps_of(c, x);
    const channels::PartialSums sums = channels::total_sums(
        ComputeDevice(device), channels::moment_sums(ComputeDevice(device), maps, x));
    ASSERT_EQ(sums.count, maps.count());
    const std::vector<double> values = values_of(x);
    const double each = static_cast<double>(maps.view.each());
    std::vector<double> mean(static_cast<size_t>(sums.count)), square(mean);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<size_t>(channel_of(maps, static_cast<int64_t>(i)));
      mean[at] += values[i] / each;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<size_t>(channel_of(maps, static_cast<int64_t>(i)));
      square[at] += (values[i] - mean[at]) * (values[i] - mean[at]) / each;
    }
    std::vector<double> means, squares;
    for (int64_t i = 0; i < sums.count && each > 0; ++i) {
      const auto moments = channels::Moments::of(sums.sums[i], sums.origins[i], each);
      means.push_back(moments.mean);
      squares.push_back(moments.variance);
    }
    if (each == 0) return;
    const Tolerance close = dtype == DType::f64 ? Tolerance{1e-13, 1e-12} : Tolerance{1e-6, 2e-6};
    expect_close(means, mean, close, "means");
    expect_close(squares, square, close, "variances");
  });
}

// The mean is 100,000 deviations away, and the first value further.
TEST(ChannelPasses, MomentsKeepTheirDigitsFarFromZero) {
  if (skips()) GTEST_SKIP() << kWhy;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool outlier : {false, true}) {
      for (const MapCase& c : cases()) {
        SCOPED_TRACE(text(name_of(c, dtype), outlier ? ", outlier" : ""));
        FakeDevice device;
        Tensor x = drawn(c, dtype, 2, 1000, 0.01);
        const ChannelMaps maps = maps_of(c, x);
        const double each = static_cast<double>(maps.view.each());
        if (x.count() == 0 || each < 3) continue;
        if (outlier) {
          dispatch_float(dtype, [&]<class T>(T) { x.change<T>()[0] = T{-3000}; });
        }
        const channels::PartialSums sums = channels::total_sums(
            ComputeDevice(device), channels::moment_sums(ComputeDevice(device), maps, x));
        const std::vector<double> values = values_of(x);
        std::vector<double> mean(static_cast<size_t>(sums.count)), square(mean), means, squares;
        for (size_t i = 0; i < values.size(); ++i) {
          const auto at = static_cast<size_t>(channel_of(maps, static_cast<int64_t>(i)));
          mean[at] += (values[i] - 1000) / each;
        }
        for (size_t i = 0; i < values.size(); ++i) {
          const auto at = static_cast<size_t>(channel_of(maps, static_cast<int64_t>(i)));
          square[at] += std::pow(values[i] - 1000 - mean[at], 2) / each;
        }
        for (int64_t i = 0; i < sums.count; ++i) {
          const auto moments = channels::Moments::of(sums.sums[i], sums.origins[i], each);
          means.push_back(moments.mean - 1000);
          squares.push_back(moments.variance);
        }
        const bool exact = dtype == DType::f64;
        expect_close(means, mean, exact ? Tolerance{1e-11, 1e-9} : Tolerance{2e-6, 2e-5}, "means");
        // A thread that begins with the outlier adds up what is far from its own values.
        const double close = exact ? 1e-8 : outlier ? 2e-4 : 1e-5;
        expect_close(squares, square, {0, close}, "variances");
      }
    }
  }
}

TEST(ChannelPasses, EqualValuesHaveNoVariance) {
  if (skips()) GTEST_SKIP() << kWhy;
  FakeDevice device;
  for (const double value : {0.1, -1000.7, 3e30}) {
    Tensor x(Shape{40, 16, 30, 31}, DType::f32, Format::channels_last);
    x.fill(value);
    const ChannelMaps maps = channels::channels_of(x);
    const channels::PartialSums sums = channels::total_sums(
        ComputeDevice(device), channels::moment_sums(ComputeDevice(device), maps, x));
    const auto moments =
        channels::Moments::of(sums.sums[3], sums.origins[3], static_cast<double>(maps.view.each()));
    EXPECT_EQ(moments.mean, static_cast<double>(static_cast<float>(value)));
    EXPECT_EQ(moments.variance, 0);
  }
}

TEST(ChannelPasses, NaNStays) {
  if (skips()) GTEST_SKIP() << kWhy;
  FakeDevice device;
  for (const size_t place : {0, 5, 900}) {
    Tensor x(Shape{10, 8, 5, 5}, DType::f32, Format::channels_last);
    x.change<float>()[place] = std::nanf("");
    const ChannelMaps maps = channels::channels_of(x);
    const channels::PartialSums sums = channels::total_sums(
        ComputeDevice(device), channels::moment_sums(ComputeDevice(device), maps, x));
    for (int64_t c = 0; c < 8; ++c) {
      const auto moments = channels::Moments::of(sums.sums[c], sums.origins[c], 250);
      const bool is_nan = c == static_cast<int64_t>(place) % 8;
      EXPECT_EQ(std::isnan(moments.mean), is_nan) << c;
      EXPECT_EQ(std::isnan(moments.variance), is_nan) << c;
    }
  }
}

/// What counts of dy, by the definition.
double masked_value(Mask mask, double dy, double x, double y, double z) {
  const bool keeps = mask == Mask::all || (mask == Mask::again && z > 0) ||
                     (mask == Mask::output && y > 0) || (mask == Mask::negative && !(x > 0));
  return keeps ? dy : 0;
}

TEST(ChannelPasses, GradientSumsOfEveryShapeAndMask) {
  if (skips()) GTEST_SKIP() << kWhy;
  for_each_type([]<class T>(const MapCase& c, DType dtype, T) {
    FakeDevice device;  // outlives what lies there
    const Tensor dy = drawn(c, dtype, 3), x = drawn(c, dtype, 4), y = drawn(c, dtype, 5);
    const ChannelMaps maps = maps_of(c, x);
    const CoefficientValues<T> k(maps.count());
    const std::vector<double> g = values_of(dy), xs = values_of(x), ys = values_of(y);
    for (const Mask mask : {Mask::all, Mask::again, Mask::output, Mask::negative}) {
      SCOPED_TRACE(text("mask ", static_cast<int>(mask)));
      const channels::PartialSums sums = channels::total_sums(
          ComputeDevice(device),
          channels::gradient_sums<T>(ComputeDevice(device), maps, {&dy, &x, &y, mask}, k.all()));
      std::vector<double> first(static_cast<size_t>(maps.count())), second(first), found, products;
      double most = 1;
      for (size_t i = 0; i < g.size(); ++i) {
        const auto at = static_cast<size_t>(channel_of(maps, static_cast<int64_t>(i)));
        const double centred = xs[i] - double(k.of[0][at]);
        const double z = centred * double(k.of[1][at]) + double(k.of[2][at]);
        const double d = masked_value(mask, g[i], xs[i], ys[i], z);
        first[at] += d;
        second[at] += d * centred;
        most = std::max({most, std::abs(first[at]), std::abs(second[at])});
      }
      for (int64_t i = 0; i < sums.count; ++i) {
        found.push_back(sums.sums[i].first);
        products.push_back(sums.sums[i].second);
      }
      const double close = (dtype == DType::f64 ? 1e-13 : 3e-6) * most;
      expect_close(found, first, {close, 0}, "sums");
      expect_close(products, second, {close, 0}, "products");

      std::vector<T> of_first(first.size(), T{7}), of_second(first.size(), T{-2});
      if (mask != Mask::again) {
        for (const bool overwrites : {true, false}) {
          channels::add_sums<T>(ComputeDevice(device), maps, {&dy, &x, &y, mask},
                                {of_first.data(), of_second.data(), overwrites, overwrites});
        }
        std::vector<double> twice(first), products_twice(first.size());
        for (size_t i = 0; i < first.size(); ++i) twice[i] = 2 * first[i];
        for (size_t i = 0; i < g.size(); ++i) {
          const auto at = static_cast<size_t>(channel_of(maps, static_cast<int64_t>(i)));
          products_twice[at] += 2 * masked_value(mask, g[i], xs[i], ys[i], 0) * xs[i];
        }
        expect_close({of_first.begin(), of_first.end()}, twice, {4 * close, 0}, "added");
        expect_close({of_second.begin(), of_second.end()}, products_twice, {4 * close, 0},
                     "added products");
      }
    }
  });
}

TEST(ChannelPasses, AffineMapsOfEveryShape) {
  if (skips()) GTEST_SKIP() << kWhy;
  for_each_type([]<class T>(const MapCase& c, DType dtype, T) {
    FakeDevice device;  // outlives what lies there
    const Tensor x = drawn(c, dtype, 6), add = drawn(c, dtype, 7);
    const ChannelMaps maps = maps_of(c, x);
    const CoefficientValues<T> k(maps.count());
    const std::vector<double> xs = values_of(x), as = values_of(add);
    for (const bool adds : {false, true}) {
      for (const bool relu : {false, true}) {
        Tensor y = drawn(c, dtype, 8);
        channels::map_affine<T>(ComputeDevice(device), maps, x, adds ? &add : nullptr, k.all(),
                                relu, y);
        std::vector<double> expected;
        for (size_t i = 0; i < xs.size(); ++i) {
          const auto at = static_cast<size_t>(channel_of(maps, static_cast<int64_t>(i)));
          double z = (xs[i] - double(k.of[0][at])) * double(k.of[1][at]) + double(k.of[2][at]);
          if (adds) z += as[i];
          expected.push_back(relu && z < 0 ? 0 : z);
        }
        expect_close(values_of(y), expected, rounding(dtype), "y");
      }
    }
  });
}

TEST(ChannelPasses, GradientMapsOfEveryShapeAndMask) {
  if (skips()) GTEST_SKIP() << kWhy;
  for_each_type([]<class T>(const MapCase& c, DType dtype, T) {
    FakeDevice device;  // outlives what lies there
    const Tensor dy = drawn(c, dtype, 9), x = drawn(c, dtype, 10), y = drawn(c, dtype, 11);
    const ChannelMaps maps = maps_of(c, x);
    const CoefficientValues<T> k(maps.count());
    const std::vector<double> g = values_of(dy), xs = values_of(x), ys = values_of(y);
    for (const Mask mask : {Mask::all, Mask::again, Mask::output, Mask::negative}) {
      SCOPED_TRACE(text("mask ", static_cast<int>(mask)));
      std::vector<double> dx, d_add;
      for (size_t i = 0; i < g.size(); ++i) {
        const auto at = static_cast<size_t>(channel_of(maps, static_cast<int64_t>(i)));
        const double centred = xs[i] - double(k.of[0][at]);
        const double z = centred * double(k.of[1][at]) + double(k.of[2][at]);
        const double d = masked_value(mask, g[i], xs[i], ys[i], z);
        dx.push_back(d * double(k.of[1][at]) - centred * double(k.of[3][at]) - double(k.of[4][at]));
        d_add.push_back(d);
      }
      Tensor to_x = drawn(c, dtype, 12), to_add = drawn(c, dtype, 13);
      channels::map_gradient<T>(ComputeDevice(device), maps, {&dy, &x, &y, mask}, k.all(), &to_x,
                                &to_add);
      expect_close(values_of(to_x), dx, rounding(dtype), "dx");
      EXPECT_EQ(values_of(to_add), d_add);
      // Over dy, which the other output does not need any more.
      Tensor over = drawn(c, dtype, 9);
      channels::map_gradient<T>(ComputeDevice(device), maps, {&over, &x, &y, mask}, k.all(), &to_x,
                                &over);
      EXPECT_EQ(values_of(over), d_add);
      expect_close(values_of(to_x), dx, rounding(dtype), "dx");
    }
  });
}

// Tensors that begin anywhere in memory, and coefficients that do.
TEST(ChannelPasses, WhatIsNotAlignedIsTakenByElements) {
  if (skips()) GTEST_SKIP() << kWhy;
  for (const Format format : {Format::contiguous, Format::channels_last}) {
    const MapCase c{{3, 16, 20, 21}, format};
    FakeDevice device;
    const Tensor aligned = drawn(c, DType::bf16, 14);
    Tensor x(c.shape, DType::bf16, format), y(c.shape, DType::bf16, format), z(y);
    x.bind(std::make_shared<Memory>(x.bytes() + 16), 2);
    x.copy_from(aligned);
    const ChannelMaps maps = channels::channels_of(x);
    const CoefficientValues<float> k(17);
    Coefficients<const float> shifted = k.all();
    for (auto* values : {&shifted.centre, &shifted.gain, &shifted.shift}) ++*values;
    channels::map_affine<float>(ComputeDevice(device), maps, x, nullptr, shifted, true, y);
    channels::map_affine<float>(ComputeDevice(device), maps, aligned, nullptr, shifted, true, z);
    EXPECT_EQ(values_of(y), values_of(z));
    std::vector<double> sums[2];
    for (const Tensor* from : {static_cast<const Tensor*>(&x), &aligned}) {
      const auto found = channels::total_sums(
          ComputeDevice(device), channels::moment_sums(ComputeDevice(device), maps, *from));
      for (int64_t i = 0; i < found.count; ++i) {
        sums[from == &x].push_back(found.sums[i].first);
        sums[from == &x].push_back(found.sums[i].second);
      }
    }
    expect_close(sums[0], sums[1], {1e-3, 1e-5}, "moments");
  }
}

TEST(ChannelPasses, ColumnsOfNormalizedRows) {
  if (skips()) GTEST_SKIP() << kWhy;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const Shape& shape : {Shape{3, 5}, Shape{900, 24}, Shape{70, 1001}, Shape{1, 8}}) {
      FakeDevice device;
      const MapCase c{shape};
      const Tensor dy = drawn(c, dtype, 15), x = drawn(c, dtype, 16, 50, 2);
      const std::vector<double> g = values_of(dy), xs = values_of(x);
      const auto rows = static_cast<size_t>(shape[0]), size = static_cast<size_t>(shape[1]);
      std::vector<double> mean, inverse, first(size), second(size);
      for (size_t r = 0; r < rows; ++r) {
        mean.push_back(50.123 + 0.1 * static_cast<double>(r % 7));
        inverse.push_back(0.5 + 0.01 * static_cast<double>(r % 5));
        for (size_t j = 0; j < size; ++j) {
          first[j] += g[r * size + j];
          second[j] += g[r * size + j] * (xs[r * size + j] - mean[r]) * inverse[r];
        }
      }
      const auto check = [&]<class T>(T) {
        std::vector<T> sums(size), products(size);
        std::vector<T> of_rows[3];
        for (size_t r = 0; r < rows; ++r) {
          const T centre = static_cast<T>(mean[r]);
          of_rows[0].push_back(centre);
          of_rows[1].push_back(static_cast<T>(inverse[r]));
          of_rows[2].push_back(static_cast<T>((double(centre) - mean[r]) * inverse[r]));
        }
        channels::add_column_sums<T>(ComputeDevice(device), shape[0], shape[1], dy, x,
                                     {of_rows[0].data(), of_rows[1].data(), of_rows[2].data()},
                                     {sums.data(), products.data()});
        const double close = (dtype == DType::f64 ? 1e-12 : 1e-5) * std::sqrt(double(rows));
        expect_close({sums.begin(), sums.end()}, first, {close, 1e-6}, "sums");
        expect_close({products.begin(), products.end()}, second, {close, 1e-6}, "products");
      };
      dtype == DType::f64 ? check(double{}) : check(float{});
    }
  }
}

// The device of the shapes' table: a block of a multiprocessor each at least, no more pieces than
// are worth their sums, and never more terms in a row than the bound on rounding allows.
TEST(ChannelPasses, GridsOfLargeMapsFillADevice) {
  constexpr GridLimits kLimits{
      .multiprocessors = 132, .blocks = 4, .single = 32, .least = 16, .most = 256};
  const std::vector<ChannelView> views = {{256 * 112 * 112, 64, 1}, {256 * 56 * 56, 256, 1},
                                          {256 * 7 * 7, 2048, 1},   {int64_t{1} << 31, 3, 1},
                                          {1, 1, int64_t{1} << 32}, {256, 64, 112 * 112},
                                          {256, 2048, 49},          {64, 500, 1},
                                          {1, int64_t{1} << 22, 1}};
  for (const ChannelView& view : views) {
    for (const int vector : {2, 4, 8}) {
      SCOPED_TRACE(text(view.outer, ' ', view.channels, ' ', view.inner, " by ", vector));
      const ChannelGrid grid({view}, vector, true, kLimits);
      EXPECT_LE(grid.width * grid.lines * grid.together, ChannelGrid::kThreads);
      EXPECT_LE(grid.blocks(), int64_t{1} << 31);
      const int64_t vectors = (view.inner + vector - 1) / vector;
      const int64_t in_plane = grid.rows() ? 1 : std::min(vectors, grid.segment / vector);
      const int64_t of_thread =
          (grid.each + grid.lines - 1) / grid.lines * ((in_plane + grid.width - 1) / grid.width);
      EXPECT_LE(of_thread, 512);
      if (view.count() > int64_t{1} << 24) {
        EXPECT_GE(grid.blocks(), 132);
      }
    }
  }
}

TEST(ChannelPasses, TakeNoMoreMemoryThanWasPlanned) {
  if (skips()) GTEST_SKIP() << kWhy;
  Context context;
  const auto expect_planned = [](size_t planned, int64_t pieces, int64_t count) {
    // The sums of all pieces, their total, and the origins.
    const int64_t taken = (2 * (pieces + 1) * count + count) * int64_t{sizeof(double)};
    EXPECT_GE(static_cast<int64_t>(planned), taken);
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    for (const MapCase& c : cases()) {
      SCOPED_TRACE(name_of(c, dtype));
      FakeDevice device;
      const Tensor x = drawn(c, dtype, 17);
      const ChannelMaps maps = maps_of(c, x);
      const auto sums = channels::moment_sums(ComputeDevice(device), maps, x);
      expect_planned(channels::sums_scratch_bytes(context, maps), sums.pieces, sums.count);
    }
  }
  // Devices of any size, and maps whose pieces are more than one turn of blocks.
  const std::vector<ChannelView> views = {{96 * 112 * 112, 128, 1}, {256 * 32 * 32, 2048, 1},
                                          {65536, 8192, 1},         {256, 64, 112 * 112},
                                          {256, 2048, 49},          {1, 1, int64_t{1} << 30}};
  for (const ChannelView& view : views) {
    for (int multiprocessors = 64; multiprocessors <= 160; ++multiprocessors) {
      const size_t planned = channels::sums_scratch_bytes(multiprocessors, {view});
      for (const int vector : {2, 4, 8}) {
        for (int blocks = 1; blocks <= 4; ++blocks) {
          const GridLimits limits{multiprocessors, blocks, 32, 16, 256};
          const ChannelGrid grid({view}, vector, true, limits);
          expect_planned(planned, grid.pieces, grid.count());
        }
      }
    }
  }
}

}  // namespace
}  // namespace crema::test
