#include "support/layer_test.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/convert.hpp"
#include "core/device_run.hpp"
#include "core/dispatch.hpp"
#include "core/memory.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"
#include "proto/net.pb.h"

namespace crema::test {
namespace {

constexpr uint64_t kTopDiffStream = 1000;
constexpr uint64_t kParameterStream = 2000;

std::vector<double> draw(const Input& input, uint64_t seed, uint64_t stream) {
  Random random(seed, stream);
  std::vector<double> values(static_cast<size_t>(input.shape.count()));
  for (double& value : values) {
    value = input.classes > 0 ? static_cast<double>(random.below(uint64_t(input.classes)))
                              : random.uniform(input.low, input.high);
  }
  return values;
}

LayerParameter parse(const LayerCase& layer_case) {
  NetParameter net;
  if (!google::protobuf::TextFormat::ParseFromString(layer_case.layer, &net) ||
      net.layer_size() != 1)
    throw Error("a LayerCase takes the text of one layer, not: ", layer_case.layer);
  LayerParameter param = net.layer(0);
  if (!param.has_name()) param.set_name("op");
  if (param.bottom_size() == 0) {
    for (size_t i = 0; i < layer_case.bottoms.size(); ++i) param.add_bottom(text("bottom", i));
  }
  if (param.top_size() == 0) {
    for (int i = 0; i < layer_case.tops; ++i) param.add_top(text("top", i));
  }
  param.set_phase(layer_case.phase == Phase::train ? TRAIN : TEST);
  return param;
}

void write(Tensor& tensor, const std::vector<double>& values) {
  if (int64_t(values.size()) != tensor.count())
    throw Error(values.size(), " values for a tensor of ", tensor.shape().str());
  Tensor source(tensor.shape(), DType::f64);
  std::copy(values.begin(), values.end(), source.overwrite<double>());
  tensor.copy_from(source);
}

void poison(Tensor& tensor) {
  dispatch_any_float(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T nan = convert_value<T>(std::numeric_limits<double>::quiet_NaN());
    std::fill_n(tensor.overwrite<T>(), tensor.storage(), nan);
  });
}

/// Layout: (N, ceil(C/b), spatial, b).
void expect_zero_padding(const Tensor& tensor, const std::string& what) {
  const int64_t block = block_of(tensor.format());
  if (block == 1) return;
  const Shape& shape = tensor.shape();
  const int64_t blocks = (shape[1] + block - 1) / block, spatial = shape.count(2);
  dispatch_float(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* data = tensor.read<T>();
    for (int64_t i = 0; i < tensor.storage(); ++i) {
      const int64_t channel = (i / (block * spatial)) % blocks * block + i % block;
      if (channel >= shape[1] && data[i] != T{0}) {
        ADD_FAILURE() << what << ": padding in " << to_string(tensor.format()) << " holds "
                      << data[i] << " at " << i;
        return;
      }
    }
  });
}

bool is_contiguous(const Option& option) {
  const auto plain = [](const Layout& layout) { return layout.format == Format::contiguous; };
  return std::all_of(option.bottoms.begin(), option.bottoms.end(), plain) &&
         std::all_of(option.tops.begin(), option.tops.end(), plain);
}

}  // namespace

std::string name_of(const Option& option) {
  const std::vector<Layout>& bottoms = option.bottoms.empty() ? option.tops : option.bottoms;
  const std::vector<Layout>& tops = option.tops.empty() ? option.bottoms : option.tops;
  if (tops.empty()) return to_string(Layout{});
  const std::string bottom = to_string(bottoms[0]), top = to_string(tops[0]);
  return bottom == top ? bottom : text(bottom, "->", top);
}

Input uniform(Shape shape, double low, double high) { return {std::move(shape), {}, low, high, 0}; }

Input given(Shape shape, std::vector<double> values) {
  return {std::move(shape), std::move(values), -1, 1, 0};
}

