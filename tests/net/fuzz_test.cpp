// Random nets, some of them with frozen layers, propagate_down, noise and axes of size 0:
// planned or plain, fused or not, reshaped or fresh, a net computes the same.
//
//   CREMA_FUZZ_NETS   number of nets, default 300
//   CREMA_FUZZ_SEED   default 1; net i of a seed is the same whatever their number
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "crema/parameter_arena.hpp"
#include "support/draw.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using Sizes = std::vector<int64_t>;

struct Made {
  std::string name;
  Sizes sizes;
  bool read = false;

  int64_t count(size_t first = 0) const {
    int64_t product = 1;
    for (size_t axis = first; axis < sizes.size(); ++axis) product *= sizes[axis];
    return product;
  }
};

class RandomNet {
 public:
  RandomNet(uint64_t seed, uint64_t number) : draw_(seed, number), noisy_(draw_.one_in(3)) {
    if (draw_.one_in(4)) text_ += "force_backward: true\n";
    Sizes sizes = {draw_.between(1, 3), draw_.one_of<int64_t>({1, 3, 8, 16, 17}),
                   draw_.between(1, 7), draw_.between(1, 7)};
    for (int i = 0; i < 2; ++i) {
      // The second input is like the first one, or has no values.
      if (i == 1 && draw_.one_in(2)) sizes[static_cast<size_t>(draw_.between(0, 3))] = 0;
      std::string dims;
      for (const int64_t size : sizes) dims += text(" dim: ", size);
      text_ += text("layer { name: 'x", i, "' type: 'Input' top: 'x", i, "' input_param { shape {",
                    dims, " } } }\n");
      values_.push_back({text("x", i), sizes});
    }
    const int64_t layers = draw_.between(3, 14);
    for (int64_t i = 0; i < layers; ++i) add_layer();
    // By index: heads make values of their own.
    for (size_t v = 0, count = values_.size(); v < count; ++v) {
      if (!values_[v].read && !draw_.one_in(8)) add_head(v);
    }
  }

  /// Without frozen parameters: gradients of the others are the same.
  std::string learning() const {
    std::string text = text_;
    const std::string frozen = "lr_mult: 0";
    for (size_t at = 0; (at = text.find(frozen, at)) != std::string::npos;) {
      text.replace(at, frozen.size(), "lr_mult: 1");
    }
    return text;
  }
  const std::string& prototxt() const { return text_; }
  /// Whether gradients are those of the loss: all are passed on, none depends on a random mask or
  /// noise.
  bool has_true_gradients() const {
    return text_.find("propagate_down") == std::string::npos &&
           text_.find("Dropout") == std::string::npos && text_.find("noise") == std::string::npos;
  }

 private:
  /// Writes a layer that reads values_[bottoms] and makes tops of these sizes. `params`: how many
  /// it has. In place if `name` is given.
  void add(const std::string& type, const std::vector<size_t>& bottoms,
           const std::vector<Sizes>& tops, const std::string& settings = "", int params = 0,
           const std::string& name = "") {
    std::string prototxt = text("layer { name: 'l", ++layers_, "' type: '", type, "'");
    const bool says = draw_.one_in(8);
    for (const size_t bottom : bottoms) {
      values_[bottom].read = true;
      prototxt += text(" bottom: '", values_[bottom].name, "'");
      if (says) prototxt += text(" propagate_down: ", draw_.boolean());
    }
    for (size_t t = 0; t < tops.size(); ++t) {
      const std::string top = name.empty() ? text("v", layers_, "_", t) : name;
      prototxt += text(" top: '", top, "'");
      if (name.empty()) values_.push_back({top, tops[t]});
    }
    const bool freezes = draw_.one_in(3);
    if (name.empty() && draw_.one_in(6)) prototxt += " recompute: true";
    for (int p = 0; p < params; ++p) {
      prototxt += text(" param { lr_mult: ", freezes && !draw_.one_in(4) ? 0 : 1,
                       noisy_ && draw_.one_in(2) ? " noise { std: 0.1 }" : "", " }");
    }
    text_ += prototxt + " " + settings + " }\n";
  }

  size_t any() {
    // Rather a late one, so that nets become deep.
    const auto last = static_cast<int64_t>(values_.size()) - 1;
    return static_cast<size_t>(std::max(draw_.between(0, last), draw_.between(0, last)));
  }

