// Which boxes a detector gives: for each class of each image the candidates above a confidence,
// without those that overlap better ones; of an image the best ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layer_support/boxes.hpp"
#include "layer_support/detection_rows.hpp"
#include "layer_support/suppression.hpp"
#include "layers/detection_output/scan_kernels.hpp"

namespace crema {

struct DetectionSettings {
  int64_t classes = 0;
  int64_t background = 0;       // -1: none
  bool shares_location = true;  // one location for all classes
  BoxCoder coder;
  Suppression suppression;
  int64_t keep = -1;  // boxes an image; -1: all
  double least = 0;   // confidences must be above it
};

/// Values of a batch.
template <class T>
struct DetectionInput {
  int64_t images = 0, priors = 0;
  const T* locations = nullptr;    // (images, priors, 1 or classes, 4)
  const T* confidences = nullptr;  // (images, priors, classes)
  const T* boxes = nullptr;        // (1 or images, 2, priors, 4): prior boxes and variances
  bool own_priors = false;         // a set for each image
};

/// Keeps its memory from batch to batch.
template <class T>
class DetectionChoice {
 public:
  explicit DetectionChoice(const DetectionSettings& settings);

  /// Chooses, on the threads of the context. Error for a confidence of NaN, and
  /// for a candidate whose box is NaN or infinite.
  void run(const DetectionInput<T>& input);

  /// The boxes of the last run(), best first.
  std::span<const Detection<T>> of(int64_t image, int64_t label) const {
    const auto& all = chosen_[static_cast<size_t>(image * settings_.classes + label)];
    return {all.data(), all.size()};
  }
  /// Their number.
  int64_t count() const { return count_; }
  /// Bytes of memory that it holds.
  size_t bytes() const;

 private:
  /// Of a thread.
  struct Scratch {
    std::vector<int32_t> indices;
    std::vector<Candidate<T>> candidates;
    BoxColumns<T> boxes;
    std::vector<int32_t> kept;
  };
  /// Calls body(scratch, job) for each job in [0, jobs), on whichever thread is free.
  template <class Body>
  void each_job(int64_t jobs, const Body& body);
  const std::vector<Candidate<T>>& list_of(int64_t image, int64_t block, int64_t label) const {
    return found_[static_cast<size_t>((image * blocks_ + block) * settings_.classes + label)];
  }
  /// Takes memory for the longest lists in all threads: whichever gets them.
  void reserve();
  void find(Scratch& scratch, int64_t image, int64_t block);
  void choose(Scratch& scratch, int64_t image, int64_t label);
  void keep_best(Scratch& scratch, int64_t image);

  DetectionSettings settings_;
  ConfidenceScan<T> scan_;
  int64_t block_rows_;  // priors of a block
  int64_t blocks_ = 0;  // of an image
  DetectionInput<T> input_;
  std::vector<Scratch> scratch_;
  std::vector<std::vector<Candidate<T>>> found_;   // (images, blocks, classes)
  std::vector<std::vector<Detection<T>>> chosen_;  // (images, classes)
  int64_t count_ = 0;
};

}  // namespace crema
