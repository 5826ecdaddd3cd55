// The engines of Convolution: for each pass (forward, and the two backward ones) and pair of memory
// formats, the fastest primitive of some libraries.
//
// Engine "tuned" chooses among all libraries. Besides, each library is an engine by its own name,
// which serves only where it is asked for by that name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/convolution.hpp"
#include "crema/layer.hpp"
#include "crema/registry.hpp"

namespace crema {

class ConvolutionLayer;

/// Makes a library known. `preferred`: its primitives are tried before those of the others, and
/// taken first where nothing is measured.
void add_convolution_library(Registry& registry, std::unique_ptr<ConvolutionLibrary> library,
                             bool preferred = false);

/// All of them, the preferred ones first.
const std::vector<std::unique_ptr<ConvolutionLibrary>>& convolution_libraries();

/// Called by the room, before libraries are added.
void register_convolution_engines(Registry& registry);

class ConvolutionEngine : public Engine {
 public:
  /// `library` null: all of them.
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
    bool gathered = false;  // computes the gathered problem, see gathered.hpp

    std::string str() const {
      return library->name() + (gathered ? " gathered " : " ") + implementation;
    }
    /// What its measured times are kept under: str(), and the revisions of what computes it.
    std::string timed() const;
    std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                               ConvolutionPass pass) const;
  };
  struct Choice {
    Candidate candidate;
    double seconds = 0;
  };
  class Trial;

  std::string name() const;
  /// What the tuner knows the pass by is this and the problem's key.
  std::string question(ConvolutionPass pass) const;
  std::vector<Candidate> candidates(const ConvolutionProblem& problem, ConvolutionPass pass,
                                    std::string& why) const;
  /// What was fastest for a problem that differs from this one in its spatial extents alone, and
  /// little, its seconds in proportion. None where there is none, or this one was measured too.
  std::optional<Choice> like(const Context& context, const ConvolutionProblem& problem,
                             ConvolutionPass pass, const std::vector<Candidate>& found) const;
  /// The decided candidate, else that of a problem like this, else the fastest, else the first.
  /// None: `why` says why. What takes far longer than `beat` seconds is measured but roughly.
  std::unique_ptr<Choice> choose(ConvolutionLayer& layer, const ConvolutionProblem& problem,
                                 ConvolutionPass pass, Trial& trial, double beat,
                                 std::string& why) const;
  /// `choice`: a candidate's name from an option, or "" where the pass was not measured for it.
  std::unique_ptr<ConvolutionPrimitive> take(ConvolutionLayer& layer,
                                             const ConvolutionProblem& problem,
                                             ConvolutionPass pass, const std::string& choice);

  const ConvolutionLibrary* library_;
  ConvolutionAlgorithm algorithm_ = ConvolutionAlgorithm::any;
  std::unique_ptr<ConvolutionPrimitive> forward_, backward_data_, backward_weights_;
  std::string detail_;
  size_t sums_diff_bytes_ = 0;
  Tensor unwanted_bias_;  // where a primitive must write a gradient that nobody wants
};

}  // namespace crema
