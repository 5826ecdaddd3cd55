// Nodes of the domain "crema": layers as they are.
#include <algorithm>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"
#include "onnx/importing/layer_node.hpp"

namespace crema::onnx {

namespace {

// First values for training anew, where the settings have none.
void fill_layer(LayerParameter& layer) {
  const auto fill = [](auto& settings) {
    if (!settings.has_weight_filler()) fill_weights(*settings.mutable_weight_filler());
    if (settings.bias_term() && !settings.has_bias_filler())
      fill_constant(*settings.mutable_bias_filler(), 0);
  };
  if (layer.has_convolution_param()) fill(*layer.mutable_convolution_param());
  if (layer.has_inner_product_param()) fill(*layer.mutable_inner_product_param());
  if (layer.has_embed_param()) {
    EmbedParameter& settings = *layer.mutable_embed_param();
    if (!settings.has_weight_filler()) settings.mutable_weight_filler()->set_type("xavier");
    if (settings.bias_term() && !settings.has_bias_filler())
      fill_constant(*settings.mutable_bias_filler(), 0);
  }
  if (layer.has_recurrent_param()) {
    RecurrentParameter& settings = *layer.mutable_recurrent_param();
    if (!settings.has_weight_filler()) settings.mutable_weight_filler()->set_type("xavier");
  }
}

// Scales and biases that the model computes, such as masks, are no weights.
bool is_fixed(const Node& node, size_t bottoms) {
  if (node.op() != "Scale" && node.op() != "Bias") return false;
  return std::all_of(node.inputs.begin() + static_cast<std::ptrdiff_t>(bottoms), node.inputs.end(),
                     [](const Value* weights) { return weights->weight.empty(); });
}

void import_layer(const Node& node, LayerWriter& writer) {
  const LayerParameter settings = layer_of(node);
  const size_t bottoms = bottoms_of(node);
  std::vector<LayerEnd> ends, tops;
  for (size_t i = 0; i < bottoms; ++i) ends.emplace_back(node.inputs[i]);
  for (const Value* output : node.outputs) tops.emplace_back(output);
  LayerParameter& layer = writer.add(node, node.op(), ends, tops);
  layer.MergeFrom(settings);
  if (bottoms == node.inputs.size()) return;
  for (size_t i = bottoms; i < node.inputs.size(); ++i) writer.add_weights(layer, *node.inputs[i]);
  if (is_fixed(node, bottoms)) LayerWriter::freeze(layer, layer.blobs_size());
  fill_layer(layer);
}

}  // namespace

void add_layer_importers(ImporterTable& table) { table.add(kLayerDomain, "", import_layer); }

}  // namespace crema::onnx
