// The engines of Convolution and Deconvolution. For each pass (forward, backward to the data,
// backward to the weights) and each pair of memory formats, an engine takes the fastest primitive
// of its libraries.
//
// The engine "tuned" uses all libraries. In addition, each library is an engine under its own name;
// that engine offers options only if the message or the context forces it.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backend/convolution.hpp"
#include "crema/layer.hpp"
#include "crema/registry.hpp"
#include "kit/tuning.hpp"

namespace crema {

class ConvolutionLayer;

/// Adds a library and its engine. The primitives of a `preferred` library are tried first; without
/// tuning, the first primitive is taken.
void add_convolution_library(Registry& registry, std::unique_ptr<ConvolutionLibrary> library,
                             bool preferred = false);

/// All libraries, the preferred ones first.
const std::vector<std::unique_ptr<ConvolutionLibrary>>& convolution_libraries();

/// Adds the engine "tuned". Called before the libraries are added.
void register_convolution_engines(Registry& registry);

class ConvolutionEngine : public Engine {
 public:
  /// `library` null: the engine "tuned".
  explicit ConvolutionEngine(const ConvolutionLibrary* library) : library_(library) {}

  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string& why) override;
  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs top) override;
  void resume(Layer& layer, Blobs bottom, Blobs top) override;
  void forward(Layer& layer, Blobs bottom, Blobs top) override;
  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;
  size_t extra_bytes() const override;
  void plan_scratch(ScratchPlan& plan) const override;
  std::string detail() const override;

 private:
  struct Candidate {
    const ConvolutionLibrary* library;
    std::string implementation;
    bool gathered = false;  // for the gathered problem, see gathered.hpp

    std::string str() const {
      return library->name() + (gathered ? " gathered " : " ") + implementation;
    }
    /// Its name in the tuner: str(), and the revisions of the code that computes it.
    std::string key() const;
    std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                               ConvolutionPass pass) const;
  };
  struct Choice {
    Candidate candidate;
    double seconds = 0;
  };
  class Trial;

  std::string name() const;
  /// The problem of a pass, for the tuner.
  TunedProblem tuned(const ConvolutionProblem& problem, ConvolutionPass pass) const;
  std::vector<Candidate> candidates(const ConvolutionProblem& problem, ConvolutionPass pass,
                                    std::string& why) const;
  /// The choice among all candidates (kit/tuning.hpp). None if there is no candidate; `why` is then
  /// set to the reason.
  std::optional<Choice> choose(ConvolutionLayer& layer, const ConvolutionProblem& problem,
                               ConvolutionPass pass, Trial& trial, double time_limit,
                               std::string& why) const;
  /// Makes the primitive of a pass. `choice`: the key of a candidate in Option::choice, or "" if
  /// the pass was not measured for that option.
  std::unique_ptr<ConvolutionPrimitive> take(ConvolutionLayer& layer,
                                             const ConvolutionProblem& problem,
                                             ConvolutionPass pass, const std::string& choice);

  /// That of a pass of the problem; null if the net does not run it.
  std::unique_ptr<ConvolutionPrimitive>& primitive(ConvolutionPass pass) {
    return primitives_[static_cast<size_t>(pass)];
  }
  /// Runs pass `forward` or `backward_data` of the problem.
  void multiply(ConvolutionPass pass, ConvolutionLayer& layer, const Tensor& from, Tensor& to);

  const ConvolutionLibrary* library_;
  ConvolutionAlgorithm algorithm_ = ConvolutionAlgorithm::any;
  std::array<std::unique_ptr<ConvolutionPrimitive>, 3> primitives_;  // see primitive()
  std::string detail_;
  Tensor unwanted_bias_;  // (O), for primitives that always write dbias, if the bias needs none
};

}  // namespace crema
