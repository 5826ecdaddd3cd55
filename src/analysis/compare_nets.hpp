// Two nets on the same inputs, value by value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

/// How far two arrays are from each other.
struct ValueDifference {
  std::string name;     // of the blob in the first net
  std::string other;    // in the second one
  std::string layer;    // that makes it in the first net; "" for inputs
  double absolute = 0;  // greatest |a - b|; infinite where one is NaN or infinite and the other not
  double relative = 0;  // `absolute` by the greatest |a|, or by 1 where that is 0
  std::string problem;  // what cannot be compared: "1x10 and 1x12", "only NaN"; or ""

  bool within(double tolerance) const { return problem.empty() && relative <= tolerance; }
};

struct NetComparison {
  std::vector<ValueDifference> values;   // blobs of both names, in the order of the first net
  std::vector<ValueDifference> outputs;  // by name, or else in their order
  /// The first of `values` beyond the tolerance; -1: none.
  int first = -1;
  /// Outputs that one of the nets has alone.
  std::vector<std::string> only_a, only_b;

  bool same(double tolerance) const;
  /// Greatest relative difference of the outputs.
  double relative() const;
};

/// The outputs of the net without inputs that nobody reads.
std::vector<std::string> computed_outputs(const Net& net);

/// The differences of two arrays of values. NaN at the same place of both is equal, unless there is
/// nothing else.
ValueDifference difference_of(const std::string& name, const Tensor& a, const Tensor& b);

/// The same, of the blob `name` of the net and the values `b`. The rows of a layer that gives
/// detections stand by their scores: where scores of neighbours are equal up to rounding, which row
/// is the first one does not count.
ValueDifference difference_of_blob(Net& net, const std::string& name, const Tensor& b);

/// An input of random values that the layers which read it can take: indices for Embed and Gather,
/// 1 for the marks of recurrent layers, boxes for pooled regions, and numbers between -1 and 1 for
/// all others. The same `seed` and shape give the same values.
void fill_input(Net& net, const std::string& name, uint64_t seed);

/// Runs both nets, of phase TEST, and compares what they give. The inputs of `b` get the values of
/// those of `a`, by name, or in their order if names differ. Error where numbers or shapes of
/// inputs differ. With NetOptions::keep_all all blobs are compared, else the outputs alone.
NetComparison compare_nets(Net& a, Net& b, double tolerance);

}  // namespace crema
