// The part of an evaluation that is about boxes: average precision of classes, and images with what
// was found in them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "proto/evaluation.pb.h"
#include "solver/average_precision.hpp"
#include "tools/evaluated_classes.hpp"

namespace crema::tools {

class EvaluatedDetections {
 public:
  /// Of the net's DetectionEvaluate layers: what they read are rows of detections and of true
  /// boxes.
  explicit EvaluatedDetections(const NetParameter& param);

  /// To be kept by the net.
  std::vector<std::string> blobs() const;
  void begin(const Net& net);
  bool has(const std::string& output) const { return outputs_.contains(output); }
  /// The batch of the last forward.
  void add(Net& net, const RecordPass& pass, const SeenImages& images);
  void finish(Evaluation& evaluation);

 private:
  struct Reads {
    std::string detections, truth;
  };
  struct Output {
    std::map<int64_t, ScoredHits> classes;
    std::vector<Evaluation::Picture> pictures;
  };
  void add_picture(Net& net, const Reads& reads, const SeenImages& images, int64_t sample,
                   Output& output);

  std::map<std::string, Reads> reads_;  // by top
  std::map<std::string, Output> outputs_;
  LabelNames names_;
  std::vector<std::string> notes_;
};

}  // namespace crema::tools
