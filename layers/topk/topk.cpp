// TopK: the greatest or the least elements along an axis. See README.md.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The chosen ones of each position: `chosen`, (position, k), along the axis.
template <class T>
struct ChooseTopK {
  static constexpr int64_t kInserted = 16;  // so many are found by insertion
  AxisSplit split;
  int64_t k;
  bool largest;
  const T* x;
  int64_t* chosen;
  T *values, *indices;  // indices: null without that top

  /// Whether value a goes before value b of a lower index.
  CREMA_FUNCTOR bool goes_before(T a, T b) const {
    const bool a_is_nan = a != a, b_is_nan = b != b;
    if (a_is_nan || b_is_nan) return largest ? a_is_nan && !b_is_nan : b_is_nan && !a_is_nan;
    return largest ? a > b : a < b;
  }

  CREMA_FUNCTOR void store(int64_t position, const int64_t* best) const {
    const T* const from = x + split.at(position);
    const int64_t first = position / split.inner * k * split.inner + position % split.inner;
    for (int64_t j = 0; j < k; ++j) {
      values[first + j * split.inner] = from[best[j] * split.inner];
      if (indices) indices[first + j * split.inner] = static_cast<T>(best[j]);
    }
  }

  CREMA_FUNCTOR void operator()(int64_t position) const {
    const T* const from = x + split.at(position);
    int64_t* const best = chosen + position * k;
    int64_t found = 0;
    for (int64_t c = 0; c < split.size; ++c) {
      const T value = from[c * split.inner];
      if (found == k && !goes_before(value, from[best[k - 1] * split.inner])) continue;
      int64_t at = found < k ? found++ : k - 1;
      for (; at > 0 && goes_before(value, from[best[at - 1] * split.inner]); --at) {
        best[at] = best[at - 1];
      }
      best[at] = c;
    }
    store(position, best);
  }

  void on_host(int64_t begin, int64_t end) const {
    if (k <= kInserted) {
      for (int64_t i = begin; i < end; ++i) (*this)(i);
      return;
    }
    std::vector<int64_t> order(static_cast<size_t>(split.size));
    for (int64_t i = begin; i < end; ++i) {
      const T* const from = x + split.at(i);
      std::iota(order.begin(), order.end(), int64_t{0});
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
        const T of_a = from[a * split.inner], of_b = from[b * split.inner];
        return goes_before(of_a, of_b) || (a < b && !goes_before(of_b, of_a));
      });
      std::copy_n(order.begin(), k, chosen + i * k);
      store(i, chosen + i * k);
    }
  }
};

/// Gradients go where the values came from.
template <class T>
struct TopKGradient {
  AxisSplit split;
  int64_t k;
  const int64_t* chosen;
  const T* dy;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t position) const {
    const int64_t first = position / split.inner * k * split.inner + position % split.inner;
    T* const to = dx + split.at(position);
    for (int64_t j = 0; j < k; ++j) {
      to[chosen[position * k + j] * split.inner] = dy[first + j * split.inner];
    }
  }
};

class TopKLayer : public TwoSidedLayer {
 public:
  explicit TopKLayer(const LayerInit& init) : TwoSidedLayer(init), k_(init.param.topk_param().k()) {
    if (k_ == 0) throw Error("k is 0; give the number of elements to find, 1 or more");
  }

  Arity arity() const override { return {.max_tops = 2}; }
  bool has_gradient(int top) const override { return top == 0; }
  bool is_exact_top(int top) const override { return top == 1; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    const int given = param().topk_param().axis(), axis = shape.canonical_axis(given);
    split_ = AxisSplit(shape, axis);
    if (k_ > split_.size)
      throw Error("k ", k_, " exceeds the ", split_.size, " elements of '", bottom[0]->name, "' (",
                  shape.str(), ") along axis ", given, "; lower it");
    constexpr int64_t kExactInF32 = int64_t{1} << 24;
    if (top.size() > 1 && dtype() == DType::f32 && split_.size > kExactInF32)
      throw Error("indices of ", split_.size, " elements of '", bottom[0]->name, "' (", shape.str(),
                  ") are not exact in f32; leave out the second top, or run in f64");
    Shape to = shape;
    to.set(axis, k_);
    for (Blob* const blob : top) blob->reshape(to);
  }
  void prepare_reference(Blobs, Blobs) override { chosen_.reshape(Shape{split_.positions(), k_}); }
  size_t kept_bytes() const override { return chosen_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (split_.positions() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const ChooseTopK<T> pass{split_,
                               k_,
                               param().topk_param().largest(),
                               device.read<T>(bottom[0]->data),
                               device.overwrite<int64_t>(chosen_),
                               device.overwrite<T>(top[0]->data),
                               top.size() > 1 ? device.overwrite<T>(top[1]->data) : nullptr};
      for_each(device, split_.positions(), kPassGrain / split_.size + 1, pass);
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    fill_zero(device, bottom[0]->diff);
    if (split_.positions() == 0) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      for_each(device, split_.positions(), kPassGrain / k_ + 1,
               TopKGradient<T>{split_, k_, device.read<int64_t>(chosen_),
                               device.read<T>(top[0]->diff), device.change<T>(bottom[0]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  int64_t k_;
  AxisSplit split_;
  Tensor chosen_{Shape{0}, DType::i64};
};

}  // namespace

void register_topk(Registry& registry) { add_two_sided<TopKLayer>(registry, "TopK"); }

}  // namespace crema
