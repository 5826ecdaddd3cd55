// The nets and the table of settings_effect_test.cpp; the table is explained in
// support/settings_sweep.hpp.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/layer_test.hpp"
#include "support/settings_sweep.hpp"

namespace crema::test {

struct SettingsBase {
  std::string name;      // the type's own net has the name of the type
  std::string settings;  // text of the layer, without name, bottoms and tops
  std::vector<Input> bottoms = {};
  int tops = 1;
  bool trains = true;
  std::string type = {};  // without it, the name
};

const std::vector<SettingsBase>& settings_bases();
const std::vector<SettingsTrial>& settings_trials();
/// Adds those of settings_effect_operators.cpp.
void add_operator_trials(std::vector<SettingsTrial>& all);

/// A folder that layers may write to.
const std::filesystem::path& out_folder();
/// The text with the path of a folder of small data sets in place of $DATA, and that of
/// out_folder() in place of $OUT. The sets are made at the first $DATA.
std::string with_folders(std::string text);
/// Gives a MemoryData layer its records.
void give_memory_data(Layer& layer, bool gray);

}  // namespace crema::test
