// Pooling of regions of interest: MaxRoiPool and RoiAlign.
#include <algorithm>
#include <cmath>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

struct RegionShape {
  int64_t height = 1;  // of the output
  int64_t width = 1;
  Shape output;
};

RegionShape region_shape(const Call& call, std::vector<int64_t> size, int64_t columns) {
  need_rank(call, 0, "X", 4, 4);
  need_rank(call, 1, "rois", 2, 2);
  const Shape& x = call.shape(0);
  if (x[2] < 1 || x[3] < 1) call.fail("X ", x.str(), " has an empty spatial axis");
  need_shape(call, 1, "rois", {call.shape(1)[0], columns});
  if (size.size() != 2) call.fail("the output has ", size.size(), " sizes; it needs 2");
  need_within(call, "the height of the output", size[0], 1);
  need_within(call, "the width of the output", size[1], 1);
  RegionShape shape{size[0], size[1], {call.shape(1)[0], x[1], size[0], size[1]}};
  checked_count(call, shape.output);
  return shape;
}

int64_t batch_index(const Call& call, double value) {
  // Also false for NaN.
  if (!(value >= 0 && value < static_cast<double>(call.shape(0)[0])))
    call.fail("a region of image ", value, "; the batch has ", call.shape(0)[0]);
  return static_cast<int64_t>(value);
}

void need_finite(const Call& call, double value) {
  constexpr double kMost = 1e9;
  if (!(std::abs(value) <= kMost))
    call.fail("a region reaches to ", value, " pixels; at most ", kMost, " are supported");
}

RegionShape max_roi_shape(const Call& call) {
  return region_shape(call, call.get_ints("pooled_shape"), 5);
}

void infer_max_roi_pool(Call& call) { call.give(0, call.type(0), max_roi_shape(call).output); }

struct PixelRange {
  int64_t first = 0;
  int64_t end = 0;
};

/// Part `index` of `parts` of the pixels [start, last], cut at `size`.
PixelRange part_of(int64_t start, int64_t last, int64_t index, int64_t parts, int64_t size) {
  const double part =
      static_cast<double>(std::max<int64_t>(last - start + 1, 1)) / static_cast<double>(parts);
  const auto low = static_cast<int64_t>(std::floor(static_cast<double>(index) * part)) + start;
  const auto high = static_cast<int64_t>(std::ceil(static_cast<double>(index + 1) * part)) + start;
  return {std::clamp<int64_t>(low, 0, size), std::clamp<int64_t>(high, 0, size)};
}

void evaluate_max_roi_pool(Call& call) {
  const RegionShape shape = max_roi_shape(call);
  const std::vector<double> x = numbers(call, 0, "X");
  const std::vector<double> rois = numbers(call, 1, "rois");
  const double scale = call.get_float("spatial_scale", 1);
  const int64_t channels = shape.output[1];
  const int64_t height = call.shape(0)[2];
  const int64_t width = call.shape(0)[3];
  std::vector<double> y(checked_count(call, shape.output), 0);
  size_t target = 0;
  for (int64_t r = 0; r < shape.output[0]; ++r) {
    const double* roi = rois.data() + r * 5;
    const int64_t n = batch_index(call, roi[0]);
    int64_t corners[4];  // x1, y1, x2, y2
    for (size_t i = 0; i < 4; ++i) {
      need_finite(call, roi[i + 1] * scale);
      corners[i] = std::llround(roi[i + 1] * scale);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const double* plane = x.data() + (n * channels + c) * height * width;
      for (int64_t ph = 0; ph < shape.height; ++ph) {
        const PixelRange rows = part_of(corners[1], corners[3], ph, shape.height, height);
        for (int64_t pw = 0; pw < shape.width; ++pw) {
          const PixelRange columns = part_of(corners[0], corners[2], pw, shape.width, width);
          bool is_empty = true;
          double& best = y[target++];
          for (int64_t h = rows.first; h < rows.end; ++h) {
            for (int64_t w = columns.first; w < columns.end; ++w) {
              const double value = plane[h * width + w];
              if (is_empty || value > best) best = value;
              is_empty = false;
            }
          }
        }
      }
    }
  }
  call.give(0, Array::of_doubles(call.type(0), shape.output, y));
}

// RoiAlign

RegionShape roi_align_shape(const Call& call) {
  RegionShape shape =
      region_shape(call, {call.get_int("output_height", 1), call.get_int("output_width", 1)}, 4);
  need_shape(call, 2, "batch_indices", {call.shape(1)[0]});
  need_within(call, "sampling_ratio", call.get_int("sampling_ratio", 0), 0);
  return shape;
}

void infer_roi_align(Call& call) { call.give(0, call.type(0), roi_align_shape(call).output); }

/// A sample of one axis between two elements.
struct AxisSample {
  int64_t low = 0;
  int64_t high = 0;
  double high_weight = 0;
  bool is_outside = false;
};

AxisSample sample_at(double place, int64_t size) {
  if (place < -1 || place > static_cast<double>(size)) return {.is_outside = true};
  place = std::max(place, 0.0);
  AxisSample sample;
  sample.low = std::min(static_cast<int64_t>(place), size - 1);
  sample.high = std::min(sample.low + 1, size - 1);
  sample.high_weight = sample.high == sample.low ? 0 : place - static_cast<double>(sample.low);
  return sample;
}

