// Passes that a device records: shapes that change, masks of dropout, weights that the host folds,
// what stays out of records.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/access_log.hpp"
#include "core/memory.hpp"
#include "crema/net.hpp"
#include "crema/registry.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/convolution/convolution.hpp"
#include "layers/convolution/ends.hpp"
#include "support/fake_device.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

struct OnDevice {
  OnDevice() : owned(std::make_unique<FakeDevice>()), device(owned.get()) {}
  std::unique_ptr<FakeDevice> owned;
  FakeDevice* device;
  std::string log;
  Context context{
      {.threads = 1, .logger = [this](Severity, const std::string& line) { log += line + "\n"; }},
      std::move(owned)};
};

class Recorded : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
  }
};

std::vector<float> values(const Tensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

/// y = x * m, where m is the mean of bottom 1, which forward computes on the host and backward
/// takes from there.
class HostMeanLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;
  Arity arity() const override { return {2, 2, 1, 1}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  void reshape(Blobs bottom, Blobs top) override { top[0]->reshape(bottom[0]->shape()); }
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    mean_ = 0;
    for (const float value : bottom[1]->data.values<float>())
      mean_ += value / static_cast<float>(bottom[1]->count());
    scale(device, bottom[0]->data, top[0]->data);
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (propagate[0]) scale(device, top[0]->diff, bottom[0]->diff);
  }

 private:
  struct Times {
    float factor;
    const float* x;
    float* y;
    CREMA_FUNCTOR void operator()(int64_t i) const { y[i] = factor * x[i]; }
  };
  void scale(const ComputeDevice& device, const Tensor& x, Tensor& y) const {
    const float* const from = device.read<float>(x);
    for_each(device, x.count(), kPassGrain, Times{mean_, from, device.overwrite<float>(y)});
  }

  float mean_ = 0;
};

void register_host_mean() {
  static const bool registered =
      (add_two_sided<HostMeanLayer>(Registry::instance(), "TestHostMean"), true);
  ASSERT_TRUE(registered);
}

const char* const kPooled =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } "
    "} "
    "} layer { name: 'lrn' type: 'LRN' bottom: 'x' top: 'lrn' } "
    "layer { name: 'pool' type: 'Pooling' bottom: 'lrn' top: 'pool' pooling_param { pool: AVE "
    "global_pooling: true } } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip' inner_product_param { "
    "num_output: 5 weight_filler { type: 'xavier' } } } "
    "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }";

TEST_F(Recorded, TwoShapesKeepARecordEach) {
  OnDevice on;
  const NetParameter param = test::net_param(kPooled);
  Net net(param, on.context, {.phase = Phase::test});
  Context context({.threads = 1, .engine = "reference"});
  Net on_cpu(param, context, {.phase = Phase::test, .share_params_with = nullptr});
  const auto run = [&](int64_t side, double high) {
    std::vector<std::vector<float>> results;
    for (Net* each : {&net, &on_cpu}) {
      each->reshape_input("x", {2, 3, side, side});
      test::fill_inputs(*each, -1, high);
      each->forward();
      results.push_back(values(each->output("prob")));
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_NEAR(results[0][i], results[1][i], 1e-6) << side << " " << i;
  };
  // A first pass, one that records, and, where the larger shape took memory, one that does it
  // again.
  for (int i = 0; i < 4; ++i) {
    run(8, 1 + i);
    run(12, 2 + i);
  }
  const int captures = on.device->captures;
  EXPECT_GE(captures, 2);
  const int launches = on.device->launches;
  for (int i = 0; i < 6; ++i) {
    run(8, 3 + i);
    run(12, 4 + i);
  }
  EXPECT_EQ(on.device->captures, captures);
  EXPECT_GE(on.device->launches, launches + 12);
}

// A caller may have the next input in another memory, or elsewhere in it, and come back to the
// first one: no memory comes or goes then.
TEST_F(Recorded, AnInputMayBeBoundToOneOfTwoMemories) {
  const NetParameter param = test::net_param(kPooled);
  for (const bool in_parts : {false, true}) {
    SCOPED_TRACE(in_parts ? "parts of one" : "two of them");
    OnDevice on;
    Net net(param, on.context, {.phase = Phase::test});
    Context context({.threads = 1, .engine = "reference"});
    Net on_cpu(param, context, {.phase = Phase::test, .share_params_with = nullptr});
    const size_t bytes = net.input("x").bytes();
    const std::shared_ptr<Memory> memories[] = {std::make_shared<Memory>(2 * bytes),
                                                std::make_shared<Memory>(bytes)};
    for (int i = 0; i < 12; ++i) {
      const int which = i % 2;
      net.input("x").bind(memories[in_parts ? 0 : which], in_parts && which == 1 ? bytes : 0);
      if (i < 2) test::fill_inputs(net, -1, 1 + 4 * which);
      test::fill_inputs(on_cpu, -1, 1 + 4 * which);
      net.forward();
      on_cpu.forward();
      const std::vector<float> found = values(net.output("prob")),
                               expected = values(on_cpu.output("prob"));
      ASSERT_EQ(found.size(), expected.size());
      for (size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], expected[k], 1e-6) << i;
    }
    EXPECT_GT(on.device->launches, 6);
  }
}

