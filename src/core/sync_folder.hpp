// Makes renames survive a crash of the machine.
#pragma once

#include <filesystem>

namespace crema {

/// Syncs the names in a folder ("" is the working directory). Failure is not reported: some file
/// systems cannot sync a folder, and one without the right to read cannot be opened. The caller has
/// synced the files themselves, so after a crash of the machine a name has its old or its new file.
void sync_folder(const std::filesystem::path& folder) noexcept;

}  // namespace crema
