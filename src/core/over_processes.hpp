// OverProcesses: the interface, for the solver, of layers that compute with the batches of all
// processes that train together.
#pragma once

namespace crema {

class Communicator;  // parallel/communicator.hpp

class OverProcesses {
 public:
  virtual ~OverProcesses() = default;
  /// From the next pass on. All processes have to run the layer then. Null: with its own batch
  /// alone, as in the beginning.
  virtual void set_processes(Communicator* processes) = 0;
};

}  // namespace crema
