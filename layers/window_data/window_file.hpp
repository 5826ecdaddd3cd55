// The published window file of R-CNN:
//
//   # image_index
//   path
//   channels height width
//   num_windows
//   class overlap x1 y1 x2 y2        num_windows times
//
// and so on for each image. Numbers may be spread over lines as one likes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crema {

struct WindowImage {
  std::string path;
  int64_t height = 0, width = 0;
  int64_t line = 0;  // of the file, from 1
};

/// Both corners belong to the window.
struct Window {
  int32_t image = 0;  // index among the images
  int32_t label = 0;  // 0: background
  int32_t x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  int64_t line = 0;
};

struct WindowFile {
  std::vector<WindowImage> images;
  std::vector<Window> foreground, background;
};

struct WindowRules {
  std::string root;             // goes before every path
  float fg_threshold = 0;       // overlap from which a window is foreground
  float bg_threshold = 0;       // overlap below which it is background, with label 0
  bool must_be_inside = false;  // windows that reach beyond their image are Errors
};

/// Windows between the thresholds are left out. Error, with its line, for what is not in this
/// format; for an image that has not 3 channels; for a window of foreground with class 0; for one
/// without pixels, or without any in the image; and for a file without images.
WindowFile read_window_file(const std::string& path, const WindowRules& rules);

}  // namespace crema
