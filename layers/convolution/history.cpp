#include "layers/convolution/history.hpp"

#include <algorithm>

namespace crema {

std::optional<ConvolutionHistory::Choice> ConvolutionHistory::like(
    const ConvolutionProblem& problem, ConvolutionPass pass) const {
  if (measured_.size() < kShapes) return std::nullopt;
  const double wanted = problem.multiply_adds();
  const auto distance = [&](const Measured& measured) {
    return std::max(measured.multiply_adds / wanted, wanted / measured.multiply_adds);
  };
  const Measured* nearest = nullptr;
  for (const Measured& measured : measured_) {
    if (measured.shape == problem.source) return std::nullopt;
    if (nearest == nullptr || distance(measured) < distance(*nearest)) nearest = &measured;
  }
  const auto found = nearest->choices.find({pass, problem.source_format, problem.target_format});
  if (found == nearest->choices.end()) return std::nullopt;
  return Choice{found->second.candidate, found->second.seconds * wanted / nearest->multiply_adds};
}

void ConvolutionHistory::remember(const ConvolutionProblem& problem, ConvolutionPass pass,
                                  const Choice& choice) {
  auto at = std::find_if(measured_.begin(), measured_.end(),
                         [&](const Measured& m) { return m.shape == problem.source; });
  if (at == measured_.end()) {
    if (measured_.size() == kShapes) return;
    at = measured_.insert(at, {problem.source, problem.multiply_adds(), {}});
  }
  at->choices.insert_or_assign({pass, problem.source_format, problem.target_format}, choice);
}

}  // namespace crema
