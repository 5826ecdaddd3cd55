// A net for inference as a file.
#pragma once

#include <string>

#include "analysis/deploy.hpp"

namespace crema::tools {

/// The prototxt, with a comment that says from which net it is and what pixels have to become.
std::string deploy_text(const DeployedNet& deployed, const std::string& from);

/// A command line that runs the net in the file on images.
std::string next_command(const DeployedNet& deployed, const std::string& file,
                         const std::string& weights = "net.caffemodel");

/// What `crema classify` and `crema detect` have to know of the pixels: "--mean 104,117,123 " and
/// the like; "" for pixels as they are.
std::string pixel_flags(const TransformationParameter& transform);

}  // namespace crema::tools
