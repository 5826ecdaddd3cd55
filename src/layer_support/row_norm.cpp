#include "layer_support/row_norm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/simd.hpp"
#include "layer_support/row_norm_passes.hpp"

namespace crema {
namespace row_norm {
namespace {

// Sums of single precision end after so many elements, and go on in double.
constexpr int64_t kChunk = 2048;

/// first += sum of x - centre, second += sum of its squares.
template <class T>
[[gnu::always_inline]] inline void add_deviations(const T* x, T centre, int64_t n, double* first,
                                                  double* second) {
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = begin + kChunk < n ? begin + kChunk : n;
    T sum{0}, squares{0};
#pragma omp simd reduction(+ : sum, squares)
    for (int64_t j = begin; j < end; ++j) {
      const T deviation = x[j] - centre;
      sum += deviation;
      squares += deviation * deviation;
    }
    *first += static_cast<double>(sum);
    *second += static_cast<double>(squares);
  }
}

/// y = ((x - mean) * inverse + rest) * scale + bias, with one scale and one bias an element. `rest`
/// is what rounding the mean left out.
template <class T>
[[gnu::always_inline]] inline void affine_each(const T* x, T mean, T inverse, T rest,
                                               const T* scale, const T* bias, int64_t n, T* y) {
  if (scale != nullptr && bias != nullptr) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = ((x[j] - mean) * inverse + rest) * scale[j] + bias[j];
  } else if (scale != nullptr) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = ((x[j] - mean) * inverse + rest) * scale[j];
  } else if (bias != nullptr) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - mean) * inverse + rest + bias[j];
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - mean) * inverse + rest;
  }
}
/// The same with one scale and one bias for all.
template <class T>
[[gnu::always_inline]] inline void affine_all(const T* x, T mean, T gain, T bias, int64_t n, T* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - mean) * gain + bias;
}

/// first += sum of g, second += sum of g * (x - mean), where g = dy * scale; null: 1.
template <class T>
[[gnu::always_inline]] inline void add_products(const T* x, const T* dy, const T* scale, T mean,
                                                int64_t n, double* first, double* second) {
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = begin + kChunk < n ? begin + kChunk : n;
    T sum{0}, products{0};
    if (scale != nullptr) {
#pragma omp simd reduction(+ : sum, products)
      for (int64_t j = begin; j < end; ++j) {
        const T g = dy[j] * scale[j];
        sum += g;
        products += g * (x[j] - mean);
      }
    } else {
#pragma omp simd reduction(+ : sum, products)
      for (int64_t j = begin; j < end; ++j) {
        sum += dy[j];
        products += dy[j] * (x[j] - mean);
      }
    }
    *first += static_cast<double>(sum);
    *second += static_cast<double>(products);
  }
}

/// dx = gain * dy - slope * (x - mean) - offset, with gain = inverse * scale[j].
template <class T>
[[gnu::always_inline]] inline void gradient_each(const T* x, const T* dy, const T* scale, T mean,
                                                 T inverse, T slope, T offset, int64_t n, T* dx) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    dx[j] = inverse * scale[j] * dy[j] - slope * (x[j] - mean) - offset;
  }
}
template <class T>
[[gnu::always_inline]] inline void gradient_all(const T* x, const T* dy, T mean, T gain, T slope,
                                                T offset, int64_t n, T* dx) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) dx[j] = gain * dy[j] - slope * (x[j] - mean) - offset;
}

/// Columns of one row: sums += dy, products += dy * (x - mean) * inverse.
template <class T>
[[gnu::always_inline]] inline void add_columns(const T* x, const T* dy, double mean, double inverse,
                                               int64_t n, double* sums, double* products) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const double g = static_cast<double>(dy[j]);
    sums[j] += g;
    products[j] += g * (static_cast<double>(x[j]) - mean) * inverse;
  }
}

template <class T>
T or_one(const T* values, int64_t i) {
  return values != nullptr ? values[i] : T{1};
}

}  // namespace

template <class T>
void Forward<T>::on_host(int64_t begin, int64_t end) const {
  const auto count = static_cast<double>(rows.size);
  if (rows.size == 0) return;
  for (int64_t row = begin; row < end; ++row) {
    const T* const from = x + row * rows.size;
    T* const to = y + row * rows.size;
    double first = 0, second = 0;
    // The first value is near the mean unless the row is made of outliers; sums of the differences
    // lose fewer digits than sums of values far from 0.
    vectorized<add_deviations<T>>(from, from[0], rows.size, &first, &second);
    const T centre = static_cast<T>(static_cast<double>(from[0]) + first / count);
    first = second = 0;
    vectorized<add_deviations<T>>(from, centre, rows.size, &first, &second);
    const double error = first / count, mean = static_cast<double>(centre) + error;
    const double variance = std::max(second / count - error * error, 0.0);
    const double inverse = 1 / std::sqrt((std::isnan(second) ? second : variance) + eps);
    statistics.mean[row] = mean;
    statistics.inverse_deviation[row] = inverse;
    const T m = static_cast<T>(mean), k = static_cast<T>(inverse);
    const T rest = static_cast<T>((static_cast<double>(m) - mean) * inverse);
    if (rows.inner == 1) {
      const int64_t c = rows.channel(row, 0);
      vectorized<affine_each<T>>(from, m, k, rest, scale ? scale + c : nullptr,
                                 bias ? bias + c : nullptr, rows.size, to);
      continue;
    }
    for (int64_t j = 0; j < rows.size; j += rows.inner) {
      const int64_t c = rows.channel(row, j);
      const T gain = or_one(scale, c);
      vectorized<affine_all<T>>(from + j, m, static_cast<T>(k * gain),
                                static_cast<T>(rest * gain + (bias ? bias[c] : T{0})), rows.inner,
                                to + j);
    }
  }
}

