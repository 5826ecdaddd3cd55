// Matching of boxes with the true boxes of one image, as detectors are trained. Vectorized, and
// fastest where neighbours in the order of boxes lie close together; one call runs on the calling
// thread.
//
// First each true box gets one box: the pair that overlaps most is taken, then the next pair of the
// boxes and true boxes that are left. Among equal overlaps, the lower box comes first, then the
// lower true box. Then, unless `bipartite`, each box that is left gets the true box that it
// overlaps most (the lower one among equals), if they overlap by `threshold` or more. Overlaps of
// 1e-6 and below count as none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layer_support/boxes.hpp"
#include "layer_support/suppression.hpp"

namespace crema {

/// What a box is matched with: the index of a true box, or one of these.
inline constexpr int32_t kUnmatched = -1;
inline constexpr int32_t kOutside = -2;  // reaches over the border, and such boxes are left out

struct Matching {
  bool bipartite = false;
  double threshold = 0.5;
  bool leaves_out_crossing = false;  // boxes that cross the border are kOutside
};

/// Neighbouring boxes that one test passes over, if a true box does not meet the edges around them.
inline constexpr int64_t kBoxRun = 16;

/// around[k] = the edges around the boxes from k * kBoxRun on.
template <class T>
void find_box_runs(const BoxColumns<T>& boxes, BoxColumns<T>& around);

/// Holds scratch memory, and nothing else between two calls.
template <class T>
class BoxMatcher {
 public:
  /// Writes to matches[i] what box i is matched with, and to overlaps[i] its overlap with that true
  /// box, or, if it has none, its largest one. `around` is that of find_box_runs(). Coordinates are
  /// relative. T counts the true boxes: up to 2^24 in f32.
  void match(const Matching& settings, const BoxColumns<T>& boxes, const BoxColumns<T>& around,
             std::span<const BoundingBox<T>> truths, int32_t* matches, T* overlaps);

 private:
  /// A true box that has no box yet, and the free box that overlaps it most.
  struct Open {
    int32_t truth, box;
    T overlap;
  };
  struct Problem {
    const BoxColumns<T>&boxes, &around;
    std::span<const BoundingBox<T>> truths;
  };
  void find_best(const Problem& problem, Open& open);
  void give_each_truth_a_box(const Problem& problem, int32_t* matches);

  // Of each box, and of those that fill up the last run:
  std::vector<T> free_;  // 1 for a box that may be matched, else 0
  std::vector<T> most_;  // its largest overlap
  std::vector<T> best_;  // the number of the true box that it overlaps most
  std::vector<Open> open_;
};

}  // namespace crema
