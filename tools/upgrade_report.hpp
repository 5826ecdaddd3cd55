// What the upgrade commands share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/upgrade/upgrade.hpp"
#include "tools/output_file.hpp"

namespace crema::tools {

/// Runs an upgrade command: `upgrade` reads the first of the two arguments and returns what it did,
/// `write` writes the result to the second. Logs the changes. What is at the second is replaced as
/// check_replaced() says, with `kind`; with --overwrite, both may name one file. A file that needs
/// no change is not written over itself, which would only cost its comments.
int upgrade_file(const std::string& command, const std::vector<std::string>& arguments,
                 const std::function<Upgrade(const std::string& path)>& upgrade,
                 const std::function<void(const std::string& path)>& write, const OutputKind& kind);

}  // namespace crema::tools
