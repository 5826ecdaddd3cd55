#include "data/images/image_codec.hpp"

#include <algorithm>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>

#include "crema/error.hpp"
#include "data/images/image_header.hpp"
#include "data/images/jpeg.hpp"
#include "data/images/opencv/codecs.hpp"
#include "data/images/opencv/error_output.hpp"

namespace crema {
namespace {

/// Pixels as they lie in the file: which orientation it has is not OpenCV's to say, since its
/// versions differ in it.
int flags_of(ColorMode mode, Depth depth) {
  if (mode == ColorMode::as_stored) return cv::IMREAD_UNCHANGED;
  const int color = mode == ColorMode::color ? cv::IMREAD_COLOR : cv::IMREAD_GRAYSCALE;
  return color | cv::IMREAD_IGNORE_ORIENTATION | (depth == Depth::own ? cv::IMREAD_ANYDEPTH : 0);
}

/// The TIFF with an upright picture: OpenCV turns those that are not, but not all of them.
std::string made_upright(std::string_view file, const ImageHeader& header) {
  std::string upright(file);
  upright.replace(header.orientation_at, header.orientation_bytes, header.orientation_bytes, '\0');
  upright[header.orientation_at + (header.little_endian ? 0 : header.orientation_bytes - 1)] = 1;
  return upright;
}

cv::Mat decoded(std::string_view file, int flags) {
  const cv::Mat bytes(1, static_cast<int>(file.size()), CV_8UC1, const_cast<char*>(file.data()));
  return decode_by_opencv(bytes, flags);
}

/// Decodes a JPEG file that lacks its end marker; an empty image where data lack, too. OpenCV makes
/// up what lacks, from the bytes that follow. A picture that is all there is the same whatever
/// follows it.
cv::Mat decoded_without_end(std::string_view file, int flags) {
  constexpr char kEnd[] = "\xff\xd9";
  if (file.back() == kEnd[0]) file.remove_suffix(1);
  const std::string whole(file);
  cv::Mat image = decoded(whole + kEnd, flags);
  if (image.empty()) return image;
  const std::string longer = whole + std::string(64, '\x55');
  cv::Mat other = decoded(longer, flags);
  // Files of several scans need the marker. It is not there the first time, since bytes between the
  // data and the marker are worth a line on stderr to libjpeg.
  if (other.empty()) other = decoded(longer + kEnd, flags);
  const bool same = other.size() == image.size() && cv::norm(image, other, cv::NORM_INF) == 0;
  return same ? image : cv::Mat();
}

template <class T>
cv::Mat turned(const cv::Mat& image, const Orientation& orientation) {
  const ImageSize stored{image.rows, image.cols}, size = orientation.turned(stored);
  cv::Mat out(static_cast<int>(size.height), static_cast<int>(size.width), image.type());
  orientation.turn(image.ptr<T>(), stored, image.channels(), out.ptr<T>());
  return out;
}

}  // namespace

struct ImageCodec::State {
  cv::Mat image;

  Image view() const {
    const bool floats = image.depth() == CV_32F;
    return {.channels = image.channels(),
            .height = image.rows,
            .width = image.cols,
            .interleaved = true,
            .bytes = floats ? nullptr : image.ptr<uint8_t>(),
            .floats = floats ? image.ptr<float>() : nullptr};
  }
};

ImageCodec::ImageCodec() : state_(std::make_unique<State>()) {}
ImageCodec::~ImageCodec() = default;

Image ImageCodec::decode(std::string_view file, ColorMode mode, Depth depth) {
  if (file.empty()) throw Error("the image file is empty");
  if (file.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    throw Error("the image file has ", file.size(), " bytes, too many for an image");
  const ImageHeader header = read_image_header(file);
  const int flags = flags_of(mode, depth);
  const bool lacks_end = lacks_jpeg_end(file);
  cv::Mat& image = state_->image;
  std::string said;
  try {
    const ErrorOutput output;
    const bool turns = header.orientation_at > 0 && !header.orientation.is_upright();
    image = turns       ? decoded(made_upright(file, header), flags)
            : lacks_end ? decoded_without_end(file, flags)
                        : decoded(file, flags);
    said = output.text();
  } catch (const cv::Exception& e) {
    throw Error("the image cannot be decoded: ", e.err);
  }
  if (image.empty())
    throw Error(
        "the image cannot be decoded: ", lacks_end ? "the JPEG file is cut off" : "it is damaged",
        said.empty() ? "" : " (" + said + ")", "; get the file again, or leave it out");
  if (image.depth() != CV_8U) {
    if (depth == Depth::bytes) refuse_depth();
    image.convertTo(image, CV_32F);
  }
  if (!header.orientation.is_upright())
    image = image.depth() == CV_32F ? turned<float>(image, header.orientation)
                                    : turned<uint8_t>(image, header.orientation);
  return state_->view();
}

std::string ImageCodec::encode(const Image& image, const std::string& extension) {
  const int rows = static_cast<int>(image.height), columns = static_cast<int>(image.width);
  const int channels = static_cast<int>(image.channels);
  cv::Mat pixels;
  if (image.floats != nullptr) {
    if (extension != "png" && extension != "tif" && extension != "tiff")
      throw Error("the image has 16 bits a channel, and '", extension,
                  "' files have 8; use png or tif");
    cv::Mat(rows, columns, CV_32FC(channels), const_cast<float*>(image.floats))
        .convertTo(pixels, CV_16U);
  } else {
    pixels = cv::Mat(rows, columns, CV_8UC(channels), const_cast<uint8_t*>(image.bytes));
  }
  std::vector<uint8_t> bytes;
  try {
    const ErrorOutput output;
    encode_by_opencv("." + extension, pixels, bytes);
  } catch (const cv::Exception& e) {
    throw Error("cannot encode an image as '", extension, "': ", e.err,
                "; use an extension such as jpg or png");
  }
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace crema
