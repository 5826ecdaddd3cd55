// The parts of a run's report, as HTML; "" where the run has nothing for one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "monitor/report/charts.hpp"
#include "monitor/report/run_files.hpp"

namespace crema {

/// A net as a picture, with shapes where layers.json has some.
std::string net_part(const RunFiles& run);
/// Layers with shapes, parameters, memory, times and engines.
std::string layers_part(const RunFiles& run);
/// Weights and gradients, a drawing for each parameter with a ridge for each of some iterations.
std::string histograms_part(const RunFiles& run);

/// What was evaluated, and what is missing.
std::string evaluation_head(const Evaluation& evaluation);
/// Shares, a table of classes, the confusion matrix, precision over recall.
std::string classes_part(const Evaluation& evaluation);
std::string detections_part(const Evaluation& evaluation);
/// The most confident mistakes.
std::string mistakes_part(const Evaluation& evaluation);
/// Images with boxes.
std::string boxes_part(const Evaluation& evaluation);
/// Images with masks.
std::string masks_part(const Evaluation& evaluation);

/// The names of classes by label.
class ClassLabels {
 public:
  using Classes = google::protobuf::RepeatedPtrField<Evaluation::Class>;
  explicit ClassLabels(const Classes& classes);
  std::string operator()(int label) const;

 private:
  std::map<int, std::string> names_;
};

}  // namespace crema
