// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include <algorithm>
#include <cmath>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

enum class LossReduction { none, mean, sum };

LossReduction loss_reduction(const Call& call) {
  const std::string name = call.get_string("reduction", "mean");
  if (name == "none") return LossReduction::none;
  if (name == "mean") return LossReduction::mean;
  if (name == "sum") return LossReduction::sum;
  call.fail("reduction '", name, "'; it has to be none, mean or sum");
}

/// Inputs: scores (N, C, d1...), labels (N, d1...), weights (C) or none.
void infer_loss(Call& call) {
  need_rank(call, 0, "scores", 2, 8);
  const Shape& scores = call.shape(0);
  std::vector<int64_t> dims = scores.dims();
  dims.erase(dims.begin() + 1);
  need_shape(call, 1, "labels", Shape(dims));
  if (call.has(2)) need_shape(call, 2, "weights", Shape{scores[1]});
  const bool none = loss_reduction(call) == LossReduction::none;
  call.give(0, call.type(0), none ? Shape(dims) : Shape());
  call.give(1, call.type(0), scores);
}

/// Logarithms of the softmax over axis 1.
std::vector<double> log_probabilities(std::vector<double> values, const AxisView& view) {
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      const auto at = [&](int64_t k) -> double& {
        return values[static_cast<size_t>((o * view.size + k) * view.inner + i)];
      };
      double greatest = view.size > 0 ? at(0) : 0;
      for (int64_t k = 1; k < view.size; ++k) greatest = std::max(greatest, at(k));
      double sum = 0;
      for (int64_t k = 0; k < view.size; ++k) sum += std::exp(at(k) - greatest);
      for (int64_t k = 0; k < view.size; ++k) at(k) -= greatest + std::log(sum);
    }
  }
  return values;
}

void evaluate_loss(Call& call) {
  const Array& scores = call.constant(0, "scores");
  const std::vector<int64_t> labels = integers(call, 1, "labels");
  const AxisView view = view_along(scores.shape(), 1);
  std::vector<double> logs = scores.doubles();
  if (call.op() == "SoftmaxCrossEntropyLoss") logs = log_probabilities(std::move(logs), view);
  std::vector<double> weights(static_cast<size_t>(view.size), 1.0);
  if (call.has(2)) weights = numbers(call, 2, "weights");
  const bool ignores = call.has_attribute("ignore_index");
  const int64_t ignored = call.get_int("ignore_index", 0);
  std::vector<double> losses(labels.size(), 0);
  double sum = 0;
  double weight_sum = 0;
  for (size_t p = 0; p < labels.size(); ++p) {
    const int64_t label = labels[p];
    if (ignores && label == ignored) continue;
    if (label < 0 || label >= view.size) call.fail("label ", label, " is no class of ", view.size);
    const int64_t o = static_cast<int64_t>(p) / view.inner;
    const int64_t i = static_cast<int64_t>(p) % view.inner;
    const double weight = weights[static_cast<size_t>(label)];
    losses[p] = -weight * logs[static_cast<size_t>((o * view.size + label) * view.inner + i)];
    sum += losses[p];
    weight_sum += weight;
  }
  switch (loss_reduction(call)) {
    case LossReduction::none:
      call.give(0, Array::of_doubles(scores.type(), call.shape(1), losses));
      break;
    case LossReduction::sum:
      call.give(0, Array::scalar(scores.type(), sum));
      break;
    case LossReduction::mean:
      call.give(0, Array::scalar(scores.type(), sum / weight_sum));
      break;
  }
  if (call.wants(1)) call.give(1, Array::of_doubles(scores.type(), scores.shape(), logs));
}

}  // namespace

void add_loss_operators(OperatorTable& table) {
  table.add({.name = "NegativeLogLikelihoodLoss",
             .min_inputs = 2,
             .max_inputs = 3,
             .infer = infer_loss,
             .evaluate = evaluate_loss});
  table.add({.name = "SoftmaxCrossEntropyLoss",
             .min_inputs = 2,
             .max_inputs = 3,
             .max_outputs = 2,
             .infer = infer_loss,
             .evaluate = evaluate_loss});
}

}  // namespace crema::onnx
