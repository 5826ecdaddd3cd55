// Chains of pointwise layers that a device computes in one kernel: which chains the net finds, and
// that values and gradients stay the same. On a device that lives in host memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crema/net.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& more = "") {
  return text("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' top: '", name,
              "' ", more, " } ");
}
std::string eltwise(const std::string& name, const std::string& first, const std::string& second,
                    const std::string& settings = "") {
  return layer(name, "Eltwise", first,
               text("bottom: '", second, "' eltwise_param { ", settings, " }"));
}
/// Parameters that learn, and gradients that are not those of the loss alone.
std::string scale(const std::string& name, const std::string& bottom) {
  return layer(name, "Scale", bottom,
               "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } "
               "bias_filler { type: 'uniform' min: -0.5 max: 0.5 } }");
}

/// Of 3 x 5 x 2 x 3 values: no whole number of packs.
constexpr const char* kInputs =
    "layer { name: 'x' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 3 dim: 5 dim: 2 "
    "dim: 3 } } } ";
constexpr const char* kLoss =
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'last' bottom: 'y' top: 'loss' } ";

class Chains : public ::testing::Test {
 protected:
  struct OnDevice {
    explicit OnDevice(FakeQueues::Mode mode = FakeQueues::mode_of_environment())
        : owned(std::make_unique<FakeDevice>(mode)), device(owned.get()) {}
    std::unique_ptr<FakeDevice> owned;
    FakeDevice* device;
    Context context{{.threads = 1}, std::move(owned)};
  };

  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
  }

  static NetParameter net_of(const std::string& layers, const std::string& head = "") {
    return test::net_param(text(head, " ", kInputs, layers, kLoss));
  }

  /// What each chain says of itself, in the order of the net.
  static std::vector<std::string> chains_of(const Net& net) {
    std::vector<std::string> all;
    for (const NetStep& step : net.steps()) {
      if (step.detail.rfind("as one: ", 0) == 0) all.push_back(step.detail.substr(8));
    }
    return all;
  }

  /// Everything that a pass shows.
  static std::vector<double> pass(Net& net, double high) {
    test::fill_inputs(net, -1, high);
    net.clear_gradients();
    net.forward();
    std::vector<double> shown;
    const auto add = [&](const Tensor& tensor) {
      for (int64_t i = 0; i < tensor.count(); ++i) shown.push_back(tensor.at(i));
    };
    for (const std::string& name : net.outputs()) add(net.output(name));
    net.backward();
    const std::vector<double> gradients = test::gradients_of(net);
    shown.insert(shown.end(), gradients.begin(), gradients.end());
    for (const std::string& name : net.inputs()) {
      if (net.has_diff(net.blob(name))) add(net.blob(name).diff.contiguous());
    }
    return shown;
  }

  static void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                          double tolerance) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }

  /// Some passes of the net, without fusion and with it: to the bit the same values, losses and
  /// gradients; near those of the CPU. Returns its chains.
  static std::vector<std::string> check(const NetParameter& param, NetOptions options = {},
                                        FakeQueues::Mode mode = FakeQueues::mode_of_environment()) {
    options.phase = Phase::train;
    NetOptions unfused = options;
    unfused.fuse = false;
    OnDevice device(mode), plain_device(mode);
    Context host({.threads = 1, .engine = "reference"});
    Net net(param, device.context, options), plain(param, plain_device.context, unfused),
        on_cpu(param, host, options);
    EXPECT_THAT(chains_of(plain), IsEmpty());
    for (int round = 0; round < 4; ++round) {
      SCOPED_TRACE(round);
      const double high = 1 + 0.5 * round;
      const std::vector<double> found = pass(net, high);
      EXPECT_EQ(found, pass(plain, high));
      expect_near(found, pass(on_cpu, high), 2e-5);
    }
    return chains_of(net);
  }
  static std::vector<std::string> check(const std::string& layers, const NetOptions& options = {}) {
    return check(net_of(layers), options);
  }
};

TEST_F(Chains, OfManyKinds) {
  const std::string layers =
      scale("a", "x") + scale("b", "x") +
      layer("p", "Power", "a", "power_param { power: 2 scale: 0.7 shift: 0.1 }") +
      layer("s", "Sigmoid", "p") + layer("d", "Dropout", "s") +
      eltwise("e", "d", "b", "coeff: 0.5 coeff: -2") + scale("last", "e");
  EXPECT_THAT(check(layers), ElementsAre("Power, Sigmoid, Dropout, Eltwise"));
}

