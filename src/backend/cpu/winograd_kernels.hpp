// What winograd.cpp calls for each instruction set. Pointers are to f32; b is the block.
//
// Layouts: activations [n][channels / b][h][w][b]; transformed tiles [36][channels / b][tiles][b];
// transformed weights [36][outputs / b][inputs, padded to b][b]; plain weights (K, C, taps, taps),
// with 3 or 5 taps.
#pragma once

#include <cstdint>

namespace crema {

/// A plane of tiles over an image of h x w (h_tiles x w_tiles tiles an image). A tile is for
/// outputs x outputs results: its first row in the image is outputs * row - pad.
struct WinogradTiles {
  int64_t outputs;                       // 4 with 3 taps, 2 with 5
  int64_t blocks;                        // channel blocks of the activations
  int64_t first_block = 0, some_blocks;  // those that the transformed tiles hold
  int64_t h, w;                          // of the activations
  int64_t h_tiles, w_tiles;
  int64_t pad_h = 0, pad_w = 0;
  int64_t first = 0, count = 0;  // tiles of this batch: numbered over all images
  int64_t capacity;              // tiles that a batch has room for: the stride between blocks
};

struct WinogradKernels {
  int block;

  /// B^T d B of tiles [begin, end) of the batch.
  void (*input)(const WinogradTiles& tiles, const float* x, int64_t begin, int64_t end, float* v);
  /// A^T m A into y, plus bias (padded to blocks; may be null), plus what is there when `adds`,
  /// then the ReLU when `relu`.
  void (*output)(const WinogradTiles& tiles, const float* m, const float* bias, bool adds,
                 bool relu, float slope, int64_t begin, int64_t end, float* y);
  /// A dy A^T of tiles [begin, end), and the sum of dy of each tile as component 36.
  void (*output_gradient)(const WinogradTiles& tiles, const float* dy, int64_t begin, int64_t end,
                          float* dm);
  /// G g G^T for output blocks [begin, end). `turned`: the filters of backward data.
  void (*weights)(const float* w, int taps, int64_t outputs, int64_t inputs, bool turned,
                  int64_t begin, int64_t end, float* u);
  /// dw = G^T du G, or added to it, for output blocks [begin, end).
  void (*weights_gradient)(const float* du, int taps, int64_t outputs, int64_t inputs, bool add,
                           int64_t begin, int64_t end, float* dw);
  /// One component: m[out / b][tile][b] = sum over inputs of v[in / b][tile][b] u[out / b][in][b]
  /// for output blocks [begin, end); `tiles` is rounded up to row_step by the caller.
  void (*multiply)(int64_t tiles, int64_t capacity, int64_t in_blocks, int64_t begin, int64_t end,
                   const float* v, const float* u, float* m);
  /// One component: du[out / b][in][b] (+)= sum over tiles of v dm; output blocks [begin, end).
  void (*multiply_gradient)(int64_t tiles, int64_t capacity, int64_t in_blocks, int64_t begin,
                            int64_t end, const float* v, const float* dm, bool add, float* du);
  int row_step;  // multiply computes so many tiles at once
};

/// For the instructions that this processor has.
const WinogradKernels& winograd_kernels();

}  // namespace crema
