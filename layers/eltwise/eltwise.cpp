// Eltwise: sum, product or maximum of bottoms of one shape, element by element. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/eltwise/eltwise_kernels.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

#include "layers/eltwise/eltwise_math.hpp"

constexpr size_t kMaximumBottoms = 255;  // of a maximum: a byte says which one it came from
/// Pointers travel to a kernel as arguments, whose room is limited.
constexpr int kMaximumOnDevice = 16;

/// One element after the other. `Of` is Sum, Product or Maximum, W an EltwiseForward or an
/// EltwiseBackward.
template <class T, class Of, class In, class W>
struct EachElement {
  In in;
  W w;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    if constexpr (std::is_same_v<W, EltwiseForward>) {
      Of::run(Number<T>{i}, in, w);
    } else {
      for (int k = in.count; k-- > 0;) {
        if (in.dx[k]) Of::run(Number<T>{i}, in, w, k);
      }
    }
  }
};

EltwiseOperation operation_of(const EltwiseParameter& settings) {
  switch (settings.operation()) {
    case EltwiseParameter::PROD:
      return EltwiseOperation::product;
    case EltwiseParameter::MAX:
      return EltwiseOperation::maximum;
    case EltwiseParameter::SUM:
      break;
  }
  return EltwiseOperation::sum;
}

class EltwiseLayer : public TwoSidedLayer {
 public:
  explicit EltwiseLayer(const LayerInit& init)
      : TwoSidedLayer(init), operation_(operation_of(init.param.eltwise_param())) {
    const EltwiseParameter& settings = init.param.eltwise_param();
    stable_product_ = settings.stable_prod_grad();
    if (settings.coeff_size() != 0 && operation_ == EltwiseOperation::product)
      throw Error("coeff is for operation SUM, not for PROD; remove it or the operation");
    coefficients_.assign(settings.coeff().begin(), settings.coeff().end());
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = -1}; }

  void setup(Blobs bottom, Blobs) override {
    if (!coefficients_.empty() && coefficients_.size() != bottom.size())
      throw Error("there are ", coefficients_.size(), " coeff for ", bottom.size(),
                  " bottoms; give one for each, or none");
    if (operation_ == EltwiseOperation::maximum && bottom.size() > kMaximumBottoms)
      throw Error("operation MAX takes at most ", kMaximumBottoms, " bottoms, not ", bottom.size(),
                  "; join them in two layers");
    coefficients_.resize(bottom.size(), 1.0F);
    inputs_.resize(bottom.size());
    outputs_.resize(bottom.size());
  }

  void reshape(Blobs bottom, Blobs top) override {
    for (const Blob* other : bottom.subspan(1)) {
      if (other->shape() != bottom[0]->shape())
        throw Error("bottoms have different shapes: '", bottom[0]->name, "' is ",
                    bottom[0]->shape().str(), ", '", other->name, "' is ", other->shape().str(),
                    "; make the layers before give one shape");
    }
    top[0]->reshape(bottom[0]->shape());
  }

  Flops flops(Blobs bottom, Blobs top) const override {
    const double n = static_cast<double>(top[0]->count()) * static_cast<double>(bottom.size());
    return {n, n};
  }

  /// A ReLU behind a sum: residual nets have one behind each.
  bool accepts(const Tail& tail) const override {
    return operation_ == EltwiseOperation::sum && relu_slope_of(tail).has_value();
  }

  /// A sum of two bottoms without factors.
  std::optional<TailStep> as_tail_step() const override {
    if (operation_ != EltwiseOperation::sum || coefficients_ != std::vector{1.0F, 1.0F}) {
      return std::nullopt;
    }
    return TailStep{.kind = TailStep::Kind::add, .bottom = 1};
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    // Where it divides, padding becomes 0 / 0.
    const bool divides = trains() && operation_ == EltwiseOperation::product && !stable_product_;
    return same_format_options(bottom, top, dtype(), !divides);
  }
  std::string device_refusal(Blobs bottom) const override {
    if (bottom.size() <= size_t{kMaximumOnDevice}) return {};
    return text("it takes at most ", kMaximumOnDevice, " bottoms, not ", bottom.size());
  }
  void prepare_reference(Blobs, Blobs top) override {
    if (operation_ != EltwiseOperation::maximum || !trains()) return;
    maximum_of_.reshape(top[0]->shape());
    maximum_of_.set_layout(DType::u8, top[0]->data.format());
  }
  size_t kept_bytes() const override { return maximum_of_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    const bool marks = operation_ == EltwiseOperation::maximum && trains();
    dispatch_float(dtype(), [&]<class T>(T) {
      for (size_t k = 0; k < bottom.size(); ++k) inputs_[k] = device.read<T>(bottom[k]->data);
      run<T>(device, top[0]->data.storage(),
             EltwiseForward{slope(), device.overwrite<T>(top[0]->data),
                            marks ? device.overwrite<uint8_t>(maximum_of_) : nullptr});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    const bool marks = operation_ == EltwiseOperation::maximum;
    const BackwardReads reads = reference_backward_reads();
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* dy = device.read<T>(top[0]->diff);
      for (size_t k = 0; k < bottom.size(); ++k) {
        inputs_[k] = reads.bottom_data[k] ? device.read<T>(bottom[k]->data) : nullptr;
        outputs_[k] = propagate[k] ? device.overwrite<T>(bottom[k]->diff) : nullptr;
      }
      run<T>(device, top[0]->diff.storage(),
             EltwiseBackward{slope(), dy, reads.top_data ? device.read<T>(top[0]->data) : nullptr,
                             marks ? device.read<uint8_t>(maximum_of_) : nullptr});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    if (operation_ != EltwiseOperation::product) return {false, relu_slope_of(tail()).has_value()};
    // A gradient reads its own factor, by which it divides the product, or else all the others.
    IndexSet factors = true;
    if (inputs_.size() == 2 && propagates(0) != propagates(1)) {
      factors = propagates(0) != stable_product_ ? IndexSet{0} : IndexSet{1};
    }
    return {factors, !stable_product_};
  }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  float slope() const { return relu_slope_of(tail()).value_or(1); }

  template <class T, class W>
  void run(const ComputeDevice& device, int64_t count, const W& w) const {
    const EltwiseOperands in{inputs_.data(), outputs_.data(), coefficients_.data(),
                             static_cast<int>(inputs_.size())};
    if (std::is_same_v<T, float> && device.on_host()) {
      return parallel_for(count, kElementGrain, [&](int64_t begin, int64_t end) {
        eltwise_elements(operation_, in, w, begin, end);
      });
    }
    with_operation(operation_, [&](auto of) {
      using Of = decltype(of);
      using Few = FewOperands<kMaximumOnDevice>;
      if (device.on_host()) {
        return for_each(device, count, kElementGrain,
                        EachElement<T, Of, EltwiseOperands, W>{in, w});
      }
      for_each(device, count, kElementGrain, EachElement<T, Of, Few, W>{Few(in), w});
    });
  }

  EltwiseOperation operation_;
  std::vector<float> coefficients_;  // one a bottom
  bool stable_product_ = true;
  Tensor maximum_of_;  // u8, laid out like the top: which bottom each element came from
  // Of one pass; kept so that none allocates.
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace

void register_eltwise(Registry& registry) { add_two_sided<EltwiseLayer>(registry, "Eltwise"); }

}  // namespace crema
