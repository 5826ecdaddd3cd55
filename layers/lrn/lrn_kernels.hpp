// Local response normalization by Highway, f32. What the forward pass computed is computed again in
// backward: only x has to be kept.
#pragma once

#include <cstdint>

namespace crema {

/// y = x * scale^-beta, scale = k + weight * (sum of x^2 over `reach` neighbours on each side).
struct LRNCoefficients {
  int64_t reach = 2;
  float weight = 0, beta = 0.75F, k = 1;
};

// Floats of scratch memory that each thread keeps for the functions below: for those of forward
// passes, and for the gradients if `trains`.

/// Elements of a row that are taken through all channels at once.
inline constexpr int64_t kLRNRun = 256;
inline int64_t lrn_rows_scratch(int64_t channels, bool trains) {
  return trains ? channels * kLRNRun : 0;
}
/// Pixels whose blocks are read together: neighbours share cache lines.
inline constexpr int64_t kLRNPixels = 8;
inline int64_t lrn_pixels_scratch(int64_t reach, int64_t channels, bool trains) {
  return (2 * kLRNPixels + (trains ? 1 : 0)) * (channels + 2 * reach);
}
inline int64_t lrn_plane_scratch(int64_t reach, int64_t height, int64_t width, bool trains) {
  return (trains ? 2 : 1) * height * width + width + 2 * reach;
}

/// Across channels, memory (channels, inner): elements [begin, end) of all channels of one sample.
void lrn_rows(const LRNCoefficients& c, int64_t channels, int64_t inner, int64_t begin, int64_t end,
              const float* x, float* y);
void lrn_rows_gradient(const LRNCoefficients& c, int64_t channels, int64_t inner, int64_t begin,
                       int64_t end, const float* x, const float* dy, float* dx);

/// Across channels, memory (blocks, inner, block): pixels [begin, end) of one sample. channels_last
/// is one block of all channels.
void lrn_pixels(const LRNCoefficients& c, int64_t blocks, int64_t block, int64_t inner,
                int64_t begin, int64_t end, const float* x, float* y);
void lrn_pixels_gradient(const LRNCoefficients& c, int64_t blocks, int64_t block, int64_t inner,
                         int64_t begin, int64_t end, const float* x, const float* dy, float* dx);

/// Within one plane, (height, width); weight is that of one of (2 * reach + 1)^2 values.
void lrn_plane(const LRNCoefficients& c, int64_t height, int64_t width, const float* x, float* y);
void lrn_plane_gradient(const LRNCoefficients& c, int64_t height, int64_t width, const float* x,
                        const float* dy, float* dx);

}  // namespace crema
