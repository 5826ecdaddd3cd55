// What the upgrade commands share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/upgrade/upgrade.hpp"

namespace crema::tools {

/// Runs an upgrade command: `upgrade` reads the first of the two arguments and returns what it did,
/// `write` writes the result to the second. Both may name one file. Logs the changes; a file that
/// needs none is not written over itself, which would only cost its comments.
int upgrade_file(const std::string& command, const std::vector<std::string>& arguments,
                 const std::function<Upgrade(const std::string& path)>& upgrade,
                 const std::function<void(const std::string& path)>& write);

}  // namespace crema::tools
