#include "layers/convolution/usual_speeds.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace crema {
namespace {

enum Kind { kOne, kThree, kFive, kLarge, kDepthwise, kKinds };

/// Medians of what the kernels of AlexNet, GoogLeNet, ResNet-50, DenseNet-121 and MobileNet v2
/// reached in inference at batch 1 and in training, by two threads with AVX-512, as shares of the
/// measured FMA peak. 0: none of these.
struct Usual {
  std::string_view kernel;  // how "library implementation" begins
  bool contiguous;          // the source
  std::array<double, kKinds> shares;
};
constexpr Usual kUsual[] = {
    //                                              1     3     5  larger  depthwise
    {"depthwise ", false, {0, 0, 0, 0, 0.23}},
    {"direct ", false, {0.80, 0.86, 0.84, 0.75, 0.05}},
    {"direct ", true, {0.60, 0.57, 0.60, 0.80, 0.05}},
    {"im2col ", true, {0.61, 0.74, 0.71, 0.63, 0.05}},
    {"onednn brdgmm_dw", false, {0, 0, 0, 0, 0.23}},
    {"onednn brgconv_1x1", false, {0.90, 0, 0, 0, 0}},
    {"onednn brgconv", false, {0.90, 1.01, 1.05, 0.88, 0.02}},
    {"onednn jit_dw", false, {0, 0, 0, 0, 0.26}},
    {"onednn jit_1x1", false, {0.87, 0, 0, 0, 0}},
    {"onednn jit", false, {0.70, 0.93, 0.98, 0.80, 0.02}},
    {"onednn jit", true, {0.70, 0.78, 0.78, 0.77, 0.02}},
    {"onednn x64:gemm", false, {0.56, 0.50, 0.36, 0.38, 0.005}},
    {"onednn x64:gemm", true, {0.55, 0.53, 0.34, 0.38, 0.01}},
    {"onednn winograd jit_fp32_wino_2x3", false, {0, 0.70, 0, 0, 0}},
    {"onednn winograd jit_wino_4x3", false, {0, 1.36, 0, 0, 0}},
    {"winograd F(2x2,5x5)", false, {0, 0, 1.08, 0, 0}},
    {"winograd F(4x4,3x3)", false, {0, 1.85, 0, 0, 0}},
};

bool is_depthwise(const ConvolutionProblem& problem) {
  return problem.groups > 1 && problem.groups == problem.source[1];
}

Kind kind_of(const ConvolutionProblem& problem) {
  if (is_depthwise(problem)) return kDepthwise;
  const int64_t extent = *std::ranges::max_element(problem.kernel);
  if (extent <= 1) return kOne;
  if (extent <= 3) return kThree;
  return extent <= 5 ? kFive : kLarge;
}

}  // namespace

Workload workload_of(const std::string& tuner, const ConvolutionProblem& problem,
                     ConvolutionPass pass, int threads) {
  std::string group = text("convolution ", tuner, " ", to_string(pass), " ", threads, "t ",
                           to_string(problem.source_format), ">", to_string(problem.target_format));
  double pixels = 1;
  for (size_t i = 0; i < problem.kernel.size(); ++i) {
    group += text(i == 0 ? " k" : "x", problem.kernel[i], problem.stride[i] > 1 ? "s" : "");
    pixels *= static_cast<double>(problem.target[static_cast<int>(i) + 2]);
  }
  if (is_depthwise(problem)) group += " depthwise";
  if (!problem.training) group += " inference";
  return {.group = std::move(group),
          .multiply_adds = problem.multiply_adds(),
          .sizes = {static_cast<double>(problem.source[0]),
                    static_cast<double>(problem.source[1] / problem.groups),
                    static_cast<double>(problem.target[1] / problem.groups), pixels,
                    static_cast<double>(problem.groups)},
          .threads = threads};
}

double usual_share(const std::string& library, const std::string& implementation,
                   const ConvolutionProblem& problem) {
  const std::string kernel = library + " " + implementation;
  const bool contiguous = problem.source_format == Format::contiguous;
  const auto found = std::ranges::find_if(kUsual, [&](const Usual& usual) {
    return usual.contiguous == contiguous && kernel.starts_with(usual.kernel);
  });
  return found == std::end(kUsual) ? 0 : found->shares[kind_of(problem)];
}

}  // namespace crema
