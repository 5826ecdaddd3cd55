// Replaces old spellings of a net, so that the later passes handle one form only.
#include "model/text_format.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// Replaces `input: "data" input_shape {...}` (or four `input_dim`) by an Input layer.
void upgrade_inputs(NetParameter& net, const SourceMap& source, std::vector<Position>& positions) {
  const int inputs = net.input_size();
  if (inputs == 0) return;
  if (net.input_dim_size() != 0 && net.input_shape_size() != 0) {
    throw Error("the net gives both input_dim and input_shape; keep input_shape")
        .at(source.position("input_dim"));
  }
  if (net.input_dim_size() != 0 && net.input_dim_size() != 4 * inputs) {
    throw Error("the net has ", inputs, " input but ", net.input_dim_size(),
                " input_dim; give four an input: num, channels, height, width")
        .at(source.position("input_dim"));
  }
  if (net.input_shape_size() != 0 && net.input_shape_size() != inputs) {
    throw Error("the net has ", inputs, " input but ", net.input_shape_size(),
                " input_shape; give one an input")
        .at(source.position("input_shape"));
  }
  google::protobuf::RepeatedPtrField<LayerParameter> layers;
  layers.Swap(net.mutable_layer());
  std::vector<Position> places;
  for (int i = 0; i < inputs; ++i) {
    LayerParameter* layer = net.add_layer();
    layer->set_name(net.input(i));
    layer->set_type("Input");
    layer->add_top(net.input(i));
    if (net.input_shape_size()) {
      *layer->mutable_input_param()->add_shape() = net.input_shape(i);
    } else if (net.input_dim_size()) {
      BlobShape* shape = layer->mutable_input_param()->add_shape();
      for (int d = 0; d < 4; ++d) shape->add_dim(net.input_dim(4 * i + d));
    }
    places.push_back(source.position(concat("input[", i, "]")));
  }
  for (auto& layer : layers) *net.add_layer() = std::move(layer);
  places.insert(places.end(), positions.begin(), positions.end());
  positions = std::move(places);
}

}  // namespace

void upgrade_net(NetParameter& net, const SourceMap& source, std::vector<Position>& positions) {
  check_layer_mix(net, source);
  if (net.layers_size() != 0) {
    throw Error(
        "the net is written in the V1 format (`layers {}` with types in capitals), which is "
        "not read yet; rewrite it with `layer {}` and types as strings")
        .at(source.layer_position(0));
  }
  positions.clear();
  for (int i = 0; i < net.layer_size(); ++i) positions.push_back(source.layer_position(i));
  upgrade_inputs(net, source, positions);
}

}  // namespace crema
