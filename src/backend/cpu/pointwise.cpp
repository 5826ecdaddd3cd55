#include "backend/pointwise.hpp"

namespace crema {

std::vector<FormatOption> same_format_options(const Shape& shape, bool padding_ok) {
  std::vector<FormatOption> options = {{Format::contiguous, Format::contiguous}};
  if (shape.rank() < 3) return options;
  options.push_back({Format::channels_last, Format::channels_last});
  for (const Format blocked : {Format::blocked8, Format::blocked16}) {
    if (padding_ok || shape[1] % block_of(blocked) == 0) options.push_back({blocked, blocked});
  }
  return options;
}

}  // namespace crema
