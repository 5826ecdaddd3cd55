// What convolutions, pooling, regions and resizing give, with values by hand, and what they refuse.

#include <cmath>
#include <string>
#include <vector>

#include "onnx/operator_use.hpp"
#include "support/expect_error.hpp"

namespace crema::onnx {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kHuge = int64_t{1} << 62;

Use conv(const Array& x, const Array& w) { return Use("Conv").in(x).in(w); }

TEST(WindowOperators, Convolution) {
  const Array x = floats({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Array ones = floats({1, 1, 2, 2}, {1, 1, 1, 1});
  expect_array(conv(x, ones).in(floats({1}, {100})).result(), {1, 1, 2, 2}, {112, 116, 124, 128});
  expect_array(conv(x, ones).set("dilations", Ints{2, 2}).result(), {1, 1, 1, 1}, {20});
  expect_array(conv(x, ones).set("auto_pad", "SAME_UPPER").set("strides", Ints{2, 2}).result(),
               {1, 1, 2, 2}, {12, 9, 15, 9});
  expect_array(conv(x, ones).set("pads", Ints{1, 0, 0, 0}).result(), {1, 1, 3, 2},
               {3, 5, 12, 16, 24, 28});
  const Array depthwise = conv(floats({1, 2, 2}, {1, 2, 3, 4}), floats({2, 1, 1}, {10, 100}))
                              .set("group", int64_t{2})
                              .result();
  expect_array(depthwise, {1, 2, 2}, {10, 20, 300, 400});
}

TEST(WindowOperators, ConvolutionRefusesHostileAttributes) {
  const Array x = floats({1, 2, 3, 3}, std::vector<double>(18, 1));
  const Array w = floats({2, 2, 2, 2}, std::vector<double>(16, 1));
  expect_error([&] { conv(x, w).set("strides", Ints{0, 1}).result(); }, {"Conv: ", "strides is 0"});
  expect_error(
      [&] {
        conv(x, w).set("dilations", Ints{1, -1}).result();
      },
      {"Conv: ", "dilations is -1"});
  expect_error(
      [&] {
        conv(x, w).set("dilations", Ints{kHuge, 1}).result();
      },
      {"Conv: ", "dilations is 4611686018427387904"});
  expect_error([&] { conv(x, w).set("pads", Ints{0, 0, kHuge, 0}).result(); }, {"Conv: ", "a pad"});
  expect_error(
      [&] {
        conv(x, w).set("pads", Ints{int64_t{1} << 31, 0, int64_t{1} << 31, 0}).result();
      },
      {"Conv: ", "elements"});
  expect_error([&] { conv(x, w).set("pads", Ints{0, 0}).result(); }, {"Conv: ", "pads has 2"});
  expect_error([&] { conv(x, w).set("pads", Ints{0, -1, 0, 0}).result(); }, {"Conv: ", "-1"});
  expect_error([&] { conv(x, w).set("group", int64_t{3}).result(); }, {"Conv: ", "group 3"});
  expect_error([&] { conv(x, w).set("group", int64_t{0}).result(); }, {"Conv: ", "group 0"});
  expect_error([&] { conv(x, w).set("group", int64_t{2}).result(); }, {"Conv: ", "2 groups"});
  expect_error([&] { conv(x, w).set("kernel_shape", Ints{3, 3}).result(); }, {"Conv: ", "3x3"});
  expect_error(
      [&] {
        conv(x, w).set("dilations", Ints{3, 1}).result();
      },
      {"Conv: ", "a window of 4", "input of 3"});
  expect_error([&] { conv(x, w).set("auto_pad", "SAME").result(); }, {"Conv: ", "'SAME'"});
  expect_error([&] { conv(x, floats({2, 2, 0, 2}, {})).result(); }, {"Conv: ", "kernel"});
  expect_error([&] { conv(x, w).in(floats({3}, {0, 0, 0})).result(); }, {"Conv: ", "the bias"});
}

TEST(WindowOperators, TransposedConvolution) {
  const Array x = floats({1, 1, 2}, {1, 2});
  const Array w = floats({1, 1, 2}, {1, 10});
  const auto use = [&] { return Use("ConvTranspose").set("strides", Ints{3}).in(x).in(w); };
  expect_array(use().result(), {1, 1, 5}, {1, 10, 0, 2, 20});
  expect_array(use().set("output_padding", Ints{1}).result(), {1, 1, 6}, {1, 10, 0, 2, 20, 0});
  expect_array(use().set("pads", Ints{1, 0}).result(), {1, 1, 4}, {10, 0, 2, 20});
  expect_array(use().set("output_shape", Ints{7}).result(), {1, 1, 7}, {1, 10, 0, 2, 20, 0, 0});
  expect_array(use().set("output_shape", Ints{4}).result(), {1, 1, 4}, {10, 0, 2, 20});
  expect_error([&] { use().set("pads", Ints{3, 3}).result(); }, {"ConvTranspose: ", "-1"});
  expect_error([&] { use().set("output_padding", Ints{-1}).result(); }, {"ConvTranspose: ", "-1"});
  expect_error([&] { use().set("group", int64_t{2}).result(); }, {"ConvTranspose: ", "group 2"});
}

TEST(WindowOperators, ConvolutionOfIntegersAndColumns) {
  const auto u8 = TensorProto::UINT8;
  expect_integers(Use("ConvInteger")
                      .in(integers({1, 1, 2}, {2, 3}, u8))
                      .in(integers({1, 1, 2}, {4, 5}, u8))
                      .in(integers({}, {1}, u8))
                      .in(integers({}, {3}, u8))
                      .result(),
                  TensorProto::INT32, {1, 1, 1}, {5});
  expect_array(Use("Col2Im")
                   .in(floats({1, 2, 2}, {1, 2, 10, 20}))
                   .in(indices({3}))
                   .in(indices({2}))
                   .result(),
               {1, 1, 3}, {1, 12, 20});
  expect_error(
      [] {
        Use("Col2Im")
            .in(floats({1, 2, 2}, {1, 2, 3, 4}))
            .in(indices({9}))
            .in(indices({2}))
            .result();
      },
      {"Col2Im: ", "8 blocks"});
}

TEST(WindowOperators, DeformedConvolutionReadsBetweenElements) {
  const Array x = floats({1, 1, 1, 3}, {1, 2, 4});
  const auto use = [&](std::vector<double> offsets) {
    return Use("DeformConv", 19)
        .in(x)
        .in(floats({1, 1, 1, 1}, {10}))
        .in(floats({1, 2, 1, 3}, std::move(offsets)));
  };
  // The first row moves along the height, the second one along the width.
  expect_array(use({0, 0, 0, 0.5, 0.5, 0.5}).result(), {1, 1, 1, 3}, {15, 30, 20});
  expect_array(use({0, 1, 0, 0, 0, kNan}).result(), {1, 1, 1, 3}, {10, 0, 0});
  expect_array(use({0, 0, 0, 0, 0, 0}).none().in(floats({1, 1, 1, 3}, {1, 0.5, 0})).result(),
               {1, 1, 1, 3}, {10, 10, 0});
  expect_error(
      [&] {
        use({0, 0, 0, 0, 0, 0}).set("offset_group", int64_t{2}).result();
      },
      {"DeformConv: ", "offset_group 2"});
}

Use pool(const char* op, Ints kernel) {
  return Use(op).set("kernel_shape", kernel).in(floats({1, 1, 4}, {1, 4, 2, 3}));
}

TEST(WindowOperators, Pooling) {
  std::vector<Array> y = pool("MaxPool", {2}).set("strides", Ints{2}).outputs(2).run();
  expect_array(y[0], {1, 1, 2}, {4, 3});
  expect_integers(y[1], TensorProto::INT64, {1, 1, 2}, {1, 3});
  expect_array(pool("MaxPool", {3}).set("strides", Ints{2}).set("ceil_mode", int64_t{1}).result(),
               {1, 1, 2}, {4, 3});
  expect_array(pool("AveragePool", {3}).set("pads", Ints{1, 1}).result(), {1, 1, 4},
               {2.5, 7.0 / 3, 3, 2.5});
  expect_array(pool("AveragePool", {3})
                   .set("pads", Ints{1, 1})
                   .set("count_include_pad", int64_t{1})
                   .result(),
               {1, 1, 4}, {5.0 / 3, 7.0 / 3, 3, 5.0 / 3});
  // The last window reaches beyond the padding, which does not count.
  expect_array(pool("AveragePool", {3})
                   .set("strides", Ints{3})
                   .set("ceil_mode", int64_t{1})
                   .set("count_include_pad", int64_t{1})
                   .result(),
               {1, 1, 2}, {7.0 / 3, 3});
  expect_array(pool("LpPool", {2}).set("strides", Ints{2}).result(), {1, 1, 2},
               {std::sqrt(17.0), std::sqrt(13.0)});
  const Array plane = floats({1, 1, 2, 2}, {1, 5, 2, 3});
  y = Use("MaxPool")
          .set("kernel_shape", Ints{2, 2})
          .set("storage_order", int64_t{1})
          .outputs(2)
          .in(plane)
          .run();
  expect_integers(y[1], TensorProto::INT64, {1, 1, 1, 1}, {2});
  expect_array(Use("GlobalMaxPool").in(plane).result(), {1, 1, 1, 1}, {5});
  expect_array(Use("GlobalAveragePool").in(plane).result(), {1, 1, 1, 1}, {2.75});
  expect_array(Use("GlobalLpPool").set("p", int64_t{1}).in(plane).result(), {1, 1, 1, 1}, {11});
}

TEST(WindowOperators, PoolingRefusesHostileAttributes) {
  expect_error([] { pool("MaxPool", {0}).result(); }, {"MaxPool: ", "is 0"});
  expect_error([] { pool("MaxPool", {kHuge}).result(); }, {"MaxPool: ", "4611686018427387904"});
  expect_error([] { pool("MaxPool", {2, 2}).result(); }, {"MaxPool: ", "kernel_shape has 2"});
  expect_error([] { pool("MaxPool", {5}).result(); }, {"MaxPool: ", "a window of 5"});
  expect_error(
      [] {
        pool("MaxPool", {2}).set("pads", Ints{2, 0}).result();
      },
      {"MaxPool: ", "a pad of 2"});
  expect_error([] { pool("LpPool", {2}).set("p", int64_t{0}).result(); }, {"LpPool: ", "p is 0"});
  expect_error(
      [] {
        Use("AveragePool").in(floats({1, 1, 4}, {1, 2, 3, 4})).result();
      },
      {"AveragePool: ", "kernel_shape is missing"});
  expect_error(
      [] {
        Use("GlobalMaxPool").in(floats({1, 1, 0}, {})).result();
      },
      {"GlobalMaxPool: ", "empty"});
}

TEST(WindowOperators, PoolingBackChecksItsIndices) {
  const auto use = [](Ints places) {
    return Use("MaxUnpool")
        .set("kernel_shape", Ints{2})
        .set("strides", Ints{2})
        .in(floats({1, 1, 2}, {5, 6}))
        .in(integers({1, 1, 2}, places));
  };
  expect_array(use({1, 2}).result(), {1, 1, 4}, {0, 5, 6, 0});
  expect_array(use({1, 2}).in(indices({1, 1, 5})).result(), {1, 1, 5}, {0, 5, 6, 0, 0});
  expect_error([&] { use({1, 4}).result(); }, {"MaxUnpool: ", "an index is 4"});
  expect_error([&] { use({-1, 2}).result(); }, {"MaxUnpool: ", "-1"});
  expect_error([&] { use({1, 2}).in(indices({1, 1, kHuge})).result(); }, {"MaxUnpool: "});
}

TEST(WindowOperators, RegionsOfInterest) {
  const Array x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  expect_array(Use("MaxRoiPool")
                   .set("pooled_shape", Ints{1, 2})
                   .in(x)
                   .in(floats({1, 5}, {0, 0, 0, 1, 1}))
                   .result(),
               {1, 1, 1, 2}, {3, 4});
  const auto align = [&](std::vector<double> roi, int64_t image) {
    return Use("RoiAlign", 16)
        .set("sampling_ratio", int64_t{1})
        .in(x)
        .in(floats({1, 4}, std::move(roi)))
        .in(indices({image}));
  };
  expect_array(align({0, 0, 2, 2}, 0).result(), {1, 1, 1, 1}, {2.5});
  expect_error([&] { align({0, 0, 2, 2}, 1).result(); }, {"RoiAlign: ", "image 1"});
  expect_error([&] { align({0, 0, kNan, 2}, 0).result(); }, {"RoiAlign: ", "nan"});
  expect_error(
      [&] {
        Use("RoiAlign").in(x).in(floats({1, 4}, {0, 0, 1e6, 1})).in(indices({0})).result();
      },
      {"RoiAlign: ", "samples"});
  expect_error(
      [&] {
        Use("MaxRoiPool")
            .set("pooled_shape", Ints{0, 1})
            .in(x)
            .in(floats({1, 5}, {0, 0, 0, 1, 1}))
            .result();
      },
      {"MaxRoiPool: ", "height"});
}

Use resize(std::vector<double> values, double scale) {
  const auto count = static_cast<int64_t>(values.size());
  return Use("Resize").in(floats({count}, std::move(values))).none().in(floats({1}, {scale}));
}

TEST(WindowOperators, Resize) {
  expect_array(resize({1, 2}, 2).result(), {4}, {1, 1, 2, 2});
  expect_array(resize({1, 3}, 2).set("mode", "linear").result(), {4}, {1, 1.5, 2.5, 3});
  expect_array(resize({1, 3}, 1.5)
                   .set("mode", "linear")
                   .set("coordinate_transformation_mode", "align_corners")
                   .result(),
               {3}, {1, 2, 3});
  expect_array(resize({1, 2, 3, 4}, 0.5)
                   .set("coordinate_transformation_mode", "asymmetric")
                   .set("nearest_mode", "floor")
                   .result(),
               {2}, {1, 3});
  expect_array(
      resize({0, 4, 8, 12}, 0.5).set("mode", "linear").set("antialias", int64_t{1}).result(), {2},
      {2.5, 9.5});
  expect_array(resize({1, 2, 3, 4}, 1.0 / 3)
                   .set("mode", "cubic")
                   .set("coordinate_transformation_mode", "asymmetric")
                   .result(),
               {1}, {1});
  expect_array(Use("Resize", 10).in(floats({4}, {1, 2, 3, 4})).in(floats({1}, {0.6})).result(), {2},
               {1, 3});
  expect_array(Use("Resize")
                   .set("mode", "linear")
                   .set("coordinate_transformation_mode", "tf_crop_and_resize")
                   .set("extrapolation_value", 9.0)
                   .in(floats({3}, {1, 2, 3}))
                   .in(floats({2}, {0.5, 1.5}))
                   .none()
                   .in(indices({3}))
                   .result(),
               {3}, {2, 3, 9});
  const Operand kept = Use("Resize")
                           .set("keep_aspect_ratio_policy", "not_larger")
                           .set("axes", Ints{1, 0})
                           .unknown(TensorProto::FLOAT, Shape{2, 4})
                           .none()
                           .none()
                           .in(indices({6, 7}))
                           .inferred()
                           .front();
  EXPECT_EQ(kept.shape, (Shape{3, 6}));
  // 0.7 as a float is less than 0.7.
  EXPECT_EQ(resize(std::vector<double>(10, 1), 0.7).inferred().front().shape, (Shape{7}));
}

TEST(WindowOperators, ResizeRefusesHostileSizes) {
  expect_error([] { resize({1, 2}, 1e30).result(); }, {"Resize: ", "scale"});
  expect_error([] { resize({1, 2}, -1).result(); }, {"Resize: ", "scale of -1"});
  expect_error([] { resize({1, 2}, kNan).result(); }, {"Resize: ", "nan"});
  expect_error([] { resize({1, 2}, 2).in(indices({4})).result(); }, {"Resize: ", "exclude"});
  expect_error([] { resize({1, 2}, 2).set("mode", "area").result(); }, {"Resize: ", "'area'"});
  expect_error(
      [] {
        resize({1, 2}, 2).set("coordinate_transformation_mode", "center").result();
      },
      {"Resize: ", "'center'"});
  expect_error(
      [] { Use("Resize").in(floats({1}, {1})).none().none().in(indices({kHuge})).result(); },
      {"Resize: ", "4611686018427387904"});
  expect_error([] { Use("Resize").in(floats({1}, {1})).result(); }, {"Resize: ", "sizes"});
}

TEST(WindowOperators, SamplesOfGrids) {
  const Array x = floats({1, 1, 1, 2}, {1, 3});
  const auto sample = [&](double place) {
    return Use("GridSample", 20)
        .set("align_corners", int64_t{1})
        .in(x)
        .in(floats({1, 1, 1, 2}, {place, 0}));
  };
  expect_array(sample(0).result(), {1, 1, 1, 1}, {2});
  expect_array(sample(2).result(), {1, 1, 1, 1}, {1.5});
  expect_array(sample(9).set("padding_mode", "border").result(), {1, 1, 1, 1}, {3});
  expect_array(sample(2).set("padding_mode", "reflection").result(), {1, 1, 1, 1}, {2});
  expect_array(sample(-0.9).set("mode", "nearest").result(), {1, 1, 1, 1}, {1});
  expect_array(sample(kNan).result(), {1, 1, 1, 1}, {0});
  expect_error([&] { sample(0).set("padding_mode", "wrap").result(); }, {"GridSample: ", "'wrap'"});
  expect_array(Use("AffineGrid", 20)
                   .set("align_corners", int64_t{1})
                   .in(floats({1, 2, 3}, {1, 0, 10, 0, 2, 20}))
                   .in(indices({1, 1, 2, 2}))
                   .result(),
               {1, 2, 2, 2}, {9, 18, 11, 18, 9, 22, 11, 22});
}

}  // namespace
}  // namespace crema::onnx