Input labels(Shape shape, int64_t classes) { return {std::move(shape), {}, -1, 1, classes}; }

LayerRun::LayerRun(const LayerCase& layer_case, const RunOptions& options)
    : run_(options), seed_(layer_case.seed) {
  ContextOptions context;
  context.device.type = options.device;
  context.engine = options.engine;
  context.tuning_file = options.tuning_file;
  context.seed = layer_case.seed;
  state_.seed = layer_case.seed;
  context_ = std::make_unique<Context>(std::move(context));
  make_layer(layer_case);
  take_inputs(layer_case.bottoms);
  layer_->setup(bottoms_, tops_);
  make_params(layer_case);
  layer_->reshape(bottoms_, tops_);
  make_tail(layer_case);
  make_kernel();
}

LayerRun::~LayerRun() = default;

std::unique_ptr<Layer> make_loose_layer(const LayerCase& layer_case, Context& context,
                                        const RunState& state, const RunOptions& options) {
  return Registry::instance().make({.param = parse(layer_case),
                                    .context = context,
                                    .run = state,
                                    .phase = layer_case.phase,
                                    .dtype = options.dtype,
                                    .activations = options.activations.value_or(options.dtype),
                                    .trains = options.trains,
                                    .arithmetic = options.arithmetic});
}

void LayerRun::make_tail(const LayerCase& layer_case) {
  if (layer_case.tail.empty()) return;
  LayerCase next{.layer = layer_case.tail[0],
                 .bottoms = {uniform(tops_[0]->shape())},
                 .phase = layer_case.phase,
                 .tail = {layer_case.tail.begin() + 1, layer_case.tail.end()},
                 .seed = layer_case.seed};
  if (!run_.fuse) {
    next_ = std::make_unique<LayerRun>(next, RunOptions{.dtype = run_.dtype, .fuse = false});
    return;
  }
  next.tail.clear();
  for (const std::string& layer : layer_case.tail) {
    next.layer = layer;
    fused_.push_back(std::make_unique<LayerRun>(next, RunOptions{.dtype = run_.dtype}));
    const auto step = fused_.back()->layer().as_tail_step();
    if (!step.has_value()) throw Error("is no tail step: ", layer);
    requirements_.tail.push_back(*step);
  }
  if (!layer_->accepts(requirements_.tail))
    throw Error("the layer does not accept this tail: ", layer_case.tail.back());
}

void LayerRun::make_layer(const LayerCase& layer_case) {
  const LayerParameter param = parse(layer_case);
  layer_ = make_loose_layer(layer_case, *context_, state_, run_);
  for (const std::string& name : param.bottom()) {
    bottoms_.push_back(bottom_store_.emplace_back(std::make_unique<Blob>(name)).get());
  }
  for (const std::string& name : param.top()) {
    tops_.push_back(top_store_.emplace_back(std::make_unique<Blob>(name)).get());
  }
  for (auto* blobs : {&bottoms_, &tops_}) {
    for (Blob* blob : *blobs) {
      blob->data.set_layout(run_.dtype, Format::contiguous);
      blob->diff.set_layout(run_.dtype, Format::contiguous);
    }
  }
}

void LayerRun::make_params(const LayerCase& layer_case) {
  std::vector<ParameterArena::Segment> segments;
  for (int i = 0; i < num_params(); ++i) {
    Parameter& p = *layer_->params()[i];
    segments.push_back({&p, layer_->name(), i, 0, p.shape().count()});
  }
  arena_.build(std::move(segments), run_.dtype, run_.trains);
  for (int i = 0; i < num_params(); ++i) {
    Parameter& p = *layer_->params()[i];
    p.filler().fill(p.data, seed_, kParameterStream + uint64_t(i));
    if (size_t(i) < layer_case.params.size() && !layer_case.params[i].empty()) {
      write(p.data, layer_case.params[i]);
    }
    param_values_.push_back(values_of(p.data));
  }
}

