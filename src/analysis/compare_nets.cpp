#include "analysis/compare_nets.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "crema/random.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The layers that read the blob, and as which bottom.
struct Reader {
  const Layer* layer;
  int bottom;
};
std::vector<Reader> readers_of(const Net& net, const std::string& blob) {
  std::vector<Reader> readers;
  for (const Layer* layer : net.layers()) {
    const LayerParameter& param = layer->param();
    for (int b = 0; b < param.bottom_size(); ++b) {
      if (param.bottom(b) == blob) readers.push_back({layer, b});
    }
  }
  return readers;
}

/// What an input holds, going by who reads it.
struct Contents {
  enum class Kind : uint8_t { numbers, indices, marks, boxes, image_sizes } kind = Kind::numbers;
  int64_t below = 2;              // of indices
  double mark = 1;                // of marks
  int64_t height = 1, width = 1;  // of images
};

/// Whether 1 there says that a sequence goes on.
bool reads_marks(const Reader& reader) {
  const std::string& type = reader.layer->type();
  const bool recurrent = type == "LSTM" || type == "GRU" || type == "RNN" || type == "LSTMUnit";
  return recurrent && reader.bottom == (type == "LSTMUnit" ? 2 : 1);
}

Contents contents_of(Net& net, const std::string& input) {
  constexpr int64_t kFew = 2;
  for (const auto& [layer, bottom] : readers_of(net, input)) {
    const std::string& type = layer->type();
    if (type == "Embed" && bottom == 0)
      return {Contents::Kind::indices, layer->param().embed_param().input_dim()};
    if (type == "Gather" && bottom == 1) return {Contents::Kind::indices, kFew};
    if ((type == "BatchReindex" || type == "Filter") && bottom == layer->param().bottom_size() - 1)
      return {Contents::Kind::indices, 1};
    if (type == "OnnxOperator") {
      const OnnxOperatorParameter& param = layer->param().onnx_operator_param();
      const bool is_float = bottom >= param.bottom_type_size() ||
                            param.bottom_type(bottom) == onnx::TensorProto::FLOAT ||
                            param.bottom_type(bottom) == onnx::TensorProto::DOUBLE ||
                            param.bottom_type(bottom) == onnx::TensorProto::FLOAT16 ||
                            param.bottom_type(bottom) == onnx::TensorProto::BFLOAT16;
      if (!is_float) return {Contents::Kind::indices, kFew};
    }
    if (reads_marks({layer, bottom})) return {Contents::Kind::marks};
    if (type == "Power") {
      // Marks that are made of zeros.
      const PowerParameter& power = layer->param().power_param();
      if (power.power() == 1 && power.scale() != 0 &&
          std::ranges::any_of(readers_of(net, layer->param().top(0)), reads_marks)) {
        const double shift = power.shift(), scale = power.scale();
        return {.kind = Contents::Kind::marks, .mark = (1 - shift) / scale};
      }
    }
    if (type == "Proposal" && bottom == 2) {
      // Height, width and scale of the images that another input has.
      for (const std::string& name : net.inputs()) {
        const Shape& shape = net.input(name).shape();
        if (shape.rank() == 4)
          return {.kind = Contents::Kind::image_sizes, .height = shape[2], .width = shape[3]};
      }
    }
    if ((type.starts_with("ROI") || type.starts_with("PSROI")) && bottom == 1)
      return {.kind = Contents::Kind::boxes};
  }
  return {};
}

template <class T>
void fill(T* values, const Shape& shape, const Contents& contents, uint64_t seed) {
  const int64_t count = shape.count();
  Random random(seed, 0);
  constexpr double kGrowth = 20;  // pixels
  for (int64_t i = 0; i < count; ++i) {
    switch (contents.kind) {
      case Contents::Kind::numbers:
        values[i] = static_cast<T>(random.uniform(-1, 1));
        break;
      case Contents::Kind::indices:
        values[i] = static_cast<T>(random.below(static_cast<uint64_t>(contents.below)));
        break;
      case Contents::Kind::marks:
        values[i] = static_cast<T>(contents.mark);
        break;
      case Contents::Kind::image_sizes: {
        const int64_t sizes[] = {contents.height, contents.width, 1};
        values[i] = static_cast<T>(sizes[i % 3]);
        break;
      }
      case Contents::Kind::boxes: {
        // image, x1, y1, x2, y2
        constexpr double kCorners[] = {0, 2, 3, 40, 50};
        constexpr int64_t kColumns = 5;
        values[i] = static_cast<T>(kCorners[i % kColumns] +
                                   (i % kColumns > 2 ? random.uniform(0, kGrowth) : 0));
        break;
      }
    }
  }
}

