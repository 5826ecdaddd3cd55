#include "data/image_codec.hpp"

#include <algorithm>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>

#include "crema/error.hpp"
#include "data/jpeg.hpp"
#include "model/file_kind.hpp"

namespace crema {
namespace {

int flags_of(ColorMode mode) {
  if (mode == ColorMode::color) return cv::IMREAD_COLOR;
  if (mode == ColorMode::gray) return cv::IMREAD_GRAYSCALE;
  return cv::IMREAD_UNCHANGED;
}

cv::Mat decoded(std::string_view file, int flags) {
  const cv::Mat bytes(1, static_cast<int>(file.size()), CV_8UC1, const_cast<char*>(file.data()));
  return cv::imdecode(bytes, flags);
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

void resized(cv::Mat& image, cv::Mat& scratch, int height, int width, int interpolation) {
  if (image.rows == height && image.cols == width) return;
  cv::resize(image, scratch, cv::Size(width, height), 0, 0, interpolation);
  std::swap(image, scratch);
}

}  // namespace

struct ImageCodec::State {
  cv::Mat image, scratch;

  Image view() const {
    return {.channels = image.channels(),
            .height = image.rows,
            .width = image.cols,
            .interleaved = true,
            .bytes = image.ptr<uint8_t>()};
  }
};

ImageCodec::ImageCodec() : state_(std::make_unique<State>()) {}
ImageCodec::~ImageCodec() = default;

Image ImageCodec::decode(std::string_view file, ColorMode mode) {
  if (file.empty()) throw Error("the image file is empty");
  if (file.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    throw Error("the image file has ", file.size(), " bytes, too many for an image");
  // OpenCV knows more kinds. It writes temporary files for some of them, prints what is wrong with
  // others, and asks GDAL about the rest.
  if (image_type(file).empty())
    throw Error("the image cannot be decoded: it begins as none of JPEG, PNG, BMP, TIFF, WebP, ",
                "JPEG 2000 and PNM; convert it to one of them");
  const bool lacks_end = lacks_jpeg_end(file);
  try {
    const int flags = flags_of(mode);
    state_->image = lacks_end ? decoded_without_end(file, flags) : decoded(file, flags);
  } catch (const cv::Exception& e) {
    throw Error("the image cannot be decoded: ", e.err);
  }
  if (state_->image.empty())
    throw Error("the image cannot be decoded: ",
                lacks_end ? "the JPEG file is cut off" : "it is damaged");
  if (state_->image.depth() != CV_8U)
    throw Error(
        "the image has more than 8 bits a channel; decode it with force_color or force_gray, or "
        "convert it to 8 bits");
  return state_->view();
}

Image ImageCodec::resize(int64_t height, int64_t width) {
  constexpr int64_t kMost = std::numeric_limits<int16_t>::max();  // OpenCV's own limit
  if (height < 1 || width < 1 || height > kMost || width > kMost)
    throw Error("cannot resize an image to ", height, " x ", width, "; sides are 1 to ", kMost);
  State& s = *state_;
  const int h = static_cast<int>(height), w = static_cast<int>(width);
  try {
    resized(s.image, s.scratch, std::min(s.image.rows, h), std::min(s.image.cols, w),
            cv::INTER_AREA);
    resized(s.image, s.scratch, h, w, cv::INTER_LINEAR);
  } catch (const cv::Exception& e) {
    throw Error("cannot resize an image to ", height, " x ", width, ": ", e.err);
  }
  return s.view();
}

std::string ImageCodec::encode(const Image& image, const std::string& extension) {
  const cv::Mat pixels(static_cast<int>(image.height), static_cast<int>(image.width),
                       CV_8UC(static_cast<int>(image.channels)), const_cast<uint8_t*>(image.bytes));
  std::vector<uint8_t> bytes;
  try {
    cv::imencode("." + extension, pixels, bytes);
  } catch (const cv::Exception& e) {
    throw Error("cannot encode an image as '", extension, "': ", e.err,
                "; use an extension such as jpg or png");
  }
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace crema