void LayerRun::take_inputs(const std::vector<Input>& inputs) {
  if (inputs.size() != bottoms_.size())
    throw Error(inputs.size(), " inputs for ", bottoms_.size(), " bottoms");
  bottom_values_.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    bottoms_[i]->reshape(inputs[i].shape);
    bottom_values_.push_back(inputs[i].values.empty() ? draw(inputs[i], seed_, i)
                                                      : inputs[i].values);
  }
}

void LayerRun::reshape(const std::vector<Input>& inputs) {
  if (next_ != nullptr) throw Error("reshape() of an unfused LayerRun is not there");
  take_inputs(inputs);
  layer_->reshape(bottoms_, tops_);
  make_kernel();
}

void LayerRun::make_kernel() {
  requirements_.top_diffs_stay = run_.keeps_top_diffs;
  layer_->require(requirements_);
  options_ = options_of(*layer_, bottoms_, tops_);
  if (options_.empty() || run_.option >= int(options_.size()))
    throw Error("option ", run_.option, " of ", options_.size());
  chosen_ = std::max(run_.option, 0);
  for (int i = 0; run_.option < 0 && i < int(options_.size()); ++i) {
    if (is_contiguous(options_[i])) {
      chosen_ = i;
      break;
    }
  }
  const auto lay_out = [](Blob& blob, const Layout& layout) {
    for (Tensor* tensor : {&blob.data, &blob.diff}) {
      tensor->set_layout(layout.dtype, layout.format);
    }
  };
  for (size_t i = 0; i < bottoms_.size(); ++i) lay_out(*bottoms_[i], option().bottoms[i]);
  for (size_t i = 0; i < tops_.size(); ++i) lay_out(*tops_[i], option().tops[i]);
  if (run_.in_place) share_memory();
  kernel_ = crema::make_kernel(*layer_, option(), bottoms_, tops_);
  draw_top_diffs();
}

void LayerRun::share_memory() {
  for (auto [from, to] : {std::pair{&bottoms_[0]->data, &tops_[0]->data},
                          std::pair{&tops_[0]->diff, &bottoms_[0]->diff}}) {
    if (from->bytes() != to->bytes()) throw Error("in place needs memory of one size");
    from->bind(std::make_shared<Memory>(from->bytes()));
    to->bind(from->memory());
  }
}

void LayerRun::draw_top_diffs() {
  const LayerParameter& param = layer_->param();
  std::vector<double> weights;
  for (int i = 0; i < num_tops(); ++i) {
    weights.push_back(i < param.loss_weight_size() ? param.loss_weight(i)
                                                   : layer_->default_loss_weight(i));
  }
  const bool is_loss = std::any_of(weights.begin(), weights.end(), [](double w) { return w != 0; });
  top_diffs_.clear();
  for (int i = 0; i < num_tops(); ++i) {
    const Shape& shape = tops_[i]->shape();
    top_diffs_.push_back(is_loss ? std::vector<double>(size_t(shape.count()), weights[i])
                                 : draw(uniform(shape), seed_, kTopDiffStream + uint64_t(i)));
  }
}

void LayerRun::poison_forward() {
  const BackwardReads reads = kernel_->backward_reads();
  for (size_t i = 0; i < bottoms_.size(); ++i) {
    const bool shared = run_.in_place && i == 0 && reads.top_data[0];
    if (!reads.bottom_data[i] && !shared) poison(bottoms_[i]->data);
  }
  for (size_t i = 0; i < tops_.size(); ++i) {
    const bool shared = run_.in_place && i == 0 && reads.bottom_data[0];
    if (!reads.top_data[i] && !shared) poison(tops_[i]->data);
  }
}

