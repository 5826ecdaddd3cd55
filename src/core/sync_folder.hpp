// Makes renames survive a crash of the machine.
#pragma once

#include <filesystem>

namespace crema {

/// Syncs the names in a folder ("" is the working directory). Failure is not reported: some file
/// systems cannot sync a folder, and one without the right to read cannot be opened. The files
/// themselves are synced by those who wrote them, so that the worst is an older file under its name
/// after a crash of the machine.
void sync_folder(const std::filesystem::path& folder) noexcept;

}  // namespace crema
