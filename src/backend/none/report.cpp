// By loops over memory that the host can read: for the device of the tests alone.
#include "backend/report.hpp"

#include <vector>

namespace crema {

void device_losses(DeviceBackend& backend, RunBlock* block, std::span<const LossTerm> terms,
                   bool first_pass) {
  backend.queue_loop([block, first_pass, all = std::vector(terms.begin(), terms.end())] {
    if (block->failed()) return;
    block->report.pass_loss = 0;
    for (const LossTerm& term : all) block->report.pass_loss += sum_of(term);
    finish_losses(*block, first_pass);
  });
}

}  // namespace crema
