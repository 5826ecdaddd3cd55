#include "layers/region_loss/grid_detector.hpp"

#include <algorithm>
#include <string>

#include "core/dispatch.hpp"
#include "crema/error.hpp"
#include "layer_support/detection_rows.hpp"

namespace crema {

bool GridTruths::names_images(const Shape& shape) {
  return shape.rank() == 4 && shape[0] == 1 && shape[1] == 1 && shape[3] == kTruthRow;
}

std::vector<GridAnchor> grid_anchors(std::span<const float> biases, double unit) {
  if (biases.empty() || biases.size() % 2 != 0)
    throw Error("biases has ", biases.size(),
                " numbers; give width and height of each anchor box, one after the other");
  std::vector<GridAnchor> anchors;
  for (size_t i = 0; i < biases.size(); i += 2) {
    if (!(biases[i] > 0 && biases[i + 1] > 0 && std::isfinite(biases[i] * biases[i + 1])))
      throw Error("biases: anchor box ", i / 2, " is ", biases[i], " wide and ", biases[i + 1],
                  " high; both have to be above 0");
    anchors.push_back(
        {static_cast<double>(biases[i]) / unit, static_cast<double>(biases[i + 1]) / unit});
  }
  return anchors;
}

std::vector<int64_t> anchors_of_mask(std::span<const uint32_t> mask, size_t count) {
  std::vector<int64_t> numbers;
  for (const uint32_t number : mask) {
    if (number >= count)
      throw Error("mask names anchor box ", number, ", but biases has ", count,
                  "; they are numbered from 0 on");
    if (std::ranges::find(numbers, int64_t{number}) != numbers.end())
      throw Error("mask names anchor box ", number,
                  " twice for one bottom, which predicts each once; name another one");
    numbers.push_back(number);
  }
  return numbers;
}

GridLayout::GridLayout(const Blob& predictions, int64_t number, int64_t of_classes)
    : anchors(number), classes(of_classes) {
  const Shape& shape = predictions.shape();
  const int64_t channels = anchors * (kClasses + classes);
  if (shape.rank() != 4 || shape[1] != channels)
    throw Error("'", predictions.name, "' (", shape.str(), ") has to be N x ", channels,
                " x H x W: for each of the ", anchors, " anchor boxes 4 coordinates, the score of ",
                "an object, and ", classes, " classes; correct the numbers of boxes and classes, ",
                "or give the convolution that makes it num_output: ", channels);
  images = shape[0];
  height = shape[2];
  width = shape[3];
}

void check_truth_shape(const Blob& labels, int64_t images) {
  const Shape& shape = labels.shape();
  if (GridTruths::names_images(shape)) return;
  if (shape.rank() < 2 || shape[0] != images || shape.count(1) % GridTruths::kCentreRow != 0)
    throw Error("'", labels.name, "' (", shape.str(), ") holds no true boxes; give (1, 1, R, 8), ",
                "as AnnotatedData does, or ", images,
                " items of rows of 5: class, x, y, width, height");
}

void GridTruths::add(const Blob& labels, int64_t row, int64_t image, int64_t classes, double label,
                     double first, const CentredBox& box) {
  const auto refuse = [&](const auto&... parts) {
    throw Error("row ", row, " of '", labels.name, "', of image ", image, ", ", parts...)
        .of_sample(image);
  };
  const double end = first + static_cast<double>(classes);
  if (!(label >= first && label < end && std::floor(label) == label))
    refuse("has the label ", label, "; labels are whole numbers in [", first, ", ", end,
           "): fix the labels or raise the number of classes");
  for (const double value : {box.x, box.y, box.width, box.height}) {
    if (!std::isfinite(value)) refuse("has a coordinate that is no number");
  }
  if (!(box.width > 0 && box.height > 0))
    refuse("is a box ", box.width, " wide and ", box.height, " high; give sides above 0");
  if (box.x < 0 || box.x > 1 || box.y < 0 || box.y > 1) return;
  truths_[static_cast<size_t>(image)].push_back({box, static_cast<int32_t>(label - first)});
}

void GridTruths::read(const Blob& labels, int64_t images, int64_t classes) {
  truths_.resize(static_cast<size_t>(images));
  for (auto& of_image : truths_) of_image.clear();
  const Shape& shape = labels.shape();
  dispatch_float(labels.data.dtype(), [&]<class T>(T) {
    const T* const values = labels.data.read<T>();
    const bool edges = names_images(shape);
    const int64_t width = edges ? kTruthRow : kCentreRow, rows = labels.count() / width;
    for (int64_t row = 0; row < rows; ++row) {
      const auto v = [&](int64_t k) { return static_cast<double>(values[row * width + k]); };
      if (edges) {
        const int64_t image = image_of_row<T>(labels, row, kTruthRow, images);
        if (image < 0) continue;
        check_truth_box<T>(labels, row);
        add(labels, row, image, classes, v(1), 1,
            {(v(3) + v(5)) / 2, (v(4) + v(6)) / 2, v(5) - v(3), v(6) - v(4)});
      } else if (v(3) != 0 || v(4) != 0) {
        add(labels, row, row / (rows / images), classes, v(0), 0, {v(1), v(2), v(3), v(4)});
      }
    }
  });
}

}  // namespace crema
