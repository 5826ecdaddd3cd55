// The passes of our own around cuDNN's channels-last convolutions: weights (by write_copy(),
// backend/parameter_copies.hpp) and pixels in the order that it reads, its gradients in the order
// of the parameters, biases, sums and ReLUs.
//
// All run in the backend's stream; pointers are on the device. Types: f32, bf16, f16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/depth_map.hpp"

namespace crema {

/// to = beta * to + the gradient of the deep weights, of type `dtype`.
void add_deep_gradient(CudaBackend& backend, const DepthMap& map, int64_t outputs, DType dtype,
                       const void* from, float beta, float* to);

/// The deep pixels of `images` images. `from` is f32 or of type `dtype`.
void deepen_pixels(CudaBackend& backend, const DepthMap& map, int64_t images,
                   const PixelStrides& strides, DType from_dtype, const void* from, DType dtype,
                   void* to);

/// Rows of channels, channels-last.
struct ChannelRows {
  DType dtype = DType::f32;
  int64_t rows = 0, channels = 0;

  size_t count() const { return static_cast<size_t>(rows * channels); }
};

/// y = relu(y + bias + other). bias (f32) and other (as y) may be null. `stride`: channels from a
/// row of y to the next; 0: as many as there are.
void finish_rows(CudaBackend& backend, const ChannelRows& of, const float* bias, const void* other,
                 std::optional<float> relu, void* y, int64_t stride = 0);

/// Channels from a row to the next; 0: as many as there are.
struct RowStrides {
  int64_t dy = 0, y = 0, dx = 0;
};

/// dx = dy through the ReLU that gave y, where there is one; dx may be dy. dbias = beta * dbias +
/// the sums of dx over the rows, unless it is null. Takes the backend's scratch memory.
void undo_and_sum_rows(CudaBackend& backend, const ChannelRows& of, const void* dy, const void* y,
                       std::optional<float> relu, void* dx, float beta, float* dbias,
                       const RowStrides& strides = {});
/// That scratch memory.
size_t undo_and_sum_scratch(const ChannelRows& of);

}  // namespace crema
