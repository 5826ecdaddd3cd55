#include "layer_support/device_labels.hpp"

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

template <class T>
struct ReadLabel {
  RunBlock* block;
  uint32_t check;
  int64_t classes;
  bool ignores, has_background;
  T ignore, background;
  const T* labels;
  int32_t* out;

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T label = labels[i];
    if (ignores && label == ignore) {
      out[i] = -1;
    } else if (has_background && label == background) {
      out[i] = static_cast<int32_t>(classes);
      // The first comparison is false for NaN, too.
    } else if (label >= T{0} && label < static_cast<T>(classes) &&
               static_cast<T>(static_cast<int32_t>(label)) == label) {
      out[i] = static_cast<int32_t>(label);
    } else {
      out[i] = -1;
      note_bad(*block, check, i);
    }
  }
};

template <class T>
struct FinishLabels {
  RunBlock* block;
  uint32_t check;
  const T* labels;
  CREMA_FUNCTOR void operator()(int64_t) const { finish_check(*block, check, labels); }
};

struct IsValid {
  const int32_t* classes;
  CREMA_FUNCTOR double operator()(int64_t i) const { return classes[i] >= 0 ? 1 : 0; }
};

}  // namespace

void read_device_labels(const ComputeDevice& device, DeviceCheck& check, const Tensor& labels,
                        const LabelRange& range, Tensor& classes, Tensor* valid) {
  const uint32_t number = check.use();
  RunBlock* const block = check.block();
  const int64_t count = labels.count();
  int32_t* const out = device.overwrite<int32_t>(classes);
  dispatch_float(labels.dtype(), [&]<class T>(T) {
    const T* const in = device.read<T>(labels);
    for_each(device, count, kElementGrain,
             ReadLabel<T>{block, number, range.classes, range.ignore.has_value(),
                          range.background.has_value(), static_cast<T>(range.ignore.value_or(0)),
                          static_cast<T>(range.background.value_or(0)), in, out});
    for_each(device, 1, 1, FinishLabels<T>{block, number, in});
  });
  if (valid != nullptr)
    sum(device, count, kElementGrain, IsValid{out}, 1.0, device.overwrite<double>(*valid));
}

}  // namespace crema
