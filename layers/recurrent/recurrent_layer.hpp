// What LSTM, RNN and GRU have in common: a layer over sequences, whose time steps share their
// weights; with `bidirectional`, two such, of which the second goes from the last step to the
// first.
//
// The input's products with the weights are one GEMM over all steps, and so are the weights'
// gradients and the input's. What is left for a step is a product of the hidden state with the
// recurrent weights, and the arithmetic of its elements (cells.hpp).
//
// T steps of N sequences; D inputs and H units a step; G sums of a step and sequence: blocks * H.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/carried_state.hpp"
#include "layer_support/matrix_products.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/recurrent/cells.hpp"
#include "layers/recurrent/weight_space.hpp"

namespace crema {

/// Reads `cont` (T, N) on the host. `masked` becomes, for each step, whether its factors are all 0.
/// Error if one is outside [0, 1].
void find_masked_steps(const Tensor& factors, std::vector<bool>& masked);

class RecurrentLayer : public TwoSidedLayer, public CarriesState {
 public:
  std::string host_part() const override { return "check of indicators"; }
  bool host_reads(int b) const override { return b == 1; }
  bool host_writes() const override { return false; }
  const CarriesState* carries_state() const override { return this; }
  Arity arity() const override;
  void setup(Blobs bottom, Blobs top) override;
  void reshape(Blobs bottom, Blobs top) override;
  void prepare_reference(Blobs bottom, Blobs top) override;
  size_t kept_bytes() const override;
  Flops flops(Blobs bottom, Blobs top) const override;
  bool can_propagate(int bottom) const override { return bottom != 1; }
  /// Which steps are masked decides on the host what backward runs.
  bool capturable() const override { return false; }
  bool carries() const override { return !exposes_; }
  bool is_of_batch() const override { return true; }
  std::vector<Tensor> carried() const override;
  void carry(const std::vector<Tensor>& state) override;

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override;
  /// The passes with the products (layer_support/matrix_products.hpp) of an engine: product_count()
  /// for each direction.
  template <class T, class Products>
  void forward_by(const ComputeDevice& device, Products* products, Blobs bottom, Blobs top);
  template <class T, class Products>
  void backward_by(const ComputeDevice& device, Products* products, Blobs top,
                   const std::vector<bool>& propagate, Blobs bottom);

  int64_t steps() const { return steps_; }
  int64_t batch() const { return batch_; }
  int64_t units() const { return units_; }
  int64_t width() const { return blocks_ * units_; }  // G
  int directions() const { return static_cast<int>(directions_.size()); }
  /// Products of a step and direction: one, or two where the second needs what the first gave.
  static constexpr int kMostProducts = 2;
  int product_count() const { return reset_ == Reset::before_product ? 2 : 1; }
  /// The weights of product k are those rows (rows, H) of the recurrent weights.
  ProductSizes product_sizes(int k) const;
  const Parameter& recurrent_weights() const { return *directions_[0].recurrent_weights; }

  // For a library that computes h of all steps (weight_space.hpp).

  int64_t inputs() const { return inputs_; }
  int states() const { return states_; }
  bool exposes() const { return exposes_; }
  bool has_static() const { return has_static_; }
  /// The cell whose arithmetic is that of this layer but for static inputs and outputs; none if no
  /// library has it.
  std::optional<LibraryCell> library_cell() const;
  /// Null without one.
  Parameter* parameter(SpaceParam which, int direction) const;
  /// What the first steps get of a state, with its factors, (directions, N, H).
  void first_states_to(const ComputeDevice& device, Blobs bottom, int state, DType dtype, void* to);
  /// A state of the last steps, for the tops or the next pass.
  void last_states_from(const ComputeDevice& device, int state, DType dtype, const void* from,
                        Blobs top);
  // Their diffs, where states are exposed; the first ones are those of what the first steps got.
  void last_state_diffs_to(const ComputeDevice& device, int state, DType dtype, void* to,
                           Blobs top) const;
  void first_state_diffs_from(const ComputeDevice& device, int state, DType dtype, const void* from,
                              Blobs bottom) const;
  /// A layer whose top is a function of h, and not h itself.
  virtual bool has_outputs() const { return false; }
  /// Writes a direction's columns of the top from its h (T, N, H).
  virtual void outputs(const ComputeDevice& /*device*/, int /*direction*/, const Tensor& /*hidden*/,
                       Tensor& /*top*/) {}
  /// The diff (T, N, H) of a direction's h from that of the top; adds to the gradients of the
  /// layer's parameters.
  virtual const Tensor& hidden_diffs(const ComputeDevice& /*device*/, int /*direction*/,
                                     const Tensor& /*hidden*/, const Blob& top) {
    return top.diff;
  }
  /// On the host, each direction is one thread's, since the products of a step are small or there
  /// are two threads; else all threads share each step.
  bool directions_side_by_side() const;

 protected:
  /// What the reset gate of GRU is applied to.
  enum class Reset : uint8_t { none, after_product, before_product };

  /// `states`: tensors that a step hands to the next one: h, and c of LSTM.
  RecurrentLayer(const LayerInit& init, int64_t blocks, int states, Reset reset = Reset::none);

  BackwardReads reference_backward_reads() const override;