void LayerRun::forward() {
  for (Blob* blob : tops_) poison(blob->data);
  for (int i = 0; i < num_bottoms(); ++i) write(bottoms_[i]->data, bottom_values_[i]);
  for (int i = 0; i < num_params(); ++i) write(layer_->params()[i]->data, param_values_[i]);
  if (context().on_gpu()) {
    const RunState& state = layer_->run();
    context().device_run().begin_pass({state.seed, state.iteration, state.pass});
  }
  kernel_->forward(bottoms_, tops_);
  top_values_.clear();
  for (Blob* blob : tops_) {
    expect_zero_padding(blob->data, blob->name);
    top_values_.push_back(values_of(blob->data));
  }
  // Forward has set the shapes of tops of TopShapes::from_values.
  for (size_t i = 0; i < tops_.size(); ++i) {
    if (top_diffs_[i].size() == top_values_[i].size()) continue;
    tops_[i]->diff.reshape(tops_[i]->data.shape());
    top_diffs_[i] = draw(uniform(tops_[i]->shape()), seed_, kTopDiffStream + i);
  }
  if (next_) {
    next_->bottom_values(0) = top_values_[0];
    next_->forward();
    top_values_[0] = next_->top(0);
  }
}

void LayerRun::backward() {
  std::vector<bool> propagate;
  for (int i = 0; i < num_bottoms(); ++i) propagate.push_back(layer_->can_propagate(i));
  backward(propagate);
}

void LayerRun::backward(const std::vector<bool>& propagate) {
  std::vector<double> through_next;
  if (next_) {
    next_->set_top_diff(0, top_diffs_[0]);
    next_->backward();
    through_next = next_->bottom_diff(0);
  }
  poison_forward();
  for (int i = 0; i < num_bottoms(); ++i) {
    if (propagate[i]) {
      poison(bottoms_[i]->diff);
    } else if (!(run_.in_place && i == 0)) {
      bottoms_[i]->diff.unbind();
    }
  }
  for (int i = 0; i < num_tops(); ++i) {
    write(tops_[i]->diff, next_ && i == 0 ? through_next : top_diffs_[i]);
  }
  std::vector<std::vector<double>> given;
  for (const Blob* blob : tops_) given.push_back(values_of(blob->diff));
  kernel_->backward(tops_, propagate, bottoms_);
  for (int i = run_.in_place ? 1 : 0; run_.keeps_top_diffs && i < num_tops(); ++i) {
    EXPECT_EQ(values_of(tops_[i]->diff), given[i]) << "diff of " << tops_[i]->name;
  }
  for (int i = 0; i < num_bottoms(); ++i) {
    const std::string what = text("diff of ", bottoms_[i]->name);
    if (propagate[i]) {
      expect_zero_padding(bottoms_[i]->diff, what);
    } else if (!(run_.in_place && i == 0)) {
      EXPECT_FALSE(bottoms_[i]->diff.has_memory()) << what << " was touched, but nobody wants it";
    }
  }
}

void LayerRun::clear_gradients() {
  for (const auto& segment : arena_.segments()) segment.parameter->clear_gradient();
}

std::vector<bool> LayerRun::want_only(size_t i) {
  std::vector<bool> wanted(bottoms_.size(), false);
  wanted[i] = true;
  layer_->require({.bottom_diffs = wanted});
  return wanted;
}

std::vector<double> LayerRun::bottom_diff(int i) const { return values_of(bottoms_[i]->diff); }

std::vector<double> LayerRun::param(int i) const { return values_of(layer_->params()[i]->data); }

std::vector<double> LayerRun::gradient(int i) { return values_of(layer_->params()[i]->gradient()); }

