// By loops over memory that the host can read: for the device of the tests alone.
#include "backend/row_ends.hpp"

#include <vector>

#include "backend/channels_last_ends.hpp"
#include "core/dispatch.hpp"

namespace crema {

void device_finish_rows(DeviceBackend& backend, const DeviceRows& of, const float* bias,
                        std::optional<float> relu, void* y) {
  dispatch_any_float(of.dtype, [&]<class T>(T) {
    const auto columns = static_cast<uint32_t>(of.columns);
    const FinishRows<T, 1> body{
        columns, columns, bias, nullptr, {relu.value_or(1)}, static_cast<ChannelPack<T, 1>*>(y)};
    backend.queue_loop([body, count = of.rows * of.columns] {
      for (int64_t i = 0; i < count; ++i) body(i);
    });
  });
}

size_t device_undo_and_sum_scratch(const DeviceRows&) { return 0; }

void device_undo_and_sum_rows(DeviceBackend& backend, const DeviceRows& of, const void* dy,
                              const void* y, std::optional<float> relu, void* dx, float beta,
                              float* dbias) {
  dispatch_any_float(of.dtype, [&]<class T>(T) {
    using Pack = ChannelPack<T, 1>;
    const UndoAndSumRows<T, 1> first{of.rows,
                                     of.columns,
                                     of.columns,
                                     of.columns,
                                     of.columns,
                                     static_cast<const Pack*>(dy),
                                     relu ? static_cast<const Pack*>(y) : nullptr,
                                     {relu.value_or(1)},
                                     static_cast<Pack*>(dx),
                                     nullptr};
    backend.queue_loop([=] {
      UndoAndSumRows<T, 1> body = first;
      std::vector<float> sums(static_cast<size_t>(body.count()));
      body.sums = reinterpret_cast<ChannelPack<float, 1>*>(sums.data());
      for (int64_t i = 0; i < body.count(); ++i) body(i);
      if (dbias == nullptr) return;
      for (int64_t c = 0; c < of.columns; ++c) {
        float total = 0;
        for (int64_t step = 0; step < body.steps(of.rows); ++step)
          total += sums[static_cast<size_t>(step * of.columns + c)];
        dbias[c] = beta == 0 ? total : beta * dbias[c] + total;
      }
    });
  });
}

}  // namespace crema
