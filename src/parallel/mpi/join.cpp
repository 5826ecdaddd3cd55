#include "crema/error.hpp"
#include "parallel/mpi/mpi_communicator.hpp"

namespace crema {

std::shared_ptr<Communicator> join_processes(const JoinOptions& options) {
  if (launched_processes() == 1) return nullptr;
  return std::make_shared<MpiCommunicator>(options);
}

}  // namespace crema
