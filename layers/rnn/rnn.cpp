// RNN: h = tanh(...), o = tanh(W_ho h + b_o). See README.md.
#include <array>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layers/recurrent/recurrent_passes.hpp"

namespace crema {
namespace {

class RnnLayer : public CellLayer<RnnCell> {
 public:
  explicit RnnLayer(const LayerInit& init) : CellLayer(init, 1, 1) {}

  void prepare_reference(Blobs bottom, Blobs top) override {
    CellLayer::prepare_reference(bottom, top);
    const Shape shape{steps(), batch(), units()};
    for (Outputs& of : outputs_) {
      const bool runs = &of - outputs_.data() < directions();
      need(of.outputs, runs && directions() == 2, shape);
      need(of.sum_diffs, runs && trains(), shape);
      need(of.hidden_diffs, runs && trains(), shape);
    }
  }
  size_t kept_bytes() const override {
    size_t bytes = CellLayer::kept_bytes();
    for (const Outputs& of : outputs_)
      bytes += of.outputs.bytes() + of.sum_diffs.bytes() + of.hidden_diffs.bytes();
    return bytes;
  }

  bool has_outputs() const override { return true; }

  // Elements of all steps are one step of RnnCell without states.
  void outputs(const ComputeDevice& device, int direction, const Tensor& hidden,
               Tensor& top) override {
    Outputs& of = outputs_[static_cast<size_t>(direction)];
    const bool both = directions() == 2;
    dispatch_float(dtype(), [&]<class T>(T) {
      T* const columns = (direction == 0 ? device.overwrite<T>(top) : device.change<T>(top));
      T* const y = both ? device.overwrite<T>(of.outputs) : columns;
      gemm<T>(device, arithmetic().math, false, true, rows(), units(), units(),
              device.read<T>(hidden), device.read<T>(of.weights->data), 0, y);
      run_step(device, rows() * units(),
               ForwardStep<T>{.units = units(),
                              .hidden_row = directions() * units(),
                              .sums = y,
                              .bias = device.read<T>(of.bias->data),
                              .gates = both ? y : nullptr,
                              .hidden = columns + direction * units()},
               0);
    });
  }
  const Tensor& hidden_diffs(const ComputeDevice& device, int direction, const Tensor& hidden,
                             const Blob& top) override {
    Outputs& of = outputs_[static_cast<size_t>(direction)];
    const Tensor& y = directions() == 2 ? of.outputs : top.data;
    dispatch_float(dtype(), [&]<class T>(T) {
      T* diffs = device.overwrite<T>(of.sum_diffs);
      run_step(device, rows() * units(),
               BackwardStep<T>{.units = units(),
                               .hidden_row = directions() * units(),
                               .gates = device.read<T>(y),
                               .hidden_diff = device.read<T>(top.diff) + direction * units(),
                               .sum_diffs = diffs},
               0);
      if (of.weights->needs_gradient)
        add_outer<T>(device, arithmetic().math, *of.weights, rows(), diffs, device.read<T>(hidden));
      if (of.bias->needs_gradient) add_rows<T>(device, *of.bias, rows(), diffs);
      gemm<T>(device, arithmetic().math, false, false, rows(), units(), units(), diffs,
              device.read<T>(of.weights->data), 0, device.overwrite<T>(of.hidden_diffs));
    });
    return of.hidden_diffs;
  }

 protected:
  void add_output_params(const Filler& weights, const Filler& bias) override {
    Outputs& of = outputs_[outputs_[0].weights == nullptr ? 0 : 1];
    of.weights = &add_param(Shape{units(), units()}, weights);
    of.bias = &add_param(Shape{units()}, bias);
  }

 private:
  /// Of one direction; tensors are (T, N, H).
  struct Outputs {
    Parameter *weights = nullptr, *bias = nullptr;
    Tensor outputs{Shape{0}};  // of two directions, whose columns of the top are not dense
    Tensor sum_diffs{Shape{0}}, hidden_diffs{Shape{0}};
  };

  int64_t rows() const { return steps() * batch(); }
  void need(Tensor& tensor, bool wanted, const Shape& shape) const {
    tensor.set_layout(dtype(), Format::contiguous);
    tensor.reshape(wanted ? shape : Shape{0});
  }

  std::array<Outputs, 2> outputs_;
};

}  // namespace

void register_rnn(Registry& registry) { add_recurrent<RnnLayer>(registry, "RNN"); }

}  // namespace crema
