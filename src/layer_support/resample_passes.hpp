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
};

/// On the threads of the host, with vectors. `scratch` grows to one row of the source a thread.
void run(const Maps<float>& maps, Tensor& scratch);
void run(const Maps<double>& maps, Tensor& scratch);

}  // namespace resample_detail

}  // namespace crema
