// The part of an evaluation that is about classes of records or of pixels: counts, precision over
// recall, mistakes and masks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/confusion.hpp"
#include "crema/net.hpp"
#include "proto/evaluation.pb.h"

namespace crema::tools {

class RecordPass;
class SeenImages;

/// Detections of a class, or of all, as a curve: `right` of the `labels` were found.
struct ScoredHits {
  struct Hit {
    double score;
    bool right;
  };
  std::vector<Hit> hits;
  int64_t labels = 0;

  /// Sorts the hits. The area is that of average_precision() in its integral form. At most
  /// kCurvePoints points.
  static constexpr size_t kCurvePoints = 60;
  Evaluation::Curve curve(int label);
};

class EvaluatedClasses {
 public:
  /// Looks for scores and labels as `crema test` does. A net without any, or whose scores cannot be
  /// read, has no such part; the last case is noted.
  EvaluatedClasses(const NetParameter& param, const NetOptions& options);

  /// To be kept by the net.
  std::vector<std::string> blobs() const;
  /// `trained`: names that the weights know.
  void begin(Net& net, const std::vector<std::string>& trained);
  /// The batch of the last forward.
  void add(Net& net, const RecordPass& pass, const SeenImages& images);
  void finish(Evaluation& evaluation);

 private:
  void add_scores(const Tensor& scores, const Tensor& labels, const std::vector<bool>& left_out);
  void add_mistakes(Net& net, const Tensor& scores, const Tensor& labels,
                    const std::vector<bool>& left_out, const SeenImages& images);
  void add_mask(Net& net, const Tensor& scores, const Tensor& labels, const SeenImages& images);
  void write_classes(Evaluation::Classes& out);
  void write_confusions(Evaluation::Classes& out) const;

  std::optional<ScoredLabels> scored_;
  ConfusionMatrix confusion_{true};
  std::vector<std::string> names_;
  bool of_pixels_ = false;
  std::optional<bool> are_probabilities_;
  std::vector<ScoredHits> hits_;  // by class
  std::vector<Evaluation::Picture> mistakes_, masks_;
  int batches_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace crema::tools
