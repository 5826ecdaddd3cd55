// For builds without MPI.
#include "crema/error.hpp"
#include "parallel/communicator.hpp"

namespace crema {

std::shared_ptr<Communicator> join_processes(const JoinOptions&) {
  const int processes = launched_processes();
  if (processes == 1) return nullptr;
  throw Error("this is one of ", processes,
              " processes, and this build of Crema has no MPI: each of them would train by itself "
              "and write over the snapshots of the others; build with CREMA_MPI=ON (packages "
              "libopenmpi-dev and openmpi-bin), or start one process");
}

}  // namespace crema
