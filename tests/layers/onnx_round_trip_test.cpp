// A small net of each layer type as a model of ONNX: what comes back gives the same.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "analysis/compare_nets.hpp"
#include "crema/onnx.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "onnx/exporting/exporter.hpp"
#include "onnx/round_trip.hpp"
#include "proto/net.pb.h"
#include "settings_effect.hpp"
#include "support/needs.hpp"

namespace crema::test {
namespace {

NetParameter net_of_base(const SettingsBase& base) {
  NetParameter param;
  for (size_t i = 0; i < base.bottoms.size(); ++i) {
    LayerParameter& input = *param.add_layer();
    input.set_name(text("b", i));
    input.set_type("Input");
    input.add_top(input.name());
    BlobShape& shape = *input.mutable_input_param()->add_shape();
    for (const int64_t dim : base.bottoms[i].shape.dims()) shape.add_dim(dim);
  }
  LayerParameter& layer = *param.add_layer();
  if (!google::protobuf::TextFormat::ParseFromString(with_folders(base.settings), &layer))
    throw Error("no text of a layer: ", base.settings);
  layer.set_name("op");
  layer.set_type(base.type.empty() ? base.name : base.type);
  for (size_t i = 0; i < base.bottoms.size(); ++i) layer.add_bottom(text("b", i));
  for (int i = 0; i < base.tops; ++i) layer.add_top(text("t", i));
  return param;
}

void give_values(const SettingsBase& base, Net& net) {
  for (size_t i = 0; i < base.bottoms.size(); ++i) {
    const Input& input = base.bottoms[i];
    Random random(1701, i);
    Tensor& tensor = net.input(text("b", i));
    auto* const values = tensor.overwrite<float>();
    for (int64_t k = 0; k < tensor.count(); ++k) {
      values[k] = !input.values.empty() ? static_cast<float>(input.values[static_cast<size_t>(k)])
                  : input.classes > 0
                      ? static_cast<float>(random.below(static_cast<uint64_t>(input.classes)))
                      : static_cast<float>(random.uniform(input.low, input.high));
    }
  }
}

class LayerRoundTrip : public ::testing::TestWithParam<std::string> {};

TEST_P(LayerRoundTrip, GivesTheSame) {
  const std::string& type = GetParam();
  if (!onnx::ExporterTable::instance().why_not(type).empty()) return;  // losses, data, noise
  Context context({.threads = 1, .tune = false});
  int compared = 0;
  for (const SettingsBase& base : settings_bases()) {
    if ((base.type.empty() ? base.name : base.type) != type) continue;
    for (const bool varied : {false, true}) {
      Net net(net_of_base(base), context, {.phase = Phase::test, .fuse = false});
      ++compared;
      if (computed_outputs(net).empty()) continue;  // a model has outputs; the layer gives none
      if (type == "Noise") {
        expect_error([&] { save_onnx(net, "never.onnx"); }, {"random numbers"});
        continue;
      }
      if (varied) vary_parameters(net);
      give_values(base, net);
      for (const int opset : {13, 17, 21}) {
        // Another version of the operator may say something else.
        const auto own = net.layer("op").param().onnx_operator_param().opset();
        if (type == "OnnxOperator" && opset != own) continue;
        EXPECT_EQ(round_trip(net, {.opset = opset}), "")
            << base.name << ", opset " << opset << (varied ? ", varied" : "");
      }
    }
  }
  EXPECT_GT(compared, 0) << "no net of the type in settings_effect_bases.cpp";
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerRoundTrip, ::testing::ValuesIn(Registry::instance().types()),
                         [](const auto& type) { return type.param; });

}  // namespace
}  // namespace crema::test
