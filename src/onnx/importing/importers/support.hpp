// What importers share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onnx/importing/layer_writer.hpp"

namespace crema::onnx {

/// Throws NotAsLayers.
template <class... Args>
[[noreturn]] void give_up(const Args&... args) {
  throw NotAsLayers{text(args...)};
}

/// Gives up unless input 0 and output 0 are floats: layers do not wrap around or cut fractions.
void need_floats(const Node& node);
/// The values of input i; null if they are not known or the input is not given.
const Array* constant_input(const Node& node, size_t i);
/// The only element of input i. Gives up if it is no constant with one element; `otherwise` if it
/// is not given.
double number_input(const Node& node, size_t i, double otherwise);
/// Gives up if the node is wanted for an output behind the first.
void need_one_output(const Node& node, const LayerWriter& writer);
/// As a setting of that type. Gives up for what does not fit.
uint32_t as_setting(int64_t value);

void fill_weights(FillerParameter& filler);                // msra
void fill_constant(FillerParameter& filler, float value);  // constant

/// A layer that gives the values another shape: Flatten where that says it, else Reshape, which
/// keeps the batch open where axis 0 stays or where sizes behind it stay.
LayerParameter& add_reshape(const Node& node, LayerWriter& writer, const LayerEnd& from,
                            const Shape& in, const LayerEnd& to, const Shape& out,
                            std::string_view step = {});

/// Sizes of windows of a convolution or pooling, for each spatial axis.
struct Windows {
  std::vector<int64_t> kernel, stride, dilation, begin, end;

  bool is_symmetric() const { return begin == end; }
};
/// From attributes `strides`, `dilations`, `pads` and `auto_pad`.
Windows windows_of(const Node& node, const Shape& x, std::vector<int64_t> kernel);

/// A layer Pad of the spatial axes: the blob that it makes.
std::string add_spatial_pad(const Node& node, LayerWriter& writer, const LayerEnd& x,
                            const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                            double value, std::string_view step = "pad");

}  // namespace crema::onnx
