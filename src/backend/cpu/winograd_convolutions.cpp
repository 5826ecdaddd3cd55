#include "backend/cpu/convolutions.hpp"
#include "backend/cpu/winograd.hpp"

namespace crema {
namespace {

WinogradProblem winograd_problem(const ConvolutionProblem& problem) {
  return {.n = problem.source[0],
          .c = problem.source[1],
          .h = problem.source[2],
          .w = problem.source[3],
          .k = problem.target[1],
          .pad_h = problem.pad[0],
          .pad_w = problem.pad[1],
          .taps = static_cast<int>(problem.kernel[0]),
          .groups = problem.groups,
          .y_blocks = problem.target_image / (problem.target.count(2) * Winograd::block())};
}

class Primitive : public ConvolutionPrimitive {
 public:
  Primitive(const ConvolutionProblem& problem, ConvolutionPass pass)
      : winograd_(winograd_problem(problem)),
        pass_(pass),
        training_(problem.training),
        adds_(problem.adds),
        relu_(problem.relu) {}

  void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
               float* y) override {
    winograd_.forward(x, weights, bias, adds_, relu_.has_value(), relu_.value_or(0), y);
  }
  void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx) override {
    winograd_.backward_data(dy, weights, dx);
  }
  void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                        bool add_bias, float* dbias) override {
    winograd_.backward_weights(x, dy, add_weights, dweights, add_bias, dbias);
  }
  size_t kept_bytes() const override {
    const bool derives = !training_ && pass_ != ConvolutionPass::backward_weights;
    return (derives ? winograd_.transformed_bytes() : 0) + winograd_.bias_bytes();
  }

  void plan_scratch(ScratchPlan& plan) const override {
    winograd_.plan_scratch(plan, pass_, training_);
  }

 private:
  Winograd winograd_;
  ConvolutionPass pass_;
  bool training_;
  bool adds_;
  std::optional<float> relu_;
};

std::string refusal(const ConvolutionProblem& problem, ConvolutionPass,
                    ConvolutionAlgorithm algorithm) {
  const std::vector<int64_t> three = {3, 3}, five = {5, 5}, one = {1, 1};
  const int64_t block = Winograd::block();
  if (block == 0) return "the processor lacks AVX2 and FMA";
  if ((problem.kernel != three && problem.kernel != five) || problem.stride != one ||
      problem.dilation != one) {
    return "it takes 3x3 and 5x5 kernels of stride 1 without dilation";
  }
  const int64_t whole = problem.groups * block;
  if (problem.target_image % (problem.target.count(2) * block) != 0)
    return "it takes images of whole blocks";
  if (problem.groups != 1 && (problem.source[1] % whole != 0 || problem.target[1] % whole != 0))
    return text("it takes groups of whole blocks of ", block, " channels");
  if (problem.pad[0] >= problem.kernel[0] || problem.pad[1] >= problem.kernel[1]) {
    return "it takes a pad below the kernel's extent";
  }
  if (block_of(problem.source_format) != block || block_of(problem.target_format) != block) {
    return text("it takes channels in blocks of ", block);
  }
  if (algorithm == ConvolutionAlgorithm::direct) return "the direct algorithm is asked for";
  return {};
}

}  // namespace

std::unique_ptr<ConvolutionLibrary> winograd_convolutions() {
  const auto name = [](const ConvolutionProblem& problem) {
    return problem.kernel[0] == 5 ? "F(2x2,5x5)" : "F(4x4,3x3)";
  };
  return make_library(
      {"winograd", "4", name, refusal, [](const ConvolutionProblem& problem, ConvolutionPass pass) {
         return std::make_unique<Primitive>(problem, pass);
       }});
}

}  // namespace crema
