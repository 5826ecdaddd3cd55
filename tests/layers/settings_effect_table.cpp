// The table of settings_effect_test.cpp.
#include "settings_effect.hpp"

namespace crema::test {
namespace {

/// Fields of messages that several types read.
void add_shared(std::vector<SettingsTrial>& all) {
  // Fillers.
  for (const char* type :
       {"constant", "uniform", "gaussian", "positive_unitball", "xavier", "msra"})
    static_cast<void>(type);
  all.push_back({.field = "FillerParameter.type", .set = "type: 'uniform'"});
  all.push_back({.field = "FillerParameter.value", .given = "type: 'constant'"});
  for (const char* bound : {"min", "max"})
    all.push_back({.field = concat("FillerParameter.", bound), .given = "type: 'uniform'"});
  for (const char* number : {"mean", "std", "sparse"})
    all.push_back({.field = concat("FillerParameter.", number), .given = "type: 'gaussian'"});
  all.push_back({.field = "FillerParameter.variance_norm", .given = "type: 'xavier'"});
  all.push_back({.field = "FillerParameter.scale", .given = "type: 'gaussian'"});

  // Losses.
  all.push_back(
      {.field = "LossParameter.pre_fixed_normalizer", .given = "normalization: PRE_FIXED"});
  all.push_back({.field = "LossParameter.normalization=VALID", .given = "normalize: false"});
  all.push_back({.field = "LossParameter.class_weighting",
                 .set =
                     "class_weighting: 2 class_weighting: 3 class_weighting: 1 class_weighting: 4 "
                     "class_weighting: 5 class_weighting: 6",
                 .given = "weight_by_label_freqs: true"});
}

}  // namespace

const std::vector<SettingsTrial>& settings_trials() {
  static const std::vector<SettingsTrial> trials = [] {
    std::vector<SettingsTrial> all;
    add_shared(all);
    return all;
  }();
  return trials;
}

}  // namespace crema::test
