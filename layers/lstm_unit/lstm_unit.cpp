// LSTMUnit: the arithmetic of one step of LSTM. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layers/recurrent/recurrent_passes.hpp"

namespace crema {
namespace {

class LstmUnitLayer : public TwoSidedLayer {
 public:
  std::string host_part() const override { return "check of indicators"; }
  bool host_reads(int b) const override { return b == 2; }
  bool host_writes() const override { return false; }
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override {
    return {.min_bottoms = 3, .max_bottoms = 3, .min_tops = 2, .max_tops = 2};
  }
  bool can_propagate(int bottom) const override { return bottom != 2; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& cell = bottom[0]->shape();
    if (cell.rank() != 3 || cell[0] != 1)
      throw Error("the bottom '", bottom[0]->name, "' (", cell.str(),
                  ") has to be the cells of one step: (1, sequences, units)");
    batch_ = cell[1];
    units_ = cell[2];
    for (const auto& [i, shape] : {std::pair{1, Shape{1, batch_, 4 * units_}}, {2, {1, batch_}}}) {
      const Blob& blob = *bottom[static_cast<size_t>(i)];
      if (blob.shape() != shape)
        throw Error("the bottom '", blob.name, "' (", blob.shape().str(), ") has to be ",
                    shape.str(),
                    i == 1 ? ", four sums for each cell" : ", one indicator a sequence",
                    ", for the cells '", bottom[0]->name, "' (", cell.str(), ")");
    }
    for (Blob* blob : top) blob->reshape(cell);
  }
  void prepare_reference(Blobs bottom, Blobs) override {
    gates_.set_layout(dtype(), Format::contiguous);
    gates_.reshape(trains() ? bottom[1]->shape() : Shape{0});
  }
  size_t kept_bytes() const override { return gates_.bytes(); }
  Flops flops(Blobs bottom, Blobs) const override {
    const double cells = static_cast<double>(bottom[0]->count());
    return {20 * cells, 30 * cells};
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    find_masked_steps(bottom[2]->data, masked_steps_);
    dispatch_float(dtype(), [&]<class T>(T) {
      run_elements<LstmCell>(
          device, batch_ * units_,
          ForwardStep<T>{.units = units_,
                         .hidden_row = units_,
                         .sums = device.read<T>(bottom[1]->data),
                         .factor = device.read<T>(bottom[2]->data),
                         .cell_before = device.read<T>(bottom[0]->data),
                         .gates = trains() ? device.overwrite<T>(gates_) : nullptr,
                         .cell = device.overwrite<T>(top[0]->data),
                         .hidden = device.overwrite<T>(top[1]->data)});
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      run_elements<LstmCell>(
          device, batch_ * units_,
          BackwardStep<T>{
              .units = units_,
              .hidden_row = units_,
              .gates = device.read<T>(gates_),
              .factor = device.read<T>(bottom[2]->data),
              .cell_before = device.read<T>(bottom[0]->data),
              .hidden_diff = device.read<T>(top[1]->diff),
              .cell_diff = device.read<T>(top[0]->diff),
              .sum_diffs = propagate[1] ? device.overwrite<T>(bottom[1]->diff) : nullptr,
              .cell_before_diff = propagate[0] ? device.overwrite<T>(bottom[0]->diff) : nullptr});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {{0, 2}, false}; }

 private:
  int64_t batch_ = 0, units_ = 0;
  std::vector<bool> masked_steps_;
  Tensor gates_{Shape{0}};  // (1, N, 4H), where the layer trains
};

}  // namespace

void register_lstm_unit(Registry& registry) { add_two_sided<LstmUnitLayer>(registry, "LSTMUnit"); }

}  // namespace crema