TEST_F(Chains, OfAllPointwiseRooms) {
  const std::vector<std::pair<std::string, std::string>> types = {
      {"AbsVal", ""},
      {"BNLL", ""},
      {"Clip", "clip_param { min: -0.5 max: 0.4 }"},
      {"ELU", "elu_param { alpha: 0.7 }"},
      {"Exp", "exp_param { base: 2 scale: 0.5 shift: 0.1 }"},
      {"GELU", ""},
      {"GELU", "gelu_param { approximate: TANH }"},
      {"HardSigmoid", ""},
      {"HardSwish", ""},
      {"Log", "log_param { shift: 8 }"},
      {"Mish", ""},
      {"Power", "power_param { power: 3 scale: 0.9 shift: 0.2 }"},
      {"ReLU", "relu_param { negative_slope: 0.1 }"},
      {"ReLU", "relu_param { negative_slope: -0.1 }"},
      {"ReLU6", ""},
      {"Sigmoid", ""},
      {"Swish", "swish_param { beta: 1.5 }"},
      {"TanH", ""}};
  for (const auto& [type, settings] : types) {
    SCOPED_TRACE(text(type, " ", settings));
    const std::string front = layer("p", "Power", "a", "power_param { shift: 0.3 }");
    EXPECT_THAT(check(scale("a", "x") + front + layer("f", type, "p", settings) +
                      layer("t", "TanH", "f") + scale("last", "t")),
                ElementsAre(text("Power, ", type, ", TanH")));
    EXPECT_THAT(check(scale("a", "x") + layer("t", "TanH", "a") + layer("f", type, "t", settings) +
                      scale("last", "f")),
                ElementsAre("TanH, " + type));
  }
}

TEST_F(Chains, ThresholdHasNoGradient) {
  EXPECT_THAT(check(scale("b", "x") + layer("s", "Sigmoid", "x") +
                        layer("t", "Threshold", "s", "threshold_param { threshold: 0.5 } ") +
                        eltwise("e", "b", "t", "operation: PROD") + layer("r", "TanH", "e") +
                        scale("last", "r"),
                    {}),
              ElementsAre("Sigmoid, Threshold, Eltwise, TanH"));
}

TEST_F(Chains, AProductWithItsOwnBottom) {
  // Swish by layers, and a chain that comes in by bottom 1.
  EXPECT_THAT(check(scale("a", "x") + layer("s", "Sigmoid", "a") +
                    eltwise("e", "a", "s", "operation: PROD") +
                    layer("p", "Power", "e", "power_param { scale: 2 }") + scale("last", "p")),
              ElementsAre("Sigmoid, Eltwise, Power"));
  EXPECT_THAT(check(scale("a", "x") + eltwise("e", "a", "a", "operation: PROD") +
                    layer("t", "TanH", "e") + scale("last", "t")),
              ElementsAre("Eltwise, TanH"));
}

TEST_F(Chains, OfSumsWithReLUs) {
  // The ReLU is a step of the sum's tail. Two branches of a chain's kind meet: one is the operand.
  EXPECT_THAT(check(scale("a", "x") + scale("b", "x") + layer("s", "Sigmoid", "a") +
                    layer("t", "TanH", "s") + layer("u", "Exp", "b") + layer("v", "TanH", "u") +
                    eltwise("e", "v", "t", "coeff: 1 coeff: -1") +
                    layer("r", "ReLU", "e", "relu_param { negative_slope: 0.3 }") +
                    layer("q", "Power", "r", "power_param { power: 2 }") + scale("last", "q")),
              ElementsAre("Exp, TanH", "Sigmoid, TanH, Eltwise, Power"));
}

TEST_F(Chains, GradientsOfOperandsAlone) {
  // Nothing is in front of the chain: its bottom has no gradient.
  const std::string layers = scale("b", "x") + layer("s", "Sigmoid", "x") +
                             layer("t", "TanH", "s") + eltwise("e", "t", "b", "operation: PROD") +
                             layer("g", "GELU", "e") + scale("last", "g");
  EXPECT_THAT(check(layers), ElementsAre("Sigmoid, TanH, Eltwise, GELU"));
  EXPECT_THAT(check(net_of(layers, "force_backward: true")),
              ElementsAre("Sigmoid, TanH, Eltwise, GELU"));
}

TEST_F(Chains, EndWhereTheyAreTooLong) {
  std::string halves, tanhs;
  for (int i = 0; i < 11; ++i) {
    const std::string bottom = i == 0 ? "a" : text("p", i - 1);
    halves += layer(text("p", i), "Power", bottom, "power_param { scale: 1.1 shift: 0.1 }");
    tanhs += layer(text("p", i), "TanH", bottom);
  }
  const std::string first = scale("a", "x"), last = scale("last", "p10");
  // Gradients of linear functions read nothing, those of TanH their own top.
  EXPECT_THAT(
      check(first + halves + last),
      ElementsAre("Power, Power, Power, Power, Power, Power, Power, Power", "Power, Power, Power"));
  EXPECT_THAT(check(first + tanhs + last),
              ElementsAre("TanH, TanH, TanH, TanH", "TanH, TanH, TanH, TanH", "TanH, TanH, TanH"));
}

