// Rows of pixels on their way into a net: interleaved channels become rows, bytes become floats. By
// Highway.
#pragma once

#include <cstdint>

namespace crema {

/// in (n, 3) -> blue, green, red (n) each.
void split_pixels(const uint8_t* in, int64_t n, uint8_t* blue, uint8_t* green, uint8_t* red);

/// What is subtracted from a row of pixels, and what then multiplies it.
struct PixelScaling {
  const float* means = nullptr;  // one a pixel of `in`; else `mean`
  float mean = 0;
  float scale = 1;
};

/// out[i] = (in[i] - mean) * scale, or out[n - 1 - i] where `mirrored`. Rounded as scalar f32 is.
void scale_pixels(const uint8_t* in, int64_t n, const PixelScaling& scaling, bool mirrored,
                  float* out);

}  // namespace crema
