// Gather: the slices of the bottom at indices along an axis. See README.md.
#include <algorithm>
#include <array>

#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/row_indices.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Indices from -size to -1 become those from 0 to size - 1; others stay as they are. In double,
/// since single precision does not have all indices of a long axis.
template <class T>
struct CountFromFront {
  int64_t size;
  const T* from;
  double* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const auto index = static_cast<double>(from[i]), size_of_axis = static_cast<double>(size);
    to[i] = index < 0 && index >= -size_of_axis ? index + size_of_axis : index;
  }
};

/// Slices of (outer, size, inner) at `count` indices: (outer, count, inner).
struct GatheredSlices {
  int64_t size, count, inner;
  const int64_t* index;
  CREMA_FUNCTOR int64_t from(int64_t row) const {
    return (row / count * size + index[row % count]) * inner;
  }
};

template <class E>
struct CopySlices {
  GatheredSlices at;
  const E* x;
  E* y;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      std::copy_n(x + at.from(row), at.inner, y + row * at.inner);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const E* const from = x + at.from(row);
    E* const to = y + row * at.inner;
    for (int64_t k = lanes.first; k < at.inner; k += lanes.count) to[k] = from[k];
  }
};

/// Position (o, g, b): block b of the slice of group g in outer index o gets the sum of the
/// gradients of its places.
template <class T, class In, class Out>
struct SumSlices {
  static constexpr int64_t kColumns = 256;  // of a block
  RowGroups groups;
  GatheredSlices at;
  int64_t blocks;
  In dy;
  Out dx;

  void on_host(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kColumns, group = i / blocks % groups.count;
      const int64_t outer = i / blocks / groups.count;
      const int64_t columns = std::min(kColumns, at.inner - first);
      std::array<double, kColumns> sums{};
      for (int64_t j = groups.first(group); groups.has(group, j); ++j) {
        const T* const row = dy + (outer * at.count + groups.order[j]) * at.inner + first;
        for (int64_t k = 0; k < columns; ++k) sums[static_cast<size_t>(k)] += double(row[k]);
      }
      T* const to = dx + (outer * at.size + groups.row[group]) * at.inner + first;
      for (int64_t k = 0; k < columns; ++k) to[k] = static_cast<T>(sums[static_cast<size_t>(k)]);
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t i, const Lanes& lanes = {}) const {
    const int64_t first = i % blocks * kColumns, group = i / blocks % groups.count;
    const int64_t outer = i / blocks / groups.count;
    if (!groups.is_group(group)) return;
    const int64_t end = first + kColumns < at.inner ? first + kColumns : at.inner;
    for (int64_t k = first + lanes.first; k < end; k += lanes.count) {
      double sum = 0;
      for (int64_t j = groups.first(group); groups.has(group, j); ++j) {
        sum += static_cast<double>(dy[(outer * at.count + groups.order[j]) * at.inner + k]);
      }
      dx[(outer * at.size + groups.row[group]) * at.inner + k] = static_cast<T>(sum);
    }
  }
};

class GatherLayer : public TwoSidedLayer {
 public:
  explicit GatherLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        squeezes_(init.param.gather_param().squeeze()),
        fixed_(init.param.gather_param().index_size() > 0) {
    if (squeezes_ && init.param.gather_param().index_size() != 1)
      throw Error("squeeze takes the axis away where there is one index, but the settings have ",
                  init.param.gather_param().index_size());
    const int bottoms = init.param.bottom_size();
    if (fixed_ && bottoms == 2)
      throw Error("the indices are given twice: by bottom 1, '", init.param.bottom(1),
                  "', and by index; leave one of them out");
    if (!fixed_ && bottoms == 1)
      throw Error("there are no indices; give them by index, or as a second bottom");
  }

  bool moves_values() const override { return true; }
  /// Not those of bottom 1.
  bool moves(int b, int) const override { return b == 0; }
  Arity arity() const override {
    return {.min_bottoms = fixed_ ? 1 : 2, .max_bottoms = fixed_ ? 1 : 2};
  }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  bool takes_constants(int bottom) const override { return bottom == 1; }

