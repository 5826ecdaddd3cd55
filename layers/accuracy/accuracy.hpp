// Accuracy: the share of positions whose label is among the best scores. See README.md.
#pragma once

#include <optional>
#include <vector>

#include "core/loss.hpp"
#include "crema/layer.hpp"

namespace crema {

class AccuracyLayer : public Layer {
 public:
  explicit AccuracyLayer(const LayerInit& init);

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = 2, .min_tops = 1, .max_tops = 2};
  }
  void reshape(Blobs bottom, Blobs top) override;
  bool can_propagate(int) const override { return false; }
  /// Error for a label outside the classes.
  void forward_cpu(Blobs bottom, Blobs top) override;

  // For engines. Scores are (outer, classes, inner), labels (outer, inner).
  int64_t outer() const { return outer_; }
  int64_t classes() const { return classes_; }
  int64_t inner() const { return inner_; }
  int64_t top_k() const { return top_k_; }
  std::optional<int> ignored() const { return ignored_; }

 private:
  template <class T>
  void count_hits(const T* scores);

  int axis_ = 1;
  int64_t top_k_ = 1;
  std::optional<int> ignored_;
  int64_t outer_ = 1, classes_ = 1, inner_ = 1;
  Labels labels_;
  std::vector<uint8_t> hit_;                 // one a position
  std::vector<int64_t> hits_, occurrences_;  // one a class
};

}  // namespace crema
