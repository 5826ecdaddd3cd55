#include "layer_support/options.hpp"

#include <algorithm>

namespace crema {

std::vector<Option> same_format_options(Blobs bottom, Blobs top, DType dtype, bool padding_ok) {
  std::vector<Option> options = {uniform_option(bottom, top, dtype)};
  const auto any_blob = [&](const auto& holds) {
    return std::any_of(bottom.begin(), bottom.end(), holds) ||
           std::any_of(top.begin(), top.end(), holds);
  };
  if (!any_blob([](const Blob* blob) { return blob->shape().rank() >= 3; })) return options;
  for (const Format format : {Format::channels_last, Format::blocked8, Format::blocked16}) {
    const bool padded = any_blob([format](const Blob* blob) {
      return blob->shape().rank() >= 3 && blob->shape()[1] % block_of(format) != 0;
    });
    if (padding_ok || !padded) {
      options.push_back(uniform_option(bottom, top, dtype, format, format));
    }
  }
  return options;
}

bool squeeze(Tensor& tensor, const Shape& to) {
  const auto extents = [](const Shape& shape) {
    std::vector<int64_t> kept = shape.dims();
    std::erase(kept, 1);
    return kept;
  };
  if (extents(tensor.shape()) != extents(to)) return false;
  tensor.reshape(to);
  return true;
}

std::optional<float> relu_slope_of(const Tail& tail) {
  if (tail.size() != 1 || tail[0].kind != TailStep::Kind::relu || !(tail[0].slope >= 0))
    return std::nullopt;
  return tail[0].slope;
}

}  // namespace crema
