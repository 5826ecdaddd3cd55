#include "solver/epochs.hpp"

#include <algorithm>
#include <cmath>

#include "core/data_source.hpp"

namespace crema {

std::optional<EpochLength> epoch_length(const Net& net, int64_t passes) {
  std::optional<EpochLength> longest;
  for (const Layer* layer : net.layers()) {
    const DataSource* source = layer->data_source();
    if (source == nullptr || source->records() <= 0 || !source->takes_each_once()) continue;
    const EpochLength length{layer->name(), source->records(),
                             source->records_per_batch() * passes};
    if (!longest || length.iterations() > longest->iterations()) longest = length;
  }
  return longest;
}

double iterations_of(double epochs, const EpochLength& length) {
  constexpr double kRounding = 1e-9;  // of 0.1 epochs, which no binary number is
  const double iterations = epochs * length.iterations();
  return std::max(1.0, std::ceil(iterations * (1 - kRounding)));
}

}  // namespace crema
