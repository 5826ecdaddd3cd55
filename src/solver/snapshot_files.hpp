// Names of the files of a run's snapshots, beside those of single ones.
#pragma once

#include <string>
#include <vector>

namespace crema {

/// PREFIX_best.caffemodel, or with .h5 behind.
std::string best_file(const std::string& prefix, bool hdf5);

/// Makes PREFIX_last.caffemodel and PREFIX_last.solverstate, and with an average
/// PREFIX_last_ema.caffemodel, links to the files of the snapshot beside them; copies where the
/// file system has no links. Each of these names stands for a whole file at any moment. Error if
/// that fails.
void link_last_snapshot(const std::string& prefix, int iteration, bool hdf5, bool average);

/// Whether the folder of the prefix can have such links.
bool takes_links(const std::string& prefix);

/// The files that a run with this prefix has written or would write: weights and states of any
/// iteration, the best and the last. Sorted by name. None if the folder cannot be read.
std::vector<std::string> files_of_snapshots(const std::string& prefix);

/// Removes what runs of this prefix on this machine left that were killed while they wrote a
/// snapshot.
void remove_unfinished(const std::string& prefix);

/// PREFIX_2, or the first such prefix without files.
std::string free_prefix(const std::string& prefix);

}  // namespace crema
