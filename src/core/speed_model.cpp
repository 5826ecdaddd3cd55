#include "core/speed_model.hpp"

#include <algorithm>
#include <cmath>

#include "core/simd.hpp"

namespace crema {
namespace {

/// Sizes that differ by this factor in all are half as alike.
constexpr double kReach = 1.5;  // log2
/// The weight of the usual share, beside 1 for a sample of the same sizes.
constexpr double kWeightOfUsual = 0.3;
/// Logarithms of factors: of the usual share without samples, and of a near sample.
constexpr double kSpreadOfUsual = 0.5, kSpreadOfSamples = 0.1;
constexpr double kUsualClock = 3e9;

std::vector<double> logarithms(const std::vector<double>& sizes) {
  std::vector<double> all;
  for (const double size : sizes) all.push_back(std::log2(std::max(size, 1e-9)));
  return all;
}

std::string name_of(const Workload& workload, const std::string& kernel) {
  return workload.group + '|' + kernel;
}

}  // namespace

double nominal_peak(int threads) {
  double lanes = 4;
  if (simd_level() >= SimdLevel::avx2) lanes = 8;
  if (simd_level() >= SimdLevel::avx512) lanes = 16;
  constexpr double kUnits = 2;  // of multiply-adds, in a core
  return kUsualClock * kUnits * lanes * std::max(threads, 1);
}

Expectation SpeedModel::predict(const std::string& problem, const Workload& workload,
                                const std::string& kernel, double usual) const {
  if (workload.multiply_adds <= 0) return {};
  double weight = 0, sum = 0, near = 0;
  if (usual > 0) {
    // Each further sample of how this processor differs from the usual one counts less.
    weight = kWeightOfUsual;
    sum = weight * (std::log(usual) + shift_ / (shifts_ + 1));
  }
  if (const auto found = samples_.find(name_of(workload, kernel)); found != samples_.end()) {
    const std::vector<double> sizes = logarithms(workload.sizes);
    for (const auto& [of, sample] : found->second) {
      if (of == problem || sample.sizes.size() != sizes.size()) continue;
      double apart = 0;
      for (size_t i = 0; i < sizes.size(); ++i) {
        apart += (sizes[i] - sample.sizes[i]) * (sizes[i] - sample.sizes[i]);
      }
      const double like = std::exp(-apart / (2 * kReach * kReach));
      near += like;
      weight += like;
      sum += like * sample.share;
    }
  }
  // Far samples alone say too little.
  if (weight < 1e-3) return {};
  constexpr double kSamplesOverUsual = 3;
  const double spread = std::sqrt(kSpreadOfUsual * kSpreadOfUsual / (1 + kSamplesOverUsual * near) +
                                  kSpreadOfSamples * kSpreadOfSamples);
  const double share = std::exp(sum / weight);
  return {.seconds = workload.multiply_adds / (share * nominal_peak(workload.threads)),
          .factor = std::exp(spread),
          .by_samples = near > 0.5};
}

void SpeedModel::add(const std::string& problem, const Workload& workload,
                     const std::string& kernel, double usual, double seconds) {
  if (workload.multiply_adds <= 0 || !(seconds > 0) || !std::isfinite(seconds)) return;
  auto& samples = samples_[name_of(workload, kernel)];
  const auto forget = [&](auto sample) {
    shift_ -= sample->second.shift;
    if (sample->second.shifts) shifts_ -= 1;
    samples.erase(sample);
  };
  if (const auto earlier = samples.find(problem); earlier != samples.end()) {
    forget(earlier);
  } else if (samples.size() >= kMostSamples) {
    forget(samples.begin());
  }
  Sample sample{
      .sizes = logarithms(workload.sizes),
      .share = std::log(workload.multiply_adds / (seconds * nominal_peak(workload.threads)))};
  if (usual > 0) {
    sample.shifts = true;
    sample.shift = sample.share - std::log(usual);
    shift_ += sample.shift;
    shifts_ += 1;
  }
  samples.emplace(problem, std::move(sample));
}

}  // namespace crema
