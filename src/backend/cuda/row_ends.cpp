#include "backend/row_ends.hpp"

#include "backend/cuda/convolution_passes.hpp"

namespace crema {
namespace {

ChannelRows rows_of(const DeviceRows& of) { return {of.dtype, of.rows, of.columns}; }

}  // namespace

void device_finish_rows(DeviceBackend& backend, const DeviceRows& of, const float* bias,
                        std::optional<float> relu, void* y) {
  finish_rows(cuda(backend), rows_of(of), bias, nullptr, relu, y);
}

size_t device_undo_and_sum_scratch(const DeviceRows& of) {
  return undo_and_sum_scratch(rows_of(of));
}

void device_undo_and_sum_rows(DeviceBackend& backend, const DeviceRows& of, const void* dy,
                              const void* y, std::optional<float> relu, void* dx, float beta,
                              float* dbias) {
  undo_and_sum_rows(cuda(backend), rows_of(of), dy, y, relu, dx, beta, dbias);
}

}  // namespace crema
