// What ResampleLayer runs on either side.
#include "layer_support/resample_passes.hpp"

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resample.hpp"

namespace crema {

template <class T>
void ResampleLayer::run(const ComputeDevice& device, const Table& height, const Table& width,
                        const Tensor& like, const T* from, T* to) {
  const Shape& shape = like.shape();
  resample_detail::Maps<T> maps;
  const bool last = like.format() == Format::channels_last;
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
  maps.from = from;
  maps.to = to;
  if (device.on_host()) return resample_detail::run(maps, scratch_);
  for_each(device, maps.count(), kPassGrain, maps);
}

void ResampleLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    run<T>(device, height_, width_, bottom[0]->data, device.read<T>(bottom[0]->data),
           device.overwrite<T>(top[0]->data));
  });
}

void ResampleLayer::run_backward(const ComputeDevice& device, Blobs top,
                                 const std::vector<bool>& propagate, Blobs bottom) {
  if (!propagate[0]) return;
  dispatch_float(dtype(), [&]<class T>(T) {
    run<T>(device, height_back_, width_back_, top[0]->diff, device.read<T>(top[0]->diff),
           device.overwrite<T>(bottom[0]->diff));
  });
}

}  // namespace crema
