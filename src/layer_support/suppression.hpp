// Greedy non-maximum suppression: the best box is kept, boxes that overlap it too much are dropped,
// and so on. Vectorized; one call runs on the calling thread.
//
// Order: by falling score; among equal scores, the lower index first. Scores of NaN are never
// candidates. The results depend on neither threads nor instructions but for the rounding of
// overlaps.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "layer_support/boxes.hpp"

namespace crema {

/// A score and where it came from.
template <class T>
struct Candidate {
  T score;
  int32_t index;

  /// Whether this one comes first.
  bool operator<(const Candidate& other) const {
    return score > other.score || (score == other.score && index < other.index);
  }
};

/// Writes all i in [0, count) with scores[i] > least to `candidates`, which is overwritten, by
/// rising index.
template <class T>
void find_candidates(const T* scores, int64_t count, T least,
                     std::vector<Candidate<T>>& candidates);

/// Sorts the candidates, and drops all but the first top_k (-1: none).
template <class T>
void sort_candidates(std::vector<Candidate<T>>& candidates, int64_t top_k);

/// Boxes with their edges in four arrays, and their areas in another.
template <class T>
class BoxColumns {
 public:
  void clear() { size_ = 0; }
  int64_t size() const { return size_; }
  /// Takes memory for so many.
  void reserve(int64_t count);
  void add(const BoundingBox<T>& box);
  BoundingBox<T> operator[](int64_t i) const {
    const auto k = static_cast<size_t>(i);
    return {columns_[0][k], columns_[1][k], columns_[2][k], columns_[3][k]};
  }
  T area(int64_t i) const { return columns_[4][static_cast<size_t>(i)]; }
  /// xmin, ymin, xmax, ymax, area. Readable up to a whole vector behind size().
  const T* column(size_t which) const { return columns_[which].data(); }

 private:
  std::array<std::vector<T>, 5> columns_;
  int64_t size_ = 0;
};

/// Whether any of `boxes` overlaps `box` by more than `threshold`. Coordinates are relative.
template <class T>
bool overlaps_any(const BoxColumns<T>& boxes, const BoundingBox<T>& box, T threshold);

/// Keeps boxes greedily: calls box_of(k) for each k in [0, count), best first, and writes the k of
/// those kept to `kept`, which is overwritten, until there are `most`. `scratch` gets the kept
/// boxes. Of `settings`, top_k is not read: the caller chose `count`.
template <class T, class BoxOf>
void suppress(const Suppression& settings, int64_t count, const BoxOf& box_of,
              BoxColumns<T>& scratch, std::vector<int32_t>& kept,
              int64_t most = std::numeric_limits<int64_t>::max()) {
  scratch.clear();
  kept.clear();
  auto threshold = static_cast<T>(settings.threshold);
  for (int64_t k = 0; k < count && scratch.size() < most; ++k) {
    const BoundingBox<T> box = box_of(k);
    if (overlaps_any(scratch, box, threshold)) continue;
    scratch.add(box);
    kept.push_back(static_cast<int32_t>(k));
    if (settings.eta < 1 && threshold > T(0.5)) threshold *= static_cast<T>(settings.eta);
  }
}

}  // namespace crema
