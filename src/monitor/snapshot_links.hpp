#pragma once

#include <string>

namespace crema {

/// Makes FOLDER/snapshots/NAME a link to the file, by a path from there, so that both may be moved
/// together. It leads to the old or the new file at any moment. Error if that fails.
void link_snapshot(const std::string& folder, const std::string& name, const std::string& file);

/// Removes the link of that name, where there is one.
void unlink_snapshot(const std::string& folder, const std::string& name);

/// The weights of a snapshot by the name of its state: STEM.caffemodel of STEM.solverstate, and
/// with .h5 likewise.
std::string weights_beside(const std::string& state);

/// The path from the run's folder where the file lies in it; else as it is.
std::string path_in_run(const std::string& folder, const std::string& file);

}  // namespace crema
