// Noise on parameters: what layers compute with, and where the exact values stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "crema/parameter_arena.hpp"
#include "crema/registry.hpp"
#include "crema/solver.hpp"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

using Values = std::vector<double>;

void set(Tensor& tensor, const Values& values) {
  const Tensor given = [&] {
    Tensor all(tensor.shape(), DType::f64);
    std::ranges::copy(values, all.changing<double>().data());
    return all;
  }();
  tensor.copy_from(given);
}

/// What a Noise layer of the parameter's settings makes of `exact`, in a net of its own.
Values drawn(const Layer& layer, int index, const Tensor& exact, RunState state) {
  NetParameter alone;
  LayerParameter* input = alone.add_layer();
  input->set_name("x");
  input->set_type("Input");
  input->add_top("x");
  BlobShape* shape = input->mutable_input_param()->add_shape();
  for (const int64_t dim : exact.shape().dims()) shape->add_dim(dim);
  LayerParameter* noise = alone.add_layer();
  noise->set_name(text(layer.name(), "/", index, "/noise"));
  noise->set_type("Noise");
  noise->add_bottom("x");
  noise->add_top("y");
  *noise->mutable_noise_param() = layer.param().param(index).noise();
  Context context({.tune = false});
  Net net(alone, context, {.phase = layer.phase(), .dtype = exact.dtype(), .run = &state});
  net.input("x").copy_from(exact);
  net.forward();
  return values_of(net.output("y"));
}

bool has_noise(const Layer& layer, int index) {
  return index < layer.param().param_size() && layer.param().param(index).has_noise();
}

NetParameter without_noise(NetParameter net) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    for (ParamSpec& spec : *layer.mutable_param()) spec.clear_noise();
  }
  return net;
}

/// Sets the parameters of `clean` to those that the layers of `noisy` compute with.
void take_noisy(Net& noisy, Net& clean, const RunState& state) {
  for (const Layer* layer : noisy.layers()) {
    for (int i = 0; i < std::ssize(layer->params()); ++i) {
      const Tensor& exact = layer->params()[static_cast<size_t>(i)]->data;
      set(clean.layer(layer->name()).params()[static_cast<size_t>(i)]->data,
          has_noise(*layer, i) ? drawn(*layer, i, exact, state) : values_of(exact));
    }
  }
}

void fill_with_unit_matrix(Tensor& input) {
  const int64_t n = input.shape()[1];
  Values values(static_cast<size_t>(input.count()), 0.0);
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i * n + i)] = 1;
  set(input, values);
}

/// (rows, columns) of (columns, rows).
Values transposed(const Values& values, size_t rows) {
  const size_t columns = values.size() / rows;
  Values result;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) result.push_back(values[c * rows + r]);
  }
  return result;
}

/// For the unit matrix as "x", "y" is the transposed matrix of weights that "ip" computes with.
std::string product(const std::string& noise, int inputs = 4, int outputs = 3) {
  return text("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: ", inputs,
              " dim: ", inputs,
              " } } } layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' ",
              noise.empty() ? "" : text("param { noise { ", noise, " } } "),
              "inner_product_param { num_output: ", outputs,
              " bias_term: false weight_filler { type: 'uniform' min: -1 max: 1 } } }");
}

class ParameterNoise : public ::testing::Test {
 protected:
  Net make(const NetParameter& param, NetOptions options = {}) {
    options.run = &run_;
    return Net(param, context_, options);
  }
  Net make(const std::string& text, NetOptions options = {}) {
    return make(net_param(text), std::move(options));
  }
  /// What "ip" computes with in the next pass.
  static Values used(Net& net) {
    fill_with_unit_matrix(net.input("x"));
    net.forward();
    return transposed(values_of(net.output("y")), net.output("y").shape()[1]);
  }

  Context context_{{.tune = false}};
  RunState run_{.seed = 7, .iteration = 3, .pass = 1};
};

