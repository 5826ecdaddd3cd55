// Convolutions by cuDNN's graph API, channels-last, in 16 bits or in TF32: the ways to compute a
// pass of one, and running it in one of them.
//
// A way is one of the library's plans, and what we do beside it:
//   fused    bias, sum and ReLU in the plan itself; without it, finish_rows() behind it. Of the
//            gradient of x: the gradient of the ReLU in front of the convolution
//   deep     strides and channels rearranged for it (backend/depth_map.hpp): for images, whose few
//            channels fill no row of a tensor core
//   f32, ... the type of the weights' gradient, which our own pass adds to that of the parameter.
//            In 16 bits, where the library has it in no other, it is rounded before
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/convolution_passes.hpp"
#include "backend/cuda/dnn_plans.hpp"

namespace crema {

/// y = relu(w x + bias + other), or, transposed, x = relu(the transposed product of w and y +
/// bias). Vectors have one entry a spatial axis, none to three of them.
struct DnnConvolutionProblem {
  DType dtype = DType::bf16;  // of x, y and the weights that the library reads: 16 bits, or f32
  /// x is contiguous f32, as inputs of nets are, where it differs from channels-last `dtype`.
  bool contiguous_source = false;
  int64_t images = 0, channels = 0, outputs = 0, groups = 1;
  std::vector<int64_t> input, output, kernel, stride, pad, dilation;
  bool transposed = false;
  // What follows the product of the layer's forward pass.
  bool bias = false, adds = false;
  std::optional<float> relu;
  /// The gradient of x is not asked for, so that x may be rearranged.
  bool ends_here = false;
  /// x, of a convolution that is not transposed, is what a ReLU of this slope gave: its gradient is
  /// to be that of what is before the ReLU.
  std::optional<float> undoes = std::nullopt;
  /// y, of a convolution that is not transposed and adds nothing, is a range of rows of so many
  /// channels (core/row_ranges.hpp); 0: it is dense.
  int64_t y_row = 0;

  /// The pass whose result has bias, sum and ReLU.
  DnnPass forward() const { return transposed ? DnnPass::data : DnnPass::forward; }
  bool has_ends() const { return bias || adds || relu; }
  /// Whether anything follows the product of the pass.
  bool has_ends(DnnPass pass) const {
    return pass == forward() ? has_ends() : pass == DnnPass::data && undoes;
  }
  /// All but the images and the extents of x.
  std::string family() const;
  /// These.
  std::vector<int64_t> extents() const;
  /// The result of forward(), as rows of channels.
  ChannelRows result() const;
  /// x, likewise.
  ChannelRows source() const;
};

/// Engines that are refused.
struct DnnRules {
  bool deterministic = true;
  size_t workspace_limit = size_t{1} << 30;
};

struct DnnWay {
  DnnPass pass = DnnPass::forward;
  bool deep = false, fused = false;
  DType gradient = DType::f32;
  std::shared_ptr<const DnnCandidate> candidate = nullptr;

  /// Its name in the tuner and in summaries, the same in each process, with the revision of our own
  /// passes where it may have one.
  std::string str() const;
  /// What stands before the engine in it.
  std::string form() const;
};

/// Where ways are looked for, in this order as long as none of them can run.
enum class DnnSearch : uint8_t {
  usual,
  rounded_gradients,  // weights' gradients in 16 bits, where those in f32 cannot run
  last_resort,        // the library's slow engines, for all ways
};

/// The ways to compute a pass, the likely fastest first. Empty if there is none; `why` then says
/// why. `plans` outlives them.
std::vector<DnnWay> dnn_ways(DnnPlans& plans, const DnnConvolutionProblem& problem, DnnPass pass,
                             const DnnRules& rules, std::string& why,
                             DnnSearch search = DnnSearch::usual);
/// The way of that name, DnnWay::str(), for which no heuristics are asked. None if there is none.
std::optional<DnnWay> dnn_way(DnnPlans& plans, const DnnConvolutionProblem& problem, DnnPass pass,
                              const DnnRules& rules, const std::string& name, std::string& why);
/// Whether the plan of a way can be made, and all its scratch memory is within the limit.
bool dnn_can_run(const DnnConvolutionProblem& problem, const DnnWay& way, const DnnRules& rules,
                 std::string& why);

/// The device's order of the weights that these ways read.
DepthMap dnn_weights_map(const DnnConvolutionProblem& problem, bool deep);

struct DnnBias {
  const float* values = nullptr;  // null: none
  const void* fused = nullptr;    // in the problem's type, zeros if there is none; of fused ways
};

class DnnConvolution {
 public:
  /// `way` can be made (DnnCandidate::plan()).
  DnnConvolution(const DnnConvolutionProblem& problem, const DnnWay& way);

  const DnnWay& way() const { return way_; }
  /// What a pass needs as `scratch`.
  size_t scratch_bytes() const;

  /// y = w x or x = the transposed product, with what follows: of the problem's forward(), with
  /// `other` as the summand, or the gradient of the ReLU that gave `other`. `weights`: a copy
  /// (backend/parameter_copies.hpp) with dnn_weights_map(). `to` is no other operand.
  void multiply(CudaBackend& backend, const void* from, const void* weights, const DnnBias& bias,
                const void* other, void* to, void* scratch);
  /// dw = beta * dw + the gradient of the weights, in their own order.
  void add_weights_gradient(CudaBackend& backend, const void* x, const void* dy, float beta,
                            float* dw, void* scratch);

 private:
  const void* deepened(CudaBackend& backend, const void* x, void* scratch) const;
  bool is_forward() const { return way_.pass == problem_.forward(); }

  DnnConvolutionProblem problem_;
  DnnWay way_;
  std::shared_ptr<const DnnPlan> plan_;
  DnnRun run_;
  DepthMap map_;
  size_t pixel_bytes_ = 0, gradient_bytes_ = 0;  // in the scratch memory, in front of the plan's
};

/// Seconds of one run, on device memory of its own. Infinite if the way cannot run, or the memory
/// of the device does not suffice now. Error where the device is of no use any more.
double dnn_measure(CudaBackend& backend, const DnnConvolutionProblem& problem, const DnnWay& way,
                   const DnnRules& rules);

}  // namespace crema
