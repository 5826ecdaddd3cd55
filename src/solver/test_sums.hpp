// What the batches of a test gave, before it is reported.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/batches/counted_once.hpp"
#include "solver/average_precision.hpp"
#include "solver/trainer.hpp"

namespace crema {

struct Trainer::TestSums {
  explicit TestSums(const Net& net) : counted_once(net.layers()) {
    for (const std::string& output : net.outputs()) means[output];
    for (const std::string& output : row_outputs(net)) means.erase(output);
    for (const std::string& output : detection_outputs(net)) detections[output];
  }

  std::map<std::string, DetectionScores> detections;  // of outputs of DetectionEvaluate
  std::map<std::string, std::vector<double>> means;   // of each value
  CountedOnce counted_once;  // an image that comes again does not count in detections again
  int batches = 0;
};

}  // namespace crema
