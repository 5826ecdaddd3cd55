// Layers that resample maps: each row of the top is a weighted sum of rows of the bottom, each
// column likewise. Nearest neighbours, bilinear and bicubic interpolation, tiling. Sources include
// layer_support/passes.hpp themselves, so that nvcc compiles them.
#pragma once

#include <cmath>
#include <vector>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

/// A sparse matrix: row i has the taps [begins[i], begins[i + 1]).
struct Taps {
  std::vector<int32_t> begins = {0}, sources;
  std::vector<double> weights;

  int64_t rows() const { return static_cast<int64_t>(begins.size()) - 1; }
  /// Adds a tap to the row that end_row() will end.
  void add(int64_t source, double weight);
  void end_row() { begins.push_back(static_cast<int32_t>(sources.size())); }
};

/// Which points of an axis of `from` values the `to` values of the resampled axis are.
enum class Sampling : uint8_t {
  edges,    // both cover the same interval, of which each value has an equal part
  corners,  // the first and the last values are the same points
};
/// The value at or below the point (edges), or next to it (corners).
Taps nearest_taps(int64_t from, int64_t to, Sampling sampling);
/// With `edges`, the value in whose part the middle of the resampled value's part lies.
Taps nearest_exact_taps(int64_t from, int64_t to);
Taps linear_taps(int64_t from, int64_t to, Sampling sampling);
/// With the coefficient -0.75 of Keys' kernel; values beyond the ends are those at the ends.
Taps cubic_taps(int64_t from, int64_t to, Sampling sampling);

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

/// Bottom 0 (..., C, H, W) becomes top 0, of which reshape() sets the height and the width.
class ResampleLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  /// Contiguous and channels_last.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;

  Flops flops(Blobs, Blobs top) const override {
    const double n = static_cast<double>(top[0]->count());
    return {4 * n, 4 * n};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      run<T>(device, height_, width_, bottom[0]->data, device.read<T>(bottom[0]->data),
             device.overwrite<T>(top[0]->data));
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      run<T>(device, height_back_, width_back_, top[0]->diff, device.read<T>(top[0]->diff),
             device.overwrite<T>(bottom[0]->diff));
    });
  }
  size_t kept_bytes() const override;

 protected:
  /// Axis -2 is resampled by `height`, axis -1 by `width`. Sets the shape of the top. Error if the
  /// bottom has less than two axes.
  void set_taps(Blobs bottom, Blobs top, const Taps& height, const Taps& width);

  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// Taps as tensors, for both sides and both types.
  struct Table {
    Tensor begins{Shape{0}, DType::i32}, sources{Shape{0}, DType::i32};
    Tensor weights{Shape{0}, DType::f64};  // dtype()

    void set(const Taps& taps, DType dtype);
    template <class T>
    resample_detail::TapsView<T> view(const ComputeDevice& device) const {
      return {begins.count() - 1, device.read<int32_t>(begins), device.read<int32_t>(sources),
              device.read<T>(weights)};
    }
  };

  template <class T>
  void run(const ComputeDevice& device, const Table& height, const Table& width, const Tensor& like,
           const T* from, T* to) {
    const Shape& shape = like.shape();
    resample_detail::Maps<T> maps;
    const bool last = like.format() == Format::channels_last;
    maps.inner = last ? shape[1] : 1;
    maps.from_height = shape[-2];
    maps.from_width = shape[-1];
    const int maps_end = shape.rank() - 2;
    maps.outer = last ? shape[0] * shape.count(2, maps_end) : shape.count(0, maps_end);
    maps.h = height.view<T>(device);
    maps.w = width.view<T>(device);
    maps.from = from;
    maps.to = to;
    if (device.on_host()) return resample_detail::run(maps, scratch_);
    for_each(device, maps.count(), kPassGrain, maps);
  }

  Table height_, width_, height_back_, width_back_;
  Tensor scratch_;
};

}  // namespace crema
