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
#include "onnx/exported_model.hpp"
#include "onnx/exporting/exporter.hpp"
#include "proto/net.pb.h"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::input_layer;

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

/// Parameter i in the order in which it comes back: an inner product of a transposed matrix becomes
/// a plain one, which has a row for each output.
std::vector<float> weights_of(const Layer& layer, size_t i) {
  const auto values = layer.params()[i]->data.values<float>();
  std::vector<float> result(values.begin(), values.end());
  const InnerProductParameter& settings = layer.param().inner_product_param();
  if (layer.type() != "InnerProduct" || i != 0 || !settings.transpose()) return result;
  const size_t outputs = settings.num_output(), inputs = values.size() / outputs;
  for (size_t k = 0; k < inputs; ++k) {
    for (size_t n = 0; n < outputs; ++n) result[n * inputs + k] = values[k * outputs + n];
  }
  return result;
}

TEST(OnnxRoundTrip, WeightsComeBackToTheBit) {
  const std::set<std::string> types = {"Convolution", "Deconvolution", "InnerProduct", "PReLU",
                                       "Embed"};
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
        const std::vector<float> a = weights_of(*layer, i);
        const std::vector<float> b = weights_of(again.layer(layer->name()), i);
        ASSERT_EQ(a.size(), b.size()) << file.stem() << ": " << layer->name();
        EXPECT_EQ(std::memcmp(a.data(), b.data(), b.size() * sizeof(float)), 0)
            << file.stem() << ": " << layer->name() << " " << i;
        ++arrays;
      }
    }
  }
  EXPECT_GE(arrays, 40);
}

// The state of an only step is the top and the last state.
TEST(OnnxRoundTrip, OneStepThatGivesItsState) {
  Context context({.threads = 1, .tune = false});
  for (const char* type : {"LSTM", "GRU", "RNN"}) {
    const bool has_cells = type == std::string("LSTM");
    std::string text = input_layer("dim: 1 dim: 2 dim: 3") + input_layer("dim: 1 dim: 2", "cont") +
                       input_layer("dim: 1 dim: 2 dim: 4", "h0");
    if (has_cells) text += input_layer("dim: 1 dim: 2 dim: 4", "c0");
    text += std::string("layer { name: 'r' type: '") + type +
            "' bottom: 'x' bottom: 'cont' bottom: 'h0' " + (has_cells ? "bottom: 'c0' " : "") +
            "top: 'y' top: 'h' " + (has_cells ? "top: 'c' " : "") +
            "recurrent_param { num_output: 4 expose_hidden: true weight_filler { type: 'xavier' } "
            "} }";
    Net net(test::net_param(text), context, {.phase = Phase::test, .fuse = false});
    for (const std::string& name : net.inputs()) fill_input(net, name, 3);
    EXPECT_EQ(test::round_trip(net), "") << type;
  }
}

}  // namespace
}  // namespace crema
