// Tests of one layer outside a net.
//
//   LayerCase c{.layer = R"(layer { type: "InnerProduct" inner_product_param { num_output: 3 } })",
//               .bottoms = {uniform({2, 4})}, .params = {{...12 values}, {...3 values}}};
//   LayerRun run(c);                       // setup, reshape, options, kernel, as the net does it
//   run.forward();
//   EXPECT_THAT(run.top(0), Pointwise(DoubleNear(1e-6), {...}));
//   check_gradients(c);                    // numerically, in f64
//   check_engines(c);                      // every engine and format against the reference in f64
//   expect_error([&] { LayerRun{c}; }, {"num_output", "3"});
//
// All values are doubles in logical order, whatever the layer's dtype and format are.
//
// A run is as hostile as a net may be: tops, bottom diffs and the padding of blocked formats hold
// NaN before they are written, and what Kernel::backward_reads() does not name is NaN in backward.
// It looks, too: padding has to be zero, diffs that nobody wants untouched, and tops' diffs
// unchanged.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/layer.hpp"
#include "crema/parameter_arena.hpp"
#include "support/expect_error.hpp"
#include "support/values.hpp"

namespace crema::test {

/// What a bottom holds: given values, or numbers drawn by Philox from (seed of the case, its
/// place).
struct Input {
  Shape shape;
  std::vector<double> values;
  double low = -1, high = 1;  // drawn uniformly from [low, high)
  int64_t classes = 0;        // not 0: whole numbers in [0, classes)
};
Input uniform(Shape shape, double low = -1, double high = 1);
Input given(Shape shape, std::vector<double> values);
Input labels(Shape shape, int64_t classes);

struct LayerCase {
  /// `layer { ... }`. Name, bottoms and tops may be left out: "op", "bottom0", ..., "top0", ...
  std::string layer;
  std::vector<Input> bottoms = {};
  /// Tops where the text names none.
  int tops = 1;
  Phase phase = Phase::train;
  /// Values of the parameters in order; those missing or empty come from their fillers.
  std::vector<std::vector<double>> params = {};
  /// Layers `layer { ... }` that become steps of this one's tail, in order.
  std::vector<std::string> tail = {};
  uint64_t seed = 1701;
};

struct RunOptions {
  DType dtype = DType::f32;
  /// Engine to force, "" for the layer's own choice among its options.
  std::string engine = "reference";
  std::string tuning_file = {};
  DeviceType device = DeviceType::cpu;
  /// Which of the layer's options; -1 for the first that is contiguous on both sides, or else the
  /// first.
  int option = -1;
  /// Top 0 in the memory of bottom 0, and bottom 0's diff in that of top 0's.
  bool in_place = false;
  /// Off: the tail runs as layers of its own behind this one.
  bool fuse = true;
  bool trains = true;
  /// Off: backward may change the tops' diffs.
  bool keeps_top_diffs = true;
  /// That of the reference.
  Arithmetic arithmetic = {.math = Math::strict};
  /// Of the net's values between layers. Default: `dtype`.
  std::optional<DType> activations = {};
};

/// The layer of a case, outside of any run.
std::unique_ptr<Layer> make_loose_layer(const LayerCase& layer_case, Context& context,
                                        const RunState& state, const RunOptions& options = {});

/// A layer with its blobs and parameters.
class LayerRun {
 public:
  explicit LayerRun(const LayerCase& layer_case, const RunOptions& options = {});
  ~LayerRun();

  Layer& layer() { return *layer_; }
  /// What computes it now.
  Kernel& kernel() { return *kernel_; }
  /// "reference", or the name of the engine that made the kernel.
  std::string engine() const { return engine_name(option()); }
  Context& context() { return *context_; }
  /// What random numbers are drawn by.
  RunState& state() { return state_; }
  /// What the layer offered, and which of them it runs.
  const std::vector<Option>& options() const { return options_; }
  const Option& option() const { return options_[chosen_]; }
  Blob& bottom_blob(int i) { return *bottoms_[i]; }
  Blob& top_blob(int i) { return *tops_[i]; }
  int num_bottoms() const { return static_cast<int>(bottoms_.size()); }
  int num_tops() const { return static_cast<int>(tops_.size()); }
  int num_params() const { return static_cast<int>(layer_->params().size()); }