  void add_layer() {
    const size_t v = any();
    const Sizes sizes = values_[v].sizes;
    const auto rank = static_cast<int64_t>(sizes.size());
    const auto axis = static_cast<size_t>(draw_.between(0, rank - 1));
    // Windows and products need values in an image; the batch may be empty.
    const bool filled = values_[v].count(1) > 0;
    switch (draw_.between(0, 10)) {
      case 0:
      case 1:
        if (rank == 4 && filled) add_convolution(v);
        break;
      case 2:
        if (rank == 4 && filled) add_pooling(v);
        break;
      case 3:
      case 4:
        add_pointwise(v);
        break;
      case 5:
        if (sizes[axis] > 0) {  // an axis without classes is refused
          add("Softmax", {v}, {sizes}, text("softmax_param { axis: ", axis, " }"));
        }
        break;
      case 6:
        add_scale(v, axis);
        break;
      case 7:
        add_joint(v, axis);
        break;
      case 8:
        if (sizes[axis] > 1) {
          Sizes one = sizes, other = sizes;
          one[axis] = draw_.between(1, sizes[axis] - 1);
          other[axis] -= one[axis];
          add("Slice", {v}, {one, other},
              text("slice_param { axis: ", axis, " slice_point: ", one[axis], " }"));
        } else {
          add("Flatten", {v}, {{sizes[0], values_[v].count(1)}});
        }
        break;
      case 9:
        if (filled) add_inner_product(v, draw_.between(1, 20));
        break;
      case 10:
        if (rank == 4 && draw_.one_in(2)) {
          add("LRN", {v}, {sizes},
              text("lrn_param { local_size: 3 alpha: 0.5 norm_region: ",
                   draw_.one_in(2) ? "ACROSS_CHANNELS" : "WITHIN_CHANNEL", " }"));
        } else {
          add("BatchNorm", {v}, {sizes},
              text("batch_norm_param { eps: 0.1 use_global_stats: ", draw_.boolean(), " }"));
        }
        break;
    }
  }

  void add_convolution(size_t v) {
    const Sizes& from = values_[v].sizes;
    const int64_t kernel = draw_.one_of<int64_t>({1, 3}), stride = draw_.one_of<int64_t>({1, 1, 2});
    const int64_t outputs = draw_.one_of<int64_t>({1, 3, 8, 16});
    const bool bias = draw_.one_in(2);
    const Sizes top = {from[0], outputs, (from[2] - 1) / stride + 1, (from[3] - 1) / stride + 1};
    add("Convolution", {v}, {top},
        text("convolution_param { num_output: ", outputs, " kernel_size: ", kernel,
             " stride: ", stride, " pad: ", kernel / 2, " bias_term: ", bias ? "true" : "false",
             " weight_filler { type: 'msra' } bias_filler { type: 'uniform' } }"),
        bias ? 2 : 1);
  }

  void add_pooling(size_t v) {
    const Sizes& from = values_[v].sizes;
    const int64_t stride = draw_.one_of<int64_t>({1, 2});
    const Sizes top = {from[0], from[1], (from[2] - 1) / stride + 1, (from[3] - 1) / stride + 1};
    add("Pooling", {v}, {top},
        text("pooling_param { pool: ", draw_.one_in(2) ? "MAX" : "AVE",
             " kernel_size: 3 pad: 1 round_mode: FLOOR stride: ", stride, " }"));
  }

  void add_pointwise(size_t v) {
    const std::string type = draw_.one_of({"ReLU", "ReLU", "Sigmoid", "TanH", "Dropout"});
    const bool in_place = v > 1 && draw_.one_in(2);
    add(type, {v}, {values_[v].sizes}, "", 0, in_place ? values_[v].name : "");
    // The new version has no reader yet.
    if (in_place) values_[v].read = false;
  }

  void add_scale(size_t v, size_t axis) {
    const Sizes& sizes = values_[v].sizes;
    const auto covered = draw_.between(0, static_cast<int64_t>(sizes.size() - axis));
    const bool bias = draw_.one_in(2);
    add("Scale", {v}, {sizes},
        text("scale_param { axis: ", axis, " num_axes: ", covered, " bias_term: ",
             bias ? "true" : "false", " filler { type: 'uniform' min: 0.5 max: 1.5 } }"),
        bias ? 2 : 1);
  }

  /// Eltwise or Concat of what fits to a value.
  void add_joint(size_t v, size_t axis) {
    const Sizes sizes = values_[v].sizes;
    const bool sums = draw_.one_in(2);
    std::vector<size_t> bottoms = {v};
    Sizes top = sizes;
    for (int64_t i = draw_.between(1, 2); i > 0; --i) {
      size_t other = v;
      for (int tries = 0; tries < 6; ++tries) {
        const size_t candidate = any();
        Sizes fitting = values_[candidate].sizes;
        if (!sums && fitting.size() == sizes.size()) fitting[axis] = sizes[axis];
        if (fitting == sizes) other = candidate;
      }
      bottoms.push_back(other);
      if (!sums) top[axis] += values_[other].sizes[axis];
    }
    if (sums) {
      add("Eltwise", bottoms, {top},
          text("eltwise_param { operation: ", draw_.one_of({"SUM", "PROD", "MAX"}), " }"));
    } else if (top[axis] < 100) {
      add("Concat", bottoms, {top}, text("concat_param { axis: ", axis, " }"));
    }
  }

  void add_inner_product(size_t v, int64_t outputs, const std::string& more = "") {
    add("InnerProduct", {v}, {{values_[v].sizes[0], outputs}},
        text(more, "inner_product_param { num_output: ", outputs,
             " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' } }"),
        2);
  }

  /// A loss on a value.
  void add_head(size_t v) {
    const std::string weight = text("loss_weight: ", draw_.between(1, 3), " ");
    if (values_[v].count(1) > 0) {
      add_inner_product(v, draw_.between(1, 3), weight);
    } else {
      add("TanH", {v}, {values_[v].sizes}, weight);
    }
  }

