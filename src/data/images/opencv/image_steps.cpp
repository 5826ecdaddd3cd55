#include "data/images/image_steps.hpp"

#include <algorithm>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <utility>

#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/images/opencv/codecs.hpp"

namespace crema {
namespace {

cv::Scalar scalar(const Fill& fill, const cv::Mat& image) {
  if (fill.size() > 1 && static_cast<int>(fill.size()) != image.channels())
    throw Error("there are ", fill.size(), " values to fill with, and the image has ",
                image.channels(), " channels; give one for all, or one a channel");
  cv::Scalar values = cv::Scalar::all(fill.empty() ? 0 : static_cast<double>(fill[0]));
  for (size_t c = 1; c < std::min<size_t>(fill.size(), 4); ++c)
    values[static_cast<int>(c)] = static_cast<double>(fill[c]);
  return values;
}

int flag_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::area:
      return cv::INTER_AREA;
    case Interpolation::nearest:
      return cv::INTER_NEAREST;
    case Interpolation::cubic:
      return cv::INTER_CUBIC;
    case Interpolation::lanczos4:
      return cv::INTER_LANCZOS4;
    case Interpolation::linear:
      break;
  }
  return cv::INTER_LINEAR;
}

void need_color(const cv::Mat& image, const char* what) {
  if (image.channels() != 3)
    throw Error(what, " needs colour, and the image has ", image.channels(),
                " channels; set force_color, or leave the step out");
}

/// Calls change(channel) on one channel of the image in another colour space.
template <class Change>
void change_channel(const cv::Mat& in, int to, int back, int channel, cv::Mat& out,
                    const Change& change) {
  cv::Mat other, plane;
  cv::cvtColor(in, other, to);
  cv::extractChannel(other, plane, channel);
  change(plane);
  cv::insertChannel(plane, other, channel);
  cv::cvtColor(other, out, back);
}

void run(const Resize& step, const cv::Mat& in, cv::Mat& out) {
  constexpr int64_t kMost = std::numeric_limits<int16_t>::max();  // OpenCV's own limit
  const auto [height, width] = step.size;
  if (height < 1 || width < 1 || height > kMost || width > kMost)
    throw Error("cannot resize an image to ", height, " x ", width, "; sides are 1 to ", kMost);
  const cv::Size size(static_cast<int>(width), static_cast<int>(height));
  if (step.exact || step.interpolation == Interpolation::nearest) {
    cv::resize(in, out, size, 0, 0, flag_of(step.interpolation));
    return;
  }
  const cv::Size smaller(std::min(size.width, in.cols), std::min(size.height, in.rows));
  cv::Mat shrunk = in;
  if (smaller != in.size()) cv::resize(in, shrunk, smaller, 0, 0, cv::INTER_AREA);
  if (size == smaller) {
    out = shrunk;
  } else {
    // Enlarging has nothing to average.
    const bool area = step.interpolation == Interpolation::area;
    cv::resize(shrunk, out, size, 0, 0, area ? cv::INTER_LINEAR : flag_of(step.interpolation));
  }
}

void run(const Cut& step, const cv::Mat& in, cv::Mat& out) {
  const ImageWindow& w = step.window;
  out = in(cv::Rect(static_cast<int>(w.left), static_cast<int>(w.top), static_cast<int>(w.width),
                    static_cast<int>(w.height)));
}

void run(const Pad& step, const cv::Mat& in, cv::Mat& out) {
  const int top = static_cast<int>(-step.window.top), left = static_cast<int>(-step.window.left);
  const int bottom = static_cast<int>(step.window.height) - top - in.rows;
  const int right = static_cast<int>(step.window.width) - left - in.cols;
  const int border = step.mode == Pad::Mode::constant   ? cv::BORDER_CONSTANT
                     : step.mode == Pad::Mode::mirrored ? cv::BORDER_REFLECT_101
                                                        : cv::BORDER_REPLICATE;
  cv::copyMakeBorder(in, out, top, bottom, left, right, border | cv::BORDER_ISOLATED,
                     scalar(step.fill, in));
}

