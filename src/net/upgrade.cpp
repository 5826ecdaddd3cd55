// Old spellings of a net become today's, so that the passes after this know one form only.
#include "model/text_format.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// `input: "data" input_shape {...}` (or four `input_dim`) is what an Input layer says today.
void upgrade_inputs(NetParameter& net, std::vector<Position>& positions, const std::string& file) {
  const int inputs = net.input_size();
  if (inputs == 0) return;
  const Position place{file, 0, 0};
  if (net.input_dim_size() != 0 && net.input_shape_size() != 0) {
    throw Error("the net gives both input_dim and input_shape; keep input_shape").at(place);
  }
  if (net.input_dim_size() != 0 && net.input_dim_size() != 4 * inputs) {
    throw Error("the net has ", inputs, " input but ", net.input_dim_size(),
                " input_dim; give four an input: num, channels, height, width")
        .at(place);
  }
  if (net.input_shape_size() != 0 && net.input_shape_size() != inputs) {
    throw Error("the net has ", inputs, " input but ", net.input_shape_size(),
                " input_shape; give one an input")
        .at(place);
  }
  NetParameter upgraded = net;
  upgraded.clear_layer();
  upgraded.clear_input();
  upgraded.clear_input_dim();
  upgraded.clear_input_shape();
  std::vector<Position> places;
  for (int i = 0; i < inputs; ++i) {
    LayerParameter* layer = upgraded.add_layer();
    layer->set_name(net.input(i));
    layer->set_type("Input");
    layer->add_top(net.input(i));
    if (net.input_shape_size()) {
      *layer->mutable_input_param()->add_shape() = net.input_shape(i);
    } else if (net.input_dim_size()) {
      BlobShape* shape = layer->mutable_input_param()->add_shape();
      for (int d = 0; d < 4; ++d) shape->add_dim(net.input_dim(4 * i + d));
    }
    places.push_back(place);
  }
  for (const auto& layer : net.layer()) *upgraded.add_layer() = layer;
  places.insert(places.end(), positions.begin(), positions.end());
  positions = std::move(places);
  net = std::move(upgraded);
}

}  // namespace

std::vector<Position> upgrade_net(NetParameter& net, const SourceMap* source,
                                  const std::string& file) {
  if (source) check_layer_mix(net, *source);
  if (net.layers_size() != 0) {
    throw Error(
        "the net is written in the V1 format (`layers {}` with types in capitals), which is "
        "not read yet; rewrite it with `layer {}` and types as strings")
        .at({file, 0, 0});
  }
  std::vector<Position> positions;
  for (int i = 0; i < net.layer_size(); ++i) {
    positions.push_back(source ? source->layer_position(i) : Position{file, 0, 0});
  }
  upgrade_inputs(net, positions, file);
  return positions;
}

}  // namespace crema