  void reshape(Blobs bottom, Blobs top) override {
    const GatherParameter& settings = param().gather_param();
    const Shape& from = bottom[0]->shape();
    const int axis = from.canonical_axis(settings.axis());
    split_ = AxisSplit(from, axis);
    std::vector<int64_t> dims(from.dims().begin(), from.dims().begin() + axis);
    if (fixed_) {
      read_settings(*bottom[0]);
      if (!squeezes_) dims.push_back(settings.index_size());
    } else {
      const std::vector<int64_t>& indices = bottom[1]->shape().dims();
      dims.insert(dims.end(), indices.begin(), indices.end());
      from_front_.reshape(bottom[1]->shape());
      from_front_.data.set_layout(DType::f64, Format::contiguous);
      from_front_.name = bottom[1]->name;
    }
    dims.insert(dims.end(), from.dims().begin() + axis + 1, from.dims().end());
    top[0]->reshape(Shape(std::move(dims)));
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return {uniform_option(bottom, top, dtype())};
  }
  bool stores_16_bits() const override { return true; }
  Flops flops(Blobs, Blobs top) const override { return {0, static_cast<double>(top[0]->count())}; }
  size_t kept_bytes() const override { return indices_.bytes() + from_front_.data.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const std::string way_out =
        text("the indices are of slices of '", bottom[0]->name, "' (", bottom[0]->shape().str(),
             ") along axis ", param().gather_param().axis(), "; negative ones count from the end");
    if (!fixed_) {
      dispatch_float(dtype(), [&]<class T>(T) {
        for_each(device, bottom[1]->count(), kElementGrain,
                 CountFromFront<T>{split_.size, device.read<T>(bottom[1]->data),
                                   device.overwrite<double>(from_front_.data)});
      });
    }
    indices_.read(device, *this, from_front_, split_.size, way_out);
    const Tensor& x = bottom[0]->data;
    dispatch_any_float(x.dtype(), [&]<class E>(E) {
      if (top[0]->count() == 0) return;
      AxisSplit rows;
      rows.outer = split_.outer * indices_.count();
      rows.size = split_.inner;
      for_each_position(
          device, rows, kElementGrain,
          CopySlices<E>{slices(device), device.read<E>(x), device.overwrite<E>(top[0]->data)});
    });
  }

  /// Slices of several places get the sum of their gradients.
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    fill_zero(device, bottom[0]->diff);
    if (top[0]->count() == 0) return;
    const RowGroups groups = indices_.groups(device);
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto run = [&]<class Side, class In, class Out>(Side side, In dy, Out dx) {
        using Sum = SumSlices<T, In, Out>;
        const int64_t blocks = (split_.inner + Sum::kColumns - 1) / Sum::kColumns;
        AxisSplit positions;
        positions.outer = split_.outer * groups.count * blocks;
        positions.size = std::min(split_.inner, Sum::kColumns);
        for_each_position(side, positions, kPassGrain, Sum{groups, slices(device), blocks, dy, dx});
      };
      Tensor& dx = bottom[0]->diff;
      device.on_host() ? run(HostSide(), device.read<T>(top[0]->diff), device.change<T>(dx))
                       : run(DeviceSide(device), values_in<T>(device, top[0]->diff),
                             changed_values<T>(device, dx));
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// ValuesOut that leaves what it does not write.
  template <class T>
  static ValuesOut<T> changed_values(const ComputeDevice& device, Tensor& tensor) {
    void* const at = dispatch_any_float(
        tensor.dtype(), [&]<class E>(E) -> void* { return device.change<E>(tensor); });
    return {at, stored_as<T>(tensor.dtype())};
  }

  GatheredSlices slices(const ComputeDevice& device) const {
    return {split_.size, indices_.count(), split_.inner, indices_.indices(device)};
  }

  /// The indices of the settings, as RowIndices takes them.
  void read_settings(const Blob& bottom) {
    const auto& given = param().gather_param().index();
    from_front_ = Blob(Shape{given.size()}, DType::f64);
    from_front_.name = "index";
    double* const to = from_front_.data.overwrite<double>();
    for (int i = 0; i < given.size(); ++i) {
      if (given[i] < -split_.size || given[i] >= split_.size)
        throw Error("index ", given[i], " is no slice of '", bottom.name, "' (",
                    bottom.shape().str(), ") along axis ", param().gather_param().axis(),
                    "; give one from ", -split_.size, " to ", split_.size - 1);
      to[i] = static_cast<double>(given[i] < 0 ? given[i] + split_.size : given[i]);
    }
  }

  bool squeezes_, fixed_;
  AxisSplit split_;
  Blob from_front_;  // the indices, none negative
  RowIndices indices_;
};

}  // namespace

void register_gather(Registry& registry) { add_two_sided<GatherLayer>(registry, "Gather"); }

}  // namespace crema