void run(const Rotate& step, const cv::Mat& in, cv::Mat& out) {
  const cv::Point2f centre(static_cast<float>(in.cols - 1) / 2,
                           static_cast<float>(in.rows - 1) / 2);
  cv::warpAffine(in, out, cv::getRotationMatrix2D(centre, step.degrees, 1), in.size(),
                 cv::INTER_LINEAR, cv::BORDER_CONSTANT, scalar(step.fill, in));
}

void run(const Linear& step, const cv::Mat& in, cv::Mat& out) {
  in.convertTo(out, -1, step.factor, step.offset);
}

void run(const Saturate& step, const cv::Mat& in, cv::Mat& out) {
  need_color(in, "saturation");
  change_channel(in, cv::COLOR_BGR2HSV, cv::COLOR_HSV2BGR, 1, out,
                 [&](cv::Mat& plane) { plane.convertTo(plane, -1, step.factor, 0); });
}

void run(const TurnHue& step, const cv::Mat& in, cv::Mat& out) {
  need_color(in, "hue");
  constexpr int kCircle = 180;
  const int by = (cvRound(step.by) % kCircle + kCircle) % kCircle;
  cv::Mat turned(1, 256, CV_8U);
  for (int i = 0; i < 256; ++i) turned.at<uint8_t>(i) = static_cast<uint8_t>((i + by) % kCircle);
  change_channel(in, cv::COLOR_BGR2HSV, cv::COLOR_HSV2BGR, 0, out,
                 [&](cv::Mat& plane) { cv::LUT(plane, turned, plane); });
}

void run(const Permute& step, const cv::Mat& in, cv::Mat& out) {
  need_color(in, "another order of channels");
  const int pairs[] = {step.order[0], 0, step.order[1], 1, step.order[2], 2};
  out.create(in.size(), in.type());
  cv::mixChannels(&in, 1, &out, 1, pairs, 3);
}

void run(const Blur& step, const cv::Mat& in, cv::Mat& out) {
  cv::GaussianBlur(in, out, cv::Size(step.size, step.size), step.sigma);
}

/// Calls change on the brightness of the image.
template <class Change>
void change_brightness(const cv::Mat& in, int to, int back, cv::Mat& out, const Change& change) {
  if (in.channels() == 3) {
    change_channel(in, to, back, 0, out, change);
  } else if (in.channels() == 1) {
    out = in.clone();
    change(out);
  } else {
    need_color(in, "equalising a histogram");
  }
}

void run(const Filter& filter, const cv::Mat& in, cv::Mat& out) {
  switch (filter) {
    case Filter::gray: {
      need_color(in, "decolorize");
      cv::Mat gray;
      cv::cvtColor(in, gray, cv::COLOR_BGR2GRAY);
      cv::cvtColor(gray, out, cv::COLOR_GRAY2BGR);
      return;
    }
    case Filter::equalize:
      change_brightness(in, cv::COLOR_BGR2YCrCb, cv::COLOR_YCrCb2BGR, out,
                        [](cv::Mat& plane) { cv::equalizeHist(plane, plane); });
      return;
    case Filter::equalize_locally:
      change_brightness(in, cv::COLOR_BGR2Lab, cv::COLOR_Lab2BGR, out, [](cv::Mat& plane) {
        const cv::Mat before = plane.clone();
        cv::createCLAHE(4)->apply(before, plane);
      });
      return;
    case Filter::erode:
      cv::erode(in, out, cv::getStructuringElement(cv::MORPH_ELLIPSE, cv::Size(3, 3)));
      return;
    case Filter::posterize: {
      cv::Mat levels(1, 256, CV_8U);
      for (int i = 0; i < 256; ++i) levels.at<uint8_t>(i) = static_cast<uint8_t>(i / 64 * 64 + 32);
      cv::LUT(in, levels, out);
      return;
    }
    case Filter::invert:
      cv::bitwise_not(in, out);
      return;
    case Filter::to_hsv:
      need_color(in, "convert_to_hsv");
      cv::cvtColor(in, out, cv::COLOR_BGR2HSV);
      return;
    case Filter::to_lab:
      need_color(in, "convert_to_lab");
      cv::cvtColor(in, out, cv::COLOR_BGR2Lab);
      return;
  }
}

