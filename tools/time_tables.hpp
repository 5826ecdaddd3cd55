// What `crema time` prints of a net on the CPU and on a device alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema::tools {

/// Medians of each step, in ms; 0 where a step did not run.
struct StepTimes {
  std::vector<double> forward, backward;
};

/// The work of the types that other programs count alike, so that rates can be compared.
Flops product_flops(const Net& net, bool with_backward);

/// Memory that was planned for the net, in MB.
double planned_mb(const Net& net);

/// Columns of a table's first two: names and types of steps.
struct NameWidths {
  int name = 5, type = 4;
};
NameWidths name_widths(const Net& net);

/// Where the time goes, the type with the greatest share first. `unit` is a number of operations a
/// second: 1e9 for "GFLOP/s"; `more` what else stands in the line of a type with such a rate.
void print_types(const Net& net, const StepTimes& times, const char* unit, double unit_rate,
                 const std::function<std::string(double rate)>& more);

}  // namespace crema::tools
