// Convolution3D: Convolution over volumes, with depth or time by itself. See README.md.
#include "layers/convolution/convolution.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The settings as a Convolution has them.
ConvolutionParameter translated(const Convolution3DParameter& from) {
  if (from.kernel_size() == 0 || from.kernel_depth() == 0)
    throw Error("kernel_size ", from.kernel_size(), " and kernel_depth ", from.kernel_depth(),
                " are no kernel; give both, above 0: kernel_depth for the first spatial axis, "
                "kernel_size for the other two");
  ConvolutionParameter to;
  to.set_num_output(from.num_output());
  to.set_bias_term(from.bias_term());
  to.set_group(from.filter_group());
  const auto axes = [](auto* values, uint32_t depth, uint32_t others) {
    for (const uint32_t value : {depth, others, others}) values->Add(value);
  };
  axes(to.mutable_kernel_size(), from.kernel_depth(), from.kernel_size());
  axes(to.mutable_stride(), from.temporal_stride(), from.stride());
  axes(to.mutable_pad(), from.temporal_pad(), from.pad());
  if (from.has_weight_filler()) *to.mutable_weight_filler() = from.weight_filler();
  if (from.has_bias_filler()) *to.mutable_bias_filler() = from.bias_filler();
  return to;
}

}  // namespace

void register_convolution3d(Registry& registry) {
  registry.add("Convolution3D", [](const LayerInit& init) {
    return std::make_unique<ConvolutionLayer>(init, translated(init.param.convolution3d_param()),
                                              ConvolutionGeometry::Kind::convolution);
  });
}

}  // namespace crema
