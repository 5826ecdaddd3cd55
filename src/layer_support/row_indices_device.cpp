// RowIndices on a device.
#include "core/dispatch.hpp"
#include "layer_support/device_check.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layer_support/row_indices.hpp"
#include "layer_support/value_sort.hpp"

namespace crema {
namespace {

template <class T>
struct ReadIndex {
  NotesBad bad;
  int64_t rows;
  const T* in;
  int64_t* out;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T value = in[i];
    // Also false for NaN.
    const bool fits = value >= T{0} && value < static_cast<T>(rows) &&
                      static_cast<T>(static_cast<int64_t>(value)) == value;
    out[i] = fits ? static_cast<int64_t>(value) : 0;
    if (!fits) bad(i);
  }
};

/// Keys rise with the index, and among equal ones with the position.
struct MakeRowKey {
  int64_t count;
  const int64_t* indices;
  double* keys;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    keys[i] = static_cast<double>(indices[i] * count + i);
  }
};
struct SplitRowKey {
  int64_t count;
  const double* keys;
  int64_t *order, *rows;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const auto key = static_cast<int64_t>(keys[i]);
    order[i] = key % count;
    rows[i] = key / count;
  }
};

}  // namespace

void RowIndices::read_there(const ComputeDevice& device, const Layer& layer, const Blob& from,
                            const std::string& way_out) {
  if (check_ == nullptr) check_ = std::make_unique<LayerCheck>();
  name_ = from.name;
  shape_ = from.shape();
  way_out_ = way_out;
  const auto explain = [this](int64_t position, double index) {
    refuse_index(name_, shape_, position, index, count_rows_, way_out_);
  };
  const NotesBad bad = check_->begin(layer, explain);
  const int64_t count = from.count();
  int64_t* const indices = overwrite<int64_t>(device, indices_, count);
  dispatch_float(from.data.dtype(), [&]<class T>(T) {
    const T* const in = device.read<T>(from.data);
    for_each(device, count, kElementGrain, ReadIndex<T>{bad, count_rows_, in, indices});
    if (bad.block) for_each(device, 1, 1, FinishCheck<T>{bad, in});
  });
}

RowGroups RowIndices::groups_there(const ComputeDevice& device) {
  const int64_t number = count();
  double* const keys = overwrite<double>(device, keys_, number);
  int64_t* const order = overwrite<int64_t>(device, order_, number);
  int64_t* const rows = overwrite<int64_t>(device, rows_, number);
  for_each(device, number, kElementGrain, MakeRowKey{number, device.read<int64_t>(indices_), keys});
  sort_values(device, number, keys);
  for_each(device, number, kElementGrain, SplitRowKey{number, keys, order, rows});
  return {number, nullptr, order, rows};
}

}  // namespace crema