// One of two inputs in the same memory moves, within it or out of it; the other one stays.
TEST_F(Recorded, TwoInputsMayBeBoundToOneMemory) {
  const NetParameter param = test::net_param(
      "layer { name: 'x' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 dim: 8 } } } "
      "layer { name: 'sum' type: 'Eltwise' bottom: 'x' bottom: 'y' top: 'sum' } "
      "layer { name: 'prob' type: 'Softmax' bottom: 'sum' top: 'prob' }");
  for (const bool moves_first : {false, true}) {
    for (const bool leaves : {false, true}) {
      SCOPED_TRACE(text(moves_first ? "x" : "y", leaves ? " to another one" : " within it"));
      OnDevice on;
      Net net(param, on.context, {.phase = Phase::test});
      Context context({.threads = 1, .engine = "reference"});
      Net on_cpu(param, context, {.phase = Phase::test, .share_params_with = nullptr});
      const char* const moving = moves_first ? "x" : "y";
      const char* const staying = moves_first ? "y" : "x";
      const size_t bytes = net.input("x").bytes();
      const auto both = std::make_shared<Memory>(3 * bytes);
      const auto other = std::make_shared<Memory>(bytes);
      const auto bind = [&](int which) {
        net.input(staying).bind(both, bytes);
        if (which == 0) return net.input(moving).bind(both, 0);
        net.input(moving).bind(leaves ? other : both, leaves ? 0 : 2 * bytes);
      };
      for (const int which : {0, 1}) {
        bind(which);
        net.input(staying).fill(0.5);
        float* const given = net.input(moving).overwrite<float>();
        for (int k = 0; k < 16; ++k) given[k] = 0.1F * static_cast<float>(which == 0 ? k : -k * k);
      }
      on_cpu.input(staying).fill(0.5);
      for (int i = 0; i < 12; ++i) {
        const int which = i / 2 % 2;
        bind(which);
        float* const expected = on_cpu.input(moving).overwrite<float>();
        for (int k = 0; k < 16; ++k)
          expected[k] = 0.1F * static_cast<float>(which == 0 ? k : -k * k);
        net.forward();
        on_cpu.forward();
        const std::vector<float> found = values(net.output("prob"));
        const std::vector<float> wanted = values(on_cpu.output("prob"));
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], wanted[k], 1e-6) << i;
      }
      EXPECT_GT(on.device->launches, 4);
    }
  }
}