TEST_F(ParameterNoise, IsThatOfANoiseLayer) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const char* settings : {"std: 0.1", "mean: 0.25", "std: 0.1 distribution: UNIFORM",
                                 "std: 0.02 relative_to: RANGE", "std: 0.5 relative_to: VALUE"}) {
      Net net = make(product(settings), {.dtype = dtype});
      const Values exact = params_of(net);
      const Layer& ip = net.layer("ip");
      const Values first = used(net);
      EXPECT_EQ(first, drawn(ip, 0, ip.params()[0]->data, run_)) << settings;
      EXPECT_NE(first, exact) << settings;
      EXPECT_EQ(used(net), first) << "the same pass: " << settings;
      EXPECT_EQ(params_of(net), exact) << settings;
      // Values that come later.
      ip.params()[0]->data.fill(2);
      EXPECT_EQ(used(net), drawn(ip, 0, ip.params()[0]->data, run_)) << settings;
      EXPECT_EQ(params_of(net), Values(exact.size(), 2.0));
    }
  }
}

TEST_F(ParameterNoise, IsDrawnForEachPass) {
  Net net = make(product("std: 0.1"));
  std::set<Values> all = {used(net)};
  const auto draw = [&](uint64_t& number) {
    ++number;
    all.insert(used(net));
    --number;
  };
  draw(run_.iteration);
  draw(run_.pass);
  draw(run_.seed);
  EXPECT_EQ(all.size(), 4U);
  // A net that counts its passes itself.
  Net own(net_param(product("std: 0.1")), context_, {.phase = Phase::test});
  EXPECT_NE(used(own), used(own));
}

TEST_F(ParameterNoise, StaysOutOfTheTestPhaseIfAsked) {
  const std::string off = product("std: 0.1 in_test: false");
  Net train = make(off), test = make(off, {.phase = Phase::test});
  EXPECT_NE(used(train), params_of(train));
  EXPECT_EQ(used(test), params_of(test));
  EXPECT_EQ(test.memory().parameters,
            make(product(""), {.phase = Phase::test}).memory().parameters);
  Net both = make(product("std: 0.1"), {.phase = Phase::test});
  EXPECT_NE(used(both), params_of(both));
}

TEST_F(ParameterNoise, IsTheSameOnAnyNumberOfThreads) {
  std::set<Values> all;
  for (const int threads : {1, 2, 3}) {
    Context context({.threads = threads, .tune = false});
    Net net(net_param(product("std: 0.1 relative_to: RANGE", 301, 203)), context, {.run = &run_});
    all.insert(used(net));
  }
  EXPECT_EQ(all.size(), 1U);
}

