#include "layers/silence/silence.hpp"

#include <algorithm>

#include "backend/pointwise.hpp"
#include "crema/registry.hpp"

namespace crema {

std::vector<Option> SilenceLayer::reference_options(Blobs bottom, Blobs top) const {
  return same_format_options(bottom, top, dtype(), true);
}

void SilenceLayer::backward_cpu(Blobs, const std::vector<bool>& propagate, Blobs bottom) {
  for (size_t i = 0; i < bottom.size(); ++i) {
    if (!propagate[i]) continue;
    dispatch_float(dtype(), [&](auto zero) {
      Tensor& diff = bottom[i]->diff;
      std::fill_n(diff.host_overwrite<decltype(zero)>(), diff.storage(), zero);
    });
  }
}

void register_silence(Registry& registry);

void register_silence(Registry& registry) { registry.add<SilenceLayer>("Silence"); }

}  // namespace crema
