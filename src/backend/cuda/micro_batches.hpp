// Convolutions over a batch in pieces (backend/batch_pieces.hpp). Where `workspace_limit` keeps a
// plan for the whole batch out, the same engine may have enough for a part of it, and be faster all
// the same.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/dnn_convolution.hpp"

namespace crema {

/// A way to compute a piece, and so all of them.
struct MicroWay {
  DnnWay way;
  int64_t pieces = 1;

  /// Its name in the tuner and in summaries.
  std::string str() const;
};

/// The problem of a piece.
DnnConvolutionProblem problem_of_piece(const DnnConvolutionProblem& problem, int64_t pieces);
/// Ways in the fewest pieces for which an engine of `whole` fits the limit that was excluded by it.
/// Empty if there is none.
std::vector<MicroWay> micro_ways(DnnPlans& plans, const DnnConvolutionProblem& problem,
                                 DnnPass pass, const DnnRules& rules,
                                 const std::vector<DnnWay>& whole);
/// The way of that name, MicroWay::str(), as dnn_way(). None where the batch cannot be split so.
std::optional<MicroWay> micro_way(DnnPlans& plans, const DnnConvolutionProblem& problem,
                                  DnnPass pass, const DnnRules& rules, const std::string& name,
                                  std::string& why);
bool micro_can_run(const DnnConvolutionProblem& problem, const MicroWay& way, const DnnRules& rules,
                   std::string& why);
/// Seconds for the whole batch, as dnn_measure().
double micro_measure(CudaBackend& backend, const DnnConvolutionProblem& problem,
                     const MicroWay& way, const DnnRules& rules);

/// As DnnConvolution, over all pieces.
class MicroBatches {
 public:
  MicroBatches(const DnnConvolutionProblem& problem, const MicroWay& way);

  const DnnWay& way() const { return parts_.front().way(); }
  /// MicroWay::str().
  std::string str() const;
  size_t scratch_bytes() const { return parts_.front().scratch_bytes(); }
  void multiply(CudaBackend& backend, const void* from, const void* weights, const DnnBias& bias,
                const void* other, void* to, void* scratch);
  void add_weights_gradient(CudaBackend& backend, const void* x, const void* dy, float beta,
                            float* dw, void* scratch);

 private:
  size_t x_bytes_, y_bytes_;  // of a piece
  /// One for each piece: what it has told the library of its pointers stays.
  std::vector<DnnConvolution> parts_;
};

}  // namespace crema