// The gradient is that at the noisy values; a copy of the net has these as its own.
TEST_F(ParameterNoise, PassesTheGradientOfTheNoisyValues) {
  const std::string input =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 4 dim: 5 dim: 6 "
      "} } } ";
  const auto on = [](const char* weights) { return text("filler { type: '", weights, "' } "); };
  const std::string conv =
      "convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } }";
  const std::map<std::string, std::string> layers = {
      {"Convolution",
       "type: 'Convolution' param { noise { std: 0.3 relative_to: RANGE } } "
       "param { noise { std: 0.1 } } " +
           conv},
      {"recomputed", "type: 'Convolution' recompute: true param { noise { std: 0.3 } } " + conv},
      {"Deconvolution", "type: 'Deconvolution' param { } param { noise { std: 0.1 } } " + conv},
      {"Scale",
       "type: 'Scale' param { noise { std: 0.1 } } param { noise { mean: 1 } } "
       "scale_param { bias_term: true " +
           on("xavier") + "}"},
      {"PReLU", "type: 'PReLU' param { noise { std: 0.1 } }"},
      {"BatchNorm",
       "type: 'BatchNorm' param { } param { } param { } param { noise { std: 0.1 } } "
       "param { noise { std: 0.1 } } batch_norm_param { scale_bias: true }"},
      {"LSTM",
       "type: 'LSTM' bottom: 'cont' param { noise { std: 0.1 } } param { noise { std: 0.2 } "
       "} param { noise { std: 0.05 } } recurrent_param { num_output: 5 weight_filler { "
       "type: 'xavier' } }"},
  };
  for (const auto& [name, layer] : layers) {
    SCOPED_TRACE(name);
    const NetParameter noisy = net_param(
        input +
        "layer { name: 'cont' type: 'DummyData' top: 'cont' dummy_data_param { shape { dim: 3 dim: "
        "4 } data_filler { value: 1 } } } layer { name: 'label' type: 'Input' top: 'label' "
        "input_param { shape { dim: 3 } } } layer { name: 'first' bottom: 'x' top: 'first' " +
        layer +
        "} layer { name: 'relu' type: 'ReLU' bottom: 'first' top: 'first' } "
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'first' top: 'ip' param { noise { std: "
        "0.2 "
        "} } inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } } "
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }");
    Net net = make(noisy, {.dtype = DType::f64});
    Net clean = make(without_noise(noisy), {.dtype = DType::f64});
    fill_inputs(net);
    fill_inputs(clean);
    take_noisy(net, clean, run_);
    const double loss = net.forward();
    EXPECT_EQ(loss, clean.forward());
    net.clear_gradients();
    net.backward();
    clean.clear_gradients();
    clean.backward();
    EXPECT_EQ(gradients_of(net), gradients_of(clean));
    EXPECT_NE(params_of(net), params_of(clean));
  }
}

// A layer without noise sees the exact values of what it shares.
TEST_F(ParameterNoise, OfSharedParametersIsEachLayersOwn) {
  const auto layer = [](const std::string& name, const std::string& param, int outputs,
                        const std::string& weights) {
    const int inputs = 7 - outputs;
    return text("layer { name: '", name, "_x' type: 'Input' top: '", name, "_x' top: 't_", name,
                "' input_param { shape { dim: ", inputs, " dim: ", inputs,
                " } shape { dim: ", inputs, " dim: ", outputs, " } } } layer { name: '", name,
                "' type: 'InnerProduct' bottom: '", name, "_x' top: '", name, "' param { ", param,
                " } inner_product_param { num_output: ", outputs,
                " bias_term: false weight_filler { type: 'xavier' } ", weights,
                " } } layer { name: '", name, "_loss' type: 'EuclideanLoss' bottom: '", name,
                "' bottom: 't_", name, "' top: '", name, "_loss' }");
  };
  const auto text = [&](bool share) {
    const std::string name = share ? "name: 'w' " : "";
    return layer("first", name + "noise { std: 0.1 }", 3, "") + layer("exact", name, 3, "") +
           layer("wide", name + "share_mode: PERMISSIVE noise { std: 0.2 }", 4, "");
  };
  const auto fill = [](Net& net) {
    for (const std::string& name : net.inputs()) {
      if (name.ends_with("_x")) fill_with_unit_matrix(net.input(name));
    }
  };
  Net net = make(text(true), {.dtype = DType::f64, .keep = {"first", "exact", "wide"}});
  Net apart = make(without_noise(net_param(text(false))), {.dtype = DType::f64});
  ASSERT_EQ(net.params().segments().size(), 1U);
  fill(net);
  fill(apart);
  take_noisy(net, apart, run_);
  net.forward();
  const auto used_by = [&](const char* name) {
    const Tensor top = net.output(name);
    return transposed(values_of(top), static_cast<size_t>(top.shape()[1]));
  };
  const Values exact = params_of(net);
  EXPECT_EQ(used_by("exact"), exact);
  for (const char* name : {"first", "wide"}) {
    const Layer& of = net.layer(name);
    EXPECT_EQ(used_by(name), drawn(of, 0, of.params()[0]->data, run_)) << name;
    EXPECT_NE(used_by(name), exact) << name;
  }
  net.clear_gradients();
  net.backward();
  apart.forward();
  apart.clear_gradients();
  apart.backward();
  Values sum(exact.size(), 0.0);
  const Values parts = gradients_of(apart);
  for (size_t i = 0; i < parts.size(); ++i) sum[i % sum.size()] += parts[i];
  const Values gradient = gradients_of(net);
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(gradient[i], sum[i], 1e-14);
}

TEST_F(ParameterNoise, OfAnotherNetIsNotShared) {
  Net owner = make(product("std: 0.1"));
  Net exact = make(product(""), {.share_params_with = &owner});
  const Values values = params_of(owner), noisy = used(owner);
  EXPECT_EQ(used(exact), values);
  // Each thread has a net with the same parameters and a pass of its own.
  constexpr int kThreads = 3;
  std::vector<Values> expected(kThreads), got(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    RunState state = run_;
    state.pass = t + 1;
    expected[t] = drawn(owner.layer("ip"), 0, owner.layer("ip").params()[0]->data, state);
    threads.emplace_back([&, t, state]() mutable {
      Context context({.threads = 1, .tune = false});
      Net net(net_param(product("std: 0.1")), context,
              {.share_params_with = &owner, .run = &state});
      for (int i = 0; i < 20; ++i) got[t] = used(net);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(got, expected);
  EXPECT_EQ(expected[0], noisy);
  EXPECT_NE(expected[1], noisy);
  EXPECT_EQ(params_of(owner), values);
}

const std::string kConvolution =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 16 dim: 12 "
    "dim: 12 } } } layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'y' param { noise { "
    "std: 0.1 } } param { noise { std: 0.1 } } convolution_param { num_output: 16 kernel_size: 3 "
    "pad: 1 weight_filler { type: 'xavier' } } } ";

// In nets for inference, engines keep weights in layouts of their own.
TEST_F(ParameterNoise, IsFollowedByKeptWeights) {
  for (const EngineEntry* entry : Registry::instance().engines("Convolution", DeviceType::cpu)) {
    const std::string& engine = entry->name;
    NetParameter param = net_param(kConvolution);
    LayerParameter& conv = *param.mutable_layer(1);
    conv.set_engine(engine);
    if (engine == "depthwise") conv.mutable_convolution_param()->set_group(16);
    Net net = make(param, {.phase = Phase::test});
    Net clean = make(without_noise(param), {.phase = Phase::test});
    fill_inputs(net);
    fill_inputs(clean);
    // What is derived from values that may still be written is not kept.
    for (const auto& parameter : net.layer("conv").params()) parameter->data.seal();
    Values last;
    for (int pass = 0; pass < 3; ++pass) {
      ++run_.iteration;
      net.forward();
      take_noisy(net, clean, run_);
      clean.forward();
      const Values y = values_of(net.output("y"));
      EXPECT_EQ(y, values_of(clean.output("y"))) << engine << " " << pass;
      EXPECT_NE(y, last) << engine << " " << pass;
      last = y;
    }
  }
}

// BatchNorm computes Scale and ReLU in its tail, with the noisy values of Scale. In the phase TEST
// the convolution does: the noisy values are folded into its own.
TEST_F(ParameterNoise, OfFusedLayersIsTheSame) {
  const NetParameter param = net_param(
      kConvolution +
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'y' top: 'bn' batch_norm_param { eps: 0.5 } } "
      "layer { name: 'scale' type: 'Scale' bottom: 'bn' top: 'scale' param { noise { std: 0.2 } } "
      "param { noise { std: 0.3 } } scale_param { bias_term: true } } "
      "layer { name: 'relu' type: 'ReLU' bottom: 'scale' top: 'relu' }");
  for (const Phase phase : {Phase::train, Phase::test}) {
    const auto build = [&](const NetParameter& of, bool fuse) {
      Net net = make(of, {.phase = phase, .dtype = DType::f64, .fuse = fuse});
      fill_inputs(net);
      return net;
    };
    Net fused = build(param, true), plain = build(param, false);
    Net clean = build(without_noise(param), true);
    const auto rows = fused.summary();
    ASSERT_TRUE(std::ranges::any_of(rows, [&](const LayerSummary& row) {
      return row.name == "scale" && row.fused_into == (phase == Phase::train ? "bn" : "conv");
    }));
    take_noisy(fused, clean, run_);
    for (Net* net : {&fused, &plain, &clean}) net->forward();
    const Values y = values_of(fused.output("relu")), unfused = values_of(plain.output("relu"));
    EXPECT_EQ(y, values_of(clean.output("relu")));
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], unfused[i], 1e-12) << i;
    EXPECT_EQ(fused.memory().parameters, plain.memory().parameters);
  }
}

TEST_F(ParameterNoise, OfAPartOfThePassIsThatOfThePass) {
  Net net = make(product("std: 0.1"), {.keep_all = true});
  const Values whole = used(net);
  net.forward(1, 1);
  EXPECT_EQ(transposed(values_of(net.output("y")), 3), whole);
  ++run_.pass;
  net.forward(1, 1);
  const Values next = transposed(values_of(net.output("y")), 3);
  EXPECT_EQ(next, drawn(net.layer("ip"), 0, net.layer("ip").params()[0]->data, run_));
  EXPECT_NE(next, whole);
}

TEST_F(ParameterNoise, IsCountedInMemoryAndOperations) {
  Net net = make(product("std: 0.1 relative_to: RANGE", 40, 30)), clean = make(product("", 40, 30));
  EXPECT_EQ(net.memory().parameters, clean.memory().parameters + 40 * 30 * sizeof(float));
  EXPECT_GT(net.memory().engines, clean.memory().engines);
  EXPECT_GT(net.summary()[1].flops.forward, clean.summary()[1].flops.forward);
  EXPECT_EQ(net.summary()[1].params, 40 * 30);
  // Of a parameter that another net owns, this one has the copy.
  Net heir = make(product("std: 0.1", 40, 30), {.share_params_with = &clean});
  EXPECT_EQ(heir.memory().parameters, 40 * 30 * sizeof(float));
}

// One step of SGD from the exact values, by the gradient of the noisy ones; files hold the result.
TEST_F(ParameterNoise, IsNotLearnedOrSaved) {
  const TempFolder folder;
  SolverParameter param;
  *param.mutable_net_param() = net_param(
      product("std: 0.3") +
      "layer { name: 't' type: 'Input' top: 't' input_param { shape { dim: 4 dim: 3 } } } "
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' }");
  param.set_base_lr(0.5);
  param.set_lr_policy("fixed");
  param.set_max_iter(9);
  param.set_snapshot_prefix(folder.path("noisy"));
  Solver solver(param, context_, {.dtype = DType::f64});
  fill_inputs(solver.net());
  Net clean = make(without_noise(param.net_param()), {.dtype = DType::f64});
  fill_inputs(clean);
  take_noisy(solver.net(), clean, solver.net().run_state());
  Values expected = params_of(solver.net());
  solver.step(1);
  clean.forward();
  clean.clear_gradients();
  clean.backward();
  const Values gradient = gradients_of(clean), learned = params_of(solver.net());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(learned[i], expected[i] - 0.5 * gradient[i], 1e-14);
  solver.snapshot();
  for (const char* file : {"noisy_iter_1.caffemodel", "own.caffemodel"}) {
    if (std::string_view(file).starts_with("own")) solver.net().save_weights(folder.path(file));
    Net loaded = make(without_noise(param.net_param()),
                      {.dtype = DType::f64, .weights = {folder.path(file)}});
    EXPECT_EQ(params_of(loaded), learned) << file;
  }
}

TEST_F(ParameterNoise, Errors) {
  const auto build = [&](const std::string& settings) {
    return [this, settings] { make(product(settings)); };
  };
  expect_error(build("std: -1"), {"layer 'ip' (InnerProduct)", "parameter 0", "std -1"});
  expect_error(build("std: -1 in_test: false"), {"parameter 0", "std -1"});
  expect_error(build("relative_to: RANGE"), {"parameter 0", "neither std nor mean", "std: 0.1"});
  expect_error(build("mean: inf"), {"parameter 0", "mean inf"});
  expect_error(
      [this] {
        make(
            "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } } "
            "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' param { } param { noise { "
            "std: 1 } } }");
      },
      {"layer 'bn' (BatchNorm)", "parameter 1", "not learned", "remove"});
}

}  // namespace
}  // namespace crema::test