  Draw draw_;
  bool noisy_;
  std::string text_;
  std::vector<Made> values_;
  int layers_ = 0;
};

/// What a pass over a net left: by name, what outputs hold, and the gradients of the parameters
/// that have one and of the inputs.
using Results = std::map<std::string, std::vector<double>>;

Results run(Net& net) {
  fill_inputs(net);
  net.run_state().iteration = 0;
  Results results;
  results["loss"] = {net.forward()};
  for (const std::string& name : net.outputs()) results[name] = values_of(net.output(name));
  net.clear_gradients();
  net.backward();
  for (const auto& segment : net.params().segments()) {
    const std::string name = text(segment.layer, " parameter ", segment.index);
    results[name] = values_of(segment.parameter->gradient());
  }
  for (const std::string& name : net.inputs()) {
    const Blob& input = *net.blob_versions(name).front();
    if (net.has_diff(input)) results["gradient of " + name] = values_of(input.diff);
  }
  return results;
}

/// Compares tensors as wholes: the rounding of one value may turn a single ReLU or maximum.
void expect_near(const Results& actual, const Results& expected, double tolerance) {
  for (const auto& [name, values] : expected) {
    const auto found = actual.find(name);
    ASSERT_NE(found, actual.end()) << name;
    ASSERT_EQ(found->second.size(), values.size()) << name;
    double difference = 0, size = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(found->second[i] - values[i], 2);
      size += std::pow(values[i], 2);
    }
    EXPECT_LE(std::sqrt(difference), tolerance * (1 + std::sqrt(size))) << name;
  }
  EXPECT_EQ(actual.size(), expected.size());
}

/// The results of the net with other sizes of all batches; none if they do not fit. Then the net
/// has those again that it was built with.
std::optional<Results> results_of_other_sizes(Net& net) {
  std::optional<Results> results;
  std::map<std::string, Shape> shapes;
  for (const std::string& name : net.inputs()) {
    const Shape shape = shapes[name] = net.input(name).shape();
    if (shape[0] > 0) net.reshape_input(name, {shape[0] + 1, shape[1], shape[2], shape[3]});
  }
  try {
    net.reshape();
    results = run(net);
  } catch (const Error&) {
    // Parameters over the batch do not fit to another one, nor may two inputs joined by axis 0.
  }
  for (const auto& [name, shape] : shapes) net.reshape_input(name, shape);
  return results;
}

void check(const RandomNet& random, bool numerically) {
  Context plain_context({.engine = "reference"}), context({.tune = false});
  const NetOptions options{.phase = Phase::train, .dtype = DType::f64};
  NetOptions kept = options;
  kept.fuse = false;
  kept.keep_all = true;
  const NetParameter param = net_param(random.prototxt());
  Net plain(param, plain_context, kept);
  const Results expected = run(plain);
  {
    SCOPED_TRACE("planned");
    Net net(param, context, options);
    expect_near(run(net), expected, 1e-9);
    expect_near(run(net), expected, 1e-9);
    SCOPED_TRACE("reshaped");
    Net also_plain(param, plain_context, kept);
    const auto others = results_of_other_sizes(net), truth = results_of_other_sizes(also_plain);
    ASSERT_EQ(others.has_value(), truth.has_value());
    if (truth) expect_near(*others, *truth, 1e-9);
    expect_near(run(net), expected, 1e-9);
  }
  {
    SCOPED_TRACE("with a memory budget");
    Net net(param, context, options);
    const MemoryPlan memory = net.memory();
    NetOptions less = options;
    less.memory_budget = memory.activations + memory.parameters + memory.engines - 1;
    try {
      Net fits(param, context, less);
      EXPECT_EQ(run(fits), run(net));
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("memory budget"), std::string::npos) << error.what();
    }
  }
  {
    SCOPED_TRACE("f32");
    Net net(param, context, {.phase = Phase::train});
    expect_near(run(net), expected, 2e-3);
  }
  {
    SCOPED_TRACE("nothing is frozen");
    Net learning(net_param(random.learning()), plain_context, kept);
    const Results all = run(learning);
    for (const auto& segment : plain.params().segments()) {
      const std::string name = text(segment.layer, " parameter ", segment.index);
      const std::vector<double>& values = expected.at(name);
      if (segment.parameter->needs_gradient) {
        EXPECT_EQ(values, all.at(name)) << name;
      } else {
        EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](double g) { return g == 0; }))
            << name;
      }
    }
  }
  if (numerically && random.has_true_gradients()) check_net_gradients(plain, 1e-4);
}

TEST(NetFuzz, PlannedNetsComputeWhatPlainOnesDo) {
  const uint64_t seed = number_from("CREMA_FUZZ_SEED", 1);
  const uint64_t nets = number_from("CREMA_FUZZ_NETS", 300);
  for (uint64_t i = 0; i < nets; ++i) {
    const RandomNet random(seed, i);
    SCOPED_TRACE(text("CREMA_FUZZ_SEED=", seed, ", net ", i, ":\n", random.prototxt()));
    try {
      check(random, i % 8 == 0);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace crema::test
