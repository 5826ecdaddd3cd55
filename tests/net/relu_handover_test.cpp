// Gradients of ReLUs that the reader of the top computes: which pairs of kernels the net finds, and
// that gradients stay the same. On a device that lives in host memory.
#include "core/relu_handover.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "crema/registry.hpp"
#include "layers/convolution/convolution.hpp"
#include "support/fake_device.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

// Of the kernels of a test.
int g_handed = 0;
bool g_refuses = false;

/// A convolution of kernel size 1 on a device, with a bias.
class HandoverKernel : public Kernel, public EndsWithReLU, public UndoesReLU {
 public:
  explicit HandoverKernel(ConvolutionLayer& layer)
      : Kernel(layer), layer_(layer), device_(layer.context().backend()) {}

  EndsWithReLU* ends_with_relu() override { return this; }
  UndoesReLU* undoes_relu() override { return this; }
  void forward(Blobs bottom, Blobs top) override {
    const Sizes s(*bottom[0], *top[0]);
    const float *x = device_.read<float>(bottom[0]->data), *w = weights(), *b = bias();
    float* const y = device_.overwrite<float>(top[0]->data);
    device_.backend()->queue_loop([=, relu = layer_.relu()] {
      for (int64_t i = 0; i < s.rows * s.outputs; ++i) {
        y[i] = b[i % s.outputs];
        for (int64_t c = 0; c < s.channels; ++c)
          y[i] += w[i % s.outputs * s.channels + c] * x[i / s.outputs * s.channels + c];
        if (relu && y[i] < 0) y[i] *= *relu;
      }
    });
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    const Sizes s(*bottom[0], *top[0]);
    if (layer_.relu() && !left_) {
      undo(s.rows * s.outputs, *layer_.relu(), device_.read<float>(top[0]->data),
           device_.change<float>(top[0]->diff));
    }
    const float *x = device_.read<float>(bottom[0]->data), *w = weights();
    const float* const dy = device_.read<float>(top[0]->diff);
    float* const dw = device_.change<float>(layer_.params()[0]->gradient());
    float* const db = device_.change<float>(layer_.params()[1]->gradient());
    device_.backend()->queue_loop([=] {
      for (int64_t i = 0; i < s.rows * s.outputs; ++i) {
        db[i % s.outputs] += dy[i];
        for (int64_t c = 0; c < s.channels; ++c)
          dw[i % s.outputs * s.channels + c] += dy[i] * x[i / s.outputs * s.channels + c];
      }
    });
    if (!propagate[0]) return;
    float* const dx = device_.overwrite<float>(bottom[0]->diff);
    device_.backend()->queue_loop([=] {
      for (int64_t i = 0; i < s.rows * s.channels; ++i) {
        dx[i] = 0;
        for (int64_t o = 0; o < s.outputs; ++o)
          dx[i] += w[o * s.channels + i % s.channels] * dy[i / s.channels * s.outputs + o];
      }
    });
    if (before_) undo(s.rows * s.channels, *before_, x, dx);
  }

  BackwardReads backward_reads() const override {
    return {.bottom_data = true, .top_data = layer_.relu() && !left_};
  }
  std::optional<float> relu_of_top() const override { return layer_.relu(); }
  void leave_relu_to_reader() override {
    left_ = true;
    ++g_handed;
  }
  bool undo_relu(size_t bottom, float slope) override {
    if (bottom != 0 || g_refuses) return false;
    before_ = slope;
    return true;
  }
  bool capturable() const override { return true; }

 private:
  /// Maps are 1x1: rows of channels.
  struct Sizes {
    Sizes(const Blob& bottom, const Blob& top)
        : rows(bottom.shape()[0]), channels(bottom.shape()[1]), outputs(top.shape()[1]) {}
    int64_t rows, channels, outputs;
  };
  const float* weights() const { return device_.read<float>(layer_.params()[0]->data); }
  const float* bias() const { return device_.read<float>(layer_.params()[1]->data); }
  void undo(int64_t count, float slope, const float* y, float* diff) const {
    device_.backend()->queue_loop([=] {
      for (int64_t i = 0; i < count; ++i) diff[i] *= y[i] > 0 ? 1 : slope;
    });
  }

  ConvolutionLayer& layer_;
  ComputeDevice device_;
  bool left_ = false;
  std::optional<float> before_;
};

class HandoverEngine : public Engine {
 public:
  std::vector<Option> options(const Layer&, Blobs bottom, Blobs top, std::string&) const override {
    return {uniform_option(bottom, top, DType::f32)};
  }
  bool accepts(const Layer&, const Tail& tail) const override {
    return tail.size() == 1 && tail[0].kind == TailStep::Kind::relu;
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs, Blobs) const override {
    return std::make_unique<HandoverKernel>(static_cast<ConvolutionLayer&>(layer));
  }
};