/// The samples of all parts of a region along one axis, `each` for a part.
struct AxisSamples {
  int64_t each = 1;
  std::vector<AxisSample> samples;
};

AxisSamples samples_along(const Call& call, double start, double end, bool half_pixel,
                          int64_t parts, int64_t size) {
  constexpr int64_t kMostSamples = 4096;
  need_finite(call, start);
  need_finite(call, end);
  double length = end - start;
  if (!half_pixel) length = std::max(length, 1.0);
  const double part = length / static_cast<double>(parts);
  AxisSamples result;
  result.each = call.get_int("sampling_ratio", 0);
  if (result.each == 0) result.each = std::max<int64_t>(static_cast<int64_t>(std::ceil(part)), 0);
  need_within(call, "the number of samples of a region", result.each, 0, kMostSamples);
  need_within(call, "the number of samples of a region", result.each * parts, 0, kMaxExtent / 64);
  for (int64_t p = 0; p < parts; ++p)
    for (int64_t i = 0; i < result.each; ++i)
      result.samples.push_back(
          sample_at(start + static_cast<double>(p) * part +
                        (static_cast<double>(i) + 0.5) * part / static_cast<double>(result.each),
                    size));
  return result;
}

/// The mean of the samples of one part, or the greatest of their weighted elements, as the operator
/// defines it.
double pooled_samples(const double* plane, int64_t width, std::span<const AxisSample> rows,
                      std::span<const AxisSample> columns, bool takes_max) {
  double sum = 0;
  double best = 0;
  bool is_first = true;
  for (const AxisSample& y : rows) {
    for (const AxisSample& x : columns) {
      double values[4] = {0, 0, 0, 0};
      if (!y.is_outside && !x.is_outside) {
        values[0] = (1 - y.high_weight) * (1 - x.high_weight) * plane[y.low * width + x.low];
        values[1] = (1 - y.high_weight) * x.high_weight * plane[y.low * width + x.high];
        values[2] = y.high_weight * (1 - x.high_weight) * plane[y.high * width + x.low];
        values[3] = y.high_weight * x.high_weight * plane[y.high * width + x.high];
      }
      sum += values[0] + values[1] + values[2] + values[3];
      const double greatest = *std::max_element(std::begin(values), std::end(values));
      best = is_first ? greatest : std::max(best, greatest);
      is_first = false;
    }
  }
  if (takes_max) return best;
  return sum / static_cast<double>(std::max<size_t>(rows.size() * columns.size(), 1));
}

bool shifts_half_pixel(const Call& call) {
  if (call.opset() < 16) return false;
  const std::string mode = call.get_string("coordinate_transformation_mode", "half_pixel");
  if (mode != "half_pixel" && mode != "output_half_pixel")
    call.fail("coordinate_transformation_mode '", mode,
              "'; it has to be half_pixel or output_half_pixel");
  return mode == "half_pixel";
}

void evaluate_roi_align(Call& call) {
  const RegionShape shape = roi_align_shape(call);
  const std::string mode = call.get_string("mode", "avg");
  if (mode != "avg" && mode != "max") call.fail("mode '", mode, "'; it has to be avg or max");
  const bool half_pixel = shifts_half_pixel(call);
  const double offset = half_pixel ? 0.5 : 0;
  const double scale = call.get_float("spatial_scale", 1);
  const std::vector<double> x = numbers(call, 0, "X");
  const std::vector<double> rois = numbers(call, 1, "rois");
  const std::vector<double> images = numbers(call, 2, "batch_indices");
  const int64_t channels = shape.output[1];
  const int64_t height = call.shape(0)[2];
  const int64_t width = call.shape(0)[3];
  std::vector<double> y(checked_count(call, shape.output), 0);
  size_t target = 0;
  for (int64_t r = 0; r < shape.output[0]; ++r) {
    const double* roi = rois.data() + r * 4;
    const int64_t n = batch_index(call, images[static_cast<size_t>(r)]);
    const AxisSamples columns = samples_along(
        call, roi[0] * scale - offset, roi[2] * scale - offset, half_pixel, shape.width, width);
    const AxisSamples rows = samples_along(call, roi[1] * scale - offset, roi[3] * scale - offset,
                                           half_pixel, shape.height, height);
    const auto part = [](const AxisSamples& samples, int64_t p) {
      return std::span(samples.samples)
          .subspan(static_cast<size_t>(p * samples.each), static_cast<size_t>(samples.each));
    };
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t ph = 0; ph < shape.height; ++ph)
        for (int64_t pw = 0; pw < shape.width; ++pw)
          y[target++] = pooled_samples(x.data() + (n * channels + c) * height * width, width,
                                       part(rows, ph), part(columns, pw), mode == "max");
  }
  call.give(0, Array::of_doubles(call.type(0), shape.output, y));
}

}  // namespace

void add_region_operators(OperatorTable& table) {
  table.add({.name = "MaxRoiPool",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_max_roi_pool,
             .evaluate = evaluate_max_roi_pool});
  table.add({.name = "RoiAlign",
             .min_inputs = 3,
             .max_inputs = 3,
             .infer = infer_roi_align,
             .evaluate = evaluate_roi_align});
}

}  // namespace crema::onnx
