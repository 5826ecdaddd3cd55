// MTCNN finds the faces of its test photo: three published nets, run as a program that embeds Crema
// does. The first one looks at the whole photo in several sizes and proposes boxes; the others look
// at each proposal, in 24 x 24 and in 48 x 48 pixels, and drop or move it; the last one also finds
// eyes, nose and corners of the mouth.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "crema/net.hpp"
#include "data/images/image_codec.hpp"
#include "support/needs.hpp"
#include "support/paths.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

struct Box {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;  // pixels of the photo
  double score = 0;
  std::array<double, 4> move{};  // of x1, y1, x2, y2, relative to the box's size
  struct Point {
    double x = 0, y = 0;
  };
  std::array<Point, 5> points{};  // left eye, right eye, nose, left and right corner of the mouth

  double width() const { return x2 - x1; }
  double height() const { return y2 - y1; }
  double area() const { return std::max(0.0, width()) * std::max(0.0, height()); }

  void apply_move() {
    const double w = width(), h = height();
    x1 += move[0] * w;
    y1 += move[1] * h;
    x2 += move[2] * w;
    y2 += move[3] * h;
  }
  /// The nets see squares.
  void make_square() {
    const double side = std::max(width(), height());
    x1 += (width() - side) / 2;
    y1 += (height() - side) / 2;
    x2 = x1 + side;
    y2 = y1 + side;
  }
};

/// A photo of three colours, (H, W, BGR).
struct Photo {
  std::vector<uint8_t> pixels;
  int64_t height = 0, width = 0;
};

/// Which pixels of a line make one pixel of a smaller or larger line: the area that it covers, or
/// the two that are nearest.
std::vector<std::pair<int64_t, double>> taps(double begin, double step, int64_t place) {
  std::vector<std::pair<int64_t, double>> all;
  const double from = begin + step * static_cast<double>(place), to = from + step;
  if (step <= 1) {
    const double center = (from + to) / 2 - 0.5, low = std::floor(center);
    all.emplace_back(static_cast<int64_t>(low), 1 - (center - low));
    all.emplace_back(static_cast<int64_t>(low) + 1, center - low);
    return all;
  }
  for (auto i = static_cast<int64_t>(std::floor(from)); static_cast<double>(i) < to; ++i) {
    const double covered =
        std::min(to, static_cast<double>(i) + 1) - std::max(from, static_cast<double>(i));
    if (covered > 0) all.emplace_back(i, covered / step);
  }
  return all;
}

/// Writes the part of the photo in the box as (RGB, width, height), as these nets want it: red
/// first, x before y, (pixel - 127.5) / 128. Outside of the photo is black.
void write_part(const Photo& photo, const Box& box, int64_t height, int64_t width, float* out) {
  std::vector<std::vector<std::pair<int64_t, double>>> columns, rows;
  for (int64_t x = 0; x < width; ++x) {
    columns.push_back(taps(box.x1, box.width() / static_cast<double>(width), x));
  }
  for (int64_t y = 0; y < height; ++y) {
    rows.push_back(taps(box.y1, box.height() / static_cast<double>(height), y));
  }
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t y = 0; y < height; ++y) {
        double sum = 0;
        for (const auto& [row, row_weight] : rows[static_cast<size_t>(y)]) {
          if (row < 0 || row >= photo.height) continue;
          for (const auto& [column, weight] : columns[static_cast<size_t>(x)]) {
            if (column < 0 || column >= photo.width) continue;
            const int64_t place = (row * photo.width + column) * 3 + 2 - c;
            sum += row_weight * weight * photo.pixels[static_cast<size_t>(place)];
          }
        }
        *out++ = static_cast<float>((sum - 127.5) / 128);
      }
    }
  }
}

