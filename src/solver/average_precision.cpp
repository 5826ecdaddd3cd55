#include "solver/average_precision.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "crema/error.hpp"
#include "crema/layer.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Right detections among the first so many.
struct Point {
  int64_t right, all;
  bool is_right;  // the last of them

  double precision() const { return static_cast<double>(right) / static_cast<double>(all); }
};

std::vector<Point> curve(std::vector<ScoredDetection>& detections) {
  std::stable_sort(
      detections.begin(), detections.end(),
      [](const ScoredDetection& a, const ScoredDetection& b) { return a.score > b.score; });
  std::vector<Point> points;
  int64_t right = 0;
  for (const ScoredDetection& one : detections) {
    right += one.right ? 1 : 0;
    points.push_back({right, static_cast<int64_t>(points.size()) + 1, one.right});
  }
  return points;
}

/// The outputs that are tops t of layers for which is(layer, t).
template <class Is>
std::vector<std::string> outputs_of(const Net& net, const Is& is) {
  std::vector<std::string> found;
  for (const Layer* layer : net.layers()) {
    for (int t = 0; t < layer->param().top_size(); ++t) {
      const std::string& top = layer->param().top(t);
      const bool is_output = std::ranges::find(net.outputs(), top) != net.outputs().end();
      if (is_output && is(*layer, t)) found.push_back(top);
    }
  }
  return found;
}

}  // namespace

ApVersion ap_version(std::string_view name, std::string_view setting) {
  if (name == "11point") return ApVersion::eleven_point;
  if (name == "MaxIntegral") return ApVersion::max_integral;
  if (name == "Integral") return ApVersion::integral;
  throw Error(setting, " '", name, "' is none of 11point, MaxIntegral and Integral",
              did_you_mean(name, {"11point", "MaxIntegral", "Integral"}));
}

double average_precision(std::vector<ScoredDetection> detections, int64_t boxes,
                         ApVersion version) {
  if (boxes == 0 || detections.empty()) return 0;
  const std::vector<Point> points = curve(detections);
  if (points.back().right > boxes)
    throw Error(points.back().right, " detections are right, but there are ", boxes,
                " true boxes; rows of some batch are missing");
  double sum = 0;
  if (version == ApVersion::integral) {
    for (const Point& point : points) {
      if (point.is_right) sum += point.precision();
    }
    return sum / static_cast<double>(boxes);
  }
  double best = 0;  // precision at this recall or a higher one
  if (version == ApVersion::max_integral) {
    for (auto point = points.rbegin(); point != points.rend(); ++point) {
      best = std::max(best, point->precision());
      if (point->is_right) sum += best;
    }
    return sum / static_cast<double>(boxes);
  }
  auto point = points.rbegin();
  for (int64_t tenths = 10; tenths >= 0; --tenths) {
    for (; point != points.rend() && 10 * point->right >= tenths * boxes; ++point) {
      best = std::max(best, point->precision());
    }
    sum += best;
  }
  return sum / 11;
}

void DetectionScores::add(const Tensor& rows) {
  constexpr int64_t kRow = 5;
  const Shape& shape = rows.shape();
  if (shape.rank() == 0 || shape[shape.rank() - 1] != kRow)
    throw Error(
        "rows of DetectionEvaluate have 5 values (image, label, confidence, right, wrong), "
        "not the shape ",
        shape.str());
  for (int64_t i = 0; i < rows.count(); i += kRow) {
    std::array<double, kRow> row;
    for (int64_t k = 0; k < kRow; ++k) row[static_cast<size_t>(k)] = rows.at(i + k);
    Counts& counts = counts_[static_cast<int64_t>(row[1])];
    if (row[0] < 0) {
      counts.boxes += static_cast<int64_t>(row[2]);
    } else if (row[3] != 0 || row[4] != 0) {
      counts.detections.push_back({row[2], row[3] != 0});
    }
  }
}

std::vector<DetectionScores::Class> DetectionScores::classes(ApVersion version) const {
  std::vector<Class> all;
  for (const auto& [label, counts] : counts_) {
    if (counts.boxes == 0) continue;
    all.push_back({label, counts.boxes, static_cast<int64_t>(counts.detections.size()),
                   average_precision(counts.detections, counts.boxes, version)});
  }
  return all;
}

std::optional<double> DetectionScores::mean(ApVersion version) const {
  double sum = 0;
  const std::vector<Class> all = classes(version);
  for (const Class& one : all) sum += one.average_precision;
  return all.empty() ? std::nullopt : std::optional(sum / static_cast<double>(all.size()));
}

std::vector<std::string> detection_outputs(const Net& net) {
  return outputs_of(net,
                    [](const Layer& layer, int) { return layer.type() == "DetectionEvaluate"; });
}

std::vector<std::string> row_outputs(const Net& net) {
  return outputs_of(net, [](const Layer& layer, int t) {
    const bool has_rows =
        layer.top_shapes() == TopShapes::from_values && !layer.has_unbounded_tops();
    return has_rows || layer.is_late(t);
  });
}

LabelNames class_names(const Net& net) {
  for (const Layer* layer : net.layers()) {
    const std::string& file = layer->param().annotated_data_param().label_map_file();
    if (layer->type() != "AnnotatedData" || file.empty()) continue;
    try {
      return LabelNames::read(file);
    } catch (const Error&) {
      return {};  // it was there when the layer was made
    }
  }
  return {};
}

std::string class_name(const LabelNames& names, int64_t label) {
  const auto number = static_cast<int32_t>(label);
  return names.has(number) ? names.display_name(number) : "";
}

}  // namespace crema
