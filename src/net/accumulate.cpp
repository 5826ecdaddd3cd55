#include "net/accumulate.hpp"

#include <algorithm>
#include <array>

#include "backend/conversion_math.hpp"
#include "core/dispatch.hpp"
#include "core/move.hpp"
#include "core/parallel.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

constexpr int64_t kGrain = 16384;

}  // namespace

void accumulate(const Context& context, std::span<Blob* const> parts, Tensor& into) {
  const Side side = context.on_gpu() ? Side(context.backend()) : Side();
  // No list is allocated: this runs in each pass. Longer ones occur with keep_all only.
  std::array<const Tensor*, Action::kMostParts + 1> terms;
  size_t count = 0;
  for (const Blob* part : parts) {
    if (count == terms.size()) {
      add(side, terms, into);
      terms[0] = &into;
      count = 1;
    }
    terms[count++] = &part->diff;
  }
  add(side, {terms.data(), count}, into);
}

void seed(const Context& context, Tensor& diff, double value, bool adds) {
  if (diff.count() == 0) return;
  const bool on_device = context.on_gpu() && diff.count() > 1;
  if (!on_device && !adds) return diff.fill(value);
  dispatch_any_float(diff.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (on_device) {
      DeviceBackend& backend = context.backend();
      T* y = adds ? diff.device_mut<T>(backend) : diff.device_overwrite<T>(backend);
      return backend.fill(diff.shape(), {diff.dtype(), diff.format()}, value, adds, y);
    }
    const FillElement<T> body{ElementOrder(diff.shape(), diff.format()),
                              static_cast<Wide<T>>(value), adds, diff.host_mut<T>()};
    parallel_for(diff.storage(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  });
}

}  // namespace crema
