// Where numbers that are not finite began. A failure is told once: by a warning in the pass, or by
// the Error of the one who runs the net and stops.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "crema/net.hpp"

namespace crema {

/// A loss or an update is not finite. The parameters are those before the iteration.
class NotFiniteError : public Error {
 public:
  using Error::Error;
};

/// The key of the record that a sample of a bottom came from; "" if it is unknown.
using RecordOf = std::function<std::string(size_t bottom, int64_t sample)>;

/// In the pass, right behind the layer, since later layers may overwrite its bottoms: warns of a
/// loss that is not finite. Names the first such value of the bottoms, or else of the parameters.
void warn_of_loss(const Layer& layer, Blobs bottoms, const Blob& loss, const RecordOf& record_of);

/// While it lives, passes of the net do not warn: its owner looks at the loss of each pass, and
/// calls throw_not_finite().
class LooksAtLosses {
 public:
  explicit LooksAtLosses(Net& net);
  ~LooksAtLosses();
  LooksAtLosses(const LooksAtLosses&) = delete;
  LooksAtLosses& operator=(const LooksAtLosses&) = delete;

 private:
  Net& net_;
};

/// After a pass with such a loss: throws an Error that names the first parameter, or else the first
/// layer and blob, with a value that is not finite. Runs the net forward again, on the batch that
/// is there.
[[noreturn]] void throw_not_finite(Net& net, int iteration, double loss);

/// For an update that was not finite: names the batch's blob, or else the first gradient, that
/// holds such a value.
[[noreturn]] void throw_not_finite_gradient(Net& net, int iteration);

}  // namespace crema
