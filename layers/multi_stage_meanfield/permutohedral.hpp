// Gaussian filtering of values at points of a space of few dimensions: the permutohedral lattice of
// Adams, Baek and Davis, "Fast high-dimensional filtering using the permutohedral lattice",
// Eurographics 2010.
//
// Each point gives its value to the corners of the lattice's simplex around it (splat), neighbours
// along each of the d + 1 directions are mixed with weights 1/4, 1/2, 1/4 (blur), and the point
// takes its value from the same corners (slice). The result is, up to a factor, approximately
// sum over points j of exp(-|f_i - f_j|^2 / 2) x_j. Neighbours that no point touches count as 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/move.hpp"

namespace crema {

/// T: float or double, the type of the values. Positions are computed in double.
template <class T>
class Permutohedral {
 public:
  /// Places the points, on the host: features (points, dimensions). Error if one is no number, or
  /// too far away.
  void place(int64_t points, int64_t dimensions, const double* features);

  /// y = the filtered x, both (points, channels), in the memory of the device. `adjoint`: of the
  /// transposed filter, whose blurs run in the reverse order. y may be x. Results do not depend on
  /// the number of threads.
  void filter(const ComputeDevice& device, int64_t channels, bool adjoint, const T* x, T* y);

  int64_t vertices() const { return vertices_; }
  size_t bytes() const;

 private:
  void find_simplex(const double* feature, int32_t* vertices, T* weights);
  int32_t vertex_of(const int32_t* key);
  int32_t find(const int32_t* key) const;
  size_t slot_of(const int32_t* key) const;
  void find_neighbours();
  void sort_by_vertex();
  void splat(const ComputeDevice& device, int64_t channels, const T* x, T* values);
  void blur(const ComputeDevice& device, int64_t channels, int64_t direction, const T* from, T* to);
  void slice(const ComputeDevice& device, int64_t channels, const T* values, T* y);

  int64_t points_ = 0, dimensions_ = 0, vertices_ = 0;
  std::vector<int32_t> table_;  // vertex at each slot of the hash table; -1: free
  std::vector<int32_t> keys_;   // (vertices, dimensions); the last coordinate follows
  // Of i32, and of T where there are weights and values. Those of vertices have headroom.
  Tensor corners_, weights_;  // (points, dimensions + 1): vertices; weights, which add up to 1
  Tensor neighbours_;         // (dimensions + 1, vertices, 2); vertices_ where there is none
  Tensor begins_;             // (vertices + 1): of what lies at each vertex
  Tensor touching_;           // corners (indices of corners_) by vertex, in order
  Tensor values_, blurred_;   // (vertices + 1, channels); the row behind the vertices is 0
};

}  // namespace crema
