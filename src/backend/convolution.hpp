// The interface of convolution libraries (oneDNN, and the kernels in backend/cpu). A problem
// describes a convolution. A library makes a primitive for one pass of a problem, in f32. The
// engine of the layer measures the primitives and chooses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/derived_weights.hpp"
#include "crema/error.hpp"
#include "crema/scratch_plan.hpp"
#include "crema/shape.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// y[n, o, p] = relu(y0[n, o, p] + bias[o] + sum over c and t of
///                  w[o, c, t] * x[n, c, p * stride - pad + t * dilation])
///
/// kernel, stride, pad and dilation have one entry for each spatial axis.
struct ConvolutionProblem {
  Shape source;  // (N, I, spatial...)
  Shape target;  // (N, O, spatial...)
  std::vector<int64_t> kernel, stride, pad, dilation;
  int64_t groups = 1;
  bool bias = true;
  Format source_format = Format::contiguous;
  Format target_format = Format::contiguous;
  /// y contains a summand, y0 above, before forward: the shortcut of a residual block.
  bool adds = false;
  /// If set, forward applies a ReLU with this slope for negative values to y.
  std::optional<float> relu = std::nullopt;
  /// The weights change between passes, and have no storage.
  bool training = true;
  /// Elements from an image of the target to the next, of a target whose images are ranges of those
  /// of a wider tensor (core/row_ranges.hpp); 0: they lie one behind the other. Not channels-last.
  int64_t target_image = 0;

  /// (O, I / groups, kernel...)
  Shape weights() const;
  /// Number of multiply-adds of one pass.
  double multiply_adds() const;
  /// The name of the problem for the tuner: family() and the spatial extents of the source.
  std::string key() const;
  /// The name of all problems that differ in the spatial extents of the source only.
  std::string family() const;
};

enum class ConvolutionPass : uint8_t { forward, backward_data, backward_weights };
std::string_view to_string(ConvolutionPass pass);

/// Winograd's algorithm needs fewer multiplications and has larger rounding errors.
enum class ConvolutionAlgorithm : uint8_t { any, direct, winograd };

/// One pass of one problem by one implementation. One thread at a time may use a primitive. x, y
/// and their gradients have the formats of the problem. Weights are (O, I / groups, kernel...) and
/// bias is (O), both contiguous.
///
/// Most implementations reorder the weights. If the weights have no storage, because they change
/// between passes, the reordered copy is in scratch memory that the primitives of a thread share.
class ConvolutionPrimitive {
 public:
  virtual ~ConvolutionPrimitive() = default;

  /// Writes y, or adds to it if the problem `adds`. `bias` is null if the problem has no bias.
  virtual void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
                       float* y);
  /// Writes dx.
  virtual void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx);
  /// Writes dweights and dbias, or adds to them. `dbias` is null if the problem has no bias.
  virtual void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                                bool add_bias, float* dbias);
  /// Bytes that the primitive holds, with what it derives from the weights.
  virtual size_t kept_bytes() const { return 0; }
  /// Says what memory of threads a pass needs beside that.
  virtual void plan_scratch(ScratchPlan& /*plan*/) const {}
};

class ConvolutionLibrary {
 public:
  virtual ~ConvolutionLibrary() = default;

  /// The name of its engine, such as "onednn".
  virtual std::string name() const = 0;
  /// The revision of its primitives, which changes with everything that may change their speed. The
  /// tuner does not use times of another revision.
  virtual std::string revision() const = 0;
  /// The names of its implementations of a pass; the one that is probably fastest comes first.
  /// Empty if there is none; `why` is then set to the reason.
  virtual std::vector<std::string> implementations(const ConvolutionProblem& problem,
                                                   ConvolutionPass pass,
                                                   ConvolutionAlgorithm algorithm,
                                                   std::string& why) const = 0;
  /// Makes a primitive. `implementation` is a result of implementations().
  virtual std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                                     ConvolutionPass pass,
                                                     const std::string& implementation) const = 0;
};

}  // namespace crema