  // The arithmetic of a step; `count` elements. Part 1 follows the second product.
  virtual void run_step(const ComputeDevice& device, int64_t count, const ForwardStep<float>& step,
                        int part) = 0;
  virtual void run_step(const ComputeDevice& device, int64_t count, const ForwardStep<double>& step,
                        int part) = 0;
  virtual void run_step(const ComputeDevice& device, int64_t count, const BackwardStep<float>& step,
                        int part) = 0;
  virtual void run_step(const ComputeDevice& device, int64_t count,
                        const BackwardStep<double>& step, int part) = 0;

  /// For setup, of a layer with outputs: the parameters of a direction.
  virtual void add_output_params(const Filler& /*weights*/, const Filler& /*bias*/) {}

 private:
  /// Parameters and memory of one direction. The state that step t gets lies at t, the one that it
  /// gives at t + 1; in reverse the other way round.
  struct Direction {
    bool reverse = false;
    Parameter *input_weights = nullptr, *bias = nullptr, *static_weights = nullptr,
              *recurrent_weights = nullptr, *recurrent_bias = nullptr;
    Tensor gates{Shape{0}};            // (T, N, G); of RNN: h
    Tensor hidden{Shape{0}};           // (T + 1, N, H): what steps get of h, times its factors
    Tensor cells{Shape{0}};            // (T + 1, N, H): what steps get of c
    Tensor of_state{Shape{0}};         // (T, N, H), of GRU: ForwardStep::of_state
    Tensor of_sequence{Shape{0}};      // (N, G): sums of the static input, and their diff
    Tensor more_sums{Shape{0}};        // (N, G)
    Tensor sum_diffs{Shape{0}};        // (T, N, G)
    Tensor recurrent_diffs{Shape{0}};  // (T, N, rows of the first product), of GRU
    Tensor candidate_diffs{Shape{0}};  // (T, N, H), of GRU with two products
    Tensor next_hidden_diff{Shape{0}},
        kept_diff{Shape{0}};  // (N, H); kept: c's, or beside products

    /// The i-th step that runs forward.
    int64_t step(int64_t i, int64_t steps) const { return reverse ? steps - 1 - i : i; }
    int64_t before(int64_t t) const { return reverse ? t + 1 : t; }
    int64_t after(int64_t t) const { return reverse ? t : t + 1; }
    template <class F>
    void each_tensor(F f) const {
      for (const Tensor* tensor :
           {&gates, &hidden, &cells, &of_state, &of_sequence, &more_sums, &sum_diffs,
            &recurrent_diffs, &candidate_diffs, &next_hidden_diff, &kept_diff}) {
        f(*tensor);
      }
    }
  };
  template <class T>
  struct ForwardPass;
  template <class T>
  struct BackwardPass;

  /// Nothing that step t gets of the step before passes, in any sequence.
  bool is_masked(const Direction& direction, int64_t t) const;
  /// The factors on what step t gets; null: all are 1.
  template <class T>
  const T* factors_of(const Direction& direction, const T* cont, int64_t t) const;

  template <class T>
  void begin_states(const ComputeDevice& device, int d, const T* cont, Blobs bottom);
  template <class T>
  void end_states(const ComputeDevice& device, int d, Blobs top);
  template <class T>
  void input_sums(const ComputeDevice& device, Direction& direction, ForwardPass<T>& pass,
                  Blobs bottom);
  template <class T>
  ForwardPass<T> forward_pass(const ComputeDevice& device, int d, Blobs bottom, Blobs top);
  template <class T, class Products>
  void forward_step(const ComputeDevice& device, ForwardPass<T>& pass, Products* products,
                    int64_t i);
  template <class T>
  BackwardPass<T> backward_pass(const ComputeDevice& device, int d, Blobs top,
                                const std::vector<bool>& propagate, Blobs bottom);
  template <class T, class Products>
  void backward_step(const ComputeDevice& device, BackwardPass<T>& pass, Products* products,
                     int64_t i);
  /// Calls step(d, i) for all steps of all directions, in order within a direction.
  template <class Step>
  void each_step(const ComputeDevice& device, const Step& step) const;
  template <class T>
  void first_state_diffs(const ComputeDevice& device, int d, const BackwardPass<T>& pass,
                         const std::vector<bool>& propagate, Blobs bottom);
  template <class T>
  void gradients(const ComputeDevice& device, int d, const std::vector<bool>& propagate,
                 Blobs bottom);
  template <class T>
  void recurrent_gradients(const ComputeDevice& device, Direction& direction, const T* sum_diffs);
  /// The gradient of the static input and of its weights.
  template <class T>
  void static_gradients(const ComputeDevice& device, int d, const T* diffs, bool propagates,
                        Blobs bottom);

  const int64_t blocks_;
  const int states_;
  const Reset reset_;
  bool exposes_ = false, has_static_ = false;
  int64_t units_ = 0, inputs_ = 0, static_inputs_ = 0;
  int64_t steps_ = 0, batch_ = 0;
  std::vector<Direction> directions_;
  // Without exposed states: what the next pass begins with, (N, H) each; zeros if N is another.
  std::vector<Tensor> carried_;
  std::vector<bool> masked_steps_;  // of the last forward
};

void add_recurrent_engine(Registry& registry, const std::string& type);
/// Registers a layer with its engines.
template <class L>
void add_recurrent(Registry& registry, const std::string& type) {
  add_two_sided<L>(registry, type);
  add_recurrent_engine(registry, type);
}

}  // namespace crema
