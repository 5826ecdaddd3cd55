// The kernels of the engine "cudnn". Each has the choices of an option: what it runs in each pass.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crema/engine.hpp"
#include "layers/convolution/convolution.hpp"

namespace crema {

/// Whether the gradient of a bottom of the layer's own is asked for: of the first `bottoms` ones.
bool any_propagates(const ConvolutionLayer& layer, size_t bottoms);

/// Channels-last in 16 bits, or in f32 by TF32 (channels_last_cudnn.cpp). Empty if the library
/// cannot; `why` then says why. Empty with no reason if the net asks for f32 or f64.
std::vector<Option> channels_last_options(const ConvolutionLayer& layer, Blobs bottom, Blobs top,
                                          std::string& why);
std::unique_ptr<Kernel> make_channels_last(ConvolutionLayer& layer,
                                           const std::vector<std::string>& choice, Blobs bottom,
                                           Blobs top);

/// Contiguous, in f32 without TF32 or f64 (exact_cudnn.cpp). Error if the library cannot.
std::vector<std::string> exact_choices(const ConvolutionLayer& layer, size_t bottoms);
std::unique_ptr<Kernel> make_exact(ConvolutionLayer& layer, const std::vector<std::string>& choice,
                                   Blobs top);

}  // namespace crema