TEST_F(Recorded, DropoutDrawsTheMasksOfTheCpu) {
  OnDevice on;
  const NetParameter param = test::net_param(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 4 dim: 5 } } } "
      "layer { name: 'd1' type: 'Dropout' bottom: 'x' top: 'd1' } "
      "layer { name: 's' type: 'SpatialDropout' bottom: 'd1' top: 's' } "
      "layer { name: 'n' type: 'Noise' bottom: 's' top: 'n' noise_param { std: 0.5 } } "
      "layer { name: 'd2' type: 'Dropout' bottom: 'n' top: 'd2' dropout_param { random_seed: 3 } "
      "}");
  const NetOptions options{.phase = Phase::train, .backward = NetOptions::Backward::no};
  Net net(param, on.context, options);
  Context context({.threads = 1, .engine = "reference"});
  Net on_cpu(param, context, options);
  test::fill_inputs(net);
  test::fill_inputs(on_cpu);
  std::vector<float> before;
  for (int pass = 0; pass < 5; ++pass) {
    net.forward();
    on_cpu.forward();
    const std::vector<float> found = values(net.output("d2"));
    const std::vector<float> expected = values(on_cpu.output("d2"));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i] == 0, expected[i] == 0) << pass << " " << i;
      EXPECT_NEAR(found[i], expected[i], 1e-4) << pass << " " << i;  // of the noise
    }
    EXPECT_NE(found, before);
    before = found;
  }
  EXPECT_EQ(on.device->captures, 1);
  EXPECT_EQ(on.device->launches, 4);
}

TEST_F(Recorded, PoolingThatSamplesDrawsTheChoicesOfTheCpu) {
  OnDevice on;
  const NetParameter param = test::net_param(
      "layer { name: 'x' type: 'Input' top: 'x' "
      "input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } } "
      "layer { name: 'pool' type: 'Pooling' bottom: 'x' top: 'pool' "
      "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 } } "
      "layer { name: 'spp' type: 'SPP' bottom: 'x' top: 'spp' "
      "spp_param { pool: STOCHASTIC pyramid_height: 2 } } "
      "layer { name: 'relu' type: 'ReLU' bottom: 'spp' top: 'relu' }");
  const NetOptions options{.phase = Phase::train, .backward = NetOptions::Backward::no};
  Net net(param, on.context, options);
  Context context({.threads = 1, .engine = "reference"});
  Net on_cpu(param, context, options);
  test::fill_inputs(net, 0.5, 2);
  test::fill_inputs(on_cpu, 0.5, 2);
  for (const char* top : {"pool", "relu"}) {
    SCOPED_TRACE(top);
    std::vector<float> before;
    for (int pass = 0; pass < 5; ++pass) {
      net.forward();
      on_cpu.forward();
      const std::vector<float> found = values(net.output(top));
      EXPECT_EQ(found, values(on_cpu.output(top))) << pass;
      EXPECT_NE(found, before) << pass;
      before = found;
    }
  }
}

// What maxima remember keeps its memory, although its type is not that of the host.
TEST_F(Recorded, TwoShapesOfTrainingKeepARecordEach) {
  OnDevice on;
  const NetParameter param = test::net_param(
      "force_backward: true "
      "layer { name: 'x' type: 'Input' top: 'x' "
      "input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } } "
      "layer { name: 'pool' type: 'Pooling' bottom: 'x' top: 'pool' "
      "pooling_param { kernel_size: 2 stride: 2 } } "
      "layer { name: 'loss' type: 'Reduction' bottom: 'pool' top: 'loss' loss_weight: 1 "
      "reduction_param { operation: MEAN } }");
  Net net(param, on.context, {.phase = Phase::train});
  const auto run = [&](int64_t side) {
    net.reshape_input("x", {2, 3, side, side});
    test::fill_inputs(net);
    net.forward();
    net.backward();
  };
  for (int i = 0; i < 4; ++i) {
    run(8);
    run(12);
  }
  const int captures = on.device->captures;
  EXPECT_GE(captures, 2);
  for (int i = 0; i < 6; ++i) {
    run(8);
    run(12);
  }
  EXPECT_EQ(on.device->captures, captures);
}

