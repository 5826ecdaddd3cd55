// A net for inference as a file.
#pragma once

#include <string>

#include "analysis/deploy.hpp"

namespace crema::tools {

/// The prototxt, with a comment that says from which net it is and what pixels have to become.
std::string deploy_text(const DeployedNet& deployed, const std::string& from);

/// A command line that runs the net in the file on images, or, where none does, one that looks at
/// the net. Without `weights`, it names some that may not say how pixels were changed in training,
/// and so has flags that do.
std::string next_command(const DeployedNet& deployed, const std::string& file,
                         const std::string& weights = {});

}  // namespace crema::tools