double LayerRun::objective() const {
  double sum = 0;
  for (int t = 0; t < static_cast<int>(tops_.size()); ++t) {
    const std::vector<double>& values = top(t);
    for (size_t i = 0; i < values.size(); ++i) {
      // A diff of 0 also stands for tops that nobody differentiates, whatever they hold.
      if (top_diffs_[t][i] != 0) sum += values[i] * top_diffs_[t][i];
    }
  }
  return sum;
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  const Tolerance& tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(expected[i]);
    // Also false for NaN.
    if (!(std::abs(actual[i] - expected[i]) <= allowed)) {
      ADD_FAILURE() << what << " [" << i << "] of " << actual.size() << " is " << actual[i]
                    << ", expected " << expected[i] << " within " << allowed;
      return;
    }
  }
}

namespace {

/// The derivative of the objective by `value`, which `run` reads in its forward.
double central_difference(LayerRun& run, double& value, double step) {
  const double kept = value;
  value = kept + step;
  run.forward();
  const double above = run.objective();
  value = kept - step;
  run.forward();
  const double below = run.objective();
  value = kept;
  return (above - below) / (2 * step);
}

void compare_with_numeric(LayerRun& run, std::vector<double>& values,
                          const std::vector<double>& analytic, const GradientCheck& check,
                          bool has_kink, const std::string& what) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (has_kink && std::abs(values[i] - check.kink) <= check.kink_range) continue;
    const double numeric = central_difference(run, values[i], check.step);
    const double scale = std::max({1.0, std::abs(numeric), std::abs(analytic[i])});
    if (!(std::abs(numeric - analytic[i]) <= check.tolerance * scale)) {
      ADD_FAILURE() << "gradient of " << what << " [" << i << "] at " << values[i] << ": analytic "
                    << analytic[i] << ", numeric " << numeric;
      return;
    }
  }
}

}  // namespace

void check_gradients(const LayerCase& layer_case, const GradientCheck& check) {
  SCOPED_TRACE(text("gradients of ", layer_case.layer));
  const RunOptions f64{.dtype = DType::f64};
  LayerRun run(layer_case, f64), probe(layer_case, f64);
  run.forward();
  run.backward();
  std::vector<int> bottoms = check.bottoms;
  for (int i = 0; check.bottoms.empty() && i < run.num_bottoms(); ++i) {
    if (run.layer().can_propagate(i)) bottoms.push_back(i);
  }
  for (int i : bottoms) {
    compare_with_numeric(probe, probe.bottom_values(i), run.bottom_diff(i), check,
                         check.kink_range > 0, text("bottom ", i));
  }
  for (int i = 0; i < run.num_params(); ++i) {
    if (!run.layer().params()[i]->learnable) continue;
    const std::vector<double> once = run.gradient(i);
    compare_with_numeric(probe, probe.param_values(i), once, check, false, text("parameter ", i));

    run.forward();
    run.backward();
    std::vector<double> twice = run.gradient(i);
    for (double& value : twice) value /= 2;
    expect_close(twice, once, {1e-10, 1e-10}, text("half of parameter ", i, " after two passes"));

    run.clear_gradients();
    run.forward();
    run.backward(std::vector<bool>(size_t(run.num_bottoms()), false));
    expect_close(run.gradient(i), once, {1e-10, 1e-10},
                 text("parameter ", i, " where no bottom wants a diff"));
  }
}

