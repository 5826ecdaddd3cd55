// What each layer of a recorded run costs, and what bounds it: the table of `crema profile`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analysis/profile.hpp"
#include "crema/net.hpp"

namespace crema {

/// What the machine, or a device, reaches at the best. 0: not known.
struct CostLimits {
  double f64 = 0, f32 = 0, tf32 = 0, bf16 = 0;  // operations of multiply-adds a second
  bool multiplies_in_tf32 = false;              // f32 where nets allow it
  /// Bytes that a copy of so many bytes in all, read and written, moves a second; by ascending
  /// bytes. Few bytes come from caches.
  struct Copy {
    double bytes = 0, rate = 0;
  };
  std::vector<Copy> copies = {};

  /// Of products of the step's type.
  double product_rate(const NetStep& step) const;
  /// Between those that were measured, by the logarithm of the bytes.
  double copy_rate(double bytes) const;
};

/// What explains the most of a time: its multiply-adds at the limit, its bytes at the limit, or
/// neither, where both explain less than kExplains of it: calls, threads that wait for each other,
/// arithmetic that is no multiply-add, or a kernel that is far from the limits.
enum class Bound : uint8_t { none, compute, memory, overhead };
const char* to_string(Bound bound);
inline constexpr double kExplains = 0.25;

struct CostRow {
  std::string name, type;            // of a step; type "": of what is no step, as the update
  std::string engine;                // with the layouts of its bottom and top
  double forward = 0, backward = 0;  // ms of an iteration; what is computed again is backward's
  double flops = 0, bytes = 0;       // of an iteration
  double compute_share = 0;          // of the time, that its flops take at the limit
  double memory_share = 0;           // the same of its bytes
  Bound bound = Bound::none;

  double time() const { return forward + backward; }
};

/// Means over the iterations. The rows' times add up to that of the iteration.
struct LayerCosts {
  double iteration = 0;       // ms
  std::vector<CostRow> rows;  // the longest first
  CostRow total;              // of the steps
};

/// On a device, times are the device's.
LayerCosts layer_costs(const Net& net, const ProfileRun& run, const CostLimits& limits);

}  // namespace crema
