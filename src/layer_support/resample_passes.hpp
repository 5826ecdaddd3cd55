// The pass of ResampleLayer.
#pragma once

#include <cstdint>

#include "core/functor.hpp"
#include "crema/tensor.hpp"

namespace crema {

namespace resample_detail {

/// A Taps in the memory of a side.
template <class T>
struct TapsView {
  int64_t rows = 0;
  const int32_t* begins = nullptr;
  const int32_t* sources = nullptr;
  const T* weights = nullptr;
};

/// `outer` maps of (from_height, from_width, inner) become maps of (h.rows, w.rows, inner).
template <class T>
struct Maps {
  int64_t outer = 0, from_height = 0, from_width = 0, inner = 1;
  TapsView<T> h, w;
  const T* from = nullptr;
  T* to = nullptr;

  int64_t count() const { return outer * h.rows * w.rows * inner; }
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t c = i % inner, x = i / inner % w.rows, y = i / inner / w.rows % h.rows;
    const T* const map = from + i / inner / w.rows / h.rows * from_height * from_width * inner + c;
    T sum{0};
    for (int64_t a = h.begins[y]; a < h.begins[y + 1]; ++a) {
      T row{0};
      for (int64_t b = w.begins[x]; b < w.begins[x + 1]; ++b) {
        row += w.weights[b] * map[(h.sources[a] * from_width + w.sources[b]) * inner];
      }
      sum += h.weights[a] * row;
    }
    to[i] = sum;
  }
};

/// On the threads of the host, with vectors. `scratch` grows to one row of the source a thread.
void run(const Maps<float>& maps, Tensor& scratch);
void run(const Maps<double>& maps, Tensor& scratch);

}  // namespace resample_detail

}  // namespace crema
