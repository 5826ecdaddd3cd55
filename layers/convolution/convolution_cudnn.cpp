// Convolution and Deconvolution by cuDNN: any number of groups, dilation, 0 to 3 spatial axes.
#include <algorithm>
#include <limits>

#include "crema/registry.hpp"
#include "layers/convolution/cudnn.hpp"

namespace crema {
namespace {

/// How choices of the exact kernel begin.
constexpr std::string_view kExact = "exact ";

class ConvolutionCudnn : public Engine {
 public:
  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string& why) const override {
    const auto& conv = static_cast<const ConvolutionLayer&>(layer);
    if (conv.geometry().spatial_axes() > 3) {
      why = text("it takes at most 3 spatial axes, the bottom is ", bottom[0]->shape().str());
      return {};
    }
    const int64_t most = std::max(bottom[0]->count(), top[0]->count());
    if (most == 0 || most > std::numeric_limits<int>::max()) {
      why = text("it takes 1 to 2^31 - 1 elements, not ", most);
      return {};
    }
    std::string why_not_last;
    std::vector<Option> options = channels_last_options(conv, bottom, top, why_not_last);
    if (!options.empty()) return options;
    // What the graph API refuses, the older one may compute.
    Option option = uniform_option(bottom, top, layer.dtype());
    try {
      option.choice = exact_choices(conv, top.size());
    } catch (const Error& error) {
      why = why_not_last.empty() ? error.message()
                                 : text(why_not_last, "; contiguous: ", error.message());
      conv.log_once(text("cannot run on the GPU: ", why));
      return {};
    }
    if (!why_not_last.empty()) {
      conv.log_once(text("runs contiguous in ", to_string(layer.dtype()), ": ", why_not_last));
    }
    return {option};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option& option, Blobs bottom,
                               Blobs top) const override {
    auto& conv = static_cast<ConvolutionLayer&>(layer);
    const bool is_exact = !option.choice.empty() && option.choice[0].starts_with(kExact);
    return is_exact ? make_exact(conv, option.choice, top)
                    : make_channels_last(conv, option.choice, bottom, top);
  }
};

}  // namespace

bool any_propagates(const ConvolutionLayer& layer, size_t bottoms) {
  for (size_t i = 0; i < bottoms; ++i) {
    if (layer.propagates(static_cast<int>(i))) return true;
  }
  return false;
}

void register_convolution_cuda(Registry& registry) {
  for (const char* type : kConvolutionTypes) {
    registry.add_engine<ConvolutionCudnn>(type, "cudnn", DeviceType::cuda);
  }
}

}  // namespace crema
