// What a convolution library computes: one pass of one problem, in f32. Libraries (oneDNN, our own
// kernels) make primitives for it; layers choose among them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crema/error.hpp"
#include "crema/scratch_plan.hpp"
#include "crema/shape.hpp"
#include "crema/tensor.hpp"

namespace crema {

/// y[n, o, p] = relu(y0[n, o, p] + bias[o] + sum over c, t of w[o, c, t] * x[n, c, p * stride - pad
/// + t * dilation]). One entry a spatial axis in kernel, stride, pad and dilation.
struct ConvolutionProblem {
  Shape source;  // (N, I, spatial...)
  Shape target;  // (N, O, spatial...)
  std::vector<int64_t> kernel, stride, pad, dilation;
  int64_t groups = 1;
  bool bias = true;
  Format source_format = Format::contiguous;
  Format target_format = Format::contiguous;
  /// y holds a summand, y0 above, when forward begins: the shortcut of a residual block.
  bool adds = false;
  /// Forward applies ReLU with this slope for negative values to the result.
  std::optional<float> relu = std::nullopt;
  /// Weights change from pass to pass.
  bool training = true;

  /// (O, I / groups, kernel...)
  Shape weights() const;
  /// Multiply-adds of one pass.
  double multiply_adds() const;
  /// Names the problem, formats included: family(), and the extents of the source's spatial axes.
  std::string key() const;
  /// What problems have in common that differ in these extents alone: the start of their keys.
  std::string family() const;
};

enum class ConvolutionPass : uint8_t { forward, backward_data, backward_weights };
std::string_view to_string(ConvolutionPass pass);

/// Winograd's algorithm multiplies less, and rounds a little more.
enum class ConvolutionAlgorithm : uint8_t { any, direct, winograd };

/// One pass by one implementation, which serves one thread at a time. Tensors lie in the problem's
/// formats; weights and bias plainly, as (O, I / groups, kernel...) and (O).
///
/// Implementations want the weights in layouts of their own and reorder them on the way. Where
/// weights change between passes, as in training, the reordered copy lies in memory that all
/// primitives of the thread share; where they don't, it is kept, and made again only when
/// `version`, the weights' Memory::version(), has moved.
class ConvolutionPrimitive {
 public:
  virtual ~ConvolutionPrimitive() = default;

  /// Writes y, or adds to it where the problem `adds`. `bias` is null where the problem has none.
  virtual void forward(const float* x, const float* weights, uint64_t version, const float* bias,
                       float* y);
  /// Writes dx.
  virtual void backward_data(const float* dy, const float* weights, uint64_t version, float* dx);
  /// Writes dweights and dbias (null where the problem has none), or adds to them.
  virtual void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                                bool add_bias, float* dbias);
  /// Bytes kept beside the tensors.
  virtual size_t kept_bytes() const { return 0; }
  /// Says what memory of threads a pass needs beside that.
  virtual void plan_scratch(ScratchPlan& /*plan*/) const {}
};

/// Makes primitives.
class ConvolutionLibrary {
 public:
  virtual ~ConvolutionLibrary() = default;

  /// How engines name it: "onednn".
  virtual std::string name() const = 0;
  /// Changes with whatever may change the speed of its primitives: times of another revision are
  /// not used.
  virtual std::string revision() const = 0;
  /// Names of its implementations for a pass, the likely fastest first. Empty: there is none, and
  /// `why` says why.
  virtual std::vector<std::string> implementations(const ConvolutionProblem& problem,
                                                   ConvolutionPass pass,
                                                   ConvolutionAlgorithm algorithm,
                                                   std::string& why) const = 0;
  /// `implementation` is one that implementations() gives.
  virtual std::unique_ptr<ConvolutionPrimitive> make(const ConvolutionProblem& problem,
                                                     ConvolutionPass pass,
                                                     const std::string& implementation) const = 0;
};

}  // namespace crema
