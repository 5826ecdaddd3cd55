// Operators on the elements of several tensors that broadcast to each other: arithmetic,
// comparisons, logic and bits. Floats are computed in double, and integers in int64, where they
// wrap around.

#include <algorithm>
#include <cmath>

#include "onnx/operators/all.hpp"
#include "onnx/operators/spread.hpp"

namespace crema::onnx {

namespace {

using OfDoubles = double (*)(double, double);
using OfIntegers = int64_t (*)(int64_t, int64_t);

/// What an operator gives for two elements.
struct Arithmetic {
  const char* name;
  OfDoubles of_doubles = nullptr;    // null: not of floats
  OfIntegers of_integers = nullptr;  // null: not of integers
  OfIntegers of_unsigned = nullptr;  // for the bits of UINT64, if that differs
  bool of_bools = false;             // by of_integers
  bool gives_bools = false;
  bool of_many = false;  // of any number of tensors, from the first on
};

uint64_t bits_of(int64_t x) { return static_cast<uint64_t>(x); }
int64_t integer_of(uint64_t bits) { return static_cast<int64_t>(bits); }

int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) throw Error("an integer, ", a, ", is divided by 0");
  if (b == -1) return integer_of(0 - bits_of(a));  // the smallest integer has no opposite
  return a / b;
}

int64_t unsigned_quotient(int64_t a, int64_t b) {
  if (b == 0) throw Error("an integer, ", bits_of(a), ", is divided by 0");
  return integer_of(bits_of(a) / bits_of(b));
}

int64_t remainder_of(int64_t a, int64_t b) {  // has the sign of a
  if (b == 0) throw Error("an integer, ", a, ", is divided by 0");
  return b == -1 ? 0 : a % b;
}

