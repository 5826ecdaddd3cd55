// What weights of a run see in an image: classes, boxes or a mask.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crema/context.hpp"
#include "monitor/report/run_files.hpp"

namespace crema {

struct SeenImage {
  int64_t width = 0, height = 0;  // of the upright picture
  struct One {
    int64_t label = 0;
    std::string name;  // its number where nobody names it
    double score = 0;  // of a mask: the share of pixels
    // Of a box, in pixels of the picture.
    double left = 0, top = 0, right = 0, bottom = 0;
  };
  enum class Kind : uint8_t { classes, boxes, mask };
  Kind kind = Kind::classes;
  std::vector<One> found;   // the best first
  std::string mask;         // PNG, a colour for each class
  double milliseconds = 0;  // of the pass
  std::vector<std::string> notes;
};

/// One thread at a time.
class ImageViewer {
 public:
  explicit ImageViewer(Context& context);
  ~ImageViewer();
  ImageViewer(const ImageViewer&) = delete;
  ImageViewer& operator=(const ImageViewer&) = delete;

  /// Runs the net for inference that follows from the run's net for tests, or from its training
  /// net, with the weights. The image becomes what those of the training became, as the weights
  /// say, else as the run's data layer says. The net stays made for the next image. Error for a
  /// file that is no PNG, JPEG, GIF, BMP or WebP, or of more than 50 million pixels, for scores
  /// that are NaN, and for a net that takes no image or whose outputs are none of classes, boxes or
  /// pixels.
  SeenImage see(const RunFiles& run, const std::string& weights, std::string_view image);

 private:
  struct Loaded;

  Context& context_;
  std::unique_ptr<Loaded> loaded_;
};

/// As an object of JSON.
std::string json_of(const SeenImage& seen);

}  // namespace crema
