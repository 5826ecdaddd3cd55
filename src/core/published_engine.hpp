// The engine names of published files, which belong to other programs.
#pragma once

#include <string>
#include <string_view>

namespace crema {

class Layer;
class LayerParameter;

/// Whether a layer's `engine` is a hint for another program, such as MKL2017, CUDNN or
/// "MKLDNN:CPU,FPGA": an engine, and lists of engines or devices behind colons. Crema chooses its
/// engine as if the field were not set. The names of its own engines are in lower case.
bool is_published_engine(std::string_view name);

/// The engine that the prototxt asks for in the layer; "" if none.
std::string own_engine(const LayerParameter& param);
/// The engine that the layer has to run on: its own, or that of the context. "" if none.
std::string forced_engine(const Layer& layer);

}  // namespace crema
