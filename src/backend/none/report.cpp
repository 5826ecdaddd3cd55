// By loops over memory that the host can read: for the device of the tests alone.
#include "backend/report.hpp"

#include <vector>

#include "core/dispatch.hpp"

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

void device_seed(DeviceBackend& backend, const LossScaleState* scale, DType dtype, int64_t count,
                 double weight, bool adds, void* diff) {
  dispatch_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    backend.queue_loop([seed = SeedElement<T>{scale, weight, adds, static_cast<T*>(diff)}, count] {
      for (int64_t i = 0; i < count; ++i) seed(i);
    });
  });
}

}  // namespace crema
