// Embed: a learned vector for each index. See README.md.
#include "core/dispatch.hpp"
#include "core/fast_division.hpp"
#include "core/float_values.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/rows.hpp"
#include "layer_support/sums.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

template <class T>
struct AddBias {
  const T* bias;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t place, int64_t column) const { y[place] += bias[column]; }
};

/// Packs of the vectors of a device: each is one of the rows, and the bias.
template <class T>
struct Vectors {
  int64_t width;
  bool vectors;
  FastDivision by_packs;
  const int64_t* index;
  ValuesIn<T> weights, bias;
  ValuesOut<T> y;
  CREMA_FUNCTOR void operator()(int64_t number) const {
    constexpr int kLanes = kPackSize<T>;
    const auto pack = by_packs.divide(number);
    const int64_t column = pack.remainder * kLanes, left = width - column;
    const int lanes = left < kLanes ? static_cast<int>(left) : kLanes;
    const PackAt<T> row{index[pack.quotient] * width + column, lanes, vectors};
    const PackAt<T> own{column, lanes, vectors};
    const auto raw = row.fetch(weights);
    const auto raw_bias = bias ? own.fetch(bias) : decltype(raw){};
    Pack<T> values = row.value(weights, raw);
    if (bias) values = values + own.value(bias, raw_bias);
    PackAt<T>{pack.quotient * width + column, lanes, vectors}.store(values, y);
  }
};

class EmbedLayer : public TwoSidedLayer {
 public:
  explicit EmbedLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        rows_(init.param.embed_param().input_dim()),
        width_(init.param.embed_param().num_output()) {
    if (rows_ == 0)
      throw Error("input_dim is missing or 0; say embed_param { input_dim: K }, the number of ",
                  "indices: they are 0 to K - 1");
    if (width_ == 0)
      throw Error("num_output is missing or 0; say embed_param { num_output: N }, the length of a ",
                  "vector");
  }

  bool can_propagate(int) const override { return false; }

  void setup(Blobs, Blobs) override {
    const EmbedParameter& settings = param().embed_param();
    weights_ = &add_param(Shape{rows_, width_}, Filler(settings.weight_filler()));
    if (settings.bias_term()) bias_ = &add_param(Shape{width_}, Filler(settings.bias_filler()));
  }
  void reshape(Blobs bottom, Blobs top) override {
    std::vector<int64_t> dims = bottom[0]->shape().dims();
    dims.push_back(width_);
    top[0]->reshape(Shape(std::move(dims)));
  }
  Flops flops(Blobs, Blobs top) const override {
    const double n = static_cast<double>(top[0]->count());
    return {bias_ ? n : 0, bias_ ? 2 * n : n};
  }
  size_t kept_bytes() const override { return indices_.bytes(); }
  bool stores_16_bits() const override { return true; }
  void prepare_device(Blobs, Blobs top) override {
    const int64_t count = top[0]->count() / std::max<int64_t>(width_, 1);
    scratch_bytes_ =
        bias_ && trains() ? channels::sums_scratch_bytes(context(), {{count, width_, 1}}) : 0;
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    indices_.read(device, *this, *bottom[0], rows_, "raise input_dim or fix the indices");
    dispatch_float(dtype(), [&]<class T>(T) {
      if (!device.on_host()) return make_vectors<T>(device, top[0]->data);
      T* const y = device.overwrite<T>(top[0]->data);
      gather_rows(HostSide(), {indices_.indices(device), indices_.count(), width_, width_},
                  device.read<T>(weights_->data), y);
      if (!bias_) return;
      for_each(HostSide(), vectors(), kElementGrain, AddBias<T>{device.read<T>(bias_->data), y});
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const Tensor& dy = top[0]->diff;
      if (T* const gradient = gradient_of<T>(device, weights_)) {
        const auto add_rows = [&](auto side, auto from) {
          sum_rows(side, indices_.groups(device), width_, true, from, gradient);
        };
        device.on_host() ? add_rows(HostSide(), device.read<T>(dy))
                         : add_rows(DeviceSide(device), values_in<T>(device, dy));
      }
      if (!device.on_host()) {
        const auto to = channels::gradients_of<T>(device, bias_, nullptr);
        if (to) channels::add_sums<T>(device, {vectors()}, {.dy = &dy}, to);
        return;
      }
      if (T* const gradient = gradient_of<T>(device, bias_)) {
        channel_sums(HostSide(), vectors(), kPassGrain, ValueTerm<T>{device.read<T>(dy)},
                     AddToGradient<T>{gradient});
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  template <class T>
  void make_vectors(const ComputeDevice& device, Tensor& top) {
    constexpr int kLanes = kPackSize<T>;
    const int64_t packs = (width_ + kLanes - 1) / kLanes, count = indices_.count() * packs;
    const auto weights = values_in<T>(device, weights_->data);
    const auto bias = bias_ ? values_in<T>(device, bias_->data) : ValuesIn<T>();
    const auto y = values_out<T>(device, top);
    const bool vectors = aligned(weights, bias, y) && width_ % kLanes == 0;
    for_each(DeviceSide(device), count, kElementGrain,
             Vectors<T>{width_, vectors, FastDivision(packs, count + 1), indices_.indices(device),
                        weights, bias, y});
  }

  /// The top: (indices, vector).
  ChannelView vectors() const { return {indices_.count(), width_, 1}; }

  int64_t rows_, width_;
  Parameter* weights_ = nullptr;
  Parameter* bias_ = nullptr;
  RowIndices indices_;
  size_t scratch_bytes_ = 0;  // on a device
};

}  // namespace

void register_embed(Registry& registry) { add_two_sided<EmbedLayer>(registry, "Embed"); }

}  // namespace crema
