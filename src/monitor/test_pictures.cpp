#include "monitor/test_pictures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/data_source.hpp"
#include "core/utf8.hpp"
#include "net/scores.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

constexpr int kFrame = 1, kLargest = 128;  // pixels
constexpr std::array<uint8_t, 3> kRight = {46, 160, 67}, kWrong = {207, 34, 46},
                                 kUnknown = {140, 140, 140};

/// What the net says of an image.
struct Guess {
  int64_t label = -1, predicted = -1;
  double probability = 0;
};

/// The images, blobs of data layers; null without one.
Blob* image_blob(Net& net) {
  for (const Layer* layer : net.layers()) {
    if (layer->data_source() == nullptr || layer->param().top_size() == 0) continue;
    Blob& blob = net.blob(layer->param().top(0));
    const Shape& shape = blob.shape();
    if (shape.rank() == 4 && (shape[1] == 1 || shape[1] == 3) && shape[2] > 1 && shape[3] > 1)
      return &blob;
  }
  return nullptr;
}

Guess guess_of(const Tensor& scores, const Tensor& labels, int64_t image) {
  const int64_t classes = scores.count() / scores.shape()[0];
  Guess guess;
  guess.label = std::llround(labels.at(image));
  double greatest = 0, sum = 0;
  for (int64_t i = 0; i < classes; ++i) {
    const double score = scores.at(image * classes + i);
    if (i > 0 && !(score > greatest)) continue;
    greatest = score;
    guess.predicted = i;
  }
  for (int64_t i = 0; i < classes; ++i) sum += std::exp(scores.at(image * classes + i) - greatest);
  guess.probability = 1 / sum;
  return guess;
}

/// Of the first layer that compares scores of one class an image with labels; empty without one.
std::vector<Guess> guesses_of(Net& net, int64_t images, int64_t wanted) {
  for (const Layer* layer : net.layers()) {
    const LayerParameter& param = layer->param();
    if (!compares_scores(param) || !net.has_blob(param.bottom(0)) || !net.has_blob(param.bottom(1)))
      continue;
    Tensor scores, labels;
    try {
      scores = net.output(param.bottom(0));
      labels = net.output(param.bottom(1));
    } catch (const Error&) {
      continue;  // not kept
    }
    const Shape& shape = scores.shape();
    const bool one_each = shape.rank() >= 2 && shape[0] == images && labels.count() == images &&
                          scores.count() == images * shape[1];
    if (!one_each) continue;
    std::vector<Guess> guesses;
    for (int64_t i = 0; i < wanted; ++i) guesses.push_back(guess_of(scores, labels, i));
    return guesses;
  }
  return {};
}

std::string class_text(const std::vector<std::string>& names, int64_t label) {
  const auto place = static_cast<size_t>(label);
  if (label < 0 || place >= names.size() || names[place].empty()) return text(label);
  std::string name = printable(names[place]);
  std::ranges::replace(name, '|', '/');
  return name;
}

std::string table_of(const std::vector<Guess>& guesses, const std::vector<std::string>& names) {
  if (guesses.empty()) return {};
  std::string table = "| image | label | prediction | probability |\n|---|---|---|---|\n";
  for (size_t i = 0; i < guesses.size(); ++i) {
    char probability[16];
    std::snprintf(probability, sizeof probability, "%.3f", guesses[i].probability);
    table += text("| ", i + 1, " | ", class_text(names, guesses[i].label), " | ",
                  class_text(names, guesses[i].predicted), " | ", probability, " |\n");
  }
  return table;
}

const std::array<uint8_t, 3>& frame_of(const Guess& guess) {
  return guess.label == guess.predicted ? kRight : kWrong;
}

/// The place of a picture in the sheet, in pixels; one of `step` pixels of the image is shown.
struct Cell {
  int left = 0, height = 0, width = 0, step = 1;
};

/// Draws the planes of one image, whose rows are `row` long; blue is first, as image files decode.
void draw(const std::vector<float>& planes, size_t channels, size_t row, const Cell& cell,
          TestPictures& sheet) {
  float least = 0, greatest = 0;
  bool any = false;
  for (const float value : planes) {
    if (!std::isfinite(value)) continue;
    least = any ? std::min(least, value) : value;
    greatest = any ? std::max(greatest, value) : value;
    any = true;
  }
  const float scale = greatest > least ? 255 / (greatest - least) : 0;
  const size_t plane = planes.size() / channels;
  for (int y = 0; y < cell.height; ++y) {
    for (int x = 0; x < cell.width; ++x) {
      const size_t from =
          static_cast<size_t>(y * cell.step) * row + static_cast<size_t>(x * cell.step);
      const auto to = static_cast<size_t>((y + kFrame) * sheet.width + cell.left + x) * 3;
      for (size_t c = 0; c < 3; ++c) {
        const float value = planes[(channels == 3 ? 2 - c : 0) * plane + from];
        sheet.pixels[to + c] =
            std::isfinite(value) ? static_cast<uint8_t>((value - least) * scale + 0.5F) : 0;
      }
    }
  }
}

void fill(int left, int width, const std::array<uint8_t, 3>& colour, TestPictures& sheet) {
  for (int y = 0; y < sheet.height; ++y) {
    for (int x = left; x < left + width; ++x)
      std::ranges::copy(colour, sheet.pixels.begin() + (y * sheet.width + x) * 3);
  }
}

}  // namespace

std::optional<TestPictures> pictures_of_test(Net& net, const std::vector<std::string>& class_names,
                                             int64_t most) {
  Blob* const blob = image_blob(net);
  if (blob == nullptr || blob->shape()[0] == 0) return {};
  const Shape shape = blob->shape();
  const Tensor images = blob->data.contiguous();
  const int64_t count = std::min(most, shape[0]), values = images.count() / shape[0];
  const std::vector<Guess> guesses = guesses_of(net, shape[0], count);
  TestPictures sheet;
  sheet.table = table_of(guesses, class_names);
  Cell cell;
  cell.step = static_cast<int>((std::max(shape[2], shape[3]) + kLargest - 1) / kLargest);
  cell.height = static_cast<int>(shape[2]) / cell.step;
  cell.width = static_cast<int>(shape[3]) / cell.step;
  const int width = cell.width + 2 * kFrame;
  sheet.height = cell.height + 2 * kFrame;
  sheet.width = width * static_cast<int>(count);
  sheet.pixels.assign(static_cast<size_t>(sheet.height) * static_cast<size_t>(sheet.width) * 3, 0);
  std::vector<float> planes(static_cast<size_t>(values));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < values; ++k)
      planes[static_cast<size_t>(k)] = static_cast<float>(images.at(i * values + k));
    const int left = static_cast<int>(i) * width;
    fill(left, width, guesses.empty() ? kUnknown : frame_of(guesses[static_cast<size_t>(i)]),
         sheet);
    cell.left = left + kFrame;
    draw(planes, static_cast<size_t>(shape[1]), static_cast<size_t>(shape[3]), cell, sheet);
  }
  return sheet;
}

}  // namespace crema
