#include <algorithm>
#include <initializer_list>

#include "backend/channels_last_ends.hpp"
#include "backend/cuda/convolution_passes.hpp"
#include "backend/cuda/kernels.cuh"
#include "backend/parameter_copies.hpp"
#include "core/dispatch.hpp"

namespace crema {
namespace {

template <class Body>
void dispatch_device(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32:
      return body(float{});
    case DType::bf16:
      return body(bfloat16{});
    case DType::f16:
      return body(float16{});
    default:
      throw Error("a convolution of cuDNN has no ", to_string(dtype), " here");
  }
}

/// Calls body(a pack's size) with the widest that divides the channels, and the strides of rows.
template <class T, class Body>
void with_packs(std::initializer_list<int64_t> counts, const Body& body) {
  constexpr int kMost = static_cast<int>(ValuePack<T>::kCount);
  if (std::ranges::all_of(counts, [](int64_t count) { return count % kMost == 0; })) {
    body(std::integral_constant<int, kMost>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

}  // namespace

void write_copy(DeviceBackend& backend, const DepthMap& map, int64_t outputs, const float* from,
                DType dtype, void* to) {
  dispatch_device(dtype, [&]<class T>(T) {
    cuda_for_each(cuda(backend), outputs * int64_t{map.deep_weights()},
                  DeepenWeights<T, float>{map, from, static_cast<T*>(to)});
  });
}

void add_deep_gradient(CudaBackend& backend, const DepthMap& map, int64_t outputs, DType dtype,
                       const void* from, float beta, float* to) {
  dispatch_device(dtype, [&]<class T>(T) {
    cuda_for_each(backend, outputs * int64_t{map.weights()},
                  AddDeepGradient<T>{map, beta, static_cast<const T*>(from), to});
  });
}

void deepen_pixels(CudaBackend& backend, const DepthMap& map, int64_t images,
                   const PixelStrides& strides, DType from_dtype, const void* from, DType dtype,
                   void* to) {
  dispatch_device(dtype, [&]<class T>(T) {
    const int64_t packs = images * map.deep_pixels() * (map.deep_channels / ValuePack<T>::kCount);
    if (from_dtype == DType::f32) {
      cuda_for_each(backend, packs,
                    DeepenPixels<T, float>{map, strides, static_cast<const float*>(from),
                                           static_cast<T*>(to)});
    } else {
      cuda_for_each(
          backend, packs,
          DeepenPixels<T, T>{map, strides, static_cast<const T*>(from), static_cast<T*>(to)});
    }
  });
}

void finish_rows(CudaBackend& backend, const ChannelRows& of, const float* bias, const void* other,
                 std::optional<float> relu, void* y, int64_t stride) {
  if (stride == 0) stride = of.channels;
  dispatch_device(of.dtype, [&]<class T>(T) {
    with_packs<T>({of.channels, stride}, [&]<int kPack>(std::integral_constant<int, kPack>) {
      using Pack = ChannelPack<T, kPack>;
      const auto packs = static_cast<uint32_t>(of.channels / kPack);
      cuda_for_each(backend, of.rows * packs,
                    FinishRows<T, kPack>{packs,
                                         static_cast<uint32_t>(stride / kPack),
                                         bias,
                                         static_cast<const Pack*>(other),
                                         {relu.value_or(1)},
                                         static_cast<Pack*>(y)});
    });
  });
}

size_t undo_and_sum_scratch(const ChannelRows& of) {
  // The sums of the first step, and those of the second, which are fewer.
  const int64_t steps = UndoAndSumRows<float, 1>::steps(of.rows);
  return static_cast<size_t>((steps + SumRows::steps(steps)) * of.channels) * sizeof(float);
}

void undo_and_sum_rows(CudaBackend& backend, const ChannelRows& of, const void* dy, const void* y,
                       std::optional<float> relu, void* dx, float beta, float* dbias,
                       const RowStrides& strides) {
  if (!relu) y = nullptr;
  if (y == nullptr && dbias == nullptr) return;
  int64_t rows = UndoAndSumRows<float, 1>::steps(of.rows);
  auto* sums =
      dbias != nullptr ? static_cast<float*>(backend.scratch(undo_and_sum_scratch(of))) : nullptr;
  const auto stride = [&](int64_t given) { return given == 0 ? of.channels : given; };
  const int64_t of_dy = stride(strides.dy), of_y = stride(strides.y), of_dx = stride(strides.dx);
  dispatch_device(of.dtype, [&]<class T>(T) {
    with_packs<T>(
        {of.channels, of_dy, of_y, of_dx}, [&]<int kPack>(std::integral_constant<int, kPack>) {
          using Pack = ChannelPack<T, kPack>;
          const UndoAndSumRows<T, kPack> body{of.rows,
                                              of.channels / kPack,
                                              of_dy / kPack,
                                              of_y / kPack,
                                              of_dx / kPack,
                                              static_cast<const Pack*>(dy),
                                              static_cast<const Pack*>(y),
                                              {relu.value_or(1)},
                                              static_cast<Pack*>(dx),
                                              reinterpret_cast<ChannelPack<float, kPack>*>(sums)};
          cuda_for_each(backend, body.count(), body);
        });
  });
  if (dbias == nullptr) return;
  float* others = sums + rows * of.channels;
  while (true) {
    const int64_t steps = SumRows::steps(rows);
    const SumRows body{rows, of.channels, sums, steps > 1 ? others : nullptr, beta, dbias};
    cuda_for_each(backend, body.count(), body);
    if (steps <= 1) return;
    std::swap(sums, others);
    rows = steps;
  }
}

}  // namespace crema
