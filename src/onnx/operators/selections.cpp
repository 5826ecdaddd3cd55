// TopK and NonMaxSuppression: the best of a list.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

struct TopKChoice {
  int axis = 0;
  int64_t k = 0;
  bool is_bound = false;  // K follows from values, as from what a detector finds: at most all
  Shape shape;
};

TopKChoice top_k_of(const Call& call) {
  TopKChoice choice;
  choice.shape = call.shape(0);
  choice.axis = call.canonical(call.get_int("axis", -1), choice.shape.rank());
  choice.k = choice.shape[choice.axis];
  choice.is_bound = call.opset() >= 10 && call.has(1) && !call.is_constant(1);
  if (choice.is_bound) return choice;
  const int64_t k = call.opset() < 10 ? call.need_int("k") : integer(call, 1, "K");
  need_within(call, "K", k, 0, choice.k);
  choice.k = k;
  choice.shape.set(choice.axis, k);
  return choice;
}

void infer_top_k(Call& call) {
  const TopKChoice choice = top_k_of(call);
  if (choice.is_bound) {
    call.give_bound(0, call.type(0), choice.shape);
    call.give_bound(1, TensorProto::INT64, choice.shape);
    return;
  }
  call.give(0, call.type(0), choice.shape);
  call.give(1, TensorProto::INT64, choice.shape);
}

void evaluate_top_k(Call& call) {
  const Array& data = call.constant(0, "X");
  const TopKChoice choice = top_k_of(call);
  const AxisView view = view_along(data.shape(), choice.axis);
  const bool largest = call.get_int("largest", 1) != 0;
  std::vector<uint64_t> keys = order_keys(data, false);
  // Upside down, NaN, which is above all, comes last.
  for (uint64_t& key : keys) key = largest ? key : ~key;
  const size_t count = checked_count(call, choice.shape);
  std::vector<int64_t> sources(count, 0);
  std::vector<int64_t> indices(count, 0);
  std::vector<int64_t> order(static_cast<size_t>(view.size));
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      const auto place = [&](int64_t k) { return (o * view.size + k) * view.inner + i; };
      std::iota(order.begin(), order.end(), int64_t{0});
      // Of equal elements, the first one comes first.
      std::partial_sort(order.begin(), order.begin() + choice.k, order.end(),
                        [&](int64_t a, int64_t b) {
                          const uint64_t left = keys[static_cast<size_t>(place(a))];
                          const uint64_t right = keys[static_cast<size_t>(place(b))];
                          return left != right ? left > right : a < b;
                        });
      for (int64_t k = 0; k < choice.k; ++k) {
        const auto target = static_cast<size_t>((o * choice.k + k) * view.inner + i);
        indices[target] = order[static_cast<size_t>(k)];
        sources[target] = place(indices[target]);
      }
    }
  }
  call.give(0, data.taken(choice.shape, sources));
  call.give(1, Array::of_integers(TensorProto::INT64, choice.shape, indices));
}

/// The greatest number of boxes of a class.
int64_t suppression_limit(const Call& call) {
  const int64_t boxes = call.shape(0)[1];
  if (!call.has(2)) return 0;
  if (!call.is_constant(2)) return boxes;
  return std::clamp(integer(call, 2, "max_output_boxes_per_class"), int64_t{0}, boxes);
}

void infer_suppression(Call& call) {
  need_rank(call, 0, "boxes", 3, 3);
  need_rank(call, 1, "scores", 3, 3);
  const Shape& boxes = call.shape(0);
  const Shape& scores = call.shape(1);
  if (boxes[2] != 4 || scores[0] != boxes[0] || scores[2] != boxes[1])
    call.fail("boxes ", boxes.str(), " and scores ", scores.str(),
              " do not fit; they are (batch, boxes, 4) and (batch, classes, boxes)");
  const Shape bound{Shape{boxes[0], scores[1], suppression_limit(call)}.count(), 3};
  call.give_bound(0, TensorProto::INT64, bound);
}

struct Corners {
  double y_min = 0;
  double x_min = 0;
  double y_max = 0;
  double x_max = 0;
  double area() const { return (y_max - y_min) * (x_max - x_min); }
};

Corners corners_of(const double* box, bool is_center) {
  if (is_center)  // x, y, width, height
    return {box[1] - box[3] / 2, box[0] - box[2] / 2, box[1] + box[3] / 2, box[0] + box[2] / 2};
  return {std::min(box[0], box[2]), std::min(box[1], box[3]), std::max(box[0], box[2]),
          std::max(box[1], box[3])};
}

bool overlap_exceeds(const Corners& a, const Corners& b, double threshold) {
  const double height = std::min(a.y_max, b.y_max) - std::max(a.y_min, b.y_min);
  const double width = std::min(a.x_max, b.x_max) - std::max(a.x_min, b.x_min);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  const double common = height * width;
  // The quotient in single precision: a threshold in a file is of that precision.
  const auto overlap = static_cast<float>(common / (a.area() + b.area() - common));
  return overlap > static_cast<float>(threshold);
}

void evaluate_suppression(Call& call) {
  infer_suppression(call);
  const std::vector<double> boxes = numbers(call, 0, "boxes");
  const std::vector<double> scores = numbers(call, 1, "scores");
  const int64_t limit = suppression_limit(call);
  const double iou = call.has(3) ? number(call, 3, "iou_threshold") : 0;
  const double least =
      call.has(4) ? number(call, 4, "score_threshold") : -std::numeric_limits<double>::infinity();
  const bool is_center = call.get_int("center_point_box", 0) != 0;
  const Shape shape = call.shape(1);
  const int64_t count = shape[2];
  std::vector<int64_t> selected;
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      const double* class_scores = scores.data() + (n * shape[1] + c) * count;
      std::vector<int64_t> candidates;
      for (int64_t b = 0; b < count; ++b) {
        const double score = class_scores[b];
        if (call.has(4) ? score > least : !std::isnan(score)) candidates.push_back(b);
      }
      std::stable_sort(candidates.begin(), candidates.end(),
                       [&](int64_t a, int64_t b) { return class_scores[a] > class_scores[b]; });
      std::vector<Corners> kept;
      for (const int64_t b : candidates) {
        if (static_cast<int64_t>(kept.size()) >= limit) break;
        const Corners corners = corners_of(boxes.data() + (n * count + b) * 4, is_center);
        if (std::any_of(kept.begin(), kept.end(),
                        [&](const Corners& other) { return overlap_exceeds(corners, other, iou); }))
          continue;
        kept.push_back(corners);
        selected.insert(selected.end(), {n, c, b});
      }
    }
  }
  const Shape result{static_cast<int64_t>(selected.size() / 3), 3};
  call.give(0, Array::of_integers(TensorProto::INT64, result, selected));
}

}  // namespace

void add_selection_operators(OperatorTable& table) {
  table.add({.name = "TopK",
             .max_inputs = 2,
             .max_outputs = 2,
             .infer = infer_top_k,
             .evaluate = evaluate_top_k});
  table.add({.name = "NonMaxSuppression",
             .min_inputs = 2,
             .max_inputs = 5,
             .infer = infer_suppression,
             .evaluate = evaluate_suppression});
}

}  // namespace crema::onnx
