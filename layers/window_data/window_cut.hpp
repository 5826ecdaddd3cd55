// Where the pixels of a window come from and go to.
#pragma once

#include <cstdint>

#include "layers/window_data/window_file.hpp"

namespace crema {

struct CutRules {
  int64_t crop = 0;         // side of the sample, in pixels
  int64_t context_pad = 0;  // pixels of context around the window, in the sample
  bool square = false;      // the tightest square around the window, instead of the window
};

/// A rectangle of the image, and the rectangle of the sample that it is warped to. What is left of
/// the sample is padding.
struct WindowCut {
  int64_t left = 0, top = 0, width = 0, height = 0;              // in the image
  int64_t to_left = 0, to_top = 0, to_width = 0, to_height = 0;  // in the sample
};

/// The published cut: the window grows around its centre so that it has `context_pad` pixels of
/// context on each side once it is warped to the sample. What lies outside of the image is padding,
/// which is mirrored with the sample.
WindowCut cut_of(const Window& window, const WindowImage& image, const CutRules& rules,
                 bool mirrored);

}  // namespace crema