/// The layer whose top is the blob; the last one of several in place.
std::string maker_of(const Net& net, const std::string& blob) {
  std::string maker;
  for (const Layer* layer : net.layers()) {
    if (layer->is_input()) continue;
    for (const std::string& top : layer->param().top()) {
      if (top == blob) maker = layer->name();
    }
  }
  return maker;
}

std::vector<std::pair<std::string, std::string>> pairs_of(const std::vector<std::string>& a,
                                                          const std::vector<std::string>& b) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const bool named = std::ranges::all_of(
      a, [&](const std::string& name) { return std::ranges::count(b, name) > 0; });
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    pairs.emplace_back(a[i], named ? a[i] : b[i]);
  }
  return pairs;
}

void copy_inputs(Net& a, Net& b) {
  if (a.inputs().size() != b.inputs().size()) {
    throw Error("the first net has ", a.inputs().size(), " inputs (", joined(a.inputs()),
                ") and the second ", b.inputs().size(), " (", joined(b.inputs()), ")");
  }
  for (const auto& [from, to] : pairs_of(a.inputs(), b.inputs())) {
    const Tensor& values = a.input(from);
    if (const Shape own = b.input(to).shape(); own != values.shape()) {
      try {
        b.reshape_input(to, values.shape());
        b.reshape();
      } catch (const Error& error) {
        throw Error("input '", from, "' of the first net is of ", values.shape().str(), ", and '",
                    to, "' of the second of ", own.str(), ": ", error.what());
      }
    }
    b.input(to).copy_from(values);
  }
}

}  // namespace

std::vector<std::string> computed_outputs(const Net& net) {
  std::vector<std::string> outputs;
  std::ranges::copy_if(net.outputs(), std::back_inserter(outputs), [&](const std::string& name) {
    return std::ranges::count(net.inputs(), name) == 0;
  });
  return outputs;
}

bool NetComparison::same(double tolerance) const {
  return only_a.empty() && only_b.empty() &&
         std::ranges::all_of(
             outputs, [&](const ValueDifference& output) { return output.within(tolerance); });
}

double NetComparison::relative() const {
  double greatest = 0;
  for (const ValueDifference& output : outputs) {
    greatest = std::max(greatest, output.problem.empty() ? output.relative : HUGE_VAL);
  }
  return greatest;
}

ValueDifference difference_of(const std::string& name, const Tensor& a, const Tensor& b) {
  ValueDifference difference{.name = name, .other = name};
  if (a.shape() != b.shape()) {
    difference.problem = text(a.shape().str(), " and ", b.shape().str());
    return difference;
  }
  double greatest = 0;
  bool has_number = a.count() == 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = a.at(i), y = b.at(i);
    const bool both_nan = std::isnan(x) && std::isnan(y);
    has_number = has_number || !both_nan;
    if (std::isfinite(x)) greatest = std::max(greatest, std::abs(x));
    if (x == y || both_nan) continue;
    const double distance = std::abs(x - y);
    difference.absolute = std::max(difference.absolute, std::isnan(distance) ? HUGE_VAL : distance);
  }
  difference.relative = difference.absolute / (greatest > 0 ? greatest : 1);
  // Nets that compute nothing do not compute the same.
  if (!has_number) difference.problem = "only NaN";
  return difference;
}

