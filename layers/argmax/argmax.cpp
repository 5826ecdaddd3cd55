// ArgMax: the indices of the greatest values. See README.md.
#include <array>

#include "core/dispatch.hpp"
#include "core/simd.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Whether a value goes before one with a lower index: of equal values the later one does, and NaN
/// counts as the greatest.
template <class T>
CREMA_FUNCTOR bool goes_before(T value, T earlier) {
  return (value >= earlier) | (value != value);
}

/// For the greatest values of `count` rows that lie side by side: compares them with value c of
/// each row, where all that were compared before have lower indices.
template <class T>
[[gnu::always_inline]] inline void take_greater(const T* x, T c, T* best, T* index, int64_t count) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) {
    // As goes_before(), in two selections, which the compiler vectorizes.
    const T value = x[j], old = best[j], old_index = index[j];
    const bool not_less = value >= old, is_nan = value != value;
    const T chosen = not_less ? value : old, chosen_index = not_less ? c : old_index;
    best[j] = is_nan ? value : chosen;
    index[j] = is_nan ? c : chosen_index;
  }
}

/// The index of the greatest of `size` neighbouring values.
template <class T>
int64_t index_of_greatest(const T* x, int64_t size) {
  constexpr int64_t kLanes = 64;
  int64_t begin = 0, winner = 0;
  if (size >= 2 * kLanes) {
    // Lane j has the values j, j + kLanes, ...
    std::array<T, kLanes> best, index{};
    std::copy_n(x, kLanes, best.begin());
    for (begin = kLanes; begin + kLanes <= size; begin += kLanes) {
      vectorized<take_greater<T>>(x + begin, static_cast<T>(begin / kLanes), best.data(),
                                  index.data(), kLanes);
    }
    winner = static_cast<int64_t>(index[0]) * kLanes;
    for (int64_t j = 1; j < kLanes; ++j) {
      const int64_t i = static_cast<int64_t>(index[static_cast<size_t>(j)]) * kLanes + j;
      const bool wins = i > winner ? goes_before(x[i], x[winner]) : !goes_before(x[winner], x[i]);
      if (wins) winner = i;
    }
  }
  for (int64_t i = begin; i < size; ++i) {
    if (goes_before(x[i], x[winner])) winner = i;
  }
  return winner;
}

/// The `top_k` greatest values of each position.
template <class T>
struct Greatest {
  AxisSplit split;
  int64_t top_k;
  int64_t row;  // elements of the top for each outer index
  const T* x;
  int64_t* chosen;  // (position, top_k), if top_k is above 1
  T* indices;       // first place in the top; null where they are not given
  T* values;

  CREMA_FUNCTOR int64_t place(int64_t position) const {
    return position / split.inner * row + position % split.inner;
  }

  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T* const from = x + split.at(i);
    int64_t only = 0;
    int64_t* const best = top_k == 1 ? &only : chosen + i * top_k;
    int64_t found = 0;
    T least = 0;  // of those found, once there are top_k
    for (int64_t c = 0; c < split.size; ++c) {
      const T value = from[c * split.inner];
      if (found == top_k && !goes_before(value, least)) continue;
      int64_t at = found < top_k ? found++ : top_k - 1;
      for (; at > 0 && goes_before(value, from[best[at - 1] * split.inner]); --at) {
        best[at] = best[at - 1];
      }
      best[at] = c;
      least = from[best[found - 1] * split.inner];
    }
    const int64_t first = place(i);
    for (int64_t k = 0; k < top_k; ++k) {
      const int64_t to = first + k * split.inner;
      if (indices) indices[to] = static_cast<T>(best[k]);
      if (values) values[to] = from[best[k] * split.inner];
    }
  }

  void on_host(int64_t begin, int64_t end) const {
    if (top_k > 1) {
      for (int64_t i = begin; i < end; ++i) (*this)(i);
    } else if (split.inner == 1) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t best = index_of_greatest(x + split.at(i), split.size);
        if (indices) indices[place(i)] = static_cast<T>(best);
        if (values) values[place(i)] = x[split.at(i) + best];
      }
    } else {
      neighbours(begin, end);
    }
  }
  /// For top_k 1: positions whose values are neighbours in memory.
  void neighbours(int64_t begin, int64_t end) const {
    constexpr int64_t kTogether = 1024;
    for (int64_t i = begin; i < end;) {
      const int64_t count = std::min({kTogether, split.inner - i % split.inner, end - i});
      std::array<T, kTogether> best, index{};
      const T* const from = x + split.at(i);
      std::copy_n(from, count, best.begin());
      for (int64_t c = 1; c < split.size; ++c) {
        vectorized<take_greater<T>>(from + c * split.inner, static_cast<T>(c), best.data(),
                                    index.data(), count);
      }
      if (indices) std::copy_n(index.begin(), count, indices + place(i));
      if (values) std::copy_n(best.begin(), count, values + place(i));
      i += count;
    }
  }
};

