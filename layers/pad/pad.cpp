// Pad: adds elements around the bottom. See README.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/dispatch.hpp"
#include "core/float_values.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int kPadAxes = 8;

/// Axes of bottom and top. Tables, one behind the other for each axis: `from`, of each index of the
/// top, the index of the bottom, or -1 outside of it; and the indices of the top that take index k
/// of the bottom: places[begins[k]] to places[begins[k + 1] - 1].
struct PadAxes {
  int rank = 0;
  int64_t bottom[kPadAxes], top[kPadAxes];
  int64_t from_at[kPadAxes], begins_at[kPadAxes];  // where the tables of an axis begin
  const int64_t *from, *begins, *places;

  /// The element of the bottom for row `row` of all axes but the last one, or -1 outside.
  CREMA_FUNCTOR int64_t row_of_bottom(int64_t row) const {
    int64_t at = 0, stride = 1;
    for (int a = rank - 2; a >= 0; --a) {
      const int64_t index = from[from_at[a] + row % top[a]];
      if (index < 0) return -1;
      at += index * stride;
      stride *= bottom[a];
      row /= top[a];
    }
    return at;
  }
};

/// Rows of the top.
template <class T, class In, class Out>
struct PadRows {
  PadAxes axes;
  T value;
  int64_t begin, end;  // of the last axis: from here to there, indices of the bottom go up by one
  In x;
  Out y;

  void on_host(int64_t first, int64_t last) const {
    const int64_t width = axes.top[axes.rank - 1], size = axes.bottom[axes.rank - 1];
    const int64_t* const from = axes.from + axes.from_at[axes.rank - 1];
    for (int64_t row = first; row < last; ++row) {
      T* const to = y + row * width;
      const int64_t of_bottom = axes.row_of_bottom(row);
      if (of_bottom < 0) {
        std::fill_n(to, width, value);
        continue;
      }
      const T* const source = x + of_bottom * size;
      for (int64_t k = 0; k < begin; ++k) to[k] = from[k] < 0 ? value : source[from[k]];
      if (begin < end) std::copy_n(source + from[begin], end - begin, to + begin);
      for (int64_t k = end; k < width; ++k) to[k] = from[k] < 0 ? value : source[from[k]];
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const int64_t width = axes.top[axes.rank - 1], size = axes.bottom[axes.rank - 1];
    const int64_t* const from = axes.from + axes.from_at[axes.rank - 1];
    const int64_t of_bottom = axes.row_of_bottom(row);
    for (int64_t k = lanes.first; k < width; k += lanes.count) {
      const bool is_inside = of_bottom >= 0 && from[k] >= 0;
      const T element = is_inside ? x[of_bottom * size + from[k]] : value;
      y[row * width + k] = element;
    }
  }
};

/// Rows of the bottom: sums of the gradients of all places that took an element.
template <class T, class In, class Out>
struct PadGradient {
  static constexpr int64_t kColumns = 128;
  PadAxes axes;
  In dy;
  Out dx;

  /// Calls visit(the row of the top) for each that takes this row of the bottom.
  template <class Visit>
  CREMA_FUNCTOR void for_rows_of_top(int64_t row, const Visit& visit) const {
    int64_t first[kPadAxes], count[kPadAxes];
    int64_t all = 1;
    for (int a = axes.rank - 2; a >= 0; --a) {
      const int64_t at = axes.begins_at[a] + row % axes.bottom[a];
      row /= axes.bottom[a];
      first[a] = axes.begins[at];
      count[a] = axes.begins[at + 1] - first[a];
      all *= count[a];
    }
    for (int64_t k = 0; k < all; ++k) {
      int64_t rest = k, of_top = 0, stride = 1;
      for (int a = axes.rank - 2; a >= 0; --a) {
        of_top += axes.places[first[a] + rest % count[a]] * stride;
        stride *= axes.top[a];
        rest /= count[a];
      }
      visit(of_top);
    }
  }