TEST_F(Recorded, LeavesOutWhatReadsOnTheHost) {
  register_host_mean();
  OnDevice on;
  const NetParameter param = test::net_param(
      "layer { name: 'i' type: 'Input' top: 'x' top: 'means' input_param { "
      "shape { dim: 2 dim: 5 } shape { dim: 6 } } } "
      "layer { name: 'e' type: 'TestHostMean' bottom: 'x' bottom: 'means' top: 'e' } "
      "layer { name: 'p1' type: 'Softmax' bottom: 'e' top: 'p1' } "
      "layer { name: 'p2' type: 'Softmax' bottom: 'p1' top: 'p2' } "
      "layer { name: 'p3' type: 'Softmax' bottom: 'p2' top: 'p3' }");
  Net net(param, on.context, {.phase = Phase::test});
  Context context({.threads = 1, .engine = "reference"});
  Net on_cpu(param, context, {.phase = Phase::test});
  for (int pass = 0; pass < 5; ++pass) {
    for (Net* each : {&net, &on_cpu}) {
      test::fill_inputs(*each);
      for (int i = 0; i < 6; ++i)
        each->input("means").change<float>()[i] = static_cast<float>((i + pass) % 3);
      each->forward();
    }
    const std::vector<float> found = values(net.output("p3")),
                             expected = values(on_cpu.output("p3"));
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
  }
  EXPECT_EQ(on.device->captures, 1);
  EXPECT_NE(on.log.find("CUDA graphs leave out a step"), std::string::npos) << on.log;
  EXPECT_NE(on.log.find("'e'"), std::string::npos) << on.log;
}

/// A convolution of kernel size 1 on a device. As that of cuDNN, it folds scales and shifts on the
/// host, and reads a copy of the weights.
class FoldingKernel : public Kernel {
 public:
  explicit FoldingKernel(ConvolutionLayer& layer)
      : Kernel(layer), layer_(layer), device_(layer.context().backend()), ends_(layer) {}
  void forward(Blobs bottom, Blobs top) override {
    ends_.fold(device_);
    DeviceBackend& backend = *device_.backend();
    copy_ = ends_.weights().values().derived("copy", [&](const Tensor& values) {
      if (backend.access_log() != nullptr) throw StaleRecord("copies weights");
      Tensor made(values.shape());
      copy(device_, values, made);
      return made;
    });
    const ConvolutionGeometry& g = layer_.geometry();
    const float *x = device_.read<float>(bottom[0]->data), *w = device_.read<float>(*copy_),
                *shift = device_.read<float>(ends_.bias()->data);
    float* const y = device_.overwrite<float>(top[0]->data);
    const int64_t outputs = g.outputs, channels = g.channels, rows = g.batch * g.outputs;
    const int64_t pixels = top[0]->count() / rows;
    backend.queue_loop([=] {
      for (int64_t i = 0; i < rows * pixels; ++i) {
        const int64_t image = i / pixels / outputs, output = i / pixels % outputs;
        y[i] = shift[output];
        for (int64_t c = 0; c < channels; ++c) {
          y[i] += w[output * channels + c] * x[(image * channels + c) * pixels + i % pixels];
        }
      }
    });
  }
  void backward(Blobs, const std::vector<bool>&, Blobs) override {}
  bool capturable() const override { return true; }

 private:
  ConvolutionLayer& layer_;
  ComputeDevice device_;
  ConvolutionEnds ends_;
  std::shared_ptr<const Tensor> copy_;
};

class FoldingEngine : public Engine {
 public:
  std::vector<Option> options(const Layer&, Blobs bottom, Blobs top, std::string&) const override {
    return {uniform_option(bottom, top, DType::f32)};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs, Blobs) const override {
    return std::make_unique<FoldingKernel>(static_cast<ConvolutionLayer&>(layer));
  }
};

