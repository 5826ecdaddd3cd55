// Average precision of detections, summed up over batches of DetectionEvaluate's rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crema/net.hpp"
#include "data/boxes/label_map.hpp"

namespace crema {

/// How the area under the curve of precision over recall is computed; see
/// layers/detection_evaluate/README.md.
enum class ApVersion : uint8_t { eleven_point, max_integral, integral };

/// "11point", "MaxIntegral" or "Integral". Error for another name; `setting` is where it was given.
ApVersion ap_version(std::string_view name, std::string_view setting = "ap_version");

/// A detection: its confidence, and whether it found a true box.
struct ScoredDetection {
  double score;
  bool right;
};

/// In [0, 1]. `detections` of one class in any order; among equal scores the earlier one is first.
/// `boxes`: the number of true boxes; at least the number of right detections, else Error. 0
/// without detections, and without boxes.
double average_precision(std::vector<ScoredDetection> detections, int64_t boxes, ApVersion version);

class DetectionScores {
 public:
  /// Adds the rows (R, 5) of a batch, in whatever shape: (-1, label, true boxes, -1, -1) for each
  /// class, and (image, label, confidence, right, wrong) for detections. Error if the last axis is
  /// not 5.
  void add(const Tensor& rows);

  struct Class {
    int64_t label, boxes, detections;
    double average_precision;
  };
  /// The classes with true boxes, by label.
  std::vector<Class> classes(ApVersion version) const;
  /// The mean of their average precision; none without any true box.
  std::optional<double> mean(ApVersion version) const;

 private:
  struct Counts {
    int64_t boxes = 0;
    std::vector<ScoredDetection> detections;
  };
  std::map<int64_t, Counts> counts_;  // by label
};

/// The outputs of a net that DetectionEvaluate layers write.
std::vector<std::string> detection_outputs(const Net& net);

/// The outputs of a net that differ in their number of rows from batch to batch, such as
/// detections, those of DetectionEvaluate, and true boxes that no layer reads. A mean over batches
/// of a place in them says nothing.
std::vector<std::string> row_outputs(const Net& net);

/// The label map of the net's first AnnotatedData layer that names one; empty without
/// it, and if the file cannot be read any more.
LabelNames class_names(const Net& net);
/// The name of a class for display; "" where the map lacks the label.
std::string class_name(const LabelNames& names, int64_t label);

}  // namespace crema
