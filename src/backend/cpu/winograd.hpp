// Winograd's minimal filtering for convolutions of stride 1: F(4x4, 3x3) and F(2x2, 5x5). A tile of
// 4x4 outputs of a 3x3 filter takes 36 multiplications an input channel where the direct sum takes
// 144; one of 2x2 outputs of a 5x5 filter takes 36 where it takes 100 (A. Lavin, S. Gray, "Fast
// algorithms for convolutional neural networks", CVPR 2016, arXiv:1509.09308).
//
//   Y = A^T [ (G g G^T) * (B^T d B) ] A      d: 6x6 of the input, g: the filter, Y: the outputs
//
// Both interpolate at the points 0, 3/4, -3/4, 3/2, -3/2 and infinity, so B is the same; rows of G
// and A are powers of the points, as many as the filter has taps and the tile has outputs. With the
// usual points 0, 1, -1, 2, -2, errors are two to five times larger. In the transformed domain each
// of the 36 components is a matrix product over channels, for all tiles at once. Backward data is
// the same with filters turned and channels swapped; backward weights is the adjoint:
// dG = G^T [ (B^T d B)^T (A dY A^T) ] G, summed over tiles.
//
// All activations are f32 in Format::blocked8 (AVX2) or blocked16 (AVX-512), whichever `block()`
// says; weights and their gradients are plain (K, C / groups, taps, taps). Results differ from the
// direct sum by rounding, typically by 1e-6 to 3e-6 of the largest result.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/convolution.hpp"
#include "crema/tensor.hpp"

namespace crema {

struct WinogradKernels;  // winograd_kernels.hpp

struct WinogradProblem {
  int64_t n = 0, c = 0, h = 0, w = 0;  // input
  int64_t k = 0;                       // outputs
  int64_t pad_h = 0, pad_w = 0;        // 0 to taps - 1
  int taps = 3;                        // of the filter in each direction: 3 or 5
  int64_t groups = 1;                  // of c and of k; more than one: each fills whole blocks
  int64_t y_blocks = 0;  // of channels in memory from an image of y to the next; 0: k's
  /// Of a tile in each direction.
  int64_t tile_outputs() const { return 7 - taps; }
  int64_t out_h() const { return h + 2 * pad_h - (taps - 1); }
  int64_t out_w() const { return w + 2 * pad_w - (taps - 1); }
};

class Winograd {
 public:
  /// The widest channel block that this processor has kernels for: 16, 8, or 0 for none.
  static int block();

  /// Error when block() is 0 or the problem is not one (no output, other taps, too large a pad,
  /// groups that do not fill blocks).
  explicit Winograd(const WinogradProblem& problem);

  /// y (N, K, OH, OW) = x (N, C, H, W) conv w + bias; bias may be null. With `adds`, what y
  /// holds is added. With `relu`, negative results are then multiplied by `slope`.
  void forward(const float* x, const ConvolutionWeights& w, const float* bias, bool adds, bool relu,
               float slope, float* y);
  /// dx = gradient of x, overwritten.
  void backward_data(const float* dy, const ConvolutionWeights& w, float* dx);
  /// dw = gradient of w, or added to it; db likewise (null: not wanted).
  void backward_weights(const float* x, const float* dy, bool add_weights, float* dw, bool add_bias,
                        float* db);

  /// Bytes of the sums that backward_weights() keeps for the gradient of the bias.
  size_t bias_bytes() const { return bias_sums_.capacity() * sizeof(double); }
  /// Bytes of the transformed weights.
  size_t transformed_bytes() const;
  /// Says what memory of the calling thread a pass needs. `training`: the weights have no storage.
  void plan_scratch(ScratchPlan& plan, ConvolutionPass pass, bool training) const;

 private:
  struct Pass;
  struct Sweep;

  /// The pass of one group.
  Pass pass_of(ConvolutionPass pass) const;
  void convolve(const Sweep& sweep);
  void convolve_by_tiles(const Sweep& sweep, int64_t capacity);
  /// Plain weights of one group.
  int64_t group_weights() const;
  /// The gradient of a group's transformed weights; sets bias_sums_.
  const float* sum_by_tiles(const float* x, const float* dy, bool wants_bias, int64_t capacity);
  const float* sum_by_components(const float* x, const float* dy, bool wants_bias);
  /// [group][36][outputs / b][inputs, padded][b]
  const float* transformed(DerivedWeights& kept, const ConvolutionWeights& w, bool turned);

  WinogradProblem problem_;
  const WinogradKernels* kernels_;
  DerivedWeights forward_, turned_;
  std::vector<float> bias_;  // with zeros up to whole blocks
  std::vector<double> bias_sums_;
};

}  // namespace crema