  /// What the layer applies to its top from the next reshape() on.
  void set_tail(Tail tail) { requirements_.tail = std::move(tail); }
  /// Gives the bottoms other shapes and values, as a net does between two batches.
  void reshape(const std::vector<Input>& inputs);
  /// Writes bottoms and parameters anew, then runs.
  void forward();
  /// Tells the layer that the diff of bottom i alone is needed. Returns these flags for backward().
  std::vector<bool> want_only(size_t i);
  /// The diffs that backward starts from; without it they are drawn from [-1, 1), or, where some
  /// top has a loss weight, are these weights.
  void set_top_diff(int i, std::vector<double> values) { top_diffs_[i] = std::move(values); }
  void backward();
  /// With explicit flags; by default all that Layer::can_propagate allows.
  void backward(const std::vector<bool>& propagate);
  void clear_gradients();

  /// As the last forward left it.
  const std::vector<double>& top(int i) const { return top_values_[i]; }
  const std::vector<double>& top_diff(int i) const { return top_diffs_[i]; }
  std::vector<double> bottom_diff(int i) const;
  std::vector<double> param(int i) const;
  std::vector<double> gradient(int i);
  /// What forward gives bottom i and parameter i; change them in place.
  std::vector<double>& bottom_values(int i) { return bottom_values_[i]; }
  std::vector<double>& param_values(int i) { return param_values_[i]; }
  /// Sum over tops of top * top diff: what bottom diffs and gradients are the derivatives of.
  double objective() const;

 private:
  void make_layer(const LayerCase& layer_case);
  void make_tail(const LayerCase& layer_case);
  void make_params(const LayerCase& layer_case);
  void take_inputs(const std::vector<Input>& inputs);
  void make_kernel();
  void share_memory();
  void draw_top_diffs();
  void poison_forward();

  RunOptions run_;
  uint64_t seed_;
  RunState state_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Layer> layer_;
  std::unique_ptr<Kernel> kernel_;
  Requirements requirements_;
  std::vector<std::unique_ptr<Blob>> bottom_store_, top_store_;
  std::vector<Blob*> bottoms_, tops_;
  ParameterArena arena_;
  std::vector<Option> options_;
  int chosen_ = 0;
  std::vector<std::vector<double>> bottom_values_, param_values_, top_values_, top_diffs_;
  std::vector<std::unique_ptr<LayerRun>> fused_;  // layers whose steps are in layer_'s tail
  std::unique_ptr<LayerRun> next_;
};

struct GradientCheck {
  double step = 1e-5;
  /// |numeric - analytic| <= tolerance * max(1, |numeric|, |analytic|)
  double tolerance = 1e-6;
  /// Bottoms' values within kink_range of kink are not checked.
  double kink = 0, kink_range = 0;
  /// Bottoms to check; empty: all that Layer::can_propagate allows.
  std::vector<int> bottoms = {};
};

/// Compares backward of the reference in f64 with central differences of forward, for bottoms and
/// learnable parameters. Also: a second backward adds to the parameters' gradients, and they are
/// the same when no bottom wants a diff.
void check_gradients(const LayerCase& layer_case, const GradientCheck& check = {});

struct Tolerance {
  double absolute = 1e-5;
  double relative = 1e-4;
};

/// The layout of the first bottom, as in "channels_last" or "f64 contiguous"; where that of the
/// first top differs, "contiguous->blocked16".
std::string name_of(const Option& option);

/// Runs every engine of the device, the reference included, in each of its format options, in place
/// too where it may, and compares tops, bottom diffs and gradients with the reference in f64,
/// contiguous, unfused. A second pass has to add to the gradients, and they have to be the same
/// where no bottom wants a diff. In f32 to `tolerance`; on CUDA in f64 as well, closely. Proves
/// that the engine asked for is the one that ran. Returns what ran: the engine and name_of() the
/// option, as in "onednn channels_last". Engines named in `refusing` must refuse instead, with an
/// Error that says why.
std::vector<std::string> check_engines(const LayerCase& layer_case, const Tolerance& tolerance = {},
                                       const std::vector<std::string>& refusing = {},
                                       DeviceType device = DeviceType::cpu);

/// Fails unless |a - b| <= absolute + relative * |b| everywhere; names the first place that
/// differs.
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  const Tolerance& tolerance, const std::string& what);

}  // namespace crema::test
