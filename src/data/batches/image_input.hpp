// Image files as the input of a net: decoded, resized, cropped, and then through Transform, the
// same mean and scale as those of data layers.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/image_decoder.hpp"
#include "data/transform/transform.hpp"
#include "proto/common.pb.h"

namespace crema {

/// What of an image the net sees.
enum class ImageCrop : uint8_t {
  whole,   // all of it, resized to the input
  center,  // the centre of the resized image
  ten,     // its corners and its centre, and each of them mirrored: ten samples
};

struct ImageInputOptions {
  Shape sample;  // (C, H, W) of the net's input; C is 1 (gray) or 3
  ImageCrop crop = ImageCrop::whole;
  ImageSize resize = {};  // before center and ten; none: the image's own size
  /// How images are resized, exactly; none: averages where they shrink, which leaves nothing of
  /// them out, else bilinear.
  std::optional<Interpolation> interpolation = {};
  /// Which of red, green and blue each channel of the input is; data layers give blue first.
  std::array<int, 3> channels = {2, 1, 0};
  /// mean_file or mean_value, in the input's channels, and scale; and resize_param, which goes
  /// before `resize`.
  TransformationParameter transform;
};

/// One thread at a time.
class ImageInput {
 public:
  /// Reads the mean file. Error for an input that is no image.
  explicit ImageInput(const ImageInputOptions& options);

  /// Samples of an image: 1 or 10.
  int64_t samples() const;
  /// Writes (samples, C, H, W), and returns the size of the file's image, upright. Error, naming
  /// the file, if it is no image or too small.
  ImageSize read(const std::string& path, float* out);
  /// The same of a file in memory; `name` is for messages.
  ImageSize read(std::string_view file, const std::string& name, float* out);
  /// What the net's input lacks of the image read last.
  const ImageLoss& loss() const { return decoder_.loss(); }

 private:
  Image load(std::string_view file);
  std::vector<Placement> placements(const Image& image) const;

  ImageInputOptions options_;
  std::unique_ptr<Transform> transform_;
  ImageDecoder decoder_;
  std::string bytes_;
  ImageSize opened_;  // of the file
  std::vector<uint8_t> swapped_, cut_;
};

/// The image files of a folder and of those in it, those with an extension such as .jpg or .png, in
/// the order of their paths. Links to folders are followed, but not to one that they are in. Hidden
/// files and folders (".name") are passed over. Error if there are none.
std::vector<std::string> images_in_folder(const std::string& folder);

/// The mean of each channel of a mean image (BlobProto).
std::vector<float> channel_means(const std::string& mean_file);
/// (C, H, W) of a mean image.
Shape mean_image_shape(const std::string& mean_file);

}  // namespace crema
