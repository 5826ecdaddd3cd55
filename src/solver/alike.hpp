// Whether processes that train together train the same: what each of them tells of its training,
// line by line.
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"
#include "parallel/communicator.hpp"

namespace crema {

class SolverParameter;  // proto/solver.proto

/// Version, settings, the layers of the net with the shapes of their parameters, and for each of
/// its sources the number of records, and the first and the last key. Paths are left out: the data
/// may lie elsewhere on each machine.
std::vector<std::string> description_of(const SolverParameter& solver, uint64_t seed,
                                        const Net& net);

/// Error, the same in all processes, unless all of them have the lines of the first. It names two
/// processes and the first lines that differ.
void check_alike(Communicator& processes, const std::vector<std::string>& lines);

}  // namespace crema
