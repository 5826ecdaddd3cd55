// Steps of augmentation over the pixels of an image, 8 bits a channel, interleaved. What is random
// in a step was drawn before, so a list of steps says all that happens to a sample.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/images/geometry.hpp"
#include "data/images/image.hpp"

namespace crema {

/// Values of a pixel: none for 0, one for all channels, or one a channel.
using Fill = std::vector<float>;

/// Modes of OpenCV's resize().
enum class Interpolation : uint8_t { linear, area, nearest, cubic, lanczos4 };

/// The mode of a name, in any case: "linear", "area", "nearest", "cubic", "lanczos4"; none for "".
/// Error for others, which `setting` is given as.
std::optional<Interpolation> interpolation_named(const std::string& name, const char* setting);

/// To another size. With `exact`, by the mode alone, as OpenCV does it. Else, where it shrinks,
/// each new pixel is the average of what it covers, but for `nearest`.
struct Resize {
  ImageSize size;
  Interpolation interpolation = Interpolation::linear;
  bool exact = false;
};
/// By the mode, exactly, if one is named.
inline Resize resize_to(ImageSize size, std::optional<Interpolation> named) {
  return {.size = size,
          .interpolation = named.value_or(Interpolation::linear),
          .exact = named.has_value()};
}
/// A rectangle of the image.
struct Cut {
  ImageWindow window;
};
/// A rectangle that has the image in it, and something else around it.
struct Pad {
  enum class Mode : uint8_t { constant, mirrored, nearest };
  ImageWindow window;  // top and left are 0 or less
  Mode mode = Mode::constant;
  Fill fill = {};
};
/// Counter-clockwise about the centre, bilinear.
struct Rotate {
  double degrees = 0;
  Fill fill = {};
};
/// value * factor + offset: contrast and brightness.
struct Linear {
  double factor = 1, offset = 0;
};
/// Multiplies the saturation (hue, saturation, value) of a colour image.
struct Saturate {
  double factor = 1;
};
/// Turns the hue of a colour image, 180 for the full circle.
struct TurnHue {
  double by = 0;
};
/// Channel c becomes what channel order[c] was; three channels.
struct Permute {
  std::array<int, 3> order{0, 1, 2};
};
/// Gaussian, mirrored at the edges.
struct Blur {
  double sigma = 1;
  int size = 0;  // of the kernel; 0: as the standard deviation needs
};
/// Filters without settings. Equalising works on the brightness of a colour image.
enum class Filter : uint8_t {
  gray,
  equalize,
  equalize_locally,
  erode,
  posterize,
  invert,
  to_hsv,
  to_lab
};
/// Through a JPEG file of this quality, 0 to 100.
struct Compress {
  int quality = 90;
};
/// Pixels at random places.
struct SaltPepper {
  int64_t count = 0;
  Fill value = {};
  uint64_t seed = 0;
};

using ImageStep = std::variant<Resize, Cut, Pad, Rotate, Linear, Saturate, TurnHue, Permute, Blur,
                               Filter, Compress, SaltPepper>;

/// The same for what lies on the pixels; steps that move none change nothing.
void apply(const ImageStep& step, Geometry& geometry);

/// The same image of an image of this size by fewer pixels, where the last of the steps is a cut:
/// it moves before the steps that change each pixel by itself, and before padding with a constant,
/// unless it cuts nothing but padding.
void cut_first(ImageSize size, std::vector<ImageStep>& steps);

/// What has to be decoded for a list of steps.
struct DecodePlan {
  ImageWindow window;  // in the image of eighths / 8 of the size
  int eighths = 8;
};
/// Takes a cut off the front of the steps: only that part is decoded. A resize to less than half is
/// preceded by decoding at a fraction of the size, so that a half or more remains to be averaged;
/// the cut is then rounded to pixels of that size. Only if the file is `scalable`.
DecodePlan plan_decoding(ImageSize size, bool scalable, std::vector<ImageStep>& steps);

/// Applies steps with OpenCV; keeps its memory for the next image; one a thread. In a build without
/// OpenCV every step is an Error.
class ImageEditor {
 public:
  ImageEditor();
  ~ImageEditor();
  ImageEditor(const ImageEditor&) = delete;
  ImageEditor& operator=(const ImageEditor&) = delete;

  /// The window of the image (of at least that window) after the steps. The view holds until the
  /// next call. Error for a step that needs other channels, and for floats and another step than
  /// Resize and Cut.
  Image apply(const Image& image, const ImageWindow& window, const std::vector<ImageStep>& steps);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace crema
