// The models that `crema models` lists.
#pragma once

#include <filesystem>
#include <string>

namespace crema::tools {

/// The folder of a model, named as in the list, or models/NAME. Error, with similar names, for one
/// that is not there.
std::filesystem::path folder_of_model(const std::string& name);

}  // namespace crema::tools