/// Keeps the best of boxes that overlap by more than `most`: of their union, or of the smaller one.
std::vector<Box> without_overlaps(std::vector<Box> boxes, double most, bool of_smaller = false) {
  std::ranges::stable_sort(boxes, std::ranges::greater(), &Box::score);
  std::vector<Box> kept;
  for (const Box& box : boxes) {
    const bool is_new = std::ranges::none_of(kept, [&](const Box& other) {
      const double w = std::min(box.x2, other.x2) - std::max(box.x1, other.x1);
      const double h = std::min(box.y2, other.y2) - std::max(box.y1, other.y1);
      const double both = std::max(0.0, w) * std::max(0.0, h);
      const double all =
          of_smaller ? std::min(box.area(), other.area()) : box.area() + other.area() - both;
      return both > most * all;
    });
    if (is_new) kept.push_back(box);
  }
  return kept;
}

class FaceDetector {
 public:
  FaceDetector(const fs::path& folder, Context& context)
      : propose_(load(folder, "det1", context)),
        refine_(load(folder, "det2", context)),
        decide_(load(folder, "det3", context)) {}

  std::vector<Box> find(const Photo& photo) {
    std::vector<Box> boxes = proposals(photo);
    boxes = judge(refine_, photo, boxes, {24, "conv5-2", nullptr, 0.7});
    boxes = without_overlaps(boxes, 0.7);
    for (Box& box : boxes) {
      box.apply_move();
      box.make_square();
    }
    boxes = judge(decide_, photo, boxes, {48, "conv6-2", "conv6-3", 0.7});
    for (Box& box : boxes) box.apply_move();
    return without_overlaps(boxes, 0.7, true);
  }

 private:
  static Net load(const fs::path& folder, const std::string& name, Context& context) {
    Net net((folder / (name + ".prototxt")).string(), context, {.phase = Phase::test});
    net.load_weights((folder / (name + ".caffemodel")).string());
    return net;
  }

  /// Faces of 20 pixels and more.
  std::vector<Box> proposals(const Photo& photo) {
    constexpr double kSmallestFace = 20, kWindow = 12, kFactor = 0.709;
    std::vector<Box> all;
    const auto shorter = static_cast<double>(std::min(photo.height, photo.width));
    for (double scale = kWindow / kSmallestFace; scale * shorter >= kWindow; scale *= kFactor) {
      const std::vector<Box> found = without_overlaps(proposals(photo, scale), 0.5);
      all.insert(all.end(), found.begin(), found.end());
    }
    all = without_overlaps(all, 0.7);
    for (Box& box : all) {
      box.apply_move();
      box.make_square();
    }
    return all;
  }

  std::vector<Box> proposals(const Photo& photo, double scale) {
    constexpr double kStride = 2, kWindow = 12, kThreshold = 0.6;
    const auto height = static_cast<int64_t>(std::ceil(static_cast<double>(photo.height) * scale));
    const auto width = static_cast<int64_t>(std::ceil(static_cast<double>(photo.width) * scale));
    propose_.reshape_input("data", {1, 3, width, height});
    propose_.reshape();
    const Box whole{0, 0, static_cast<double>(photo.width), static_cast<double>(photo.height)};
    write_part(photo, whole, height, width, propose_.input("data").overwrite<float>());
    propose_.forward();
    const Tensor scores = propose_.output("prob1");   // (1, 2, columns, rows)
    const Tensor moves = propose_.output("conv4-2");  // (1, 4, columns, rows)
    const int64_t columns = scores.shape()[2], rows = scores.shape()[3], plane = columns * rows;
    std::vector<Box> boxes;
    for (int64_t i = 0; i < plane; ++i) {
      const double score = scores.at(plane + i);
      if (score < kThreshold) continue;
      const double x = kStride * static_cast<double>(i / rows);
      const double y = kStride * static_cast<double>(i % rows);
      Box box{x / scale, y / scale, (x + kWindow) / scale, (y + kWindow) / scale, score};
      for (size_t m = 0; m < 4; ++m) box.move[m] = moves.at(static_cast<int64_t>(m) * plane + i);
      boxes.push_back(box);
    }
    return boxes;
  }

