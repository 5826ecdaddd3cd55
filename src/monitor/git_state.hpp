#pragma once

#include <optional>
#include <string>

#include "proto/run.pb.h"

namespace crema {

/// Commit and branch of the repository that `folder` is in, read from its .git. `changed` is set
/// where the program git can be asked. None outside of a repository, and before its first commit.
std::optional<RunInfo::Git> git_state(const std::string& folder);

}  // namespace crema