class ReLUHandover : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
    Registry& registry = Registry::instance();
    if (!registry.has(kType)) {
      add_convolution_type(registry, kType, ConvolutionGeometry::Kind::convolution);
      registry.add_engine<HandoverEngine>(kType, "handover", DeviceType::cuda);
    }
    g_handed = 0;
    g_refuses = false;
  }

  /// A convolution, and a ReLU behind it unless `relu` is empty.
  static std::string convolution(const std::string& name, const std::string& bottom,
                                 const std::string& relu = "", const std::string& more = "") {
    const std::string layer =
        text("layer { name: '", name, "' type: '", kType, "' bottom: '", bottom, "' top: '", name,
             "' convolution_param { num_output: 5 kernel_size: 1 weight_filler { type: 'gaussian' "
             "std: 0.7 } bias_filler { type: 'constant' value: 0.1 } } ",
             more, " } ");
    if (relu.empty()) return layer;
    return text(layer, "layer { name: '", name, "_relu' type: 'ReLU' bottom: '", name, "' top: '",
                name, "' relu_param { ", relu, " } ", more, " } ");
  }

  /// Compares some passes of `layers` over 'x' with the CPU, for gradients of which 'loss' is read,
  /// and expects so many gradients of ReLUs to be handed over.
  static void expect_handed(int handed, const std::string& layers, NetOptions options = {}) {
    const NetParameter param = test::net_param(
        text("layer { name: 'x' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 6 dim: "
             "4 dim: 1 dim: 1 } shape { dim: 6 dim: 5 dim: 1 dim: 1 } } } ",
             layers,
             "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'last' bottom: 'y' top: "
             "'loss' }"));
    options.phase = Phase::train;
    auto owned = std::make_unique<FakeDevice>();
    Context device({.threads = 1}, std::move(owned)), host({.threads = 1, .engine = "reference"});
    Net net(param, device, options), on_cpu(param, host, options);
    for (int pass = 0; pass < 4; ++pass) {
      for (Net* each : {&net, &on_cpu}) {
        test::fill_inputs(*each, -1, 1 + pass);
        each->clear_gradients();
        each->forward();
        each->backward();
      }
      const std::vector<double> found = test::gradients_of(net),
                                expected = test::gradients_of(on_cpu);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << pass << " " << i;
    }
    EXPECT_EQ(g_handed, handed);
  }

  static constexpr const char* kType = "HandoverConvolution";
};

TEST_F(ReLUHandover, ConvolutionsInARow) {
  const auto chain = [](const std::string& relu) {
    return convolution("c1", "x", relu) + convolution("c2", "c1", relu) + convolution("last", "c2");
  };
  expect_handed(2, chain("negative_slope: 0"));
  g_handed = 0;
  expect_handed(2, chain("negative_slope: 0.25"));
}

TEST_F(ReLUHandover, NotWhereTheReaderRefuses) {
  g_refuses = true;
  expect_handed(0, convolution("c1", "x", "negative_slope: 0") + convolution("last", "c1"));
}

TEST_F(ReLUHandover, NotWhereSeveralReadTheValue) {
  expect_handed(1, convolution("c1", "x", "negative_slope: 0") +
                       convolution("c2", "c1", "negative_slope: 0") + convolution("c3", "c2") +
                       convolution("c4", "c1") +
                       "layer { name: 'sum' type: 'Eltwise' bottom: 'c3' bottom: 'c4' top: 'last' "
                       "}");
}

TEST_F(ReLUHandover, NotWhereAnotherLayerReadsTheValue) {
  expect_handed(0, convolution("c1", "x", "negative_slope: 0") +
                       "layer { name: 'abs' type: 'AbsVal' bottom: 'c1' top: 'abs' } " +
                       convolution("last", "abs"));
}

TEST_F(ReLUHandover, NotWhereTheCallerReadsTheDiff) {
  const std::string layers =
      convolution("c1", "x", "negative_slope: 0") + convolution("last", "c1");
  expect_handed(0, layers, {.keep = {"c1"}});
  g_handed = 0;
  expect_handed(0, layers, {.keep_all = true});
  g_handed = 0;
  expect_handed(0, layers, {.fuse = false});
  g_handed = 0;
  expect_handed(1, layers);
}

TEST_F(ReLUHandover, OfValuesThatAreComputedAgain) {
  expect_handed(2, convolution("c1", "x", "negative_slope: 0", "recompute: true") +
                       convolution("c2", "c1", "negative_slope: 0", "recompute: true") +
                       convolution("last", "c2"));
}

}  // namespace
}  // namespace crema
