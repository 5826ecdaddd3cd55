// RNN: h = tanh(...), o = tanh(W_ho h + b_o). See README.md.
#include "core/dispatch.hpp"
#include "kit/passes.hpp"
#include "layers/recurrent/recurrent_passes.hpp"

namespace crema {
namespace {

class RnnLayer : public CellLayer<RnnCell> {
 public:
  explicit RnnLayer(const LayerInit& init) : CellLayer(init, 1, 1) {}

  void prepare_reference(Blobs bottom, Blobs top) override {
    CellLayer::prepare_reference(bottom, top);
    for (Tensor* tensor : {&output_sum_diffs_, &hidden_diffs_}) {
      tensor->set_layout(dtype(), Format::contiguous);
      tensor->reshape(trains() ? top[0]->shape() : Shape{0});
    }
  }
  size_t kept_bytes() const override {
    return CellLayer::kept_bytes() + output_sum_diffs_.bytes() + hidden_diffs_.bytes();
  }

 protected:
  bool has_outputs() const override { return true; }
  void add_output_params(const Filler& weights, const Filler& bias) override {
    weights_ = &add_param(Shape{units(), units()}, weights);
    bias_ = &add_param(Shape{units()}, bias);
  }

  // Elements of all steps are one step of RnnCell without states.
  void outputs(const Side& side, const Tensor& hidden, Tensor& top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      T* y = side.overwrite<T>(top);
      gemm<T>(side, false, true, rows(), units(), units(), side.read<T>(hidden),
              side.read<T>(weights_->data), 0, y);
      run_step(side, rows() * units(),
               ForwardStep<T>{
                   .units = units(), .sums = y, .bias = side.read<T>(bias_->data), .hidden = y});
    });
  }
  const Tensor& hidden_diffs(const Side& side, const Tensor& hidden, const Blob& top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      T* diffs = side.overwrite<T>(output_sum_diffs_);
      run_step(side, rows() * units(),
               BackwardStep<T>{.units = units(),
                               .gates = side.read<T>(top.data),
                               .hidden_diff = side.read<T>(top.diff),
                               .sum_diffs = diffs});
      if (weights_->needs_gradient)
        add_outer<T>(side, *weights_, rows(), diffs, side.read<T>(hidden));
      if (bias_->needs_gradient) add_rows<T>(side, *bias_, rows(), diffs);
      gemm<T>(side, false, false, rows(), units(), units(), diffs, side.read<T>(weights_->data), 0,
              side.overwrite<T>(hidden_diffs_));
    });
    return hidden_diffs_;
  }

 private:
  int64_t rows() const { return steps() * batch(); }

  Parameter *weights_ = nullptr, *bias_ = nullptr;
  Tensor output_sum_diffs_{Shape{0}}, hidden_diffs_{Shape{0}};  // (T, N, H)
};

}  // namespace

void register_rnn(Registry& registry) { add_recurrent<RnnLayer>(registry, "RNN"); }

}  // namespace crema