  void on_host(int64_t begin, int64_t end) const {
    const int64_t width = axes.top[axes.rank - 1], size = axes.bottom[axes.rank - 1];
    const int64_t* const begins = axes.begins + axes.begins_at[axes.rank - 1];
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < size; column += kColumns) {
        const int64_t columns = std::min(kColumns, size - column);
        std::array<double, kColumns> sums{};
        for_rows_of_top(row, [&](int64_t of_top) {
          const T* const from = dy + of_top * width;
          for (int64_t k = 0; k < columns; ++k) {
            double& sum = sums[static_cast<size_t>(k)];
            for (int64_t j = begins[column + k]; j < begins[column + k + 1]; ++j) {
              sum += static_cast<double>(from[axes.places[j]]);
            }
          }
        });
        for (int64_t k = 0; k < columns; ++k) {
          dx[row * size + column + k] = static_cast<T>(sums[static_cast<size_t>(k)]);
        }
      }
    }
  }
  template <class Lanes = OneLane>
  CREMA_FUNCTOR void operator()(int64_t row, const Lanes& lanes = {}) const {
    const int64_t width = axes.top[axes.rank - 1], size = axes.bottom[axes.rank - 1];
    const int64_t* const begins = axes.begins + axes.begins_at[axes.rank - 1];
    for (int64_t k = lanes.first; k < size; k += lanes.count) {
      double sum = 0;
      for_rows_of_top(row, [&](int64_t of_top) {
        for (int64_t j = begins[k]; j < begins[k + 1]; ++j) {
          sum += static_cast<double>(dy[of_top * width + axes.places[j]]);
        }
      });
      dx[row * size + k] = static_cast<T>(sum);
    }
  }
};

class PadLayer : public TwoSidedLayer {
 public:
  explicit PadLayer(const LayerInit& init)
      : TwoSidedLayer(init), mode_(init.param.pad_param().mode()) {
    const PadParameter& s = init.param.pad_param();
    if (s.begin_size() != s.end_size())
      throw Error(s.begin_size(), " values of begin and ", s.end_size(),
                  " of end; give one of each for each axis");
    if (mode_ != PadParameter::CONSTANT && s.has_value())
      throw Error("value ", s.value(), " is for mode CONSTANT; leave it out, or change the mode");
  }

