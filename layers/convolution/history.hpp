// What a layer measured, for shapes that it meets later: a fully convolutional net that is given
// images of any size cannot measure for each of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "backend/convolution.hpp"

namespace crema {

class ConvolutionHistory {
 public:
  /// So many shapes of the bottoms are measured; others are computed as the nearest of these.
  static constexpr size_t kShapes = 3;

  struct Choice {
    std::string candidate;
    double seconds = 0;
  };

  /// For a shape that is not to be measured, what was chosen for the nearest one, its seconds in
  /// proportion.
  std::optional<Choice> like(const ConvolutionProblem& problem, ConvolutionPass pass) const;
  /// Keeps what was chosen by measuring, if this is one of the first shapes.
  void remember(const ConvolutionProblem& problem, ConvolutionPass pass, const Choice& choice);

 private:
  struct Measured {
    Shape shape;
    double multiply_adds = 0;
    std::map<std::tuple<ConvolutionPass, Format, Format>, Choice> choices;
  };
  std::vector<Measured> measured_;
};

}  // namespace crema
