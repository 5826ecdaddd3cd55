// MatMul: products of the matrices in the last two axes. See README.md.
#include <cmath>

#include "core/dispatch.hpp"
#include "layer_support/gemm.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/mat_mul/products.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

template <class T>
struct Multiply {
  T factor;
  T* values;
  CREMA_FUNCTOR void operator()(int64_t i) const { values[i] *= factor; }
};

/// `batch` products of one shape, c = op(a) op(b) + beta c. Matrices that all products share have a
/// stride of 0; a shared c is added up in order.
template <class T>
struct Products {
  int64_t batch;
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  const T* a;
  int64_t a_stride;
  const T* b;
  int64_t b_stride;
  T* c;
  int64_t c_stride;

  void run(const ComputeDevice& device, Math math) const {
    if (m * n == 0) return;
    if (c_stride == 0 || !device.on_host() || batch < omp_get_max_threads()) {
      for (int64_t i = 0; i < batch; ++i) one(device, math, i);
      return;
    }
    // Small products, one thread each.
    parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(device, math, i);
    });
  }
  void one(const ComputeDevice& device, Math math, int64_t i) const {
    const T beta = c_stride == 0 && i > 0 ? T{1} : T{0};
    gemm<T>(device, math, transpose_a, transpose_b, m, n, k, a + i * a_stride, b + i * b_stride,
            beta, c + i * c_stride);
  }
};

class MatMulLayer : public TwoSidedLayer {
 public:
  explicit MatMulLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        transpose_a_(init.param.matmul_param().transpose_a()),
        transpose_b_(init.param.matmul_param().transpose_b()),
        scale_(init.param.matmul_param().scale()) {
    if (!std::isfinite(scale_)) throw Error("scale ", scale_, " is no number");
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape &a = bottom[0]->shape(), &b = bottom[1]->shape();
    for (const Blob* blob : bottom) {
      if (blob->shape().rank() < 2)
        throw Error("'", blob->name, "' (", blob->shape().str(),
                    ") has no matrices; they lie in the last two axes");
    }
    batch_ = a.count(0, a.rank() - 2);
    shared_ = b.rank() == 2 && a.rank() > 2;
    bool same = b.rank() == a.rank();
    for (int axis = 0; same && axis + 2 < a.rank(); ++axis) same = a[axis] == b[axis];
    if (!same && !shared_)
      throw Error("'", bottom[0]->name, "' (", a.str(), ") and '", bottom[1]->name, "' (", b.str(),
                  ") must have the same axes before the last two, or '", bottom[1]->name,
                  "' only those two");
    m_ = a[transpose_a_ ? -1 : -2];
    k_ = a[transpose_a_ ? -2 : -1];
    n_ = b[transpose_b_ ? -2 : -1];
    const int64_t inner = b[transpose_b_ ? -1 : -2];
    if (inner != k_)
      throw Error("matrices of ", m_, " x ", k_, " from '", bottom[0]->name, "' (", a.str(),
                  ") cannot be multiplied by ones of ", inner, " x ", n_, " from '",
                  bottom[1]->name, "' (", b.str(),
                  "); set transpose_a or transpose_b, if that is meant");
    Shape shape = a;
    shape.set(shape.rank() - 2, m_);
    shape.set(shape.rank() - 1, n_);
    top[0]->reshape(shape);
  }

  Flops flops(Blobs, Blobs) const override {
    const double each = 2 * static_cast<double>(m_ * n_) * static_cast<double>(k_);
    const double all = static_cast<double>(batch_) * each;
    return {all, (propagates(0) ? all : 0) + (propagates(1) ? all : 0)};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      T* y = device.overwrite<T>(top[0]->data);
      Products<T>{batch_,
                  transpose_a_,
                  transpose_b_,
                  m_,
                  n_,
                  k_,
                  device.read<T>(bottom[0]->data),
                  m_ * k_,
                  device.read<T>(bottom[1]->data),
                  shared_ ? 0 : k_ * n_,
                  y,
                  m_ * n_}
          .run(device, arithmetic().math);
      scale<T>(device, top[0]->count(), y);
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* dy = device.read<T>(top[0]->diff);
      const int64_t of_a = m_ * k_, of_b = shared_ ? 0 : k_ * n_, of_y = m_ * n_;
      if (propagate[0]) {
        const T* b = device.read<T>(bottom[1]->data);
        T* da = device.overwrite<T>(bottom[0]->diff);
        // dA = dY op(B)', or its transpose op(B) dY'.
        if (transpose_a_) {
          Products<T>{batch_, transpose_b_, true, k_, m_, n_, b, of_b, dy, of_y, da, of_a}.run(
              device, arithmetic().math);
        } else {
          Products<T>{batch_, false, !transpose_b_, m_, k_, n_, dy, of_y, b, of_b, da, of_a}.run(
              device, arithmetic().math);
        }
        scale<T>(device, bottom[0]->count(), da);
      }
      if (propagate[1]) {
        const T* a = device.read<T>(bottom[0]->data);
        T* db = device.overwrite<T>(bottom[1]->diff);
        if (batch_ == 0) return fill_zero(device, bottom[1]->diff);
        // dB = op(A)' dY, or its transpose dY' op(A).
        if (transpose_b_) {
          Products<T>{batch_, true, transpose_a_, n_, k_, m_, dy, of_y, a, of_a, db, of_b}.run(
              device, arithmetic().math);
        } else {
          Products<T>{batch_, !transpose_a_, false, k_, n_, m_, a, of_a, dy, of_y, db, of_b}.run(
              device, arithmetic().math);
        }
        scale<T>(device, bottom[1]->count(), db);
      }
    });
  }

  /// For the engine of devices.
  MatMulProblem problem() const {
    return {.batch = batch_,
            .m = m_,
            .n = n_,
            .k = k_,
            .transpose_a = transpose_a_,
            .transpose_b = transpose_b_,
            .shared = shared_,
            .scale = scale_};
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0, 1}, false}; }

 private:
  template <class T>
  void scale(const ComputeDevice& device, int64_t count, T* values) const {
    if (scale_ != 1)
      for_each(device, count, kElementGrain, Multiply<T>{static_cast<T>(scale_), values});
  }

  bool transpose_a_, transpose_b_;
  float scale_;
  bool shared_ = false;  // one matrix B for all
  int64_t batch_ = 0, m_ = 0, n_ = 0, k_ = 0;
};

}  // namespace

void register_mat_mul(Registry& registry) {
  registry.add<MatMulLayer>("MatMul");
  add_mat_mul_engine(registry, "MatMul", [](const Layer& layer) {
    return static_cast<const MatMulLayer&>(layer).problem();
  });
}

}  // namespace crema
