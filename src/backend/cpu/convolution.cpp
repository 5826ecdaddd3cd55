#include "backend/convolution.hpp"

#include "backend/cpu/convolutions.hpp"
#include "core/simd.hpp"

namespace crema {
namespace {

std::string join(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) {
    if (!text.empty()) text += 'x';
    text += std::to_string(value);
  }
  return text;
}

[[noreturn]] void wrong_pass(ConvolutionPass pass) {
  throw Error("this convolution primitive was not made for the ", to_string(pass), " pass");
}

class OwnLibrary : public ConvolutionLibrary {
 public:
  explicit OwnLibrary(OwnConvolutions own) : own_(std::move(own)) {}

  std::string name() const override { return own_.name; }
  std::string revision() const override { return own_.revision; }
  std::vector<std::string> implementations(const ConvolutionProblem& problem, ConvolutionPass pass,
                                           ConvolutionAlgorithm algorithm,
                                           std::string& why) const override {
    std::string refusal = own_.refusal(problem, pass, algorithm);
    if (refusal.empty()) return {own_.implementation(problem)};
    why = std::move(refusal);
    return {};
  }
  std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                             ConvolutionPass pass,
                                             const std::string&) const override {
    return own_.make(problem, pass);
  }

 private:
  OwnConvolutions own_;
};

}  // namespace

std::unique_ptr<ConvolutionLibrary> make_library(OwnConvolutions own) {
  return std::make_unique<OwnLibrary>(std::move(own));
}

std::string name_of_simd(const ConvolutionProblem&) { return text(to_string(simd_level())); }

Shape ConvolutionProblem::weights() const {
  std::vector<int64_t> dims = {target[1], source[1] / groups};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  return Shape(std::move(dims));
}

double ConvolutionProblem::multiply_adds() const {
  return static_cast<double>(target.count()) * static_cast<double>(weights().count(1));
}

std::string ConvolutionProblem::key() const {
  const std::vector<int64_t> dims = source.dims();
  return family() + join({dims.begin() + 2, dims.end()});
}

std::string ConvolutionProblem::family() const {
  std::string content = text(source[0], "x", source[1], ">", target[1], ",k", join(kernel), ",s",
                             join(stride), ",p", join(pad), ",d", join(dilation), ",g", groups, ",",
                             to_string(source_format), ">", to_string(target_format));
  if (!bias) content += ",nobias";
  if (adds) content += ",adds";
  if (relu) content += text(",relu", *relu);
  if (!training) content += ",inference";
  if (target_image > 0) content += text(",image", target_image);
  return content + " of ";
}

std::string_view to_string(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return "forward";
    case ConvolutionPass::backward_data:
      return "backward-data";
    case ConvolutionPass::backward_weights:
      return "backward-weights";
  }
  return {};
}

void ConvolutionPrimitive::forward(const float*, const ConvolutionWeights&, const float*, float*) {
  wrong_pass(ConvolutionPass::forward);
}

void ConvolutionPrimitive::backward_data(const float*, const ConvolutionWeights&, float*) {
  wrong_pass(ConvolutionPass::backward_data);
}

void ConvolutionPrimitive::backward_weights(const float*, const float*, bool, float*, bool,
                                            float*) {
  wrong_pass(ConvolutionPass::backward_weights);
}

}  // namespace crema
