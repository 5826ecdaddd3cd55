// Scaled dot product attention by cuDNN's fused kernels, in bf16 and f16: its passes as graphs that
// the library recognizes as a whole, the engines that it has for them, and running one.
//
//   s = scale q k^T, w = softmax(s) over the keys that count, y = w v    for each sample and head
//
// No weights are in memory. Forward keeps the logarithm of each query's sum of exponentials, one
// f32, and backward computes the weights again. The library's own dropout draws other numbers than
// ours, and keys are masked from the end of a sample alone, so neither dropout nor other masks are
// here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/dnn_plans.hpp"

namespace crema {

/// q (batch, queries, heads, depth), k (batch, keys, heads, depth), v (batch, keys, heads,
/// value_depth) and y (batch, queries, heads, value_depth), dense.
struct DnnAttentionProblem {
  DType dtype = DType::bf16;  // of all of these and their gradients
  int64_t batch = 0, heads = 1, queries = 0, keys = 0, depth = 0, value_depth = 0;
  bool causal = false;       // key j counts for queries from j on
  bool has_lengths = false;  // of the keys of each sample: at least 1
  bool trains = false;       // forward writes log_sums
};

enum class DnnAttentionPass : uint8_t { forward, backward };

/// Why the library is not asked; "" if it may be.
std::string dnn_attention_refusal(const DnnAttentionProblem& problem);

/// What that version of the library computes wrongly, or has not got, of a pass that its heuristics
/// may offer; "" if nothing.
std::string dnn_attention_fault(size_t version, const DnnAttentionProblem& problem,
                                DnnAttentionPass pass);

/// A pass as a graph. `direct`: the gradient of q is one product over all keys, whose sums have one
/// order. Otherwise blocks of keys are added up in f32 as they are done.
DnnGraph dnn_attention_graph(const DnnAttentionProblem& problem, DnnAttentionPass pass,
                             bool direct = false);

/// A pass, and the engine for it.
struct DnnAttentionWay {
  DnnAttentionPass pass = DnnAttentionPass::forward;
  bool direct = false;
  std::shared_ptr<const DnnCandidate> candidate = nullptr;

  /// Such as "forward engine 8 k24=1", the same in each process.
  std::string str() const;
};

/// Engines that can compute a pass, the likely fastest first. Empty if there is none; `why` then
/// says why. `deterministic`: all sums have one order. `plans` outlives them.
std::vector<DnnAttentionWay> dnn_attention_ways(DnnPlans& plans, const DnnAttentionProblem& problem,
                                                DnnAttentionPass pass, bool deterministic,
                                                std::string& why);

/// Memory of the device. Lengths are (batch) i32 each, null without has_lengths; those of the
/// queries are all of them.
struct DnnAttentionTensors {
  const void *q, *k, *v;
  void* y;
  float* log_sums;  // (batch, heads, queries); null where forward does not train
  const int32_t *query_lengths, *key_lengths;
  // Of backward. None may be null.
  const void* dy;
  void *dq, *dk, *dv;
};

class DnnAttention {
 public:
  /// Error if the library cannot make the plan.
  DnnAttention(const DnnAttentionProblem& problem, const DnnAttentionWay& way);

  const DnnAttentionWay& way() const { return way_; }
  size_t scratch_bytes() const { return own_bytes_ + plan_->workspace(); }
  void run(CudaBackend& backend, const DnnAttentionTensors& tensors, float scale, void* scratch);

 private:
  DnnAttentionProblem problem_;
  DnnAttentionWay way_;
  std::shared_ptr<const DnnPlan> plan_;
  size_t sums_bytes_ = 0, own_bytes_ = 0;    // in front of the plan's
  float scale_ = 1, one_ = 1, nothing_ = 0;  // numbers of the graph
  DnnRun run_;
};

}  // namespace crema