TEST_F(Recorded, WeightsThatTheHostFoldsFollowTheParameters) {
  const std::string type = "FoldingConvolution";
  Registry& registry = Registry::instance();
  if (!registry.has(type)) {
    add_convolution_type(registry, type, ConvolutionGeometry::Kind::convolution);
    registry.add_engine<FoldingEngine>(type, "folding", DeviceType::cuda);
  }
  const NetParameter param = test::net_param(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 4 dim: 5 "
      "} } } layer { name: 'c' type: 'FoldingConvolution' bottom: 'x' top: 'c' convolution_param { "
      "num_output: 4 kernel_size: 1 bias_term: false } } "
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'c' } "
      "layer { name: 'sc' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } } "
      "layer { name: 'y' type: 'AbsVal' bottom: 'c' top: 'y' }");
  OnDevice on;
  Net net(param, on.context, {.phase = Phase::test});
  Context context({.threads = 1, .engine = "reference"});
  Net on_cpu(param, context, {.phase = Phase::test, .fuse = false});
  const auto set = [&](const std::string& layer, size_t parameter, float first) {
    for (Net* each : {&net, &on_cpu}) {
      const auto values = each->layer(layer).params()[parameter]->data.changing<float>();
      for (int64_t i = 0; i < each->layer(layer).params()[parameter]->data.count(); ++i)
        values[i] = first + 0.25F * static_cast<float>(i % 3);
    }
  };
  std::vector<float> before;
  const auto run = [&](bool same) {
    for (Net* each : {&net, &on_cpu}) {
      test::fill_inputs(*each);
      each->forward();
    }
    const std::vector<float> found = values(net.output("y")), expected = values(on_cpu.output("y"));
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-5 * (1 + expected[i])) << i;
    EXPECT_EQ(found == before, same);
    before = found;
  };
  set("c", 0, -0.5F);
  set("bn", 0, 0.1F);
  set("bn", 1, 0.5F);
  set("bn", 2, 1);
  set("sc", 0, 0.5F);
  set("sc", 1, 0);
  run(false);
  for (int pass = 0; pass < 4; ++pass) run(true);
  int captures = 1;
  EXPECT_EQ(on.device->captures, captures);
  for (const auto& [layer, parameter] :
       {std::pair("sc", 0), {"sc", 1}, {"bn", 0}, {"bn", 1}, {"c", 0}}) {
    SCOPED_TRACE(text(layer, " ", parameter));
    set(layer, static_cast<size_t>(parameter), 0.75F);
    // A plain pass that folds, one that records, and launches.
    const int launches = on.device->launches;
    run(false);
    for (int pass = 0; pass < 5; ++pass) run(true);
    EXPECT_EQ(on.device->captures, ++captures);
    EXPECT_EQ(on.device->launches, launches + 5);
  }
  // Tests after each of many iterations of training do not end the records.
  for (int test = 0; test < 30; ++test) {
    set("sc", 1, static_cast<float>(test));
    run(false);
    for (int pass = 0; pass < 5; ++pass) run(true);
  }
  EXPECT_EQ(on.device->captures, captures + 30);
  EXPECT_EQ(on.log.find("graphs leave out a step"), std::string::npos) << on.log;
  // Where they change before each pass, the rest need not wait for them.
  for (int pass = 0; pass < 12; ++pass) {
    set("sc", 1, static_cast<float>(40 + pass));
    run(false);
  }
  EXPECT_NE(on.log.find("CUDA graphs leave out a step of layer 'c', which keeps a form of values "
                        "that change in each pass"),
            std::string::npos)
      << on.log;
}

// A deploy net: the caller writes the inputs before each pass.
TEST_F(Recorded, InputsThatTheHostWritesStopNoRecord) {
  OnDevice on;
  Net net(test::net_param(kPooled), on.context, {.phase = Phase::test});
  for (int pass = 0; pass < 5; ++pass) {
    test::fill_inputs(net, -1, 1 + pass);
    net.forward();
  }
  EXPECT_EQ(on.device->captures, 1);
  EXPECT_EQ(on.device->launches, 4);
  EXPECT_EQ(on.log.find("graphs leave out"), std::string::npos) << on.log;
}