template <class T>
void Backward<T>::on_host(int64_t begin, int64_t end) const {
  const auto count = static_cast<double>(rows.size);
  for (int64_t row = begin; row < end; ++row) {
    const T *const from = x + row * rows.size, *const grad = dy + row * rows.size;
    T* const to = dx + row * rows.size;
    const double inverse = statistics.inverse_deviation[row];
    const T m = static_cast<T>(statistics.mean[row]), k = static_cast<T>(inverse);
    const double rest = static_cast<double>(m) - statistics.mean[row];  // lost in rounding
    const bool by_element = rows.inner == 1 && scale != nullptr;
    const int64_t part = scale == nullptr || by_element ? rows.size : rows.inner;
    double sum = 0, products = 0;
    for (int64_t j = 0; j < rows.size; j += part) {
      const int64_t c = rows.channel(row, j);
      double first = 0, second = 0;
      vectorized<add_products<T>>(from + j, grad + j, by_element ? scale + c : nullptr, m, part,
                                  &first, &second);
      const double gain = by_element ? 1 : static_cast<double>(or_one(scale, c));
      sum += gain * first;
      products += gain * (second + rest * first);
    }
    const double by_x = inverse * inverse * inverse * products / count;
    const T slope = static_cast<T>(by_x);
    const T offset = static_cast<T>(inverse * sum / count + by_x * rest);
    for (int64_t j = 0; j < rows.size; j += part) {
      const int64_t c = rows.channel(row, j);
      if (by_element) {
        vectorized<gradient_each<T>>(from + j, grad + j, scale + c, m, k, slope, offset, part,
                                     to + j);
      } else {
        vectorized<gradient_all<T>>(from + j, grad + j, m, static_cast<T>(k * or_one(scale, c)),
                                    slope, offset, part, to + j);
      }
    }
  }
}

template <class T>
void ParameterGradients<T>::on_host(int64_t begin, int64_t end) const {
  constexpr int64_t kTogether = 128;
  for (int64_t c = begin; c < end;) {
    std::array<double, kTogether> sums{}, products{};
    int64_t together = 1;
    if (rows.inner == 1) {
      // Neighbouring channels are neighbours in memory, as far as their group goes.
      const int64_t in_group = rows.channels_each - c % rows.channels_each;
      together = std::min({kTogether, end - c, in_group});
      for (int64_t k = 0; k < rows.each(); ++k) {
        const int64_t row = rows.row_of(c, k), place = rows.place(c, k);
        vectorized<add_columns<T>>(x + place, dy + place, statistics.mean[row],
                                   statistics.inverse_deviation[row], together, sums.data(),
                                   products.data());
      }
    } else {
      for (int64_t k = 0; k < rows.each(); k += rows.inner) {
        const int64_t row = rows.row_of(c, k), place = rows.place(c, k);
        double first = 0, second = 0;
        vectorized<add_products<T>>(x + place, dy + place, static_cast<const T*>(nullptr),
                                    static_cast<T>(statistics.mean[row]), rows.inner, &first,
                                    &second);
        const double rest =
            static_cast<double>(static_cast<T>(statistics.mean[row])) - statistics.mean[row];
        sums[0] += first;
        products[0] += (second + rest * first) * statistics.inverse_deviation[row];
      }
    }
    for (int64_t k = 0; k < together; ++k) {
      const auto i = static_cast<size_t>(k);
      if (of_scale) of_scale[c + k] += static_cast<T>(products[i]);
      if (of_bias) of_bias[c + k] += static_cast<T>(sums[i]);
    }
    c += together;
  }
}

template struct Forward<float>;
template struct Forward<double>;
template struct Backward<float>;
template struct Backward<double>;
template struct ParameterGradients<float>;
template struct ParameterGradients<double>;

}  // namespace row_norm

RowNormLayer::Settings RowNormLayer::checked(Settings settings) {
  if (!(settings.eps >= 0 && std::isfinite(settings.eps)))
    throw Error("eps ", settings.eps, " is not at least 0; it is added to the variance");
  return settings;
}

void RowNormLayer::setup(Blobs bottom, Blobs) {
  const Shape shape = parameter_shape(bottom[0]->shape());
  if (settings_.scales) scale_ = &add_param(shape, settings_.scale);
  if (settings_.adds) bias_ = &add_param(shape, settings_.bias);
}

void RowNormLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  rows_ = rows_of(shape);
  for (const Parameter* parameter : {scale_, bias_}) {
    if (parameter != nullptr && parameter->shape() != parameter_shape(shape))
      throw Error("the scale and the bias, of shape ", parameter->shape().str(),
                  ", do not fit a bottom that has become ", shape.str());
  }
  mean_.reshape(Shape{rows_.rows});
  inverse_deviation_.reshape(Shape{rows_.rows});
  top[0]->reshape(shape);
}

}  // namespace crema
