// The exponential moving average of a net's weights (ema_decay).
#pragma once

#include <string>
#include <vector>

#include "core/move.hpp"
#include "crema/net.hpp"

namespace crema {

class SolverParameter;

/// Loads weights that were read from `path` as Net::load_weights(path, true) does.
void load_read_weights(Net& net, const std::string& path, const NetParameter& read);

/// The part of itself that the average keeps in the update of this iteration: ema_decay, or less in
/// its warm-up.
double average_decay(const SolverParameter& param, int iteration);

/// An array of the arena's size. Each parameter's part starts as the weights when the parameter
/// begins to learn; the update rule then moves it. Parameters that do not learn, such as running
/// statistics, have no average: nets with the average have their present values.
class WeightAverage {
 public:
  /// Of the parameters of `net`, which must outlive this object.
  explicit WeightAverage(Net& net);

  /// The array, for UpdateRule::update().
  Tensor& values();
  /// Loads the average that was read from the weights file at `path`; the weights of the net are
  /// then those of the file. If `path` is empty, the average starts from the weights at its next
  /// use.
  void restore(const std::string& path, const NetParameter& read);

  /// While it lives, the net holds the average (`average` true) or the weights; then what it held
  /// before. Does nothing without an average.
  class InNet {
   public:
    InNet(WeightAverage* of, bool average);
    ~InNet();
    InNet(const InNet&) = delete;
    InNet& operator=(const InNet&) = delete;

   private:
    WeightAverage* of_;
    bool before_ = false;
  };

 private:
  /// Where the values are.
  ComputeDevice device();
  /// Starts the parts of parameters that began to learn.
  void follow();
  /// After an Error the net holds what it held before.
  void show(bool average);
  /// Swaps a parameter with its part, if it has an average. `scratch` is of its size or larger.
  void swap(const ComputeDevice& device, size_t number, const Tensor& scratch);

  Net& net_;
  Tensor values_;
  std::vector<bool> averaged_;  // by segment: whether the part holds an average
  bool in_net_ = false;         // the net holds the average, and values_ the weights
};

}  // namespace crema
