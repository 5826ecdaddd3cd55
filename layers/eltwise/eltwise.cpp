// Eltwise: sum, product or maximum of bottoms of one shape, element by element. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/options.hpp"
#include "layer_support/packs.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/pointwise_chain.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/eltwise/eltwise_kernels.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

#include "layers/eltwise/eltwise_math.hpp"

constexpr size_t kMaximumBottoms = 255;  // of a maximum: a byte says which one it came from
/// Operands travel to a kernel as arguments, whose room is limited.
constexpr int kMaximumOnDevice = 16;

/// One element after the other. `Of` is Sum, Product or Maximum, W an EltwiseForward or an
/// EltwiseBackward.
template <class T, class Of, class W>
void each_element(const EltwiseOperands& in, const W& w, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if constexpr (std::is_same_v<W, EltwiseForward>) {
      Of::run(Number<T>{i}, in, w);
    } else {
      for (int k = in.count; k-- > 0;) {
        if (in.dx[k]) Of::run(Number<T>{i}, in, w, k);
      }
    }
  }
}

/// The operands of a kernel.
template <class T>
struct DeviceOperands {
  ValuesIn<T> x[kMaximumOnDevice];    // null where they are not read
  ValuesOut<T> dx[kMaximumOnDevice];  // null where no diff is wanted
  float coefficient[kMaximumOnDevice] = {};
  int count = 0;

  bool are_aligned() const {
    for (int k = 0; k < count; ++k) {
      if (!aligned(x[k], dx[k])) return false;
    }
    return true;
  }
};

// Bodies of devices. A sum, which residual nets take most of their time for outside of products,
// reads two terms at once, and in backward what it reads once for all bottoms.

template <class T, class Of>
struct ForwardPack {
  DeviceOperands<T> in;
  EltwiseForwardTo<ValuesOut<T>> w;
  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const {
    if constexpr (!std::is_same_v<Of, Sum>) {
      Of::run(at, in, w);
    } else {
      using V = Pack<T>;
      const auto first = at.fetch(in.x[0]), second = at.fetch(in.x[1]);
      V sum = V(in.coefficient[0]) * at.value(in.x[0], first) +
              V(in.coefficient[1]) * at.value(in.x[1], second);
      for (int k = 2; k < in.count; ++k) sum = sum + V(in.coefficient[k]) * at.load(in.x[k]);
      at.store(ReLUMath{w.slope}.forward(sum), w.y);
    }
  }
};

