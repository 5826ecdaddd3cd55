#include "data/images/picture_marks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "crema/error.hpp"
#include "data/images/image_codec.hpp"

namespace crema {
namespace {

constexpr int kSmall = 256;  // pixels of the longer side of an image that is enlarged
constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;

const cv::Scalar& color_of(int kind) {
  static const std::array<cv::Scalar, 8> kColors = {
      cv::Scalar(60, 60, 230),  cv::Scalar(200, 110, 0), cv::Scalar(60, 150, 40),
      cv::Scalar(180, 40, 160), cv::Scalar(0, 120, 230), cv::Scalar(130, 110, 0),
      cv::Scalar(90, 40, 120),  cv::Scalar(150, 60, 60)};
  return kColors[static_cast<size_t>(kind % 8 + 8) % 8];
}

/// With '?' for each letter that the font lacks.
std::string drawn(const std::string& words) {
  std::string all;
  for (const char c : words) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0U) == 0x80U) continue;  // goes on with a letter
    all += byte >= 0x20 && byte < 0x7F ? c : '?';
  }
  return all;
}

/// The size of texts that suits a picture.
struct Writing {
  double scale;
  int thickness, height, margin;

  explicit Writing(cv::Size picture)
      : scale(std::clamp(std::min(picture.width, picture.height) / 900.0, 0.45, 1.6)),
        thickness(scale > 0.9 ? 2 : 1),
        height(static_cast<int>(std::lround(22 * scale))),
        margin(static_cast<int>(std::lround(7 * scale))) {}

  int line() const { return height + 2 * margin; }
  int width(const std::string& words) const {
    int below = 0;
    return cv::getTextSize(words, kFont, scale, thickness, &below).width + 2 * margin;
  }
  /// On a plate whose upper left corner is there.
  void write(cv::Mat& picture, const std::string& words, cv::Point corner,
             const cv::Scalar& plate) const {
    cv::rectangle(picture, cv::Rect(corner.x, corner.y, width(words), line()), plate, cv::FILLED);
    cv::putText(picture, words, {corner.x + margin, corner.y + margin + height}, kFont, scale,
                cv::Scalar(255, 255, 255), thickness, cv::LINE_AA);
  }
};

cv::Mat in_color(const Image& image) {
  const cv::Mat pixels(static_cast<int>(image.height), static_cast<int>(image.width),
                       CV_8UC(static_cast<int>(image.channels)), const_cast<uint8_t*>(image.bytes));
  cv::Mat color;
  if (image.channels == 1) {
    cv::cvtColor(pixels, color, cv::COLOR_GRAY2BGR);
  } else if (image.channels == 4) {
    cv::cvtColor(pixels, color, cv::COLOR_BGRA2BGR);
  } else {
    color = pixels.clone();
  }
  return color;
}

void draw(cv::Mat& picture, const PictureMark& mark, int factor, const Writing& writing) {
  const auto pixel = [&](double x, int most) {
    return static_cast<int>(std::lround(std::clamp(x * factor, 0.0, static_cast<double>(most))));
  };
  const int left = pixel(mark.box.left, picture.cols - 1);
  const int top = pixel(mark.box.top, picture.rows - 1);
  const int right = pixel(mark.box.right, picture.cols - 1);
  const int bottom = pixel(mark.box.bottom, picture.rows - 1);
  const cv::Scalar& color = color_of(mark.kind);
  cv::rectangle(picture, {left, top}, {right, bottom}, color, 2 * writing.thickness);
  if (mark.words.empty()) return;
  const std::string words = drawn(mark.words);
  // Above the frame where there is room, and inside of the picture.
  const int x = std::max(0, std::min(left, picture.cols - writing.width(words)));
  const int y = top >= writing.line() ? top - writing.line() : top;
  writing.write(picture, words, {x, y}, color);
}

}  // namespace

bool can_mark_pictures() { return true; }

std::string marked_picture(const Image& image, std::span<const PictureMark> marks,
                           const std::vector<std::string>& lines, const std::string& extension) {
  if (image.bytes == nullptr || !image.interleaved)
    throw Error("only interleaved bytes can be drawn on");
  cv::Mat picture;
  try {
    picture = in_color(image);
    const int longer = std::max(picture.cols, picture.rows);
    const int factor = longer < kSmall ? (kSmall + longer - 1) / longer : 1;
    if (factor > 1) cv::resize(picture, picture, {}, factor, factor, cv::INTER_NEAREST);
    const Writing writing(picture.size());
    // Plates of better ones, which come first, lie on top.
    for (size_t m = marks.size(); m-- > 0;) draw(picture, marks[m], factor, writing);
    if (!lines.empty()) {
      int width = picture.cols;
      for (const std::string& line : lines) width = std::max(width, writing.width(drawn(line)));
      const int above = writing.line() * static_cast<int>(lines.size());
      cv::copyMakeBorder(picture, picture, above, 0, 0, width - picture.cols, cv::BORDER_CONSTANT,
                         cv::Scalar(40, 40, 40));
      for (size_t k = 0; k < lines.size(); ++k)
        writing.write(picture, drawn(lines[k]), {0, writing.line() * static_cast<int>(k)},
                      cv::Scalar(40, 40, 40));
    }
  } catch (const cv::Exception& e) {
    throw Error("cannot draw on a picture: ", e.err);
  }
  return ImageCodec::encode({.channels = 3,
                             .height = picture.rows,
                             .width = picture.cols,
                             .interleaved = true,
                             .bytes = picture.ptr<uint8_t>()},
                            extension);
}

}  // namespace crema
