#include "parallel/communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/parse_number.hpp"
#include "crema/error.hpp"

namespace crema {

std::string Communicator::name_of(int rank) const {
  const Process& of = process(rank);
  return text("rank ", rank, " (host ", of.host, ", process ", of.pid, ")");
}

void Communicator::broadcast(std::string& text, int root) {
  uint64_t bytes = text.size();
  broadcast(&bytes, sizeof bytes, root);
  text.resize(static_cast<size_t>(bytes));
  broadcast(text.data(), text.size(), root);
}

std::vector<std::string> Communicator::all_gather(std::string own) {
  std::vector<std::string> all;
  wait(start_all_gather(std::move(own), all));
  return all;
}

int Communicator::greatest(int value) {
  int greatest = value;
  for (const std::string& other : all_gather(text(value)))
    greatest = std::max(greatest, parse_number<int>(other).value_or(value));
  return greatest;
}

int launched_processes() {
  // Open MPI; MPICH and others behind PMI; srun with PMIx or PMI-2 alone.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* const value = std::getenv(variable);
    if (value == nullptr) continue;
    if (const auto size = parse_number<int>(value)) return std::max(*size, 1);
  }
  const char* const tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  const bool by_srun = tasks != nullptr &&
                       (std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr);
  return by_srun ? std::max(parse_number<int>(tasks).value_or(1), 1) : 1;
}

}  // namespace crema
