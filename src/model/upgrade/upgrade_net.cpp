#include "model/text_format.hpp"
#include "model/upgrade/old_layers.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The list of layers that the net has.
std::vector<std::string> paths_of(const NetParameter& net) {
  const bool old = net.layers_size() > 0;
  std::vector<std::string> paths;
  for (int i = 0; i < (old ? net.layers_size() : net.layer_size()); ++i) {
    paths.push_back(text(old ? "layers[" : "layer[", i, "]"));
  }
  return paths;
}

void take_weights(V1LayerParameter& old, LayerParameter& layer) {
  V0LayerParameter& inner = *old.mutable_layer();
  layer.set_name(old.has_name() ? old.name() : inner.name());
  *layer.mutable_blobs() =
      std::move(old.blobs_size() > 0 ? *old.mutable_blobs() : *inner.mutable_blobs());
}

}  // namespace

void OldNet::warn(const Position& at, const std::string& content) {
  result.warnings.push_back(at.known() ? text(at.str(), ": ", content) : content);
}

void warn_of_unknown(OldNet& old, int layer, const std::string& name,
                     const google::protobuf::UnknownFieldSet& unknown) {
  if (unknown.field_count() == 0) return;
  old.warn(old.place(layer, ""),
           text("layer '", name, "': ", counted(unknown.field_count(), "field"),
                " of a fork, the first with number ", unknown.field(0).number(), ", is left out"));
}

NetUpgrade upgrade_net(NetParameter& net, const SourceMap& source) {
  check_layer_mix(net, source);
  OldNet old{net, source, paths_of(net), {}};
  upgrade_v0(old);
  upgrade_v1(old);
  old.result.is_old = !old.result.changes.empty();
  upgrade_inputs(old);
  const size_t changes = old.result.changes.size();
  upgrade_transforms(old);
  upgrade_batch_norm(old);
  old.result.is_old |= old.result.changes.size() > changes;
  for (const std::string& path : old.paths) old.result.positions.push_back(old.place(path));
  return std::move(old.result);
}

void upgrade_weights(NetParameter& weights) {
  for (V1LayerParameter& layer : *weights.mutable_layers()) {
    take_weights(layer, *weights.add_layer());
  }
  weights.clear_layers();
}

}  // namespace crema
