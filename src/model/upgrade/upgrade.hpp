// Rewrites old forms of nets and solvers in the current form, as the published tools do.
//
// Old forms of nets: V0 (`layers { layer { type: "conv" } }`), V1 (`layers { type: CONVOLUTION }`),
// `input` with `input_dim` or `input_shape`, transforms of data in data_param, image_data_param and
// window_data_param, three `param` of BatchNorm. Of solvers: `solver_type`.
//
// Whatever cannot be rewritten is an Error with its place in the old text. A setting that had no
// effect in the old form is left out with a warning.
#pragma once

#include <string>
#include <vector>

#include "model/source_map.hpp"
#include "proto/net.pb.h"

namespace crema {

class SolverParameter;

/// What was done, for people. Without changes the message is as it was.
struct Upgrade {
  std::vector<std::string> changes;   // "9 layers of the V1 format became `layer {}`"
  std::vector<std::string> warnings;  // each with its place in the text, if that is known
  /// Whether the net has layers of V0 or V1, or other forms that only old versions wrote. `input`
  /// alone, which files of all versions have, does not count.
  bool is_old = false;
};

struct NetUpgrade : Upgrade {
  std::vector<Position> positions;  // where each layer of the result stands in the old text
};

/// `source`: of the message, or empty. Throws if the net has both `layer` and `layers`.
NetUpgrade upgrade_net(NetParameter& net, const SourceMap& source = {});

/// The solver, and the nets inside it.
Upgrade upgrade_solver(SolverParameter& solver, const SourceMap& source = {});

/// The `type` that stands for the solver's old solver_type; "" if none does.
std::string successor_of_solver_type(const SolverParameter& solver);

/// Moves names and blobs of V0 and V1 layers to `layer`, all that a weights file is read for. Knows
/// nothing of types, so layers of any fork keep their weights.
void upgrade_weights(NetParameter& weights);

}  // namespace crema