namespace {

// A row of detections: image, label, score, and four sides of a box.
constexpr int64_t kColumns = 7, kLabel = 1, kScore = 2;

bool gives_detections(const Net& net, const std::string& blob) {
  const std::string maker = maker_of(net, blob);
  return std::ranges::any_of(net.layers(), [&](const Layer* layer) {
    return layer->name() == maker && layer->type().ends_with("DetectionOutput");
  });
}

/// `rows`, of which those of one image and label whose scores are nearly the same may have changed
/// places, in the order of `like`.
Tensor in_order_of(const Tensor& like, const Tensor& rows) {
  constexpr double kNearScores = 1e-5;
  const int64_t count = rows.count() / kColumns;
  std::vector<std::array<double, kColumns>> found(static_cast<size_t>(count)), wanted(found);
  for (int64_t i = 0; i < rows.count(); ++i) {
    const auto row = static_cast<size_t>(i / kColumns), column = static_cast<size_t>(i % kColumns);
    found[row][column] = rows.at(i);
    wanted[row][column] = like.at(i);
  }
  const auto distance = [](const auto& a, const auto& b) {
    double greatest = 0;
    for (size_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(a[i] - b[i]));
    return greatest;
  };
  for (size_t i = 0; i < found.size(); ++i) {
    size_t nearest = i;
    for (size_t k = i + 1; k < found.size(); ++k) {
      const bool is_neighbour = found[k][0] == found[i][0] &&
                                found[k][kLabel] == found[i][kLabel] &&
                                std::abs(found[k][kScore] - found[i][kScore]) <= kNearScores;
      if (!is_neighbour) break;
      if (distance(found[k], wanted[i]) < distance(found[nearest], wanted[i])) nearest = k;
    }
    std::swap(found[i], found[nearest]);
  }
  Tensor result(rows.shape(), DType::f64);
  auto* to = result.overwrite<double>();
  for (const auto& row : found) to = std::copy(row.begin(), row.end(), to);
  return result;
}

}  // namespace

ValueDifference difference_of_blob(Net& net, const std::string& name, const Tensor& b) {
  const Tensor a = net.output(name);
  const bool has_rows = a.shape() == b.shape() && a.shape().rank() > 0 && a.shape()[-1] == kColumns;
  if (!has_rows || !gives_detections(net, name)) return difference_of(name, a, b);
  return difference_of(name, a, in_order_of(a, b));
}

void fill_input(Net& net, const std::string& name, uint64_t seed) {
  Tensor& input = net.input(name);
  const Contents contents = contents_of(net, name);
  if (input.dtype() == DType::f64) {
    fill(input.overwrite<double>(), input.shape(), contents, seed);
  } else {
    fill(input.overwrite<float>(), input.shape(), contents, seed);
  }
}

NetComparison compare_nets(Net& a, Net& b, double tolerance) {
  copy_inputs(a, b);
  a.forward();
  b.forward();
  NetComparison comparison;
  const auto compare = [](Net& first, Net& second, const std::string& name,
                          const std::string& other) {
    ValueDifference difference = difference_of_blob(first, name, second.output(other));
    difference.other = other;
    difference.layer = maker_of(first, name);
    return difference;
  };
  for (const std::string& name : a.blob_names()) {
    if (std::ranges::count(a.inputs(), name) > 0 || !b.has_blob(name)) continue;
    // Layers in place that one net has alone make another value of the name.
    const bool in_place = a.blob_versions(name).size() > 1 || b.blob_versions(name).size() > 1;
    if (in_place && maker_of(a, name) != maker_of(b, name)) continue;
    std::optional<ValueDifference> difference;
    try {
      difference = compare(a, b, name, name);
    } catch (const Error&) {
      continue;  // one of them keeps it no longer
    }
    comparison.values.push_back(*difference);
    if (comparison.first < 0 && !difference->within(tolerance))
      comparison.first = static_cast<int>(comparison.values.size()) - 1;
  }
  const std::vector<std::string> outputs_a = computed_outputs(a), outputs_b = computed_outputs(b);
  const auto pairs = pairs_of(outputs_a, outputs_b);
  std::set<std::string> seen_a, seen_b;
  for (const auto& [name, other] : pairs) {
    comparison.outputs.push_back(compare(a, b, name, other));
    seen_a.insert(name);
    seen_b.insert(other);
  }
  for (const std::string& name : outputs_a) {
    if (!seen_a.contains(name)) comparison.only_a.push_back(name);
  }
  for (const std::string& name : outputs_b) {
    if (!seen_b.contains(name)) comparison.only_b.push_back(name);
  }
  return comparison;
}

}  // namespace crema
