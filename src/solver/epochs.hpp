// Epochs: passes over the records of the training data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "crema/net.hpp"

namespace crema {

/// What one epoch of a net is.
struct EpochLength {
  std::string layer;      // the data layer that counts
  int64_t records = 0;    // of its source
  int64_t iteration = 0;  // records that one iteration takes
  double iterations() const {
    return static_cast<double>(records) / static_cast<double>(iteration);
  }
};

/// By the data layer whose records take the most iterations, as several layers may read parts of
/// the same samples. Layers count that take each record once in an epoch. None without one. An
/// iteration is so many passes, of all processes together.
std::optional<EpochLength> epoch_length(const Net& net, int64_t passes);

/// The iterations of so many epochs, rounded up.
double iterations_of(double epochs, const EpochLength& length);

}  // namespace crema
