// The steps of upgrade_net().
#pragma once

#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <vector>

#include "core/counted.hpp"
#include "model/upgrade/upgrade.hpp"

namespace crema {

/// The net that is upgraded. Each step leaves it whole.
struct OldNet {
  NetParameter& net;
  const SourceMap& source;
  /// Of each layer the path of what it was in the text, such as "layers[3]" or "input[0]".
  std::vector<std::string> paths;
  NetUpgrade result;

  Position place(const std::string& path) const { return source.position(path); }
  /// Where a field of the layer with this index stands.
  Position place(int layer, const std::string& field) const {
    return place(paths[static_cast<size_t>(layer)] + "." + field);
  }
  void warn(const Position& at, const std::string& text);
};

/// Warns of fields of a fork, which are left out, in the layer with this index.
void warn_of_unknown(OldNet& old, int layer, const std::string& name,
                     const google::protobuf::UnknownFieldSet& unknown);

/// V0 to V1: padding layers become `pad` of the layers behind them, and the settings in
/// `layers { layer {} }` go to the messages of V1.
void upgrade_v0(OldNet& old);

/// V1 to the current form: `layers` become `layer`.
void upgrade_v1(OldNet& old);

/// `input` with its shapes becomes an Input layer.
void upgrade_inputs(OldNet& old);

/// Transforms in the settings of data layers go to transform_param.
void upgrade_transforms(OldNet& old);

/// Three `param` of BatchNorm, which has statistics and nothing to learn, get rates of 0.
void upgrade_batch_norm(OldNet& old);

}  // namespace crema
