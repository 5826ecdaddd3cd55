#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/softmax/softmax.cuh"
#include "layers/softmax_loss/softmax_loss.hpp"
#include "layers/softmax_loss/softmax_loss_math.hpp"

namespace crema {
namespace {

/// The loss of one position.
template <class T>
struct LossTerm {
  SoftmaxLayout layout;
  const T* x;
  const double* log_sum;
  const int32_t* labels;  // -1: ignored
  double smoothing;
  __device__ double operator()(int64_t i) const {
    if (labels[i] < 0) return 0;
    const T* scores = x + layout.at(i);
    double loss =
        log_sum[i] - (1 - smoothing) * static_cast<double>(scores[labels[i] * layout.inner]);
    const double spread = smoothing / static_cast<double>(layout.classes);
    for (int64_t c = 0; spread > 0 && c < layout.classes; ++c) {
      loss -= spread * static_cast<double>(scores[c * layout.inner]);
    }
    return loss;
  }
};

template <class T>
struct LossGradient {
  SoftmaxLayout layout;
  SoftmaxLossMath math;
  const T* probability;
  const int32_t* labels;
  T* dx;
  __device__ void operator()(int64_t at) const {
    const int64_t row = at / layout.inner;
    const int64_t position = row / layout.classes * layout.inner + at % layout.inner;
    dx[at] = math.backward(probability[at], row % layout.classes, labels[position]);
  }
};

class SoftmaxLossCuda : public Engine {
 public:
  std::vector<Option> options(Layer& layer, Blobs bottom, Blobs top, std::string&) override {
    return cuda_options(layer, bottom, top, false);
  }

  void prepare(Layer& layer, const Option&, Blobs bottom, Blobs /*top*/) override {
    const SoftmaxLossLayer& loss = of(layer);
    log_sum_.reshape(Shape{loss.outer() * loss.inner()});
    if (!layer.trains()) return;
    probability_.reshape(bottom[0]->shape());
    probability_.set_layout(layer.dtype(), Format::contiguous);
  }

  /// Labels come from the host as a rule: there they are checked, before anything is launched.
  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    const SoftmaxLossLayer& loss = of(layer);
    labels_.read(bottom[1]->data, loss.inner(), loss.classes(), loss.ignored());
    dispatch_float(layer.dtype(),
                   [&](auto zero) { forward_as<decltype(zero)>(loss, bottom, top); });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!propagate[0]) return;
    const SoftmaxLossLayer& loss = of(layer);
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const double weight = static_cast<double>(top[0]->diff.template host<T>()[0]);
      const SoftmaxLossMath math(weight / divisor(loss), loss.smoothing(), loss.classes());
      const T* probability = probability_.device<T>(backend);
      const int32_t* labels = labels_.classes().device<int32_t>(backend);
      T* dx = bottom[0]->diff.template device_overwrite<T>(backend);
      cuda_for_each(backend, bottom[0]->count(),
                    LossGradient<T>{layout(loss), math, probability, labels, dx});
    });
  }

  size_t extra_bytes() const override { return log_sum_.bytes() + probability_.bytes(); }

 private:
  static const SoftmaxLossLayer& of(const Layer& layer) {
    return static_cast<const SoftmaxLossLayer&>(layer);
  }
  static SoftmaxLayout layout(const SoftmaxLossLayer& loss) {
    return {loss.outer(), loss.classes(), loss.inner()};
  }
  double divisor(const SoftmaxLossLayer& loss) const {
    return loss.normalization().divisor(loss.outer(), loss.inner(), labels_.valid());
  }

  template <class T>
  void forward_as(const SoftmaxLossLayer& loss, Blobs bottom, Blobs top) {
    CudaBackend& backend = cuda(loss.context());
    const T* x = bottom[0]->data.device<T>(backend);
    T* shown = top.size() > 1 ? top[1]->data.device_overwrite<T>(backend) : nullptr;
    T* y = loss.trains() ? probability_.device_overwrite<T>(backend) : shown;
    double* log_sum = log_sum_.device_overwrite<double>(backend);
    const int32_t* labels = labels_.classes().device<int32_t>(backend);
    cuda_softmax(backend, SoftmaxForward<T>{layout(loss), x, y, log_sum});
    if (shown && shown != y) backend.copy(shown, y, top[1]->data.bytes());
    cuda_sum(backend, loss.outer() * loss.inner(),
             LossTerm<T>{layout(loss), x, log_sum, labels, loss.smoothing()}, 1 / divisor(loss),
             top[0]->data.device_overwrite<T>(backend));
  }

  Labels labels_;
  Tensor log_sum_{Shape{0}, DType::f64};  // one a position
  Tensor probability_;                    // of the scores' shape, where the layer trains
};

}  // namespace

void register_softmax_loss_cuda(Registry& registry);

void register_softmax_loss_cuda(Registry& registry) {
  registry.add_engine<SoftmaxLossCuda>("SoftmaxWithLoss", "cuda", DeviceType::cuda);
}

}  // namespace crema