class ArgMaxLayer : public TwoSidedLayer {
 public:
  explicit ArgMaxLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        top_k_(init.param.argmax_param().top_k()),
        gives_values_(init.param.argmax_param().out_max_val()),
        has_axis_(init.param.argmax_param().has_axis()) {
    if (top_k_ == 0) throw Error("top_k is 0; give the number of values to find, 1 or more");
  }

  bool can_propagate(int) const override { return false; }
  bool is_exact_top(int) const override { return true; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() == 0)
      throw Error("'", bottom[0]->name, "' is a scalar; there is nothing to choose from");
    if (has_axis_) {
      split_ = AxisSplit(shape, param().argmax_param().axis());
    } else {
      split_.outer = shape[0];
      split_.size = shape.count(1);
    }
    if (top_k_ > split_.size)
      throw Error("top_k ", top_k_, " exceeds the ", split_.size, " values of '", bottom[0]->name,
                  "' (", shape.str(), ") ",
                  has_axis_ ? text("along axis ", param().argmax_param().axis()) : "of an item",
                  "; lower it");
    constexpr int64_t kExactInF32 = int64_t{1} << 24;
    if (gives_indices() && dtype() == DType::f32 && split_.size > kExactInF32)
      throw Error("indices of ", split_.size, " values of '", bottom[0]->name, "' (", shape.str(),
                  ") are not exact in f32; set axis, so that at most ", kExactInF32,
                  " are compared");
    if (has_axis_) {
      Shape to = shape;
      to.set(shape.canonical_axis(param().argmax_param().axis()), top_k_);
      top[0]->reshape(to);
    } else {
      std::vector<int64_t> dims(static_cast<size_t>(std::max(shape.rank(), 3)), 1);
      dims[0] = shape[0];
      dims[1] = gives_values_ ? 2 : 1;
      dims[2] = top_k_;
      top[0]->reshape(Shape(std::move(dims)));
    }
  }
  void prepare_reference(Blobs, Blobs) override {
    chosen_.reshape(Shape{split_.positions(), top_k_ == 1 ? 0 : top_k_});
  }
  size_t kept_bytes() const override { return chosen_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (split_.positions() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      T* const y = device.overwrite<T>(top[0]->data);
      const int64_t values_from = gives_indices() ? top_k_ : 0;
      const Greatest<T> pass{split_,
                             top_k_,
                             top[0]->count() / split_.outer,
                             device.read<T>(bottom[0]->data),
                             device.overwrite<int64_t>(chosen_),
                             gives_indices() ? y : nullptr,
                             gives_values_ ? y + values_from : nullptr};
      for_each(device, split_.positions(), kPassGrain / split_.size + 1, pass);
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// With an axis, the top holds either indices or values.
  bool gives_indices() const { return !has_axis_ || !gives_values_; }

  int64_t top_k_;
  bool gives_values_, has_axis_;
  AxisSplit split_;
  Tensor chosen_{Shape{0}, DType::i64};
};

}  // namespace

void register_argmax(Registry& registry) { add_two_sided<ArgMaxLayer>(registry, "ArgMax"); }

}  // namespace crema
