// Einsum: sums of products, by any equation.
#include <algorithm>
#include <map>

#include "onnx/operators/all_b.hpp"
#include "onnx/operators/checks.hpp"

namespace crema::onnx {
namespace {

/// The axes of an operand by their labels. Those of an ellipsis are labelled '0', '1', ... with
/// the last axis '0', so that operands of other ranks broadcast.
struct EinsumPlan {
  std::vector<std::string> operands;
  std::string output;
  std::map<char, int64_t> sizes;
};

constexpr int kMaxEllipsisAxes = 10;

/// The labels of a term that stands for `rank` axes; rank -1: the ellipsis has `ellipsis` axes.
std::string term_labels(const Call& call, const std::string& term, int rank, int ellipsis) {
  std::string letters;
  size_t dots = std::string::npos;
  for (size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == ' ') continue;
    if (c == '.' && dots == std::string::npos && term.compare(i, 3, "...") == 0) {
      dots = letters.size();
      i += 2;
      continue;
    }
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      call.fail("the term '", term, "' of the equation is not made of letters and one ellipsis");
    letters.push_back(c);
  }
  if (rank >= 0) {
    ellipsis = rank - static_cast<int>(letters.size());
    if (ellipsis < 0 || (dots == std::string::npos && ellipsis > 0))
      call.fail("the term '", term, "' does not stand for the ", rank, " axes of its input");
  }
  if (dots == std::string::npos) return letters;
  if (ellipsis > kMaxEllipsisAxes)
    call.fail("an ellipsis stands for ", ellipsis, " axes; at most ", kMaxEllipsisAxes,
              " are supported");
  std::string filled;
  for (int i = ellipsis; i-- > 0;) filled.push_back(static_cast<char>('0' + i));
  return letters.substr(0, dots) + filled + letters.substr(dots);
}

void add_sizes(const Call& call, const std::string& labels, const Shape& shape,
               std::map<char, int64_t>& sizes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t size = shape.dims()[i];
    int64_t& known = sizes.emplace(labels[i], size).first->second;
    if (known == 1) known = size;
    if (size != known && size != 1)
      call.fail("axis '", labels[i], "' of the equation has ", known, " and ", size, " elements");
  }
}

EinsumPlan einsum_plan(const Call& call) {
  const std::string equation = call.get_string("equation", "");
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (const char c : left) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back().push_back(c);
  }
  if (terms.size() != call.inputs())
    call.fail("the equation '", equation, "' has ", terms.size(), " terms for ", call.inputs(),
              " inputs");
  EinsumPlan plan;
  int ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Shape& shape = call.shape(i);
    plan.operands.push_back(term_labels(call, terms[i], shape.rank(), 0));
    const auto digits = std::count_if(plan.operands.back().begin(), plan.operands.back().end(),
                                      [](char c) { return c <= '9'; });
    ellipsis = std::max(ellipsis, static_cast<int>(digits));
    add_sizes(call, plan.operands.back(), shape, plan.sizes);
  }
  if (arrow != std::string::npos) {
    plan.output = term_labels(call, equation.substr(arrow + 2), -1, ellipsis);
  } else {
    // The axes of the ellipsis, then the letters that stand once, in their order.
    for (int i = ellipsis; i-- > 0;) plan.output.push_back(static_cast<char>('0' + i));
    for (const auto& [label, size] : plan.sizes)
      if (label > '9' && std::count(left.begin(), left.end(), label) == 1)
        plan.output.push_back(label);
  }
  for (size_t i = 0; i < plan.output.size(); ++i)
    if (!plan.sizes.contains(plan.output[i]) || plan.output.find(plan.output[i]) != i)
      call.fail("the output of '", equation, "' has axis '", plan.output[i],
                "', which no input has, or twice");
  return plan;
}

Shape einsum_output(const Call& call, const EinsumPlan& plan) {
  std::vector<int64_t> dims;
  for (const char label : plan.output) dims.push_back(plan.sizes.find(label)->second);
  checked_count(call, Shape(dims));
  return Shape(dims);
}

void infer_einsum(Call& call) {
  call.give(0, call.type(0), einsum_output(call, einsum_plan(call)));
}

/// Runs over the axes of the output, and inside over those that are summed.
template <class T>
std::vector<T> einsum_of(const Call& call, const EinsumPlan& plan, size_t count,
                         const std::vector<std::vector<T>>& values) {
  std::string labels = plan.output;
  std::vector<int64_t> dims;
  for (const auto& [label, size] : plan.sizes)
    if (plan.output.find(label) == std::string::npos) labels.push_back(label);
  for (const char label : labels) dims.push_back(plan.sizes.find(label)->second);
  constexpr int64_t kMostProducts = int64_t{1} << 40;
  const int64_t products = Shape(dims).count();
  if (products > kMostProducts)
    call.fail("the equation sums ", products, " products; at most ", kMostProducts,
              " are computed; use MatMul");
  // The step of each operand along each label; labels that stand twice step along the diagonal.
  std::vector<std::vector<int64_t>> steps;
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    const Shape& shape = call.shape(i);
    const std::vector<int64_t> strides = strides_of(shape);
    steps.emplace_back(labels.size(), 0);
    for (size_t axis = 0; axis < plan.operands[i].size(); ++axis)
      if (shape.dims()[axis] != 1)
        steps.back()[labels.find(plan.operands[i][axis])] += strides[axis];
  }
  std::vector<T> result(count, T{});
  if (products == 0) return result;
  const auto summed = static_cast<size_t>(products) / count;
  std::vector<int64_t> index(labels.size(), 0);
  for (size_t target = 0; target < count; ++target) {
    for (size_t s = 0; s < summed; ++s) {
      T product{1};
      for (size_t i = 0; i < values.size(); ++i) {
        int64_t place = 0;
        for (size_t l = 0; l < index.size(); ++l) place += index[l] * steps[i][l];
        product *= values[i][static_cast<size_t>(place)];
      }
      result[target] += product;
      next_index(index, dims);
    }
  }
  return result;
}

void evaluate_einsum(Call& call) {
  const EinsumPlan plan = einsum_plan(call);
  const Shape output = einsum_output(call, plan);
  const size_t count = checked_count(call, output);
  const ElementType type = call.type(0);
  if (is_float(type)) {
    std::vector<std::vector<double>> values;
    for (size_t i = 0; i < call.inputs(); ++i) values.push_back(numbers(call, i, "an input"));
    call.give(0, Array::of_doubles(type, output, einsum_of(call, plan, count, values)));
    return;
  }
  std::vector<std::vector<uint64_t>> values;
  for (size_t i = 0; i < call.inputs(); ++i) {
    const std::vector<int64_t> part = integers(call, i, "an input");
    values.emplace_back(part.begin(), part.end());
  }
  const std::vector<uint64_t> sums = einsum_of(call, plan, count, values);
  call.give(0, Array::of_integers(type, output, std::vector<int64_t>(sums.begin(), sums.end())));
}

}  // namespace

void add_einsum_operators(OperatorTable& table) {
  table.add(
      {.name = "Einsum", .max_inputs = kAny, .infer = infer_einsum, .evaluate = evaluate_einsum});
}

}  // namespace crema::onnx
