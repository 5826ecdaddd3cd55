// What LSTM and RNN have in common: a layer over sequences, whose time steps share their weights.
//
// The input's products with the weights are one GEMM over all steps, and so are the weights'
// gradients and the input's. What is left for a step is a product of the hidden state with the
// recurrent weights, and the arithmetic of its elements (cells.hpp).
//
// T steps of N sequences; D inputs and H units a step; G sums of a step and sequence: blocks * H.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/carried_state.hpp"
#include "kit/matrix_products.hpp"
#include "kit/two_sided.hpp"
#include "layers/recurrent/cells.hpp"

namespace crema {

/// Reads `cont` (T, N) on the host: for each step, whether its factors are all 0. Error if
/// one is outside [0, 1].
std::vector<bool> masked_steps(const Tensor& factors);

class RecurrentLayer : public TwoSidedLayer, public CarriesState {
 public:
  Arity arity() const override;
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  size_t kept_bytes() const override;
  Flops flops(Blobs bottom, Blobs top) const override;
  bool can_propagate(int bottom) const override { return bottom != 1; }
  bool carries() const override { return !exposes_; }
  std::vector<Tensor> carried() const override;
  void carry(const std::vector<Tensor>& state) override;

  void run_forward(const Side& side, Blobs bottom, Blobs top) override;
  void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  /// The passes with the products (kit/matrix_products.hpp) of an engine.
  template <class T, class Products>
  void forward_by(const Side& side, Products& products, Blobs bottom, Blobs top);
  template <class T, class Products>
  void backward_by(const Side& side, Products& products, Blobs top,
                   const std::vector<bool>& propagate, Blobs bottom);

  int64_t steps() const { return steps_; }
  int64_t batch() const { return batch_; }
  int64_t units() const { return units_; }
  int64_t width() const { return blocks_ * units_; }  // G
  /// Of a step with the recurrent weights (G, H).
  ProductSizes product_sizes() const { return {batch_, width(), units_}; }
  const Parameter& recurrent_weights() const { return *recurrent_weights_; }

 protected:
  /// `states`: tensors that a step hands to the next one: h, and c of LSTM.
  RecurrentLayer(const LayerInit& init, int64_t blocks, int states);

  BackwardReads reference_backward_reads() const override;

  // The arithmetic of a step; `count` elements.
  virtual void run_step(const Side& side, int64_t count, const ForwardStep<float>& step) = 0;
  virtual void run_step(const Side& side, int64_t count, const ForwardStep<double>& step) = 0;
  virtual void run_step(const Side& side, int64_t count, const BackwardStep<float>& step) = 0;
  virtual void run_step(const Side& side, int64_t count, const BackwardStep<double>& step) = 0;

  /// A layer whose top is a function of h, and not h itself. For setup: its parameters.
  virtual bool has_outputs() const { return false; }
  virtual void add_output_params(const Filler& /*weights*/, const Filler& /*bias*/) {}
  /// Writes the top from h (T, N, H).
  virtual void outputs(const Side& /*side*/, const Tensor& /*hidden*/, Tensor& /*top*/) {}
  /// The diff of h from that of the top; adds to the gradients of the layer's parameters.
  virtual const Tensor& hidden_diffs(const Side& /*side*/, const Tensor& /*hidden*/,
                                     const Blob& top) {
    return top.diff;
  }

 private:
  template <class T>
  void begin_states(const Side& side, const T* factors, Blobs bottom);
  void end_states(const Side& side, Blobs top);
  /// The gradient of the static input and of its weights.
  template <class T>
  void static_gradients(const Side& side, const T* diffs, bool propagates, Blobs bottom);

  const int64_t blocks_;
  const int states_;
  bool exposes_ = false, has_static_ = false;
  int64_t units_ = 0, inputs_ = 0, static_inputs_ = 0;
  int64_t steps_ = 0, batch_ = 0;
  Parameter *input_weights_ = nullptr, *bias_ = nullptr, *static_weights_ = nullptr,
            *recurrent_weights_ = nullptr;

  // Without exposed states: what the next pass begins with, (N, H) each; zeros if N is another.
  std::vector<Tensor> carried_;
  std::vector<bool> masked_steps_;       // of the last forward
  Tensor gates_;                         // (T, N, G); of RNN: h
  Tensor hidden_;                        // (T + 1, N, H): what step t gets of h, times its factors
  Tensor cells_;                         // (T + 1, N, H): what step t gets of c
  Tensor of_sequence_;                   // (N, G): sums of the static input, and their diff
  Tensor more_sums_;                     // (N, G)
  Tensor sum_diffs_;                     // (T, N, G)
  Tensor next_hidden_diff_, cell_diff_;  // (N, H)
};

void add_recurrent_engine(Registry& registry, const std::string& type);
/// Registers a layer with its engines.
template <class L>
void add_recurrent(Registry& registry, const std::string& type) {
  add_two_sided<L>(registry, type);
  add_recurrent_engine(registry, type);
}

}  // namespace crema
