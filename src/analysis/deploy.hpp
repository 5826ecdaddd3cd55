// The net for inference of a net that is trained.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "crema/context.hpp"
#include "crema/shape.hpp"
#include "proto/net.pb.h"

namespace crema {

struct DeployOptions {
  int64_t batch = 1;
  /// The blobs that the net is for. None: what its losses and its tests read as predictions.
  std::vector<std::string> outputs = {};
  /// Shapes of a record, without the batch, of inputs by their blobs; "": of the first one. Others
  /// are those of the data, or what the settings of the data layers say.
  std::map<std::string, Shape> shapes = {};
  int level = 0;  // as of NetOptions
  std::vector<std::string> stages = {};
};

struct DeployedNet {
  NetParameter net;
  struct Input {
    std::string blob;
    Shape shape;
    /// What the data layer does to pixels: mean, scale and channels. Without fields where there is
    /// none.
    TransformationParameter transform;
  };
  std::vector<Input> inputs;
  struct Output {
    std::string blob;
    Shape shape;
  };
  std::vector<Output> outputs;
  std::vector<std::string> left_out;  // layers of the TEST phase, as "accuracy (Accuracy)"
  std::vector<std::string> notes;     // what a user may want to know or to check
};

/// The layers of phase TEST that the predictions of the net need. Data layers become Input layers.
/// A loss goes, or the layer that makes probabilities or boxes of its scores takes its place; what
/// tests measure goes, with all that labels alone need, and auxiliary losses with their branches.
/// Layers keep their names, so that weights fit, and their settings without rates, fillers of
/// parameters, and rules of phases. Dropout stays, as in published nets: it does nothing here.
///
/// The result is built once. If it cannot be built with the batch, the batch of the data stays, and
/// a note says why. Error for a net without predictions, for an unknown output, and for an input
/// whose shape cannot be told.
DeployedNet deploy_net(const NetParameter& net, Context& context,
                       const DeployOptions& options = {});

}  // namespace crema
