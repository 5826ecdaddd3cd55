// The average precision of a net's detections as `crema test` shows it.
#pragma once

#include <map>
#include <string>

#include "solver/average_precision.hpp"

namespace crema::tools {

class DetectionReport {
 public:
  /// Of the outputs that DetectionEvaluate layers write.
  DetectionReport(const Net& net, ApVersion version);

  bool has(const std::string& output) const { return scores_.contains(output); }
  /// Adds the batch of the last forward.
  void add(Net& net);
  /// Logs the mean of each output; `per_class`: the classes before it.
  void log(bool per_class) const;
  /// A member of a JSON object behind a comma: the outputs with their means and classes. "" without
  /// such outputs.
  std::string json() const;

 private:
  ApVersion version_;
  LabelNames names_;
  std::map<std::string, DetectionScores> scores_;
};

}  // namespace crema::tools