template <class T, class Of>
struct BackwardPack {
  DeviceOperands<T> in;
  EltwiseBackwardFrom<ValuesIn<T>> w;
  CREMA_FUNCTOR void operator()(const PackAt<T>& at) const {
    if constexpr (!std::is_same_v<Of, Sum>) {
      for (int k = in.count; k-- > 0;) {
        if (in.dx[k]) Of::run(at, in, w, k);
      }
    } else {
      using V = Pack<T>;
      const auto raw_dy = at.fetch(w.dy);
      V g;
      if (w.y) {
        const auto raw_y = at.fetch(w.y);
        g = ReLUMath{w.slope}.backward(at.value(w.dy, raw_dy), V(0), at.value(w.y, raw_y));
      } else {
        g = at.value(w.dy, raw_dy);
      }
      for (int k = 0; k < in.count; ++k) {
        if (in.dx[k]) at.store(V(in.coefficient[k]) * g, in.dx[k]);
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

  /// A maximum keeps which bottom it is of, and the quotient in the gradient of a product that is
  /// not stable reads the product as it was rounded.
  std::vector<ChainStep> chain_steps(size_t entry, const Blob&) override {
    if (coefficients_.size() != 2 || operation_ == EltwiseOperation::maximum) return {};
    const size_t other = 1 - entry;
    if (operation_ == EltwiseOperation::product) {
      if (!stable_product_) return {};
      return {{.kind = ChainStep::Kind::product, .bottom = other}};
    }
    std::vector<ChainStep> steps = {{.kind = ChainStep::Kind::sum,
                                     .bottom = other,
                                     .own = coefficients_[entry],
                                     .other = coefficients_[other]}};
    if (const std::optional<float> slope = relu_slope_of(tail()))
      steps.push_back(ChainStep::of("ReLU", ReLUMath{*slope}));
    return steps;
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
  bool stores_16_bits() const override { return true; }
  void prepare_reference(Blobs, Blobs top) override {
    if (operation_ != EltwiseOperation::maximum || !trains()) return;
    maximum_of_.reshape(top[0]->shape());
    maximum_of_.set_layout(DType::u8, top[0]->data.format());
  }
  size_t kept_bytes() const override { return maximum_of_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    Tensor& y = top[0]->data;
    uint8_t* const which = operation_ == EltwiseOperation::maximum && trains()
                               ? device.overwrite<uint8_t>(maximum_of_)
                               : nullptr;
    dispatch_float(dtype(), [&]<class T>(T) {
      if (!device.on_host()) {
        DeviceOperands<T> in = operands<T>();
        for (size_t k = 0; k < bottom.size(); ++k) in.x[k] = values_in<T>(device, bottom[k]->data);
        const EltwiseForwardTo<ValuesOut<T>> w{slope(), values_out<T>(device, y), which};
        return with_operation(operation_, [&]<class Of>(Of) {
          for_each_pack<T>(device, y.storage(), in.are_aligned() && aligned(w.y),
                           ForwardPack<T, Of>{in, w});
        });
      }
      for (size_t k = 0; k < bottom.size(); ++k) inputs_[k] = device.read<T>(bottom[k]->data);
      run<T>(y.storage(), EltwiseForward{slope(), device.overwrite<T>(y), which});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    const Tensor& dy = top[0]->diff;
    const uint8_t* const which =
        operation_ == EltwiseOperation::maximum ? device.read<uint8_t>(maximum_of_) : nullptr;
    const BackwardReads reads = reference_backward_reads();
    dispatch_float(dtype(), [&]<class T>(T) {
      if (!device.on_host()) {
        DeviceOperands<T> in = operands<T>();
        // What is read first: a gradient may be written over it.
        const EltwiseBackwardFrom<ValuesIn<T>> w{
            slope(), values_in<T>(device, dy),
            reads.top_data ? values_in<T>(device, top[0]->data) : ValuesIn<T>(), which};
        for (size_t k = 0; k < bottom.size(); ++k) {
          if (reads.bottom_data[k]) in.x[k] = values_in<T>(device, bottom[k]->data);
          if (propagate[k]) in.dx[k] = values_out<T>(device, bottom[k]->diff);
        }
        return with_operation(operation_, [&]<class Of>(Of) {
          for_each_pack<T>(device, dy.storage(), in.are_aligned() && aligned(w.dy, w.y),
                           BackwardPack<T, Of>{in, w});
        });
      }
      for (size_t k = 0; k < bottom.size(); ++k) {
        inputs_[k] = reads.bottom_data[k] ? device.read<T>(bottom[k]->data) : nullptr;
        outputs_[k] = propagate[k] ? device.overwrite<T>(bottom[k]->diff) : nullptr;
      }
      run<T>(dy.storage(),
             EltwiseBackward{slope(), device.read<T>(dy),
                             reads.top_data ? device.read<T>(top[0]->data) : nullptr, which});
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

  /// On the host.
  template <class T, class W>
  void run(int64_t count, const W& w) const {
    const EltwiseOperands in{inputs_.data(), outputs_.data(), coefficients_.data(),
                             static_cast<int>(inputs_.size())};
    parallel_for(count, kElementGrain, [&](int64_t begin, int64_t end) {
      if (std::is_same_v<T, float>) return eltwise_elements(operation_, in, w, begin, end);
      with_operation(operation_, [&]<class Of>(Of) { each_element<T, Of>(in, w, begin, end); });
    });
  }
  /// Their coefficients.
  template <class T>
  DeviceOperands<T> operands() const {
    DeviceOperands<T> in;
    in.count = static_cast<int>(coefficients_.size());
    std::ranges::copy(coefficients_, in.coefficient);
    return in;
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
