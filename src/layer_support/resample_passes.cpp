// What ResampleLayer runs on either side.
#include "layer_support/resample_passes.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/fast_division.hpp"
#include "core/float_values.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resample.hpp"

namespace crema {
namespace {

/// resample_detail::Maps as devices run it: a pack of what is innermost at one place of the
/// resampled maps, eight channels in channels_last memory.
template <class T, int N>
struct MapsPack {
  int64_t from_height, from_width, inner;
  resample_detail::TapsView<T> h, w;
  bool vectors;
  FastDivision by_packs, by_columns, by_rows;
  ValuesIn<T> from;
  ValuesOut<T> to;

  MapsPack(const resample_detail::Maps<T>& maps, ValuesIn<T> x, ValuesOut<T> y)
      : from_height(maps.from_height),
        from_width(maps.from_width),
        inner(maps.inner),
        h(maps.h),
        w(maps.w),
        vectors(aligned(x, y) && inner % N == 0),
        by_packs((inner + N - 1) / N, maps.count() + 1),
        by_columns(w.rows, maps.count() + 1),
        by_rows(h.rows, maps.count() + 1),
        from(x),
        to(y) {}

  CREMA_FUNCTOR void operator()(int64_t number) const {
    const auto pack = by_packs.divide(number);
    const auto column = by_columns.divide(pack.quotient);
    const auto row = by_rows.divide(column.quotient);
    const int64_t x = column.remainder, y = row.remainder;
    const int64_t channel = pack.remainder * N, left = inner - channel;
    const int lanes = left < N ? static_cast<int>(left) : N;
    const int64_t map = row.quotient * from_height * from_width * inner + channel;
    Pack<T, N> sum(0);
    for (int64_t a = h.begins[y]; a < h.begins[y + 1]; ++a) {
      Pack<T, N> of_row(0);
      for (int64_t b = w.begins[x]; b < w.begins[x + 1]; ++b) {
        const int64_t place = (h.sources[a] * from_width + w.sources[b]) * inner;
        const Pack<T, N> value = PackAt<T, N>{map + place, lanes, vectors}.load(from);
        for (int k = 0; k < N; ++k) of_row.lanes[k] += w.weights[b] * value.lanes[k];
      }
      for (int k = 0; k < N; ++k) sum.lanes[k] += h.weights[a] * of_row.lanes[k];
    }
    PackAt<T, N>{pack.quotient * inner + channel, lanes, vectors}.store(sum, to);
  }
};

template <class T, int N>
void run_packs(const ComputeDevice& device, const resample_detail::Maps<T>& maps,
               const Tensor& from, Tensor& to) {
  const MapsPack<T, N> body(maps, values_in<T>(device, from), values_out<T>(device, to));
  if (maps.count() == 0) return;
  for_each(DeviceSide(device), maps.count() / maps.inner * body.by_packs.divisor(), kPassGrain,
           body);
}

}  // namespace

template <class T>
void ResampleLayer::run(const ComputeDevice& device, const Table& height, const Table& width,
                        const Tensor& from, Tensor& to) {
  const Shape& shape = from.shape();
  resample_detail::Maps<T> maps;
  const bool last = from.format() == Format::channels_last;
  maps.inner = last ? shape[1] : 1;
  maps.from_height = shape[-2];
  maps.from_width = shape[-1];
  const int maps_end = shape.rank() - 2;
  maps.outer = last ? shape[0] * shape.count(2, maps_end) : shape.count(0, maps_end);
  const auto view = [&device](const Table& table) -> resample_detail::TapsView<T> {
    return {table.begins.count() - 1, device.read<int32_t>(table.begins),
            device.read<int32_t>(table.sources), device.read<T>(table.weights)};
  };
  maps.h = view(height);
  maps.w = view(width);
  if (!device.on_host()) {
    return last ? run_packs<T, kPackSize<T>>(device, maps, from, to)
                : run_packs<T, 1>(device, maps, from, to);
  }
  maps.from = device.read<T>(from);
  maps.to = device.overwrite<T>(to);
  resample_detail::run(maps, scratch_);
}

void ResampleLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  dispatch_float(
      dtype(), [&]<class T>(T) { run<T>(device, height_, width_, bottom[0]->data, top[0]->data); });
}

void ResampleLayer::run_backward(const ComputeDevice& device, Blobs top,
                                 const std::vector<bool>& propagate, Blobs bottom) {
  if (!propagate[0]) return;
  dispatch_float(dtype(), [&]<class T>(T) {
    run<T>(device, height_back_, width_back_, top[0]->diff, bottom[0]->diff);
  });
}

}  // namespace crema
