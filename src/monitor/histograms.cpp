#include "monitor/histograms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/json.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

constexpr size_t kBins = 64;

struct Moments {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();
  double sum = 0, squares = 0;  // of the distances from `origin`
  double origin = 0;
  int64_t finite = 0;
};

template <class T>
Moments moments_of(std::span<const T> values) {
  Moments all;
  // Sums of squares of values far from 0 lose what they differ by.
  for (const T value : values) {
    if (!std::isfinite(value)) continue;
    all.origin = static_cast<double>(value);
    break;
  }
  T least = std::numeric_limits<T>::max(), greatest = std::numeric_limits<T>::lowest();
  for (const T value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    const double distance = static_cast<double>(value) - all.origin;
    all.sum += distance;
    all.squares += distance * distance;
    ++all.finite;
  }
  if (all.finite > 0) {
    all.least = static_cast<double>(least);
    all.greatest = static_cast<double>(greatest);
  }
  return all;
}

/// The intervals between least and greatest: `inner` of one width from `low` to `high`, one before
/// them if `low` is above the least value, and one behind them likewise.
struct Intervals {
  Intervals(const Moments& moments, double mean, double deviation)
      : low(std::max(moments.least, mean - 4 * deviation)),
        high(std::min(moments.greatest, mean + 4 * deviation)) {
    if (!(high > low)) low = moments.least, high = moments.greatest;
    before = low > moments.least ? 1 : 0;
    const size_t behind = high < moments.greatest ? 1 : 0;
    inner = high > low ? kBins - before - behind : 1;
    if (before > 0) edges.push_back(moments.least);
    for (size_t i = 0; i < inner; ++i)
      edges.push_back(low + (high - low) * static_cast<double>(i) / static_cast<double>(inner));
    edges.push_back(high);
    if (behind > 0) edges.push_back(moments.greatest);
    per_unit = high > low ? static_cast<double>(inner) / (high - low) : 0;
  }

  size_t of(double value) const {
    if (value < low) return 0;
    if (value >= high) return edges.size() - 2;
    return before + std::min(static_cast<size_t>((value - low) * per_unit), inner - 1);
  }

  double low, high, per_unit;
  size_t before, inner;
  std::vector<double> edges;
};

template <class T>
ValueHistogram histogram(std::span<const T> values) {
  const Moments moments = moments_of(values);
  ValueHistogram made;
  made.set_not_finite(static_cast<double>(static_cast<int64_t>(values.size()) - moments.finite));
  if (moments.finite == 0) return made;
  const auto count = static_cast<double>(moments.finite);
  const double mean = moments.origin + moments.sum / count;
  const double deviation = std::sqrt(
      std::max(0.0, moments.squares / count - moments.sum / count * (moments.sum / count)));
  made.set_least(moments.least);
  made.set_greatest(moments.greatest);
  made.set_mean(mean);
  made.set_deviation(deviation);
  const Intervals intervals(moments, mean, deviation);
  std::vector<int64_t> counts(intervals.edges.size() - 1, 0);
  for (const T value : values)
    if (std::isfinite(value)) ++counts[intervals.of(static_cast<double>(value))];
  made.mutable_edges()->Assign(intervals.edges.begin(), intervals.edges.end());
  for (const int64_t number : counts) made.add_counts(static_cast<double>(number));
  return made;
}

template <class T>
double squares_of_all(const ParameterArena& arena, const T* gradients) {
  double all = 0;
  for (const auto& segment : arena.segments()) {
    const Parameter& parameter = *segment.parameter;
    if (!parameter.learnable || parameter.lr_mult == 0) continue;
    const T* const values = gradients + segment.offset;
    std::array<double, 8> sums{};  // side by side
    int64_t i = 0;
    for (; i + 8 <= segment.count; i += 8) {
      for (size_t k = 0; k < sums.size(); ++k) {
        const auto value = static_cast<double>(values[static_cast<size_t>(i) + k]);
        sums[k] += value * value;
      }
    }
    for (; i < segment.count; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
    for (const double sum : sums) all += sum;
  }
  return all;
}

}  // namespace

ValueHistogram histogram_of(const Tensor& values, int64_t offset, int64_t count) {
  const auto size = static_cast<size_t>(count);
  if (values.dtype() == DType::f64)
    return histogram(std::span(values.read<double>() + offset, size));
  return histogram(std::span(values.read<float>() + offset, size));
}

std::string histogram_line(const ValueHistogram& histogram) {
  std::string line =
      text("{\"iteration\":", histogram.iteration(), ",\"layer\":", json_string(histogram.layer()),
           ",\"parameter\":", histogram.parameter(),
           ",\"gradient\":", histogram.gradient() ? "true" : "false");
  const auto add = [&](const char* name, double value) {
    line += text(",\"", name, "\":", json_number(value));
  };
  if (histogram.has_least()) {
    add("least", histogram.least());
    add("greatest", histogram.greatest());
    add("mean", histogram.mean());
    add("deviation", histogram.deviation());
  }
  add("not_finite", histogram.not_finite());
  const auto add_all = [&](const char* name, const auto& values) {
    if (values.empty()) return;
    line += text(",\"", name, "\":[");
    for (int i = 0; i < values.size(); ++i) {
      if (i > 0) line += ',';
      line += json_number(values[i]);
    }
    line += ']';
  };
  add_all("edges", histogram.edges());
  add_all("counts", histogram.counts());
  return line + '}';
}

tensorboard::HistogramProto histogram_event(const ValueHistogram& histogram) {
  tensorboard::HistogramProto made;
  double number = 0;
  for (const double count : histogram.counts()) number += count;
  const double mean = histogram.mean(), deviation = histogram.deviation();
  made.set_min(histogram.least());
  made.set_max(histogram.greatest());
  made.set_num(number);
  made.set_sum(mean * number);
  made.set_sum_squares((mean * mean + deviation * deviation) * number);
  for (int i = 0; i < histogram.counts_size(); ++i) {
    made.add_bucket_limit(histogram.edges(i + 1));
    made.add_bucket(histogram.counts(i));
  }
  return made;
}

double gradient_norm(ParameterArena& arena, double scale) {
  arena.settle_gradients();
  const Tensor& diff = arena.diff();
  const double squares = diff.dtype() == DType::f64 ? squares_of_all(arena, diff.read<double>())
                                                    : squares_of_all(arena, diff.read<float>());
  return std::sqrt(squares) / scale;
}

}  // namespace crema