  struct Stage {
    int64_t side;
    const char *moves, *points;
    double threshold;
  };

  /// The boxes that the net takes for faces, all in one batch.
  static std::vector<Box> judge(Net& net, const Photo& photo, const std::vector<Box>& boxes,
                                const Stage& stage) {
    std::vector<Box> kept;
    if (boxes.empty()) return kept;
    net.reshape_input("data", {static_cast<int64_t>(boxes.size()), 3, stage.side, stage.side});
    net.reshape();
    float* out = net.input("data").overwrite<float>();
    for (const Box& box : boxes) {
      write_part(photo, box, stage.side, stage.side, out);
      out += 3 * stage.side * stage.side;
    }
    net.forward();
    const Tensor scores = net.output("prob1");     // (N, 2)
    const Tensor moves = net.output(stage.moves);  // (N, 4)
    for (size_t i = 0; i < boxes.size(); ++i) {
      const auto item = static_cast<int64_t>(i);
      if (scores.at(2 * item + 1) < stage.threshold) continue;
      Box box = boxes[i];
      box.score = scores.at(2 * item + 1);
      for (size_t m = 0; m < 4; ++m) box.move[m] = moves.at(4 * item + static_cast<int64_t>(m));
      if (stage.points != nullptr) {
        const Tensor points = net.output(stage.points);  // (N, 10): five x, then five y
        for (size_t p = 0; p < 5; ++p) {
          const int64_t at = 10 * item + static_cast<int64_t>(p);
          box.points[p] = {box.x1 + points.at(at) * box.width(),
                           box.y1 + points.at(at + 5) * box.height()};
        }
      }
      kept.push_back(box);
    }
    return kept;
  }

  Net propose_, refine_, decide_;
};

Photo read_photo(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  ImageCodec codec;
  const Image image = codec.decode(bytes, ColorMode::color);
  return {{image.bytes, image.bytes + image.count()}, image.height, image.width};
}

TEST(Mtcnn, FindsTheFacesOfItsPhoto) {
  const fs::path folder = shared_path("data/models/mtcnn");
  if (!fs::exists(folder)) GTEST_SKIP() << "needs " << folder << ": set CREMA_SHARED_DIR";
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  Context context;
  FaceDetector detector(folder, context);
  const Photo photo = read_photo(folder / "test1.jpg");
  std::vector<Box> faces = detector.find(photo);
  std::ranges::sort(faces, {}, &Box::x1);
  // Looked at in the photo: two men who shake hands.
  const std::vector<Box> expected = {
      {89.4,
       18.7,
       150.2,
       101.7,
       1,
       {},
       {{{113.6, 48.0}, {141.2, 51.9}, {127.9, 65.1}, {108.4, 76.5}, {137.3, 81.0}}}},
      {297.6,
       90.0,
       360.1,
       168.7,
       1,
       {},
       {{{311.6, 122.0}, {336.9, 118.3}, {322.5, 136.1}, {316.9, 150.8}, {340.4, 148.3}}}}};
  ASSERT_EQ(faces.size(), expected.size());
  constexpr double kPixels = 3;  // decoders of JPEG and ways of resizing differ a little
  for (size_t i = 0; i < faces.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_NEAR(faces[i].x1, expected[i].x1, kPixels);
    EXPECT_NEAR(faces[i].y1, expected[i].y1, kPixels);
    EXPECT_NEAR(faces[i].x2, expected[i].x2, kPixels);
    EXPECT_NEAR(faces[i].y2, expected[i].y2, kPixels);
    EXPECT_GT(faces[i].score, 0.99);
    for (size_t p = 0; p < faces[i].points.size(); ++p) {
      EXPECT_NEAR(faces[i].points[p].x, expected[i].points[p].x, kPixels) << p;
      EXPECT_NEAR(faces[i].points[p].y, expected[i].points[p].y, kPixels) << p;
    }
  }
}

}  // namespace
}  // namespace crema::test