TEST_F(Chains, OfATestNet) {
  const std::string layers = scale("a", "x") + layer("p0", "TanH", "a") + layer("p1", "Exp", "p0") +
                             layer("p2", "TanH", "p1") + layer("p3", "Exp", "p2") +
                             layer("p4", "TanH", "p3") + layer("d", "Dropout", "p4") +
                             layer("p5", "Exp", "d") + layer("p6", "TanH", "p5") +
                             scale("last", "p6");
  OnDevice device, plain_device;
  const NetOptions options{.phase = Phase::test};
  Net net(net_of(layers), device.context, options);
  NetOptions unfused = options;
  unfused.fuse = false;
  Net plain(net_of(layers), plain_device.context, unfused);
  // Dropout passes its values on there, as memory that both share.
  EXPECT_THAT(chains_of(net), ElementsAre("TanH, Exp, TanH, Exp, TanH", "Exp, TanH"));
  for (Net* each : {&net, &plain}) {
    test::fill_inputs(*each);
    each->forward();
  }
  EXPECT_EQ(net.output("loss").at(0), plain.output("loss").at(0));
}

TEST_F(Chains, NotWhereSomebodyElseLooks) {
  const std::string layers =
      scale("a", "x") + layer("s", "Sigmoid", "a") + layer("t", "TanH", "s") + scale("last", "t");
  EXPECT_THAT(check(layers), ElementsAre("Sigmoid, TanH"));
  EXPECT_THAT(check(layers, {.keep = {"s"}}), IsEmpty());
  EXPECT_THAT(check(layers, {.keep_all = true}), IsEmpty());
  EXPECT_THAT(check(layers, {.fuse = false}), IsEmpty());
  EXPECT_THAT(check(net_of(layers, "debug_info: true")), IsEmpty());
  EXPECT_THAT(check(layers, {.dtype = DType::f64}), IsEmpty());
  // Two readers, and a value with a loss weight.
  EXPECT_THAT(check(scale("a", "x") + layer("s", "Sigmoid", "a") + layer("t", "TanH", "s") +
                    scale("c", "s") + eltwise("last", "t", "c")),
              ElementsAre("TanH, Eltwise"));
  EXPECT_THAT(check(scale("a", "x") + layer("s", "Sigmoid", "a", "loss_weight: 0.5") +
                    layer("t", "TanH", "s") + scale("last", "t")),
              IsEmpty());
}

TEST_F(Chains, NotOfWhatNeedsItsOwnKernel) {
  const std::string front = scale("a", "x") + scale("b", "x") + layer("s", "Sigmoid", "a");
  // A maximum keeps which bottom it is of.
  EXPECT_THAT(check(front + eltwise("e", "s", "b", "operation: MAX") + scale("last", "e")),
              IsEmpty());
  EXPECT_THAT(check(front + eltwise("e", "s", "b", "operation: PROD stable_prod_grad: false") +
                    scale("last", "e")),
              IsEmpty());
  EXPECT_THAT(
      check(front + layer("e", "Eltwise", "s", "bottom: 'b' bottom: 'a'") + scale("last", "e")),
      IsEmpty());
  EXPECT_THAT(check(front + layer("e", "PReLU", "s") + scale("last", "e")), IsEmpty());
}

TEST_F(Chains, InPlaceInThePrototxt) {
  EXPECT_THAT(check(scale("a", "x") +
                    "layer { name: 's' type: 'Sigmoid' bottom: 'a' top: 'a' } "
                    "layer { name: 'd' type: 'Dropout' bottom: 'a' top: 'a' } "
                    "layer { name: 't' type: 'TanH' bottom: 'a' top: 'a' } " +
                    scale("last", "a")),
              ElementsAre("Sigmoid, Dropout, TanH"));
}

TEST_F(Chains, ThatAreComputedAgain) {
  const std::string again = "recompute: true";
  const std::string layers = scale("a", "x") + scale("b", "x") + layer("s", "Sigmoid", "a", again) +
                             layer("d", "Dropout", "s", again) +
                             layer("e", "Eltwise", "d", "bottom: 'b' " + again) +
                             layer("t", "TanH", "e", again) + scale("last", "t");
  EXPECT_THAT(check(layers), ElementsAre("Sigmoid, Dropout, Eltwise, TanH"));
}

