// Each type of the registry is in the table of what layers read beside values (read_values.hpp),
// and what is wrong of such a bottom is an Error, whatever engine runs. Places of pooling layers,
// whose maps only the net knows, are in tests/net/places_test.cpp.
#include "layers/read_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "crema/registry.hpp"
#include "layers/settings_effect.hpp"
#include "support/needs.hpp"

namespace crema::test {
namespace {

/// Types of one bottom, whose values they read as what they are, and types without a bottom.
const std::set<std::string>& values_alone() {
  static const std::set<std::string> types = {
      // Sources. Tests of data have what is wrong in their files.
      "AnnotatedData", "Data", "DenseImageData", "DummyData", "HDF5Data", "ImageData", "Input",
      "MemoryData", "Parameter", "WindowData",
      // Pointwise.
      "AbsVal", "BNLL", "Clip", "Dropout", "ELU", "Exp", "GELU", "HardSigmoid", "HardSwish", "Log",
      "Mish", "Noise", "PReLU", "Power", "ReLU", "ReLU6", "Sigmoid", "SpatialDropout", "Swish",
      "TanH", "Threshold",
      // Statistics and products with parameters.
      "BN", "BatchNorm", "GroupNorm", "InnerProduct", "InstanceNorm", "LRN", "LayerNorm", "Local",
      "LocallyConnected", "MVN", "Normalize", "RMSNorm", "Softmax",
      // Windows, and parts of values in another order or shape.
      "CumSum", "Expand", "Flatten", "Flip", "Im2col", "Interp", "Pad", "Permute", "Pooling",
      "Pooling3D", "Reorg", "Repeat", "Reshape", "ResizeNearestNeighbor", "Reverse", "SPP",
      "ShuffleChannel", "Slice", "Split", "StridedSlice", "Tile", "Transpose", "UpsampleDarknet",
      // Figures of values.
      "ArgMax", "Reduce", "Reduction", "Silence", "TopK"};
  return types;
}

/// Types of the library: tests and plug-ins add others.
std::vector<std::string> own_types() {
  std::vector<std::string> types = Registry::instance().types();
  std::erase_if(types, [](const std::string& type) { return type.starts_with("Test"); });
  return types;
}

// A new type without an entry is a failure: say what it reads beside values, or that it reads
// nothing else.
TEST(ReadValues, EveryTypeIsInTheTable) {
  const ReadTable all = read_values_table();
  for (const std::string& type : own_types()) {
    EXPECT_EQ(all.count(type) > 0 ? 1 : 0, 1 - static_cast<int>(values_alone().count(type)))
        << type << " has to be in one of read_values_table() and values_alone()";
  }
  for (const auto& [type, reads] : all) EXPECT_TRUE(Registry::instance().has(type)) << type;
  for (const std::string& type : values_alone())
    EXPECT_TRUE(Registry::instance().has(type)) << type;
}

class ReadValuesOf : public testing::TestWithParam<std::string> {};

TEST_P(ReadValuesOf, WhatIsWrongIsAnError) {
  if (GetParam() == "HDF5Output" && !kBuiltWithHdf5)
    GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  const ReadTable all = read_values_table();
  const auto [begin, end] = all.equal_range(GetParam());
  for (auto entry = begin; entry != end; ++entry) {
    const Reads& reads = entry->second;
    for (const char* engine : {"reference", ""}) {
      SCOPED_TRACE(text(reads.good.layer, " with engine '", engine, "' and ",
                        reads.good.bottoms.size(), " bottoms"));
      LayerRun run(reads.good, {.engine = engine});
      EXPECT_NO_THROW(run.forward());
      for (int b = 0; b < run.num_bottoms(); ++b) {
        const bool has_bad = std::ranges::any_of(
            reads.bad, [&](const BadBottom& bad) { return bad.bottom == static_cast<size_t>(b); });
        EXPECT_TRUE(run.layer().can_propagate(b) || has_bad || reads.any_values.count(b) > 0)
            << "bottom " << b << " has no gradient: what is wrong of it?";
      }
      for (const BadBottom& bad : reads.bad) {
        SCOPED_TRACE(text("bottom ", bad.bottom, ", ", bad.input.shape.str(), ": ", bad.part));
        LayerCase wrong = reads.good;
        wrong.bottoms[bad.bottom] = bad.input;
        expect_error([&] { LayerRun(wrong, {.engine = engine}).forward(); }, {bad.part});
      }
    }
  }
}

std::vector<std::string> types_of_table() {
  std::set<std::string> types;
  for (const auto& [type, reads] : read_values_table()) types.insert(type);
  return {types.begin(), types.end()};
}

INSTANTIATE_TEST_SUITE_P(Rooms, ReadValuesOf, testing::ValuesIn(types_of_table()),
                         [](const auto& type) { return type.param; });

// Types that are not in the table read one bottom at most, and have a gradient of it, or give
// figures and choices of its values.
TEST(ReadValues, ValuesAloneAreOneBottom) {
  if (!kBuiltWithOpenCv || !kBuiltWithHdf5)
    GTEST_SKIP() << "needs OpenCV and HDF5: configure with CREMA_OPENCV=ON and CREMA_HDF5=ON";
  Context context;
  const RunState state;
  for (const std::string& type : values_alone()) {
    SCOPED_TRACE(type);
    const auto base = std::ranges::find(settings_bases(), type, &SettingsBase::name);
    if (base == settings_bases().end()) {
      ADD_FAILURE() << "has no net in settings_effect_bases.cpp";
      continue;
    }
    const std::unique_ptr<Layer> made =
        make_loose_layer({.layer = layer(type, with_folders(base->settings))}, context, state);
    const int most = made->arity().max_bottoms;
    if (type == "Silence") {
      EXPECT_EQ(most, -1);
      continue;
    }
    if (type == "Expand") {  // the second bottom gives its shape alone
      EXPECT_EQ(most, 2);
      continue;
    }
    EXPECT_TRUE(most == 0 || most == 1) << most;
    if (most == 1) {
      EXPECT_TRUE(made->can_propagate(0) || type == "ArgMax" || type == "Threshold");
    }
  }
}

// As many labels or values of maps with other sides are those of other positions.
TEST(ReadValues, OtherAxesMayHoldTheSamePositions) {
  for (const Shape& labels : {Shape{2, 1, 4, 5}, Shape{2, 4, 5}, Shape{2, 20}, Shape{40},
                              Shape{8, 5}, Shape{2, 20, 1, 1}}) {
    SCOPED_TRACE(labels.str());
    LayerRun run(
        {.layer = layer("SoftmaxWithLoss"), .bottoms = {uniform({2, 3, 4, 5}), whole(labels, 3)}});
    run.forward();
  }
  for (const auto& [a, b] : {std::pair{Shape{2, 20}, Shape{2, 1, 4, 5}}, {{2, 20, 1}, {2, 20}}}) {
    LayerRun run({.layer = layer("EuclideanLoss"), .bottoms = {uniform(a), uniform(b)}});
    run.forward();
  }
  expect_error(
      [] {
        LayerRun({.layer = layer("SoftmaxWithLoss"),
                  .bottoms = {uniform({2, 3, 4, 5}), whole({2, 1, 5, 4}, 3)}});
      },
      {"'bottom0' (2x3x4x5)", "'bottom1' (2x1x5x4)", "2x4x5 and 2x5x4", "permute"});
}

}  // namespace
}  // namespace crema::test