int64_t modulo(int64_t a, int64_t b) {  // has the sign of b
  const int64_t rest = remainder_of(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t unsigned_remainder(int64_t a, int64_t b) {
  if (b == 0) throw Error("an integer, ", bits_of(a), ", is divided by 0");
  return integer_of(bits_of(a) % bits_of(b));
}

double float_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t raised(int64_t base, uint64_t exponent) {  // wraps around
  uint64_t result = 1;
  for (uint64_t square = bits_of(base); exponent != 0; exponent >>= 1U, square *= square) {
    if ((exponent & 1U) != 0) result *= square;
  }
  return integer_of(result);
}

int64_t power(int64_t base, int64_t exponent) {
  if (exponent >= 0) return raised(base, bits_of(exponent));
  if (base == 0) throw Error("0 is raised to ", exponent);
  if (base == 1 || base == -1) return exponent % 2 == 0 ? 1 : base;
  return 0;
}

// As numpy has it: NaN if either is.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }

constexpr Arithmetic kArithmetic[] = {
    {.name = "Add",
     .of_doubles = [](double a, double b) { return a + b; },
     .of_integers = [](int64_t a, int64_t b) { return integer_of(bits_of(a) + bits_of(b)); }},
    {.name = "Sub",
     .of_doubles = [](double a, double b) { return a - b; },
     .of_integers = [](int64_t a, int64_t b) { return integer_of(bits_of(a) - bits_of(b)); }},
    {.name = "Mul",
     .of_doubles = [](double a, double b) { return a * b; },
     .of_integers = [](int64_t a, int64_t b) { return integer_of(bits_of(a) * bits_of(b)); }},
    {.name = "Div",
     .of_doubles = [](double a, double b) { return a / b; },
     .of_integers = quotient,
     .of_unsigned = unsigned_quotient},
    {.name = "Max",
     .of_doubles = larger,
     .of_integers = [](int64_t a, int64_t b) { return std::max(a, b); },
     .of_unsigned = [](int64_t a, int64_t b) { return bits_of(a) > bits_of(b) ? a : b; },
     .of_many = true},
    {.name = "Min",
     .of_doubles = smaller,
     .of_integers = [](int64_t a, int64_t b) { return std::min(a, b); },
     .of_unsigned = [](int64_t a, int64_t b) { return bits_of(a) < bits_of(b) ? a : b; },
     .of_many = true},
    {.name = "Sum", .of_doubles = [](double a, double b) { return a + b; }, .of_many = true},
    {.name = "Mean", .of_doubles = [](double a, double b) { return a + b; }, .of_many = true},
    {.name = "BitwiseAnd", .of_integers = [](int64_t a, int64_t b) { return a & b; }},
    {.name = "BitwiseOr", .of_integers = [](int64_t a, int64_t b) { return a | b; }},
    {.name = "BitwiseXor", .of_integers = [](int64_t a, int64_t b) { return a ^ b; }},
    {.name = "Equal",
     .of_doubles = [](double a, double b) { return a == b ? 1.0 : 0.0; },
     .of_integers = [](int64_t a, int64_t b) { return int64_t{a == b}; },
     .of_bools = true,
     .gives_bools = true},
    {.name = "Greater",
     .of_doubles = [](double a, double b) { return a > b ? 1.0 : 0.0; },
     .of_integers = [](int64_t a, int64_t b) { return int64_t{a > b}; },
     .of_unsigned = [](int64_t a, int64_t b) { return int64_t{bits_of(a) > bits_of(b)}; },
     .gives_bools = true},
    {.name = "GreaterOrEqual",
     .of_doubles = [](double a, double b) { return a >= b ? 1.0 : 0.0; },
     .of_integers = [](int64_t a, int64_t b) { return int64_t{a >= b}; },
     .of_unsigned = [](int64_t a, int64_t b) { return int64_t{bits_of(a) >= bits_of(b)}; },
     .gives_bools = true},
    {.name = "Less",
     .of_doubles = [](double a, double b) { return a < b ? 1.0 : 0.0; },
     .of_integers = [](int64_t a, int64_t b) { return int64_t{a < b}; },
     .of_unsigned = [](int64_t a, int64_t b) { return int64_t{bits_of(a) < bits_of(b)}; },
     .gives_bools = true},
    {.name = "LessOrEqual",
     .of_doubles = [](double a, double b) { return a <= b ? 1.0 : 0.0; },
     .of_integers = [](int64_t a, int64_t b) { return int64_t{a <= b}; },
     .of_unsigned = [](int64_t a, int64_t b) { return int64_t{bits_of(a) <= bits_of(b)}; },
     .gives_bools = true},
};

// Of BOOL alone: not of integers, which BitwiseAnd is for.
constexpr Arithmetic kLogic[] = {
    {.name = "And", .of_integers = [](int64_t a, int64_t b) { return a & b; }, .of_bools = true},
    {.name = "Or", .of_integers = [](int64_t a, int64_t b) { return a | b; }, .of_bools = true},
    {.name = "Xor", .of_integers = [](int64_t a, int64_t b) { return a ^ b; }, .of_bools = true},
};

constexpr Arithmetic kFloatRemainder = {
    .name = "Mod",
    .of_doubles = [](double a, double b) { return std::fmod(a, b); },
    .of_integers = remainder_of,
    .of_unsigned = unsigned_remainder};
constexpr Arithmetic kModulo = {.name = "Mod",
                                .of_doubles = float_modulo,
                                .of_integers = modulo,
                                .of_unsigned = unsigned_remainder};
// A shift by the width of the type or more leaves 0: bits beyond it are cut off with the rest.
constexpr Arithmetic kShiftLeft = {.name = "BitShift", .of_integers = [](int64_t a, int64_t b) {
                                     return bits_of(b) > 63 ? 0 : integer_of(bits_of(a) << b);
                                   }};
constexpr Arithmetic kShiftRight = {.name = "BitShift", .of_integers = [](int64_t a, int64_t b) {
                                      return bits_of(b) > 63 ? 0 : integer_of(bits_of(a) >> b);
                                    }};

bool is_logic(const Call& call) {
  return call.op() == "And" || call.op() == "Or" || call.op() == "Xor";
}

const Arithmetic& arithmetic_of(const Call& call) {
  for (const Arithmetic& entry : kArithmetic) {
    if (call.op() == entry.name) return entry;
  }
  for (const Arithmetic& entry : kLogic) {
    if (call.op() == entry.name) return entry;
  }
  if (call.op() == "Mod") return call.get_int("fmod", 0) != 0 ? kFloatRemainder : kModulo;
  const std::string direction = call.get_string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    call.fail("direction is '", direction, "'; use LEFT or RIGHT");
  return direction == "LEFT" ? kShiftLeft : kShiftRight;
}

Shape common_shape(const Call& call) {
  Shape shape = call.shape(0);
  for (size_t i = 1; i < call.inputs(); ++i) shape = broadcast(shape, call.shape(i));
  return shape;
}

void infer_arithmetic(Call& call) {
  const Arithmetic& entry = arithmetic_of(call);
  const ElementType type = call.type(0);
  const bool is_bool = type == TensorProto::BOOL;
  const bool takes = is_bool          ? entry.of_bools
                     : is_float(type) ? entry.of_doubles != nullptr
                     : is_logic(call) ? false
                                      : entry.of_integers != nullptr;
  if (!takes) call.fail("it does not take values of ", type_name(type));
  for (size_t i = 1; i < call.inputs(); ++i) {
    if (call.type(i) != type)
      call.fail("input ", i, " is ", type_name(call.type(i)), ", input 0 is ", type_name(type),
                "; cast one of them");
  }
  if (call.op() == "BitShift" && !is_unsigned(type))
    call.fail("values of ", type_name(type), " are shifted; it takes unsigned integers");
  call.give(0, entry.gives_bools ? TensorProto::BOOL : type, common_shape(call));
}

template <class T>
std::vector<T> folded(const Call& call, const Shape& shape, std::vector<T> (Array::*values)() const,
                      T (*of)(T, T)) {
  const Array& first = call.constant(0, "values");
  std::vector<T> result = spread((first.*values)(), first.shape(), shape);
  for (size_t k = 1; k < call.inputs(); ++k) {
    const Array& next = call.constant(k, "values");
    const std::vector<T> right = spread((next.*values)(), next.shape(), shape);
    for (size_t i = 0; i < result.size(); ++i) result[i] = of(result[i], right[i]);
  }
  return result;
}

void evaluate_arithmetic(Call& call) {
  const Arithmetic& entry = arithmetic_of(call);
  const Shape shape = common_shape(call);
  const ElementType type = call.type(0);
  const ElementType result = entry.gives_bools ? TensorProto::BOOL : type;
  if (is_float(type)) {
    std::vector<double> values = folded(call, shape, &Array::doubles, entry.of_doubles);
    if (call.op() == "Mean") {
      for (double& value : values) value /= static_cast<double>(call.inputs());
    }
    return call.give(0, Array::of_doubles(result, shape, values));
  }
  const bool by_bits = type == TensorProto::UINT64 && entry.of_unsigned != nullptr;
  const OfIntegers of = by_bits ? entry.of_unsigned : entry.of_integers;
  call.give(0, Array::of_integers(result, shape, folded(call, shape, &Array::integers, of)));
}

void infer_pow(Call& call) {
  for (size_t i = 0; i < 2; ++i) {
    if (call.type(i) == TensorProto::BOOL) call.fail("input ", i, " is BOOL; it takes numbers");
  }
  call.give(0, call.type(0), common_shape(call));
}

void evaluate_pow(Call& call) {
  const Array& base = call.constant(0, "bases");
  const Array& exponent = call.constant(1, "exponents");
  const Shape shape = common_shape(call);
  if (is_integer(base.type()) && is_integer(exponent.type())) {
    std::vector<int64_t> values = spread(base.integers(), base.shape(), shape);
    const auto exponents = spread(exponent.integers(), exponent.shape(), shape);
    const bool no_sign = is_unsigned(exponent.type());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] =
          no_sign ? raised(values[i], bits_of(exponents[i])) : power(values[i], exponents[i]);
    return call.give(0, Array::of_integers(base.type(), shape, values));
  }
  std::vector<double> values = spread(base.doubles(), base.shape(), shape);
  const auto exponents = spread(exponent.doubles(), exponent.shape(), shape);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::pow(values[i], exponents[i]);
  call.give(0, Array::of_doubles(base.type(), shape, values));
}

void infer_not(Call& call) {
  const bool of_bits = call.op() == "BitwiseNot";
  if (of_bits ? !is_integer(call.type(0)) : call.type(0) != TensorProto::BOOL)
    call.fail("it takes ", of_bits ? "integers" : "BOOL", ", not ", type_name(call.type(0)));
  call.give(0, call.type(0), call.shape(0));
}

void evaluate_not(Call& call) {
  const bool of_bits = call.op() == "BitwiseNot";
  const Array& x = call.constant(0, "values");
  std::vector<int64_t> values = x.integers();
  for (int64_t& value : values) value = of_bits ? ~value : int64_t{value == 0};
  call.give(0, Array::of_integers(x.type(), x.shape(), values));
}

void add_arithmetic(OperatorTable& table, const char* name, bool of_many) {
  table.add({.name = name,
             .min_inputs = of_many ? size_t{1} : size_t{2},
             .max_inputs = of_many ? kAny : 2,
             .infer = infer_arithmetic,
             .evaluate = evaluate_arithmetic});
}

}  // namespace

void add_arithmetic_operators(OperatorTable& table) {
  for (const Arithmetic& entry : kArithmetic) add_arithmetic(table, entry.name, entry.of_many);
  for (const Arithmetic& entry : kLogic) add_arithmetic(table, entry.name, false);
  add_arithmetic(table, "Mod", false);
  add_arithmetic(table, "BitShift", false);
  table.add({.name = "Pow",
             .min_inputs = 2,
             .max_inputs = 2,
             .infer = infer_pow,
             .evaluate = evaluate_pow});
  table.add({.name = "Not", .infer = infer_not, .evaluate = evaluate_not});
  table.add({.name = "BitwiseNot", .infer = infer_not, .evaluate = evaluate_not});
}

}  // namespace crema::onnx
