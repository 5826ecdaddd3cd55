// Weights that are here for the nets of models/.
#pragma once

#include <filesystem>
#include <string>

namespace crema::tools {

/// The model of the weights that a model can begin with and that scripts/from_torchvision.py
/// writes: the model itself, or the one whose layers it has, such as vgg16 of fcn8s. "" if there is
/// none.
std::string published_start(const std::string& model);
/// How to make the weights of such a model, for messages.
std::string way_to_weights(const std::string& published);

/// The file of weights for a model, "" if there is none: NAME.caffemodel in the working folder or
/// among the models; else the best one, or the one of most iterations, in the model's folder.
std::string weights_of_model(const std::filesystem::path& folder, const std::string& model);

/// The largest classifier whose weights are here. Error, which says how to get some, if there is
/// none.
std::string model_with_weights();

/// The file of weights for a model, of its own or of its published_start(); Error that says how to
/// get them.
std::string weights_or_advice(const std::filesystem::path& folder, const std::string& model);

}  // namespace crema::tools
