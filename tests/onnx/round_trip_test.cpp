// The golden cases, which published Caffe computed, as models of ONNX: what comes back gives the
// same.
#include "onnx/round_trip.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "model/binary_format.hpp"
#include "model/text_format.hpp"
#include "onnx/exporting/exporter.hpp"
#include "proto/net.pb.h"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> golden_cases() {
  std::vector<fs::path> cases;
  for (const char* kind : {"layers", "ssd"}) {
    for (const auto& entry : fs::directory_iterator(test::source_path("tests/golden") / kind))
      if (entry.path().extension() == ".prototxt") cases.push_back(entry.path());
  }
  std::ranges::sort(cases);
  return cases;
}

void take(const BlobProto& from, Tensor& to) {
  ASSERT_EQ(from.data_size(), to.count());
  std::ranges::copy(from.data(), to.overwrite<float>());
}

/// Gives the net the parameters and the inputs of the case.
void load_case(fs::path file, Net& net) {
  NetParameter values;
  read_binary_proto(file.replace_extension(".golden").string(), values);
  for (const LayerParameter& entry : values.layer()) {
    if (entry.type() == "InputData") take(entry.blobs(0), net.input(entry.name()));
    if (entry.type() != "Param") continue;
    const auto& params = net.layer(entry.name()).params();
    for (int i = 0; i < entry.blobs_size(); ++i)
      take(entry.blobs(i), params[static_cast<size_t>(i)]->data);
  }
}

/// Whether the net has a layer of a type that is not for inference.
bool has_training_layer(const Net& net) {
  return std::ranges::any_of(net.layers(), [](const Layer* layer) {
    return !onnx::ExporterTable::instance().why_not(layer->type()).empty();
  });
}

class GoldenRoundTrip : public ::testing::TestWithParam<int> {};

TEST_P(GoldenRoundTrip, WhatComesBackGivesTheSame) {
  Context context({.threads = 1, .tune = false});
  int compared = 0, refused = 0;
  for (const fs::path& file : golden_cases()) {
    NetParameter param;
    read_text_proto(file.string(), param);
    Net net(param, context, {.phase = Phase::test, .fuse = false});
    load_case(file, net);
    const bool is_for_training = has_training_layer(net);
    try {
      EXPECT_EQ(test::round_trip(net, {.opset = GetParam()}), "") << file.stem();
      EXPECT_FALSE(is_for_training) << file.stem();
      ++compared;
    } catch (const Error& error) {
      EXPECT_TRUE(is_for_training) << file.stem() << ": " << error.what();
      ++refused;
    }
  }
  EXPECT_GE(compared, 125);
  EXPECT_GE(refused, 40) << "losses have no place in a model for inference";
}

INSTANTIATE_TEST_SUITE_P(Opsets, GoldenRoundTrip, ::testing::Values(13, 17, 21, 23),
                         [](const auto& opset) { return "opset" + std::to_string(opset.param); });

TEST(OnnxRoundTrip, WeightsComeBackToTheBit) {
  const std::set<std::string> types = {"Convolution", "Deconvolution", "InnerProduct", "PReLU"};
  Context context({.threads = 1, .tune = false});
  int arrays = 0;
  for (const fs::path& file : golden_cases()) {
    NetParameter param;
    read_text_proto(file.string(), param);
    Net net(param, context, {.phase = Phase::test, .fuse = false});
    const bool has_weights = std::ranges::any_of(
        net.layers(), [&](const Layer* layer) { return types.contains(layer->type()); });
    if (!has_weights || has_training_layer(net)) continue;
    load_case(file, net);
    const TempFolder folder;
    save_onnx(net, folder.path("net.onnx"));
    Net again(folder.path("net.onnx"), context, {.phase = Phase::test, .fuse = false});
    for (const Layer* layer : net.layers()) {
      if (!types.contains(layer->type())) continue;
      ASSERT_TRUE(again.has_layer(layer->name())) << file.stem() << ": " << layer->name();
      const auto& ours = layer->params();
      const auto& theirs = again.layer(layer->name()).params();
      ASSERT_EQ(ours.size(), theirs.size()) << file.stem() << ": " << layer->name();
      for (size_t i = 0; i < ours.size(); ++i) {
        const auto a = ours[i]->data.values<float>(), b = theirs[i]->data.values<float>();
        ASSERT_EQ(a.size(), b.size()) << file.stem() << ": " << layer->name();
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0)
            << file.stem() << ": " << layer->name() << " " << i;
        ++arrays;
      }
    }
  }
  EXPECT_GE(arrays, 40);
}

}  // namespace
}  // namespace crema
