// SpeedModel: what a kernel will reach on a problem, by what it reached on like ones.
//
// A kernel reaches a share of the processor's nominal peak. Before anything is measured, that share
// is a figure of the kernel's author (`usual`). Each measured time is a sample. The share on a new
// problem is the mean, in logarithms, of the samples of the same kernel in the same group, weighted
// by how near their sizes are, and of the usual share. A processor on which all kernels are faster
// or slower than usual shifts the usual shares alike.
//
// Threads: the caller locks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace crema {

/// What the speed of a kernel depends on.
struct Workload {
  std::string group;          // problems of other groups say nothing: pass, kernel size, formats
  double multiply_adds = 0;   // 0: unknown; there is no prediction
  std::vector<double> sizes;  // positive; those of a group have the same number of entries
  int threads = 1;
};

struct Expectation {
  double seconds = 0;  // 0: none
  /// The seconds are within this factor about two times of three.
  double factor = 1;
  bool by_samples = false;  // like problems were measured
};

/// Multiply-adds a second of `threads` threads in f32, by the vectors of the processor and a usual
/// clock.
double nominal_peak(int threads);

class SpeedModel {
 public:
  /// `usual`: the share of the peak; 0: unknown. The sample of the problem itself does not count.
  Expectation predict(const std::string& problem, const Workload& workload,
                      const std::string& kernel, double usual) const;
  /// A later sample of the same problem replaces an earlier one.
  void add(const std::string& problem, const Workload& workload, const std::string& kernel,
           double usual, double seconds);

  /// The most samples of a kernel in a group.
  static constexpr size_t kMostSamples = 128;

 private:
  struct Sample {
    std::vector<double> sizes;  // logarithms to base 2
    double share = 0;           // logarithm
    double shift = 0;           // its part of shift_
    bool shifts = false;        // the usual share was known
  };
  std::map<std::string, std::map<std::string, Sample>> samples_;  // by group and kernel, problem
  double shift_ = 0, shifts_ = 0;  // sum of logarithms of share over usual share, and their number
};

}  // namespace crema
