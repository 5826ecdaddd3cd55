// Weights that are here for the nets of models/.
#pragma once

#include <filesystem>
#include <string>

namespace crema::tools {

/// Whether scripts/from_torchvision.py writes weights of the model.
bool is_published(const std::string& model);

/// The file of weights for a model, "" if there is none: NAME.caffemodel in the working folder or
/// among the models; else the best one, or the one of most iterations, in the model's folder.
std::string weights_of_model(const std::filesystem::path& folder, const std::string& model);

/// The largest classifier whose weights are here. Error, which says how to get some, if there is
/// none.
std::string model_with_weights();

/// The file of weights for a model; Error that says how to get them.
std::string weights_or_advice(const std::filesystem::path& folder, const std::string& model);

}  // namespace crema::tools