TEST_F(Chains, OnADeviceThatWorksLate) {
  const std::string layers = scale("a", "x") + scale("b", "x") + layer("s", "Sigmoid", "a") +
                             layer("d", "Dropout", "s") + eltwise("e", "d", "b") +
                             layer("r", "TanH", "e") + scale("last", "r");
  using Mode = FakeQueues::Mode;
  for (const Mode mode : {Mode::late, Mode::upload_late, Mode::work_late}) {
    EXPECT_THAT(check(net_of(layers), {}, mode), ElementsAre("Sigmoid, Dropout, Eltwise, TanH"));
    EXPECT_THAT(check(net_of(layers), {.graphs = false}, mode),
                ElementsAre("Sigmoid, Dropout, Eltwise, TanH"));
  }
}

TEST_F(Chains, TakeOneKernelForAllLayers) {
  const std::string layers = scale("a", "x") + layer("s", "Sigmoid", "a") +
                             layer("p", "Power", "s", "power_param { scale: 2 }") +
                             layer("t", "TanH", "p") + scale("last", "t");
  const auto launched = [&](bool fuse) {
    OnDevice device;
    Net net(net_of(layers), device.context, {.phase = Phase::train, .fuse = fuse, .graphs = false});
    pass(net, 1);
    device.device->clear();
    pass(net, 1);
    return device.device->count(FakeDevice::Step::Kind::work);
  };
  EXPECT_EQ(launched(false) - launched(true), 2 * 2);  // forward and backward of two layers
}

TEST_F(Chains, ShowInASummaryAndFollowShapes) {
  const std::string layers =
      scale("a", "x") + layer("s", "Sigmoid", "a") + layer("t", "TanH", "s") + scale("last", "t");
  OnDevice device;
  Net net(net_of(layers), device.context, {.phase = Phase::train});
  const std::vector<LayerSummary> rows = net.summary();
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[2].fused_into, "t");
  EXPECT_EQ(rows[3].fused_into, "");
  EXPECT_EQ(rows[3].engine, "cuda");
  EXPECT_EQ(rows[3].flops.forward, 2.0 * 3 * 5 * 2 * 3);
  EXPECT_THAT(net.blob_versions("s"), IsEmpty());
  expect_error([&] { net.blob("s"); }, {"not kept"});
  // Another shape and back.
  for (const int64_t images : {3, 2, 3}) {
    for (const char* name : {"x", "y"}) net.reshape_input(name, Shape{images, 5, 2, 3});
    net.reshape();
    EXPECT_THAT(chains_of(net), ElementsAre("Sigmoid, TanH"));
    pass(net, 1);
  }
}

/// In 16 bits, values between the layers of a chain are not rounded: it is nearer to f32 than the
/// layers alone are, or as near but for one rounding of the result.
TEST_F(Chains, In16Bits) {
  const std::string layers = scale("a", "x") + scale("b", "x") +
                             layer("p", "Power", "a", "power_param { power: 2 shift: 0.4 }") +
                             layer("s", "Sigmoid", "p") + eltwise("e", "s", "b") +
                             layer("r", "Swish", "e") + scale("last", "r");
  const std::vector<std::pair<std::string, double>> types = {{"BF16", 1.0 / 256},
                                                             {"F16", 1.0 / 2048}};
  for (const auto& [precision, rounding] : types) {
    SCOPED_TRACE(precision);
    const NetParameter param = net_of(layers, "precision: " + precision);
    OnDevice device, plain_device;
    Context host({.threads = 1, .engine = "reference"});
    NetOptions options{.phase = Phase::train}, unfused = options;
    unfused.fuse = false;
    Net net(param, device.context, options), plain(param, plain_device.context, unfused),
        exact(net_of(layers), host, options);
    ASSERT_THAT(chains_of(net), ElementsAre("Power, Sigmoid, Eltwise, Swish"));
    for (const NetStep& step : net.steps()) {
      if (step.name != "r") continue;
      EXPECT_THAT(step.top_format, testing::StartsWith(precision == "BF16" ? "bf16" : "f16"));
    }
    const std::vector<double> found = pass(net, 1.5), apart = pass(plain, 1.5),
                              expected = pass(exact, 1.5);
    ASSERT_EQ(found.size(), expected.size());
    double error = 0, error_apart = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      // Four roundings lie on the way of a gradient: of a, of r, and of their diffs.
      EXPECT_NEAR(found[i], expected[i], 4 * rounding * (1 + std::abs(expected[i]))) << i;
      error += std::abs(found[i] - expected[i]);
      error_apart += std::abs(apart[i] - expected[i]);
    }
    EXPECT_LE(error, 1.1 * error_apart);
  }
}

}  // namespace
}  // namespace crema
