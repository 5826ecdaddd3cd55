// What operators that move data give, with values by hand, and what they refuse.

#include <numeric>

#include "onnx/operator_use.hpp"
#include "support/expect_error.hpp"

namespace crema::onnx {
namespace {

/// 0, 1, 2, ... in that shape.
Array counting(const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(shape.count()));
  std::iota(values.begin(), values.end(), 0.0);
  return floats(shape, values);
}

TEST(MovingOperators, Reshape) {
  const Array x = counting({2, 3, 4});
  EXPECT_EQ(Use("Reshape").in(x).in(indices({4, -1})).result().shape(), (Shape{4, 6}));
  EXPECT_EQ(Use("Reshape").in(x).in(indices({0, -1})).result().shape(), (Shape{2, 12}));
  EXPECT_EQ(Use("Reshape")
                .in(counting({0, 3}))
                .in(indices({3, 0}))
                .set("allowzero", int64_t{1})
                .result()
                .shape(),
            (Shape{3, 0}));
  EXPECT_EQ(Use("Reshape").in(counting({1})).in(Array::of_indices({})).result().shape(), Shape{});
  expect_array(Use("Reshape").in(counting({2, 2})).in(indices({4})).result(), {4}, {0, 1, 2, 3});
  const auto refuses = [&](const std::vector<int64_t>& shape,
                           std::initializer_list<std::string_view> parts) {
    expect_error([&] { Use("Reshape").in(x).in(indices(shape)).result(); }, parts);
  };
  refuses({-1, -1}, {"Reshape: ", "two sizes of -1"});
  refuses({5, -1}, {"Reshape: ", "24 elements", "multiple of 5"});
  refuses({2, 3, 4, 0}, {"Reshape: ", "axis 3"});
  refuses({-2}, {"Reshape: ", "-2"});
  refuses({25}, {"Reshape: ", "25"});
  refuses({kMax, kMax}, {"Reshape: ", "64 bits"});
  expect_error(
      [&] {
        Use("Reshape").in(counting({0})).in(indices({0, -1})).result();
      },
      {"Reshape: ", "multiple of 0"});
}

TEST(MovingOperators, FlattenSqueezeUnsqueeze) {
  const Array x = counting({1, 2, 1, 3});
  EXPECT_EQ(Use("Flatten").in(x).result().shape(), (Shape{1, 6}));
  EXPECT_EQ(Use("Flatten").set("axis", int64_t{4}).in(x).result().shape(), (Shape{6, 1}));
  EXPECT_EQ(Use("Flatten").set("axis", int64_t{-1}).in(x).result().shape(), (Shape{2, 3}));
  EXPECT_EQ(Use("Flatten").set("axis", int64_t{0}).in(counting({})).result().shape(),
            (Shape{1, 1}));
  expect_error([&] { Use("Flatten").set("axis", int64_t{99}).in(x).result(); },
               {"Flatten: ", "axis 99"});
  EXPECT_EQ(Use("Squeeze").in(x).result().shape(), (Shape{2, 3}));
  EXPECT_EQ(Use("Squeeze").in(x).in(indices({-2})).result().shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(Use("Squeeze", 11).set("axes", std::vector<int64_t>{0}).in(x).result().shape(),
            (Shape{2, 1, 3}));
  expect_error([&] { Use("Squeeze").in(x).in(indices({1})).result(); }, {"Squeeze: ", "axis 1"});
  expect_error([&] { Use("Squeeze").in(x).in(indices({0, -4})).result(); }, {"Squeeze: ", "twice"});
  EXPECT_EQ(Use("Unsqueeze").in(counting({2})).in(indices({0, -1})).result().shape(),
            (Shape{1, 2, 1}));
  EXPECT_EQ(
      Use("Unsqueeze", 11).set("axes", std::vector<int64_t>{1}).in(counting({2})).result().shape(),
      (Shape{2, 1}));
  expect_error([&] { Use("Unsqueeze").in(x).in(indices({5})).result(); },
               {"Unsqueeze: ", "axis 5"});
  expect_error([&] { Use("Unsqueeze").in(x).result(); }, {"Unsqueeze: ", "axes are missing"});
  expect_error([&] { Use("Unsqueeze").in(x).in(indices(std::vector<int64_t>(100, 0))).result(); },
               {"Unsqueeze: ", "100 axes"});
}

TEST(MovingOperators, TransposeExpandTile) {
  const Array x = counting({2, 3});
  expect_array(Use("Transpose").in(x).result(), {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_array(
      Use("Transpose").set("perm", std::vector<int64_t>{1, 0, 2}).in(counting({2, 2, 2})).result(),
      {2, 2, 2}, {0, 1, 4, 5, 2, 3, 6, 7});
  expect_error(
      [&] {
        Use("Transpose").set("perm", std::vector<int64_t>{0, 0}).in(x).result();
      },
      {"Transpose: ", "twice"});
  expect_error([&] { Use("Transpose").set("perm", std::vector<int64_t>{0}).in(x).result(); },
               {"Transpose: ", "perm 0", "2x3"});
  expect_array(Use("Expand").in(counting({2, 1})).in(indices({2, 1, 3})).result(), {2, 2, 3},
               {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  // A size of 1 keeps what is there.
  expect_array(Use("Expand").in(counting({2})).in(indices({1})).result(), {2}, {0, 1});
  expect_error([&] { Use("Expand").in(x).in(indices({4})).result(); },
               {"Expand: ", "do not broadcast"});
  expect_error([&] { Use("Expand").in(counting({1})).in(indices({kMax})).result(); },
               {"Expand: ", "elements are supported"});
  expect_array(Use("Tile").in(counting({1, 2})).in(indices({2, 2})).result(), {2, 4},
               {0, 1, 0, 1, 0, 1, 0, 1});
  expect_array(Use("Tile").in(x).in(indices({0, 1})).result(), {0, 3}, {});
  expect_error([&] { Use("Tile").in(x).in(indices({1})).result(); }, {"Tile: ", "repeats 1"});
  expect_error([&] { Use("Tile").in(x).in(indices({kMax, 1})).result(); }, {"Tile: ", "64 bits"});
  expect_error([&] { Use("Tile").in(x).in(indices({1, -1})).result(); }, {"Tile: ", "negative"});
}

TEST(MovingOperators, ConcatAndSplit) {
  const Array x = counting({2, 2});
  expect_array(Use("Concat").set("axis", int64_t{-1}).in(x).in(counting({2, 1})).result(), {2, 3},
               {0, 1, 0, 2, 3, 1});
  expect_array(Use("Concat").set("axis", int64_t{0}).in(x).in(counting({0, 2})).in(x).result(),
               {4, 2}, {0, 1, 2, 3, 0, 1, 2, 3});
  expect_error([&] { Use("Concat").in(x).result(); }, {"Concat: ", "axis is missing"});
  expect_error([&] { Use("Concat").set("axis", int64_t{99}).in(x).result(); },
               {"Concat: ", "axis 99"});
  expect_error(
      [&] {
        Use("Concat").set("axis", int64_t{0}).in(x).in(counting({2, 3})).result();
      },
      {"Concat: ", "2x3", "2x2"});

  auto parts = Use("Split", 18).set("num_outputs", int64_t{4}).outputs(4).in(counting({7})).run();
  expect_array(parts[0], {2}, {0, 1});
  expect_array(parts[3], {1}, {6});
  parts = Use("Split", 13)
              .set("axis", int64_t{1})
              .outputs(2)
              .in(counting({2, 3}))
              .in(indices({1, 2}))
              .run();
  expect_array(parts[0], {2, 1}, {0, 3});
  expect_array(parts[1], {2, 2}, {1, 2, 4, 5});
  parts =
      Use("Split", 11).set("split", std::vector<int64_t>{0, 2}).outputs(2).in(counting({2})).run();
  expect_array(parts[0], {0}, {});
  expect_array(parts[1], {2}, {0, 1});
  expect_error([&] { Use("Split", 13).outputs(2).in(counting({3})).run(); },
               {"Split: ", "size 3", "2 parts"});
  expect_error([&] { Use("Split", 18).outputs(4).in(counting({5})).run(); },
               {"Split: ", "size 5", "4 parts"});
  expect_error(
      [&] {
        Use("Split").outputs(2).in(counting({3})).in(indices({4, -1})).run();
      },
      {"Split: ", "-1"});
  expect_error(
      [&] {
        Use("Split").outputs(2).in(counting({3})).in(indices({kMax, kMax})).run();
      },
      {"Split: ", "64 bits"});
  expect_error(
      [&] {
        Use("Split").outputs(3).in(counting({3})).in(indices({1, 2})).run();
      },
      {"Split: ", "1, 2", "3 outputs"});
}

TEST(MovingOperators, DepthAndSpace) {
  const Array x = counting({1, 4, 1, 2});  // channel c: 2c, 2c + 1
  expect_array(Use("DepthToSpace").set("blocksize", int64_t{2}).in(x).result(), {1, 1, 2, 4},
               {0, 2, 1, 3, 4, 6, 5, 7});
  const Array y = counting({1, 8, 1, 1});
  expect_array(Use("DepthToSpace").set("blocksize", int64_t{2}).in(y).result(), {1, 2, 2, 2},
               {0, 2, 4, 6, 1, 3, 5, 7});
  expect_array(Use("DepthToSpace").set("blocksize", int64_t{2}).set("mode", "CRD").in(y).result(),
               {1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_array(Use("SpaceToDepth").set("blocksize", int64_t{2}).in(counting({1, 1, 2, 4})).result(),
               {1, 4, 1, 2}, {0, 2, 1, 3, 4, 6, 5, 7});
  const Array z = counting({1, 2, 2, 2});
  expect_array(Use("SpaceToDepth").set("blocksize", int64_t{2}).in(z).result(), {1, 8, 1, 1},
               {0, 4, 1, 5, 2, 6, 3, 7});
  expect_array(Use("SpaceToDepth").set("blocksize", int64_t{2}).set("mode", "CRD").in(z).result(),
               {1, 8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_error(
      [&] { Use("SpaceToDepth").set("blocksize", int64_t{2}).set("mode", "RCD").in(z).result(); },
      {"SpaceToDepth: ", "mode is 'RCD'"});
  expect_error([&] { Use("DepthToSpace").set("blocksize", int64_t{0}).in(x).result(); },
               {"DepthToSpace: ", "blocksize is 0"});
  expect_error([&] { Use("DepthToSpace").set("blocksize", kMax).in(x).result(); },
               {"DepthToSpace: ", "64 bits"});
  expect_error([&] { Use("SpaceToDepth").set("blocksize", int64_t{2}).in(x).result(); },
               {"SpaceToDepth: ", "1x2"});
  expect_error([&] { Use("SpaceToDepth").in(x).result(); }, {"blocksize is missing"});
}

TEST(MovingOperators, SliceAsPythonDoes) {
  const Array x = counting({5});
  const auto slice = [&](int64_t start, int64_t end, int64_t step) {
    return Use("Slice")
        .in(x)
        .in(indices({start}))
        .in(indices({end}))
        .in(indices({0}))
        .in(indices({step}))
        .result();
  };
  expect_array(slice(1, 4, 2), {2}, {1, 3});
  expect_array(slice(-2, kMax, 1), {2}, {3, 4});
  expect_array(slice(4, kMin, -2), {3}, {4, 2, 0});
  expect_array(slice(kMax, kMin, -1), {5}, {4, 3, 2, 1, 0});
  expect_array(slice(kMin, kMax, kMax), {1}, {0});
  expect_array(slice(kMax, kMin, kMin), {1}, {4});
  expect_array(slice(3, 1, 1), {0}, {});
  expect_array(slice(9, 10, 1), {0}, {});
  expect_array(slice(0, -9, -1), {1}, {0});
  expect_error([&] { slice(0, 1, 0); }, {"Slice: ", "step is 0"});
  expect_array(Use("Slice", 9)
                   .set("starts", std::vector<int64_t>{0, 1})
                   .set("ends", std::vector<int64_t>{1, -1})
                   .in(counting({2, 4}))
                   .result(),
               {1, 2}, {1, 2});
  expect_error(
      [&] { Use("Slice").in(x).in(indices({0})).in(indices({1})).in(indices({99})).result(); },
      {"Slice: ", "axis 99"});
  expect_error(
      [&] {
        Use("Slice").in(x).in(indices({0})).in(indices({1, 2})).result();
      },
      {"Slice: ", "1 starts, 2 ends"});
  expect_error([&] { Use("Slice", 9).in(x).result(); }, {"Slice: ", "missing"});
}

TEST(MovingOperators, PadInEachMode) {
  const Array x = counting({4});
  const auto pad = [&](const char* mode, int64_t before, int64_t after) {
    return Use("Pad").set("mode", mode).in(x).in(indices({before, after})).result();
  };
  expect_array(pad("constant", 1, 2), {7}, {0, 0, 1, 2, 3, 0, 0});
  expect_array(pad("edge", 2, 1), {7}, {0, 0, 0, 1, 2, 3, 3});
  expect_array(pad("reflect", 2, 1), {7}, {2, 1, 0, 1, 2, 3, 2});
  expect_array(pad("reflect", 0, 7), {11}, {0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 2});
  expect_array(pad("wrap", 2, 5), {11}, {2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0});
  expect_array(pad("constant", -1, 1), {4}, {1, 2, 3, 0});
  expect_array(pad("edge", -2, 2), {4}, {2, 3, 3, 3});
  expect_array(pad("constant", -2, -2), {0}, {});
  expect_error([&] { pad("constant", -5, 0); }, {"Pad: ", "-5"});
  expect_error([&] { pad("constant", -3, -2); }, {"Pad: ", "-3 and -2", "axis 0"});
  expect_error([&] { pad("constant", kMin, 0); }, {"Pad: ", "too large"});
  expect_error([&] { pad("constant", kMax, kMax); }, {"Pad: ", "too large"});
  expect_error([&] { pad("reflect", -4, 1); }, {"Pad: ", "reflect", "no elements"});
  expect_error([&] { pad("mirror", 1, 0); }, {"Pad: ", "'mirror'"});
  expect_array(Use("Pad")
                   .in(counting({1, 2}))
                   .in(indices({1, 0}))
                   .in(floats({}, {7}))
                   .in(indices({-1}))
                   .result(),
               {1, 3}, {7, 0, 1});
  expect_array(
      Use("Pad", 10).set("pads", std::vector<int64_t>{0, 1}).set("value", 9.0).in(x).result(), {5},
      {0, 1, 2, 3, 9});
  expect_error([&] { Use("Pad").in(x).in(indices({1, 0, 1})).result(); }, {"Pad: ", "3 pads"});
  expect_error(
      [&] {
        Use("Pad").in(x).in(indices({1, 0})).in(indices({1})).result();
      },
      {"Pad: ", "INT64"});
}

TEST(MovingOperators, CenterCropPadRoundsDown) {
  expect_array(Use("CenterCropPad").in(counting({5})).in(indices({2})).result(), {2}, {1, 2});
  expect_array(Use("CenterCropPad").in(counting({2})).in(indices({5})).result(), {5},
               {0, 0, 1, 0, 0});
  expect_array(Use("CenterCropPad")
                   .set("axes", std::vector<int64_t>{-1})
                   .in(counting({2, 3}))
                   .in(indices({1}))
                   .result(),
               {2, 1}, {1, 4});
  expect_error([&] { Use("CenterCropPad").in(counting({2})).in(indices({-1})).result(); },
               {"CenterCropPad: ", "-1"});
  expect_error(
      [&] {
        Use("CenterCropPad").in(counting({2})).in(indices({1, 1})).result();
      },
      {"CenterCropPad: ", "2 sizes"});
}

TEST(MovingOperators, UpsampleNearestAndLinear) {
  const Array x = counting({1, 2});
  expect_array(Use("Upsample", 9).in(x).in(floats({2}, {2, 1.5})).result(), {2, 3},
               {0, 0, 1, 0, 0, 1});
  expect_array(Use("Upsample", 7).set_floats("scales", {1, 2}).set("mode", "linear").in(x).result(),
               {1, 4}, {0, 0.5, 1, 1});
  expect_error(
      [&] {
        Use("Upsample", 9).in(x).in(floats({2}, {0, 1})).result();
      },
      {"Upsample: ", "by 0"});
  expect_error(
      [&] {
        Use("Upsample", 9).in(x).in(floats({2}, {kNan, 1})).result();
      },
      {"Upsample: ", "nan"});
  expect_error(
      [&] {
        Use("Upsample", 9).in(x).in(floats({2}, {1, kInf})).result();
      },
      {"Upsample: ", "inf"});
  expect_error([&] { Use("Upsample", 9).in(x).in(floats({1}, {1})).result(); },
               {"Upsample: ", "1 scales"});
}

TEST(MovingOperators, ReverseSequence) {
  const Array x = counting({3, 2});  // (T, N)
  expect_array(Use("ReverseSequence").in(x).in(indices({3, 2})).result(), {3, 2},
               {4, 3, 2, 1, 0, 5});
  expect_array(Use("ReverseSequence")
                   .set("batch_axis", int64_t{0})
                   .set("time_axis", int64_t{1})
                   .in(x)
                   .in(indices({2, 1, 0}))
                   .result(),
               {3, 2}, {1, 0, 2, 3, 4, 5});
  expect_error(
      [&] {
        Use("ReverseSequence").in(x).in(indices({4, 1})).result();
      },
      {"ReverseSequence: ", "length of 4"});
  expect_error(
      [&] {
        Use("ReverseSequence").in(x).in(indices({-1, 1})).result();
      },
      {"ReverseSequence: ", "length of -1"});
  expect_error([&] { Use("ReverseSequence").in(x).in(indices({1})).result(); },
               {"ReverseSequence: ", "batch of 2"});
}

TEST(MovingOperators, Trilu) {
  const Array x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_array(Use("Trilu").in(x).result(), {2, 3}, {1, 2, 3, 0, 5, 6});
  expect_array(Use("Trilu").in(x).in(integers({}, {1})).result(), {2, 3}, {0, 2, 3, 0, 0, 6});
  expect_array(Use("Trilu").set("upper", int64_t{0}).in(x).result(), {2, 3}, {1, 0, 0, 4, 5, 0});
  expect_array(Use("Trilu").in(x).in(integers({}, {kMin})).result(), {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_error([] { Use("Trilu").in(counting({3})).result(); }, {"Trilu: ", "two axes"});
}

TEST(MovingOperators, Gather) {
  const Array x = counting({3, 2});
  expect_array(Use("Gather").in(x).in(integers({1, 2}, {2, -3})).result(), {1, 2, 2}, {4, 5, 0, 1});
  expect_array(Use("Gather").set("axis", int64_t{-1}).in(x).in(integers({}, {1})).result(), {3},
               {1, 3, 5});
  expect_error([&] { Use("Gather").in(x).in(indices({3})).result(); }, {"Gather: ", "index 3"});
  expect_error([&] { Use("Gather").in(x).in(indices({kMin})).result(); }, {"Gather: ", "size 3"});
  expect_error([&] { Use("Gather").set("axis", int64_t{99}).in(x).in(indices({0})).result(); },
               {"Gather: ", "axis 99"});
  expect_error([&] { Use("Gather").in(x).in(floats({1}, {0})).result(); }, {"Gather: ", "FLOAT"});
  expect_error([] { Use("Gather").in(counting({})).in(indices({0})).result(); },
               {"Gather: ", "scalar"});
}

TEST(MovingOperators, GatherElementsAndGatherND) {
  const Array x = counting({2, 3});
  expect_array(
      Use("GatherElements").set("axis", int64_t{1}).in(x).in(integers({2, 1}, {2, -3})).result(),
      {2, 1}, {2, 3});
  expect_array(Use("GatherElements").in(x).in(integers({1, 2}, {1, 0})).result(), {1, 2}, {3, 1});
  expect_error(
      [&] {
        Use("GatherElements").in(x).in(integers({1, 4}, {0, 0, 0, 0})).result();
      },
      {"GatherElements: ", "axis 1"});
  expect_error(
      [&] {
        Use("GatherElements").in(x).in(integers({1, 1}, {2})).result();
      },
      {"GatherElements: ", "index 2"});
  expect_array(Use("GatherND").in(x).in(integers({2, 2}, {0, 0, 1, -1})).result(), {2}, {0, 5});
  expect_array(Use("GatherND").in(x).in(integers({1, 1}, {1})).result(), {1, 3}, {3, 4, 5});
  expect_array(
      Use("GatherND").set("batch_dims", int64_t{1}).in(x).in(integers({2, 1}, {2, 0})).result(),
      {2}, {2, 3});
  expect_error(
      [&] {
        Use("GatherND").in(x).in(integers({1, 3}, {0, 0, 0})).result();
      },
      {"GatherND: ", "3 numbers"});
  expect_error(
      [&] {
        Use("GatherND").in(x).in(integers({1, 2}, {0, 3})).result();
      },
      {"GatherND: ", "index 3"});
  expect_error(
      [&] {
        Use("GatherND").set("batch_dims", int64_t{99}).in(x).in(integers({1, 1}, {0})).result();
      },
      {"GatherND: ", "99"});
}

TEST(MovingOperators, ScatterElements) {
  const Array x = counting({3});
  const auto scatter = [&](const char* reduction) {
    return Use("ScatterElements", 18)
        .set("reduction", reduction)
        .in(x)
        .in(indices({1, -1, 1}))
        .in(floats({3}, {5, -6, 7}))
        .result();
  };
  expect_array(scatter("none"), {3}, {0, 7, -6});
  expect_array(scatter("add"), {3}, {0, 13, -4});
  expect_array(scatter("mul"), {3}, {0, 35, -12});
  expect_array(scatter("max"), {3}, {0, 7, 2});
  expect_array(scatter("min"), {3}, {0, 1, -6});
  expect_error([&] { scatter("mean"); }, {"ScatterElements: ", "'mean'"});
  expect_array(Use("Scatter", 9)
                   .set("axis", int64_t{1})
                   .in(counting({2, 2}))
                   .in(integers({2, 1}, {1, 0}))
                   .in(floats({2, 1}, {8, 9}))
                   .result(),
               {2, 2}, {0, 8, 9, 3});
  const auto u64 = TensorProto::UINT64;
  expect_integers(Use("ScatterElements", 18)
                      .set("reduction", "max")
                      .in(integers({1}, {1}, u64))
                      .in(indices({0}))
                      .in(integers({1}, {-1}, u64))
                      .result(),
                  u64, {1}, {-1});
  expect_error([&] { Use("ScatterElements").in(x).in(indices({3})).in(floats({1}, {0})).result(); },
               {"ScatterElements: ", "index 3"});
  expect_error(
      [&] {
        Use("ScatterElements").in(x).in(indices({0})).in(floats({2}, {0, 0})).result();
      },
      {"ScatterElements: ", "updates of shape 2"});
}

TEST(MovingOperators, ScatterNDAndTensorScatter) {
  const Array x = counting({2, 2});
  expect_array(
      Use("ScatterND").in(x).in(integers({1, 1}, {-1})).in(floats({1, 2}, {8, 9})).result(), {2, 2},
      {0, 1, 8, 9});
  expect_array(Use("ScatterND", 18)
                   .set("reduction", "add")
                   .in(x)
                   .in(integers({2, 2}, {0, 1, 0, 1}))
                   .in(floats({2}, {8, 9}))
                   .result(),
               {2, 2}, {0, 18, 2, 3});
  expect_error(
      [&] {
        Use("ScatterND").in(x).in(integers({1, 1}, {2})).in(floats({1, 2}, {8, 9})).result();
      },
      {"ScatterND: ", "index 2"});
  expect_error(
      [&] {
        Use("ScatterND").in(x).in(integers({1, 1}, {0})).in(floats({2}, {8, 9})).result();
      },
      {"ScatterND: ", "their shape is 1x2"});
  const Array cache = counting({2, 3, 1});
  const Array update = floats({2, 2, 1}, {7, 8, 9, 10});
  expect_array(Use("TensorScatter", 24).in(cache).in(update).in(indices({1, 0})).result(),
               {2, 3, 1}, {0, 7, 8, 9, 10, 5});
  expect_array(Use("TensorScatter", 24)
                   .set("mode", "circular")
                   .in(cache)
                   .in(update)
                   .in(indices({2, 1}))
                   .result(),
               {2, 3, 1}, {8, 1, 7, 3, 9, 10});
  expect_error(
      [&] {
        Use("TensorScatter", 24).in(cache).in(update).in(indices({2, 0})).result();
      },
      {"TensorScatter: ", "2 written at 2"});
  expect_error(
      [&] {
        Use("TensorScatter", 24).in(cache).in(update).in(indices({kMax, 0})).result();
      },
      {"TensorScatter: "});
}

TEST(MovingOperators, WhereCompressNonZero) {
  expect_array(
      Use("Where").in(bools({2, 1}, {1, 0})).in(floats({2}, {1, 2})).in(floats({}, {9})).result(),
      {2, 2}, {1, 2, 9, 9});
  expect_error([] { Use("Where").in(indices({1})).in(indices({1})).in(indices({1})).result(); },
               {"Where: ", "BOOL"});
  const Array x = counting({3, 2});
  expect_array(Use("Compress").set("axis", int64_t{0}).in(x).in(bools({3}, {0, 1, 1})).result(),
               {2, 2}, {2, 3, 4, 5});
  expect_array(Use("Compress").in(x).in(bools({5}, {0, 1, 0, 0, 1})).result(), {2}, {1, 4});
  expect_error(
      [&] {
        Use("Compress").set("axis", int64_t{1}).in(x).in(bools({3}, {0, 0, 1})).result();
      },
      {"Compress: ", "index 2"});
  const Operand bound =
      Use("Compress").set("axis", int64_t{0}).in(x).unknown(TensorProto::BOOL, {2}).inferred()[0];
  EXPECT_EQ(bound.shape, (Shape{2, 2}));
  EXPECT_TRUE(bound.is_bound);
  expect_integers(Use("NonZero").in(floats({2, 2}, {1, 0, 0, -2})).result(), TensorProto::INT64,
                  {2, 2}, {0, 1, 0, 1});
  expect_integers(Use("NonZero").in(floats({2}, {0, 0})).result(), TensorProto::INT64, {1, 0}, {});
  const Operand places = Use("NonZero").unknown(TensorProto::FLOAT, {2, 3}).inferred()[0];
  EXPECT_EQ(places.shape, (Shape{2, 6}));
  EXPECT_TRUE(places.is_bound);
}

// They are all equal; a model of a few bytes may have 2^31 of them.
TEST(MovingOperators, UniqueOfSlicesWithoutElements) {
  const auto use = [](int64_t axis, const Shape& shape, int outputs) {
    return Use("Unique").set("axis", axis).outputs(outputs).in(floats(shape, {})).run();
  };
  expect_array(use(1, {0, int64_t{1} << 31}, 2)[0], {0, 1}, {});
  const std::vector<Array> all = use(1, {0, 3}, 4);
  expect_integers(all[1], TensorProto::INT64, {1}, {0});
  expect_integers(all[2], TensorProto::INT64, {3}, {0, 0, 0});
  expect_integers(all[3], TensorProto::INT64, {1}, {3});
  const std::vector<Array> none = use(0, {0, 3}, 4);
  expect_array(none[0], {0, 3}, {});
  for (size_t i = 1; i < 4; ++i) expect_integers(none[i], TensorProto::INT64, {0}, {});
}

TEST(MovingOperators, UniqueSortedOrNot) {
  const Array x = floats({6}, {2, 1, 1, 3, 4, 3});
  auto all = Use("Unique").outputs(4).in(x).run();
  expect_array(all[0], {4}, {1, 2, 3, 4});
  expect_integers(all[1], TensorProto::INT64, {4}, {1, 0, 3, 4});
  expect_integers(all[2], TensorProto::INT64, {6}, {1, 0, 0, 2, 3, 2});
  expect_integers(all[3], TensorProto::INT64, {4}, {2, 1, 2, 1});
  all = Use("Unique").set("sorted", int64_t{0}).outputs(4).in(x).run();
  expect_array(all[0], {4}, {2, 1, 3, 4});
  expect_integers(all[2], TensorProto::INT64, {6}, {0, 1, 1, 2, 3, 2});
  all =
      Use("Unique").set("axis", int64_t{1}).outputs(3).in(floats({2, 3}, {1, 0, 1, 2, 2, 2})).run();
  expect_array(all[0], {2, 2}, {0, 1, 2, 2});
  expect_integers(all[2], TensorProto::INT64, {3}, {1, 0, 1});
  expect_array(Use("Unique").in(floats({3}, {kNan, 1, kNan})).result(), {2}, {1, kNan});
}

TEST(MovingOperators, OneHot) {
  const Array values = floats({2}, {2, 5});
  expect_array(Use("OneHot").in(indices({1, -1, 7})).in(integers({}, {3})).in(values).result(),
               {3, 3}, {2, 5, 2, 2, 2, 5, 2, 2, 2});
  expect_array(Use("OneHot")
                   .set("axis", int64_t{0})
                   .in(indices({1, 0}))
                   .in(integers({}, {2}))
                   .in(values)
                   .result(),
               {2, 2}, {2, 5, 5, 2});
  expect_error([&] { Use("OneHot").in(indices({1})).in(integers({}, {-1})).in(values).result(); },
               {"OneHot: ", "depth is -1"});
  expect_error([&] { Use("OneHot").in(indices({1})).in(integers({}, {kMax})).in(values).result(); },
               {"OneHot: ", "depth"});
}

TEST(MovingOperators, Scans) {
  const Array x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_array(Use("CumSum").in(x).in(integers({}, {1})).result(), {2, 3}, {1, 3, 6, 4, 9, 15});
  expect_array(Use("CumSum").in(x).in(integers({}, {0})).result(), {2, 3}, {1, 2, 3, 5, 7, 9});
  expect_array(Use("CumSum").set("exclusive", int64_t{1}).in(x).in(indices({-1})).result(), {2, 3},
               {0, 1, 3, 0, 4, 9});
  expect_array(Use("CumSum")
                   .set("exclusive", int64_t{1})
                   .set("reverse", int64_t{1})
                   .in(x)
                   .in(indices({-1}))
                   .result(),
               {2, 3}, {5, 3, 0, 11, 6, 0});
  expect_array(Use("CumProd", 25).in(x).in(indices({1})).result(), {2, 3}, {1, 2, 6, 4, 20, 120});
  expect_integers(Use("CumSum").in(indices({kMax, 1})).in(indices({0})).result(),
                  TensorProto::INT64, {2}, {kMax, kMin});
  expect_error([&] { Use("CumSum").in(x).in(indices({99})).result(); }, {"CumSum: ", "axis 99"});
}

// An axis of size 0 lets the others have any size: nothing may walk along those.
TEST(MovingOperators, EmptyTensorsOfGreatSizes) {
  const int64_t large = int64_t{1} << 30;
  const Array x(TensorProto::FLOAT, {large, 0});
  EXPECT_EQ(Use("Transpose").in(x).result().shape(), (Shape{0, large}));
  EXPECT_EQ(Use("CumSum").in(x).in(indices({0})).result().shape(), (Shape{large, 0}));
  EXPECT_EQ(Use("Concat").set("axis", int64_t{1}).in(x).in(x).result().shape(), (Shape{large, 0}));
  EXPECT_EQ(Use("EyeLike").in(x).result().shape(), (Shape{large, 0}));
}

}  // namespace
}  // namespace crema::onnx