namespace {

void compare_gradients(LayerRun& run, LayerRun& truth, double passes, const Tolerance& tolerance,
                       const std::string& what) {
  for (int i = 0; i < run.num_params(); ++i) {
    if (!run.layer().params()[i]->learnable) continue;
    std::vector<double> expected = truth.gradient(i);
    for (double& value : expected) value *= passes;
    expect_close(run.gradient(i), expected, {passes * tolerance.absolute, tolerance.relative},
                 text("gradient ", i, what));
  }
}

void compare_runs(LayerRun& run, LayerRun& truth, const Tolerance& tolerance) {
  run.forward();
  for (int i = 0; i < run.num_tops(); ++i) {
    expect_close(run.top(i), truth.top(i), tolerance, text("top ", i));
  }
  run.backward();
  for (int i = 0; i < run.num_bottoms(); ++i) {
    if (!run.layer().can_propagate(i)) continue;
    expect_close(run.bottom_diff(i), truth.bottom_diff(i), tolerance, text("diff of bottom ", i));
  }
  for (int i = 0; i < run.num_params(); ++i) {
    expect_close(run.param(i), truth.param(i), tolerance, text("parameter ", i));
  }
  compare_gradients(run, truth, 1, tolerance, "");
  run.forward();
  run.backward();
  compare_gradients(run, truth, 2, tolerance, " after two passes");
  run.clear_gradients();
  run.forward();
  run.backward(std::vector<bool>(size_t(run.num_bottoms()), false));
  compare_gradients(run, truth, 1, tolerance, " where no bottom wants a diff");
}

/// By the rules that a net goes by.
bool may_run_in_place(LayerRun& run) {
  if (run.num_bottoms() == 0 || run.num_tops() == 0) return false;
  const InPlace in_place = run.kernel().in_place();
  const Tensor &bottom = run.bottom_blob(0).data, &top = run.top_blob(0).data;
  if (in_place == InPlace::never || in_place == InPlace::parts || bottom.bytes() != top.bytes()) {
    return false;
  }
  return in_place == InPlace::alias || !run.kernel().backward_reads().bottom_data[0];
}

/// Runs one engine in all its formats, whose names it returns.
std::vector<std::string> check_formats(const LayerCase& layer_case, RunOptions options,
                                       LayerRun& truth, const Tolerance& tolerance) {
  SCOPED_TRACE(to_string(options.dtype));
  std::vector<std::string> names;
  const int count = int(LayerRun(layer_case, options).options().size());
  for (options.option = 0; options.option < count; ++options.option) {
    LayerRun run(layer_case, options);
    names.push_back(name_of(run.option()));
    SCOPED_TRACE(names.back());
    EXPECT_EQ(run.engine(), options.engine);
    compare_runs(run, truth, tolerance);
    // Once more as between two layers of a net, which looks at nothing that it does not need.
    RunOptions inside = options;
    inside.keeps_top_diffs = false;
    inside.in_place = may_run_in_place(run);
    if (options.option > 0 && !inside.in_place) continue;
    SCOPED_TRACE(inside.in_place ? "in place" : "tops' diffs may change");
    LayerRun inner(layer_case, inside);
    compare_runs(inner, truth, tolerance);
  }
  return names;
}

}  // namespace

std::vector<std::string> check_engines(const LayerCase& layer_case, const Tolerance& tolerance,
                                       const std::vector<std::string>& refusing,
                                       DeviceType device) {
  SCOPED_TRACE(text("engines of ", layer_case.layer));
  LayerRun truth(layer_case, {.dtype = DType::f64, .fuse = false});
  truth.forward();
  truth.backward();

  constexpr Tolerance kF64{1e-9, 1e-9};
  std::vector<DType> dtypes = {DType::f32};
  if (device == DeviceType::cuda) dtypes.push_back(DType::f64);
  std::vector<std::string> engines = {"reference"}, ran;
  for (const EngineEntry* entry : Registry::instance().engines(truth.layer().type(), device)) {
    engines.push_back(entry->name);
  }
  for (const std::string& engine : engines) {
    SCOPED_TRACE(text("engine ", engine));
    if (std::find(refusing.begin(), refusing.end(), engine) != refusing.end()) {
      expect_error([&] { LayerRun(layer_case, {.engine = engine, .device = device}); }, {engine});
      continue;
    }
    for (const DType dtype : dtypes) {
      const RunOptions options{.dtype = dtype, .engine = engine, .device = device};
      const Tolerance& allowed = dtype == DType::f64 ? kF64 : tolerance;
      for (const std::string& name : check_formats(layer_case, options, truth, allowed)) {
        ran.push_back(text(engine, " ", name));
      }
    }
  }
  return ran;
}

}  // namespace crema::test
