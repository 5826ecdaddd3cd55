// Convolution3D: Convolution over volumes, with depth or time by itself. See README.md.
#include "kit/translated.hpp"
#include "layers/convolution/convolution.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The layer as a Convolution's settings have it.
LayerParameter translated(const LayerParameter& param) {
  const Convolution3DParameter& from = param.convolution3d_param();
  if (from.kernel_size() == 0 || from.kernel_depth() == 0)
    throw Error("kernel_size ", from.kernel_size(), " and kernel_depth ", from.kernel_depth(),
                " are no kernel; give both, above 0: kernel_depth for the first spatial axis, "
                "kernel_size for the other two");
  LayerParameter result = param;
  ConvolutionParameter& to = *result.mutable_convolution_param();
  to.Clear();
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
  return result;
}

}  // namespace

void register_convolution3d(Registry& registry) {
  registry.add("Convolution3D", [](const LayerInit& init) {
    const LayerParameter param = translated(init.param);
    return std::make_unique<ConvolutionLayer>(with_param(init, param),
                                              ConvolutionGeometry::Kind::convolution);
  });
}

}  // namespace crema