void run(const Compress& step, const cv::Mat& in, cv::Mat& out) {
  // OpenCV leaves a channel out.
  if (in.channels() != 1 && in.channels() != 3)
    throw Error("compressing needs 1 or 3 channels, and the image has ", in.channels());
  std::vector<uint8_t> file;
  encode_by_opencv(".jpg", in, file, {cv::IMWRITE_JPEG_QUALITY, step.quality});
  out = decode_by_opencv(cv::Mat(file), cv::IMREAD_UNCHANGED);
}

void run(const SaltPepper& step, const cv::Mat& in, cv::Mat& out) {
  out = in.clone();
  const cv::Scalar value = scalar(step.value, in);
  Random random(step.seed, stream_id("salt and pepper"));
  for (int64_t i = 0; i < step.count; ++i) {
    const auto row = static_cast<int>(random.below(static_cast<uint64_t>(out.rows)));
    const auto column = static_cast<int>(random.below(static_cast<uint64_t>(out.cols)));
    uint8_t* pixel = out.ptr<uint8_t>(row, column);
    for (int c = 0; c < out.channels(); ++c) pixel[c] = cv::saturate_cast<uint8_t>(value[c & 3]);
  }
}

}  // namespace

struct ImageEditor::State {
  cv::Mat image;

  /// The window's pixels, interleaved; they may be the decoder's own memory.
  static cv::Mat window(const Image& image, const ImageWindow& window) {
    const int rows = static_cast<int>(image.height), columns = static_cast<int>(image.width);
    auto* bytes = const_cast<uint8_t*>(image.bytes);
    cv::Mat pixels;
    if (image.floats != nullptr) {
      // Planes of floats are raw records, which nothing resizes.
      if (!image.interleaved) throw Error("it holds floats, which have no steps of augmentation");
      pixels = cv::Mat(rows, columns, CV_32FC(static_cast<int>(image.channels)),
                       const_cast<float*>(image.floats));
    } else if (image.interleaved) {
      pixels = cv::Mat(rows, columns, CV_8UC(static_cast<int>(image.channels)), bytes);
    } else {
      std::vector<cv::Mat> planes;
      for (int64_t c = 0; c < image.channels; ++c)
        planes.emplace_back(rows, columns, CV_8U, bytes + c * image.height * image.width);
      cv::merge(planes, pixels);
    }
    return pixels(cv::Rect(static_cast<int>(window.left - image.left),
                           static_cast<int>(window.top - image.top), static_cast<int>(window.width),
                           static_cast<int>(window.height)));
  }
};

ImageEditor::ImageEditor() : state_(std::make_unique<State>()) {}
ImageEditor::~ImageEditor() = default;

Image ImageEditor::apply(const Image& image, const ImageWindow& window,
                         const std::vector<ImageStep>& steps) {
  cv::Mat& now = state_->image;
  try {
    now = State::window(image, window);
    for (const ImageStep& step : steps) {
      if (image.floats != nullptr && !std::holds_alternative<Resize>(step) &&
          !std::holds_alternative<Cut>(step))
        throw Error("it holds floats, which are resized and cut alone");
      cv::Mat next;
      std::visit([&](const auto& settings) { run(settings, now, next); }, step);
      now = next;
    }
  } catch (const cv::Exception& e) {
    throw Error("the image cannot be changed as transform_param says: ", e.err);
  }
  if (!now.isContinuous()) now = now.clone();
  return {.channels = now.channels(),
          .height = now.rows,
          .width = now.cols,
          .interleaved = true,
          .bytes = image.floats != nullptr ? nullptr : now.ptr<uint8_t>(),
          .floats = image.floats != nullptr ? now.ptr<float>() : nullptr};
}

}  // namespace crema
