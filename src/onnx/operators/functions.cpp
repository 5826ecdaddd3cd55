// Functions of one tensor, element by element: Exp, Relu, Clip and others. Floats are computed in
// double and rounded to their type once, integers in int64.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "onnx/operators/all.hpp"
#include "onnx/operators/spread.hpp"

namespace crema::onnx {

namespace {

/// f(x), with up to two attributes a and b.
struct Function {
  const char* name;
  double (*of)(double x, double a, double b);
  const char* a = nullptr;
  double a_default = 0;
  const char* b = nullptr;
  double b_default = 0;
};

double sigmoid_of(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

double softplus_of(double x) {
  if (std::isnan(x)) return x;
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

double sign_of(double x) {
  if (std::isnan(x)) return x;
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

double clamped(double x, double low, double high) { return std::min(std::max(x, low), high); }

// The functions of floats alone.
constexpr Function kFunctions[] = {
    {"Acos", [](double x, double, double) { return std::acos(x); }},
    {"Acosh", [](double x, double, double) { return std::acosh(x); }},
    {"Asin", [](double x, double, double) { return std::asin(x); }},
    {"Asinh", [](double x, double, double) { return std::asinh(x); }},
    {"Atan", [](double x, double, double) { return std::atan(x); }},
    {"Atanh", [](double x, double, double) { return std::atanh(x); }},
    {"Ceil", [](double x, double, double) { return std::ceil(x); }},
    {"Celu",
     [](double x, double a, double) {
       return std::max(x, 0.0) + std::min(0.0, a * std::expm1(std::min(x / a, 0.0)));
     },
     "alpha", 1},
    {"Cos", [](double x, double, double) { return std::cos(x); }},
    {"Cosh", [](double x, double, double) { return std::cosh(x); }},
    {"Elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, "alpha", 1},
    {"Erf", [](double x, double, double) { return std::erf(x); }},
    {"Exp", [](double x, double, double) { return std::exp(x); }},
    {"Floor", [](double x, double, double) { return std::floor(x); }},
    {"HardSigmoid", [](double x, double a, double b) { return clamped(a * x + b, 0, 1); }, "alpha",
     0.2F, "beta", 0.5},
    {"HardSwish", [](double x, double, double) { return x * clamped(x / 6 + 0.5, 0, 1); }},
    {"LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, "alpha", 0.01F},
    {"Log", [](double x, double, double) { return std::log(x); }},
    {"Mish", [](double x, double, double) { return x * std::tanh(softplus_of(x)); }},
    {"Reciprocal", [](double x, double, double) { return 1 / x; }},
    {"Round", [](double x, double, double) { return std::nearbyint(x); }},
    {"Selu", [](double x, double a, double b) { return b * (x < 0 ? a * std::expm1(x) : x); },
     "alpha", 1.67326319217681884765625, "gamma", 1.05070102214813232421875},
    {"Sigmoid", [](double x, double, double) { return sigmoid_of(x); }},
    {"Sin", [](double x, double, double) { return std::sin(x); }},
    {"Sinh", [](double x, double, double) { return std::sinh(x); }},
    {"Softplus", [](double x, double, double) { return softplus_of(x); }},
    {"Softsign", [](double x, double, double) { return x / (1 + std::abs(x)); }},
    {"Sqrt", [](double x, double, double) { return std::sqrt(x); }},
    {"Swish", [](double x, double a, double) { return x * sigmoid_of(a * x); }, "alpha", 1},
    {"Tan", [](double x, double, double) { return std::tan(x); }},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }},
    {"ThresholdedRelu", [](double x, double a, double) { return x > a ? x : 0; }, "alpha", 1},
};

// Those that take integers, too. What they give for integers stands in integer_function().
constexpr Function kNumberFunctions[] = {
    {"Abs", [](double x, double, double) { return std::abs(x); }},
    {"Neg", [](double x, double, double) { return -x; }},
    {"Relu", [](double x, double, double) { return x < 0 ? 0 : x; }},
    {"Sign", [](double x, double, double) { return sign_of(x); }},
};

constexpr Function kShrink = {"Shrink",
                              [](double x, double bias, double limit) {
                                return x < -limit ? x + bias : x > limit ? x - bias : 0;
                              },
                              "bias",
                              0,
                              "lambd",
                              0.5};

int64_t negated(int64_t x) {  // wraps around
  return static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(x));
}

int64_t integer_function(std::string_view name, int64_t x, bool no_sign) {
  if (name == "Neg") return negated(x);
  if (no_sign) return name == "Sign" ? static_cast<int64_t>(x != 0) : x;
  if (name == "Abs") return x < 0 ? negated(x) : x;
  if (name == "Relu") return std::max<int64_t>(x, 0);
  return (x > 0) - (x < 0);
}

const Function& function_of(const Call& call) {
  for (const Function& function : kFunctions) {
    if (call.op() == function.name) return function;
  }
  for (const Function& function : kNumberFunctions) {
    if (call.op() == function.name) return function;
  }
  return kShrink;
}

Array applied(const Call& call, const Function& function) {
  const double a = function.a == nullptr ? 0 : call.get_float(function.a, function.a_default);
  const double b = function.b == nullptr ? 0 : call.get_float(function.b, function.b_default);
  const Array& x = call.constant(0, "values");
  std::vector<double> values = x.doubles();
  for (double& value : values) value = function.of(value, a, b);
  return Array::of_doubles(x.type(), x.shape(), values);
}

void infer_function(Call& call) {
  if (!is_float(call.type(0)))
    call.fail("input 0 has values of ", type_name(call.type(0)), "; it takes floats");
  call.give(0, call.type(0), call.shape(0));
}

void infer_number_function(Call& call) {
  if (call.type(0) == TensorProto::BOOL) call.fail("input 0 has values of BOOL; it takes numbers");
  call.give(0, call.type(0), call.shape(0));
}

void evaluate_function(Call& call) { call.give(0, applied(call, function_of(call))); }

void evaluate_number_function(Call& call) {
  if (is_float(call.type(0))) return evaluate_function(call);
  const Array& x = call.constant(0, "values");
  const bool no_sign = is_unsigned(x.type());
  std::vector<int64_t> values = x.integers();
  for (int64_t& value : values) value = integer_function(call.op(), value, no_sign);
  call.give(0, Array::of_integers(x.type(), x.shape(), values));
}

void evaluate_gelu(Call& call) {
  const std::string approximate = call.get_string("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    call.fail("approximate is '", approximate, "'; use none or tanh");
  const Array& x = call.constant(0, "values");
  std::vector<double> values = x.doubles();
  for (double& value : values) {
    if (approximate == "none") {
      value *= 0.5 * std::erfc(-value / std::numbers::sqrt2);
    } else {
      const double slope = std::sqrt(2 / std::numbers::pi);
      value *= 0.5 * (1 + std::tanh(slope * (value + 0.044715 * value * value * value)));
    }
  }
  call.give(0, Array::of_doubles(x.type(), x.shape(), values));
}

void infer_clip(Call& call) {
  infer_number_function(call);
  for (size_t i = 1; i < call.inputs(); ++i) {
    if (!call.has(i)) continue;
    if (call.shape(i).count() != 1)
      call.fail("the bound of input ", i, " has shape ", call.shape(i).str(), "; it is a scalar");
    if (call.type(i) != call.type(0))
      call.fail("the bound of input ", i, " is ", type_name(call.type(i)), ", the values are ",
                type_name(call.type(0)));
  }
}

// A bound of Clip: an input from opset 11 on, an attribute before.
template <class T>
T clip_bound(const Call& call, size_t i, const char* name, T none) {
  if (call.has(i)) {
    const Array& bound = call.constant(i, name);
    if constexpr (std::is_same_v<T, double>) {
      return bound.at(0);
    } else {
      return bound.integers()[0];
    }
  }
  if (call.opset() >= 11) return none;
  return static_cast<T>(call.get_float(name, static_cast<double>(none)));
}

void evaluate_clip(Call& call) {
  const Array& x = call.constant(0, "values");
  if (is_float(x.type())) {
    const double infinity = std::numeric_limits<double>::infinity();
    const double low = clip_bound<double>(call, 1, "min", -infinity);
    const double high = clip_bound<double>(call, 2, "max", infinity);
    std::vector<double> values = x.doubles();
    for (double& value : values) value = clamped(value, low, high);
    return call.give(0, Array::of_doubles(x.type(), x.shape(), values));
  }
  if (call.opset() < 11) call.fail("integers are clipped from opset 12 on");
  // The bits of UINT64 are in the order of its values with the upper one turned.
  const uint64_t turned = x.type() == TensorProto::UINT64 ? uint64_t{1} << 63 : 0;
  const auto order = [&](int64_t bits) {
    return static_cast<int64_t>(static_cast<uint64_t>(bits) ^ turned);
  };
  std::vector<int64_t> values = x.integers();
  for (int64_t& value : values) {
    int64_t place = order(value);
    if (call.has(1)) place = std::max(place, order(clip_bound<int64_t>(call, 1, "min", 0)));
    if (call.has(2)) place = std::min(place, order(clip_bound<int64_t>(call, 2, "max", 0)));
    value = order(place);
  }
  call.give(0, Array::of_integers(x.type(), x.shape(), values));
}

void infer_finite_test(Call& call) {
  infer_function(call);
  call.give(0, TensorProto::BOOL, call.shape(0));
}

void evaluate_finite_test(Call& call) {
  const bool negative = call.get_int("detect_negative", 1) != 0;
  const bool positive = call.get_int("detect_positive", 1) != 0;
  const bool of_nan = call.op() == "IsNaN";
  const Array& x = call.constant(0, "values");
  std::vector<int64_t> marks;
  for (const double value : x.doubles()) {
    const bool infinite = std::isinf(value) && (value < 0 ? negative : positive);
    marks.push_back(of_nan ? std::isnan(value) : infinite);
  }
  call.give(0, Array::of_integers(TensorProto::BOOL, x.shape(), marks));
}

void infer_prelu(Call& call) {
  infer_number_function(call);
  if (call.type(1) != call.type(0))
    call.fail("slopes of ", type_name(call.type(1)), " for values of ", type_name(call.type(0)));
  if (broadcast(call.shape(1), call.shape(0)) != call.shape(0))
    call.fail("slopes of shape ", call.shape(1).str(), " do not broadcast to ",
              call.shape(0).str());
}

void evaluate_prelu(Call& call) {
  const Array& x = call.constant(0, "values");
  const Array& slope = call.constant(1, "slopes");
  if (is_float(x.type())) {
    std::vector<double> values = x.doubles();
    const auto slopes = spread(slope.doubles(), slope.shape(), x.shape());
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] < 0) values[i] *= slopes[i];
    }
    return call.give(0, Array::of_doubles(x.type(), x.shape(), values));
  }
  std::vector<int64_t> values = x.integers();
  const auto slopes = spread(slope.integers(), slope.shape(), x.shape());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 && !is_unsigned(x.type()))
      values[i] =
          static_cast<int64_t>(static_cast<uint64_t>(values[i]) * static_cast<uint64_t>(slopes[i]));
  }
  call.give(0, Array::of_integers(x.type(), x.shape(), values));
}

void evaluate_shrink(Call& call) { call.give(0, applied(call, kShrink)); }

}  // namespace

void add_function_operators(OperatorTable& table) {
  for (const Function& function : kFunctions)
    table.add({.name = function.name, .infer = infer_function, .evaluate = evaluate_function});
  for (const Function& function : kNumberFunctions)
    table.add({.name = function.name,
               .infer = infer_number_function,
               .evaluate = evaluate_number_function});
  table.add({.name = "Shrink", .infer = infer_number_function, .evaluate = evaluate_shrink});
  table.add({.name = "Gelu", .infer = infer_function, .evaluate = evaluate_gelu});
  table.add({.name = "Clip", .max_inputs = 3, .infer = infer_clip, .evaluate = evaluate_clip});
  table.add({.name = "IsNaN", .infer = infer_finite_test, .evaluate = evaluate_finite_test});
  table.add({.name = "IsInf", .infer = infer_finite_test, .evaluate = evaluate_finite_test});
  table.add({.name = "PRelu",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_prelu,
             .evaluate = evaluate_prelu});
}

}  // namespace crema::onnx
