// Axpy: scales the channels of one bottom by another, and adds a third. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/channel_factors.hpp"
#include "layer_support/options.hpp"
#include "layer_support/packs.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/position_sums.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {
namespace {

/// `In` and `Out` are pointers, or ValuesIn<T> and ValuesOut<T>.
template <class In>
struct Product {
  In a, b;
  CREMA_FUNCTOR double operator()(int64_t i) const {
    return static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
};

template <class T, class Out>
struct Store {
  Out to;
  CREMA_FUNCTOR void operator()(int64_t i, double sum) const { to[i] = static_cast<T>(sum); }
};

class AxpyLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override { return {.min_bottoms = 3, .max_bottoms = 3}; }
  size_t in_place_bottom() const override { return 2; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape &scales = bottom[0]->shape(), &x = bottom[1]->shape(), &z = bottom[2]->shape();
    if (x.rank() < 2)
      throw Error("'", bottom[1]->name, "' (", x.str(), ") has no channels to scale; it needs the ",
                  "axes N x C");
    if (z != x)
      throw Error("'", bottom[2]->name, "' (", z.str(), ") is added to '", bottom[1]->name, "' (",
                  x.str(), "), and must have its shape");
    const bool fits = scales.rank() >= 2 && scales.count() == x[0] * x[1] && scales[0] == x[0] &&
                      scales[1] == x[1];
    if (!fits)
      throw Error("'", bottom[0]->name, "' (", scales.str(),
                  ") must have one scale for each of the ", x[0], " x ", x[1], " channels of '",
                  bottom[1]->name, "' (", x.str(), ")");
    top[0]->reshape(x);
  }

  /// The scales, one a channel, lie in the same order in every format that is not blocked.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return without_blocks(same_format_options(bottom, top, dtype(), false));
  }

  void prepare_reference(Blobs bottom, Blobs) override {
    const Shape& x = bottom[1]->shape();
    const Format format = bottom[1]->data.format();
    const bool last = format == Format::channels_last;
    scale_of_ = ScaleOf(x, format);
    split_.outer = last ? x[0] : x[0] * x[1];
    split_.size = x.count(2);
    split_.inner = last ? x[1] : 1;
  }

  bool stores_16_bits() const override { return true; }

  Flops flops(Blobs bottom, Blobs) const override {
    const double n = static_cast<double>(bottom[1]->count());
    return {2 * n, (propagates(0) ? 2 * n : 0) + (propagates(1) ? n : 0)};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      scale_and_add<T>(device, bottom[0]->data, bottom[1]->data, &bottom[2]->data, top[0]->data);
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const Tensor &dy = top[0]->diff, &x = bottom[1]->data;
      if (propagate[0]) {
        const auto run = [&]<class Side, class In, class Out>(Side side, In g, In values, Out out) {
          position_sums(side, split_, Product<In>{g, values}, Store<T, Out>{out});
        };
        Tensor& sums = bottom[0]->diff;
        device.on_host()
            ? run(HostSide(), device.read<T>(dy), device.read<T>(x), device.overwrite<T>(sums))
            : run(DeviceSide(device), values_in<T>(device, dy), values_in<T>(device, x),
                  values_out<T>(device, sums));
      }
      if (propagate[1]) {
        scale_and_add<T>(device, bottom[0]->data, dy, nullptr, bottom[1]->diff);
      }
      if (propagate[2]) copy(device, dy, bottom[2]->diff);
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    const bool scales = propagates(1), x = propagates(0);
    return {scales && x ? IndexSet{0, 1}
            : scales    ? IndexSet{0}
            : x         ? IndexSet{1}
                        : IndexSet(false),
            false};
  }
  InPlace reference_in_place() const override { return InPlace::overwrite; }

 private:
  /// y = scales * x + z, z being null or what y may lie in.
  template <class T>
  void scale_and_add(const ComputeDevice& device, const Tensor& scales, const Tensor& x,
                     const Tensor* z, Tensor& y) const {
    const int64_t count = y.count();
    if (device.on_host()) {
      return for_each(HostSide(), count, kElementGrain,
                      ScaleAndAdd<T>{scale_of_, device.read<T>(scales), device.read<T>(x),
                                     z ? device.read<T>(*z) : nullptr, device.overwrite<T>(y)});
    }
    const ScaleAndAddPack<T> body{
        ScaleWalk(scale_of_, count + 1), values_in<T>(device, scales), values_in<T>(device, x),
        z ? values_in<T>(device, *z) : ValuesIn<T>(), values_out<T>(device, y)};
    for_each_pack<T>(device, count, aligned(body.x, body.z, body.y), body);
  }

  ScaleOf scale_of_;
  AxisSplit split_;  // sums over the positions of each channel
};

}  // namespace

void register_axpy(Registry& registry) { add_two_sided<AxpyLayer>(registry, "Axpy"); }

}  // namespace crema
