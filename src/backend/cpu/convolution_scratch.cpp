#include "backend/cpu/convolution_scratch.hpp"

#include <string_view>

#include "crema/tensor.hpp"

namespace crema {
namespace {

constexpr std::string_view kPlaces[] = {"convolution window", "convolution partial",
                                        "convolution brick", "convolution packed",
                                        "convolution sums"};

}  // namespace

float* convolution_scratch(ConvolutionScratch place, int64_t count) {
  thread_local Tensor scratch[std::size(kPlaces)];
  Tensor& tensor = scratch[static_cast<size_t>(place)];
  if (tensor.count() < count) tensor = Tensor(Shape{count});
  return tensor.overwrite<float>();
}

void need_scratch(ScratchPlan& plan, ConvolutionScratch place, int64_t count, int64_t threads) {
  plan.need(kPlaces[static_cast<size_t>(place)], static_cast<size_t>(count) * sizeof(float),
            threads);
}

}  // namespace crema