TEST_F(Recorded, BackwardIsNotRecordedWhereForwardComputesOnTheHost) {
  register_host_mean();
  const NetParameter param = test::net_param(
      "layer { name: 'x' type: 'Input' top: 'x' top: 'means' top: 'y' input_param { shape { dim: 4 "
      "dim: 5 } shape { dim: 6 } shape { dim: 4 dim: 3 } } } "
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'ip1' inner_product_param { "
      "num_output: 3 weight_filler { type: 'xavier' } } } "
      "layer { name: 'a0' type: 'PReLU' bottom: 'ip1' top: 'a0' } "
      "layer { name: 'm1' type: 'TestHostMean' bottom: 'a0' bottom: 'means' top: 'm1' } "
      "layer { name: 'act' type: 'PReLU' bottom: 'm1' top: 'act' } "
      "layer { name: 'm2' type: 'TestHostMean' bottom: 'act' bottom: 'means' top: 'm2' } "
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'm2' bottom: 'y' top: 'loss' }");
  OnDevice with, without;
  Net net(param, with.context, {.phase = Phase::train});
  Net plain(param, without.context, {.phase = Phase::train, .graphs = false});
  for (int pass = 0; pass < 12; ++pass) {
    for (Net* each : {&net, &plain}) {
      test::fill_inputs(*each, -1, 1 + pass);
      for (int i = 0; i < 6; ++i)
        each->input("means").change<float>()[i] = static_cast<float>(pass % 3 - 1 + i);
      each->clear_gradients();
      each->forward();
      each->backward();
    }
    EXPECT_EQ(test::gradients_of(net), test::gradients_of(plain)) << pass;
  }
  EXPECT_GT(with.device->captures, 0);
  EXPECT_NE(with.log.find("CUDA graphs leave out a step of layer 'm1'"), std::string::npos)
      << with.log;
  EXPECT_NE(with.log.find("CUDA graphs leave out a step of layer 'm2'"), std::string::npos)
      << with.log;
}

TEST_F(Recorded, WhatIsComputedAgainDrawsAsItsOwnForward) {
  OnDevice on;
  const NetParameter param = test::net_param(
      "layer { name: 'x' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 4 dim: 6 } "
      "shape { dim: 4 dim: 3 } } } "
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'ip1' inner_product_param { "
      "num_output: 6 weight_filler { type: 'xavier' } } } "
      "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'drop' recompute: true } "
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'drop' top: 'ip2' inner_product_param { "
      "num_output: 3 weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip2' bottom: 'y' top: 'loss' }");
  Context context({.threads = 1, .engine = "reference"});
  Net net(param, on.context, {.phase = Phase::train});
  Net other(param, on.context, {.phase = Phase::train});
  Net on_cpu(param, context, {.phase = Phase::train});
  for (Net* each : {&net, &other, &on_cpu}) test::fill_inputs(*each);
  other.forward();
  for (int pass = 0; pass < 5; ++pass) {
    for (Net* each : {&net, &on_cpu}) {
      each->clear_gradients();
      each->forward();
    }
    other.forward();  // it is a pass ahead
    net.backward();
    on_cpu.backward();
    const std::vector<double> found = test::gradients_of(net),
                              expected = test::gradients_of(on_cpu);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-5) << pass << " " << i;
  }
}

TEST_F(Recorded, GraphsOffRecordNothing) {
  OnDevice on;
  Net net(test::net_param(kPooled), on.context, {.phase = Phase::test, .graphs = false});
  test::fill_inputs(net);
  for (int pass = 0; pass < 4; ++pass) net.forward();
  EXPECT_EQ(on.device->captures, 0);
}

}  // namespace
}  // namespace crema
