#include "net/accumulate.hpp"

#include <algorithm>
#include <array>

#include "core/dispatch.hpp"
#include "core/move.hpp"
#include "net/plan.hpp"

namespace crema {
void accumulate(Context& context, std::span<Blob* const> from, Tensor& into) {
  std::array<const Tensor*, Action::kMostParts + 1> terms = {&into};
  std::transform(from.begin(), from.end(), terms.begin() + 1,
                 [](const Blob* blob) { return &blob->diff; });
  add(context.on_gpu() ? Side(context.backend()) : Side(), {terms.data(), from.size() + 1}, into);
}

void add_to_each(Tensor& tensor, double value) {
  if (tensor.count() == 0) return;
  const Shape& shape = tensor.shape();
  const int64_t block = block_of(tensor.format());
  // In memory: (rows, blocks a row, pixels, block); one block of everything where there are none.
  const bool blocked = block > 1;
  const int64_t rows = blocked ? shape[0] : 1;
  const int64_t channels = blocked ? shape[1] : tensor.count();
  const int64_t width = blocked ? block : channels;
  const int64_t pixels = blocked ? shape.count(2) : 1;
  dispatch_float(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* y = tensor.host_mut<T>();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t first = 0; first < channels; first += width) {
        const int64_t valid = std::min(width, channels - first);
        for (int64_t pixel = 0; pixel < pixels; ++pixel, y += width) {
          for (int64_t c = 0; c < valid; ++c) y[c] += static_cast<T>(value);
        }
      }
    }
  });
}

}  // namespace crema
