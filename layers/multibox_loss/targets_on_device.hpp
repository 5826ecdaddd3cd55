// What the priors of a batch should learn, found on a device: the matches, examples and labels of
// TargetFinder, by passes that are queued. The host waits for none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/move.hpp"
#include "crema/layer.hpp"
#include "layer_support/device_check.hpp"
#include "layers/multibox_loss/settings.hpp"

namespace crema {

/// Memory of the device that the passes read and write. Positions are the priors of all images,
/// places the locations of all positions.
template <class T>
struct TargetsThere {
  const T *locations, *scores, *priors, *truths;  // the bottoms
  const double* log_sum;  // of each position; null unless the losses are softmax
  const T* loss;          // of each position as background; the same
  int32_t* labels;        // of each position; -1: no loss
  T* targets;             // (positions, classes), of logistic losses; else null
};

/// What the sums and gradients of locations are made of.
struct LocationsThere {
  const double* loss;     // of each place
  const double* slope;    // of each value of a place: that of the loss
  const double* matched;  // one: the number of matched places
};

class TargetsOnDevice {
 public:
  explicit TargetsOnDevice(const MultiBoxSettings& settings);
  ~TargetsOnDevice();

  /// Whether these settings are offered.
  static bool offers(const MultiBoxSettings& settings) { return !settings.mining.suppression; }

  /// Writes labels and targets. Priors and true boxes are checked; the run of the device reports
  /// what is wrong (core/device_run.hpp).
  template <class T>
  void find(const ComputeDevice& device, const Layer& layer, Blobs bottom, int64_t images,
            int64_t priors, const TargetsThere<T>& there);

  /// Of the last find():
  LocationsThere locations(const ComputeDevice& device) const;
  /// The number of matched places, for which the host waits.
  int64_t matched() const;
  size_t bytes() const;

 private:
  struct Memory;
  const MultiBoxSettings& settings_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace crema
