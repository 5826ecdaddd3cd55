// The table of `crema profile`.
#pragma once

#include <string>

#include "analysis/layer_costs.hpp"

namespace crema::tools {

/// Prints what each layer costs and what bounds it.
void print_costs(const Net& net, const LayerCosts& costs, const CostLimits& limits, int iterations);
/// The same as one line of JSON.
std::string costs_json(const Net& net, const LayerCosts& costs, const CostLimits& limits,
                       int iterations);

}  // namespace crema::tools
