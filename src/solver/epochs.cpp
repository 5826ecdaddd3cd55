#include "solver/epochs.hpp"

#include "core/data_source.hpp"

namespace crema {

std::optional<EpochLength> epoch_length(const Net& net, int iter_size) {
  std::optional<EpochLength> longest;
  for (const Layer* layer : net.layers()) {
    const DataSource* source = layer->data_source();
    if (source == nullptr || source->records() <= 0 || !source->takes_each_once()) continue;
    const EpochLength length{layer->name(), source->records(),
                             source->records_per_batch() * iter_size};
    if (!longest || length.iterations() > longest->iterations()) longest = length;
  }
  return longest;
}

}  // namespace crema