  void reshape(Blobs bottom, Blobs top) override {
    const PadParameter& s = param().pad_param();
    const Shape& from = bottom[0]->shape();
    if (s.begin_size() > from.rank())
      throw Error(s.begin_size(), " values of begin for the ", from.rank(), " axes of '",
                  bottom[0]->name, "' (", from.str(), "); give at most one an axis");
    Shape to = from;
    std::vector<Axis> axes;
    for (int a = 0; a < from.rank(); ++a) {
      const int i = a - (from.rank() - s.begin_size());
      const Axis axis{from[a], i < 0 ? 0 : s.begin(i), i < 0 ? 0 : s.end(i)};
      to.set(a, padded(axis, a, *bottom[0]));
      const bool joins = axis.begin == 0 && axis.end == 0 && !axes.empty() &&
                         axes.back().begin == 0 && axes.back().end == 0;
      if (joins) {
        axes.back().size *= axis.size;
      } else {
        axes.push_back(axis);
      }
    }
    same_ = to == from && std::all_of(axes.begin(), axes.end(), [](const Axis& axis) {
              return axis.begin == 0 && axis.end == 0;
            });
    top[0]->reshape(to);
    if (axes.empty()) axes.push_back({1, 0, 0});
    if (axes.size() > kPadAxes)
      throw Error("more than ", kPadAxes, " axes of '", bottom[0]->name, "' (", from.str(),
                  ") change in turn; use two layers");
    make_tables(axes);
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return {uniform_option(bottom, top, dtype())};
  }
  bool stores_16_bits() const override { return true; }
  size_t kept_bytes() const override { return from_.bytes() + begins_.bytes() + places_.bytes(); }
  Flops flops(Blobs bottom, Blobs) const override {
    return {0, mode_ == PadParameter::CONSTANT ? 0 : static_cast<double>(bottom[0]->count())};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (same_) return copy(device, bottom[0]->data, top[0]->data);
    if (top[0]->count() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto run = [&]<class Side, class In, class Out>(Side side, In x, Out y) {
        for_each_position(
            side, rows_of(axes_.top), kElementGrain,
            PadRows<T, In, Out>{tables(device), static_cast<T>(param().pad_param().value()),
                                straight_begin_, straight_end_, x, y});
      };
      device.on_host()
          ? run(HostSide(), device.read<T>(bottom[0]->data), device.overwrite<T>(top[0]->data))
          : run(DeviceSide(device), values_in<T>(device, bottom[0]->data),
                values_out<T>(device, top[0]->data));
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    if (same_) return copy(device, top[0]->diff, bottom[0]->diff);
    if (bottom[0]->count() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const auto run = [&]<class Side, class In, class Out>(Side side, In dy, Out dx) {
        for_each_position(side, rows_of(axes_.bottom), kPassGrain,
                          PadGradient<T, In, Out>{tables(device), dy, dx});
      };
      device.on_host()
          ? run(HostSide(), device.read<T>(top[0]->diff), device.overwrite<T>(bottom[0]->diff))
          : run(DeviceSide(device), values_in<T>(device, top[0]->diff),
                values_out<T>(device, bottom[0]->diff));
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  struct Axis {
    int64_t size, begin, end;
  };

  /// The size of the top along an axis.
  int64_t padded(const Axis& axis, int number, const Blob& bottom) const {
    constexpr int64_t kMost = int64_t{1} << 40;
    const auto refuse = [&](const auto&... why) {
      throw Error("begin ", axis.begin, " and end ", axis.end, " for axis ", number, " of '",
                  bottom.name, "' (", bottom.shape().str(), "): ", why...);
    };
    for (const int64_t pad : {axis.begin, axis.end}) {
      if (pad > kMost || pad < -kMost) refuse("a pad has at most 2^40 elements");
    }
    const int64_t size = axis.size + axis.begin + axis.end;
    if (size < 0 || axis.begin < -axis.size || axis.end < -axis.size)
      refuse("more is cut off than the ", axis.size, " elements that there are");
    const int64_t most = std::max(axis.begin, axis.end);
    if (most <= 0) return size;
    if (mode_ == PadParameter::REFLECT && most >= axis.size)
      refuse("REFLECT takes at most ", axis.size - 1, " elements a side; use WRAP or EDGE");
    if (mode_ != PadParameter::CONSTANT && axis.size == 0)
      refuse("there is no element to repeat; use mode CONSTANT");
    return size;
  }
  /// Which of `size` elements lies at place i, which may be outside of them; -1 for none.
  int64_t source(int64_t i, int64_t size) const {
    if (i >= 0 && i < size) return i;
    switch (mode_) {
      case PadParameter::REFLECT:
        return i < 0 ? -i : 2 * (size - 1) - i;
      case PadParameter::EDGE:
        return i < 0 ? 0 : size - 1;
      case PadParameter::WRAP:
        return (i % size + size) % size;
      case PadParameter::CONSTANT:
        break;
    }
    return -1;
  }

  void make_tables(const std::vector<Axis>& axes) {
    std::vector<int64_t> from, begins, places;
    axes_ = {};
    for (const Axis& axis : axes) {
      const auto a = static_cast<size_t>(axes_.rank++);
      const int64_t size = axis.size + axis.begin + axis.end;
      axes_.bottom[a] = axis.size;
      axes_.top[a] = size;
      axes_.from_at[a] = static_cast<int64_t>(from.size());
      axes_.begins_at[a] = static_cast<int64_t>(begins.size());
      const size_t first = begins.size();
      begins.resize(first + static_cast<size_t>(axis.size) + 1, 0);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t index = source(i - axis.begin, axis.size);
        from.push_back(index);
        if (index >= 0) ++begins[first + static_cast<size_t>(index) + 1];
      }
      begins[first] = static_cast<int64_t>(places.size());
      for (size_t k = first + 1; k < begins.size(); ++k) begins[k] += begins[k - 1];
      places.resize(static_cast<size_t>(begins.back()));
      std::vector<int64_t> next(begins.begin() + static_cast<ptrdiff_t>(first), begins.end());
      for (int64_t i = 0; i < size; ++i) {
        const int64_t index = from[static_cast<size_t>(axes_.from_at[a] + i)];
        if (index < 0) continue;
        places[static_cast<size_t>(next[static_cast<size_t>(index)]++)] = i;
      }
    }
    const Axis& last = axes.back();
    straight_begin_ = std::clamp<int64_t>(last.begin, 0, last.size + last.begin + last.end);
    straight_end_ = std::max(straight_begin_,
                             std::min(last.begin + last.size, last.size + last.begin + last.end));
    store(from, from_);
    store(begins, begins_);
    store(places, places_);
  }
  static void store(const std::vector<int64_t>& values, Tensor& to) {
    to.reshape(Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), to.overwrite<int64_t>());
  }
  PadAxes tables(const ComputeDevice& device) const {
    PadAxes axes = axes_;
    axes.from = device.read<int64_t>(from_);
    axes.begins = device.read<int64_t>(begins_);
    axes.places = device.read<int64_t>(places_);
    return axes;
  }
  AxisSplit rows_of(const int64_t* extents) const {
    AxisSplit rows;
    for (int a = 0; a + 1 < axes_.rank; ++a) rows.outer *= extents[a];
    rows.size = std::max<int64_t>(extents[axes_.rank - 1], 1);
    return rows;
  }

  PadParameter::Mode mode_;
  PadAxes axes_{};
  int64_t straight_begin_ = 0, straight_end_ = 0;
  bool same_ = false;
  Tensor from_{Shape{0}, DType::i64}, begins_{Shape{0}, DType::i64}, places_{Shape{0}, DType::i64};
};

}  // namespace

void register_pad(Registry& registry) { add_two_sided<PadLayer>(registry, "Pad"); }

}  // namespace crema
