#include "support/net_test.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "crema/parameter_arena.hpp"
#include "crema/random.hpp"
#include "model/text_format.hpp"

namespace crema::test {
namespace {

/// Enough to catch a wrong formula, few enough to stay quick.
constexpr int64_t kChecksATensor = 24;
constexpr double kStep = 1e-5;

void set(Tensor& tensor, int64_t index, double value) {
  if (tensor.dtype() == DType::f64) {
    tensor.change<double>()[index] = value;
  } else {
    tensor.change<float>()[index] = static_cast<float>(value);
  }
}

struct GradientChecks {
  double loss = 0;  // at the point where the gradients are
  int64_t values = 0;
  int64_t kinks = 0;  // of these, checked on one side
};

/// At a kink, where the differences on both sides disagree, the gradient may be that of one side.
void check_tensor(Net& net, const std::string& what, Tensor& values,
                  const std::vector<double>& gradient, double tolerance, GradientChecks& checks) {
  const int64_t stride = std::max<int64_t>(1, values.count() / kChecksATensor);
  for (int64_t i = 0; i < values.count(); i += stride) {
    const double before = values.at(i);
    set(values, i, before + kStep);
    const double above = net.forward();
    set(values, i, before - kStep);
    const double below = net.forward();
    set(values, i, before);
    const double numeric = (above - below) / (2 * kStep);
    const double analytic = gradient[static_cast<size_t>(i)];
    const double bound = tolerance * std::max(1.0, std::abs(numeric));
    const auto is_near = [&](double value) { return std::abs(analytic - value) <= bound; };
    const double right = (above - checks.loss) / kStep, left = (checks.loss - below) / kStep;
    ++checks.values;
    if (is_near(numeric)) continue;
    EXPECT_TRUE(std::abs(right - left) > 2 * bound && (is_near(left) || is_near(right)))
        << what << " [" << i << "]: " << analytic << " instead of " << numeric << ", from the left "
        << left << ", from the right " << right;
    ++checks.kinks;
  }
}

}  // namespace

NetParameter net_param(const std::string& text) {
  NetParameter param;
  parse_text_proto(text, "test.prototxt", param);
  return param;
}

void fill_inputs(Net& net, double low, double high, int classes) {
  for (const auto& name : net.inputs()) {
    Tensor& input = net.input(name);
    Random random(11, stream_id(name));
    for (int64_t i = 0; i < input.count(); ++i) {
      set(input, i,
          name == "label" ? static_cast<double>(random.below(static_cast<uint64_t>(classes)))
                          : random.uniform(low, high));
    }
  }
}

std::vector<double> params_of(Net& net) {
  std::vector<double> values;
  for (const auto& segment : net.params().segments()) {
    const auto own = values_of(segment.parameter->data);
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

std::vector<double> gradients_of(Net& net) {
  std::vector<double> values;
  for (const auto& segment : net.params().segments()) {
    const auto own = values_of(segment.parameter->gradient());
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

void check_net_gradients(Net& net, double tolerance) {
  GradientChecks checks{.loss = net.forward()};
  net.clear_gradients();
  net.backward();
  std::vector<std::vector<double>> of_params, of_inputs;
  for (const auto& segment : net.params().segments()) {
    of_params.push_back(values_of(segment.parameter->gradient()));
  }
  for (const auto& name : net.inputs()) {
    Blob& blob = *net.blob_versions(name).front();
    of_inputs.push_back(net.has_diff(blob) ? values_of(blob.diff) : std::vector<double>());
  }
  size_t at = 0;
  for (const auto& segment : net.params().segments()) {
    const auto& gradient = of_params[at++];
    if (!segment.parameter->needs_gradient) continue;
    check_tensor(net, segment.layer + " parameter " + std::to_string(segment.index),
                 segment.parameter->data, gradient, tolerance, checks);
  }
  at = 0;
  for (const auto& name : net.inputs()) {
    const auto& gradient = of_inputs[at++];
    if (!gradient.empty()) check_tensor(net, name, net.input(name), gradient, tolerance, checks);
  }
  EXPECT_LE(4 * checks.kinks, checks.values) << "at kinks, values are checked on one side only";
}

std::vector<double> gradients_of_a_pass(Net& net) {
  fill_inputs(net);
  net.forward();
  net.clear_gradients();
  net.backward();
  return gradients_of(net);
}

}  // namespace crema::test
