// Bottoms of a Concat that their kernels write where they are to be joined: which ones the net
// finds, and that values and gradients stay the same. On a device that lives in host memory.
#include "core/row_ranges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "crema/registry.hpp"
#include "layers/convolution/convolution.hpp"
#include "net/not_finite.hpp"
#include "support/expect_error.hpp"
#include "support/fake_device.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema {
namespace {

// Of the kernels of a test: tops written, and diffs read, as ranges.
int g_data = 0, g_diffs = 0;

/// A convolution of kernel size 1 over channels-last maps on a device, with a bias.
class RangeKernel : public Kernel, public WritesRanges {
 public:
  explicit RangeKernel(ConvolutionLayer& layer)
      : Kernel(layer), layer_(layer), device_(layer.context().backend()) {}

  void forward(Blobs bottom, Blobs top) override {
    const Sizes s(*bottom[0], *top[0]);
    const float *x = device_.read<float>(bottom[0]->data), *w = weights(), *b = bias();
    const int64_t row = row_of(top[0]->data, s.outputs);
    g_data += top[0]->data.row_stride() != 0 ? 1 : 0;
    auto* const y = static_cast<float*>(top[0]->data.overwrite_rows(device_.backend()));
    device_.backend()->queue_loop([=, relu = layer_.relu()] {
      for (int64_t i = 0; i < s.rows * s.outputs; ++i) {
        float sum = b[i % s.outputs];
        for (int64_t c = 0; c < s.channels; ++c)
          sum += w[i % s.outputs * s.channels + c] * x[i / s.outputs * s.channels + c];
        if (relu && sum < 0) sum *= *relu;
        y[i / s.outputs * row + i % s.outputs] = sum;
      }
    });
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    const Sizes s(*bottom[0], *top[0]);
    Tensor& diff = top[0]->diff;
    g_diffs += diff.row_stride() != 0 ? 1 : 0;
    const int64_t row = row_of(diff, s.outputs), y_row = row_of(top[0]->data, s.outputs);
    static_cast<void>(diff.read_rows(device_.backend()));
    auto* const dy = static_cast<float*>(diff.overwrite_rows(device_.backend()));
    if (layer_.relu()) {
      const auto* y = static_cast<const float*>(top[0]->data.read_rows(device_.backend()));
      device_.backend()->queue_loop([=, slope = *layer_.relu()] {
        for (int64_t i = 0; i < s.rows * s.outputs; ++i) {
          const int64_t r = i / s.outputs, o = i % s.outputs;
          dy[r * row + o] *= y[r * y_row + o] > 0 ? 1 : slope;
        }
      });
    }
    const float *x = device_.read<float>(bottom[0]->data), *w = weights();
    float* const dw = device_.change<float>(layer_.params()[0]->gradient());
    float* const db = device_.change<float>(layer_.params()[1]->gradient());
    device_.backend()->queue_loop([=] {
      for (int64_t i = 0; i < s.rows * s.outputs; ++i) {
        const int64_t r = i / s.outputs, o = i % s.outputs;
        db[o] += dy[r * row + o];
        for (int64_t c = 0; c < s.channels; ++c)
          dw[o * s.channels + c] += dy[r * row + o] * x[r * s.channels + c];
      }
    });
    if (!propagate[0]) return;
    float* const dx = device_.overwrite<float>(bottom[0]->diff);
    device_.backend()->queue_loop([=] {
      for (int64_t i = 0; i < s.rows * s.channels; ++i) {
        dx[i] = 0;
        for (int64_t o = 0; o < s.outputs; ++o)
          dx[i] += w[o * s.channels + i % s.channels] * dy[i / s.channels * row + o];
      }
    });
  }

  BackwardReads backward_reads() const override {
    return {.bottom_data = true, .top_data = layer_.relu().has_value()};
  }
  bool take_ranges(size_t top, int64_t rows, size_t stride) override {
    EXPECT_EQ(top, 0U);
    EXPECT_EQ(stride % 16, 0U);
    const ConvolutionGeometry& geometry = layer_.geometry();
    return layer_.name() != "refuses" && rows == geometry.batch * geometry.positions();
  }
  bool capturable() const override { return true; }

 private:
  /// Rows of channels.
  struct Sizes {
    Sizes(const Blob& bottom, const Blob& top)
        : channels(bottom.shape()[1]),
          outputs(top.shape()[1]),
          rows(top.shape().count() / outputs) {}
    int64_t channels, outputs, rows;
  };
  static int64_t row_of(const Tensor& tensor, int64_t dense) {
    const size_t stride = tensor.row_stride();
    return stride == 0 ? dense : static_cast<int64_t>(stride / sizeof(float));
  }
  const float* weights() const { return device_.read<float>(layer_.params()[0]->data); }
  const float* bias() const { return device_.read<float>(layer_.params()[1]->data); }

  ConvolutionLayer& layer_;
  ComputeDevice device_;
};

class RangeEngine : public Engine {
 public:
  std::vector<Option> options(const Layer&, Blobs bottom, Blobs top, std::string&) const override {
    // Maps of 1x1 are those in memory, too, and need no conversion.
    const bool is_map = bottom[0]->shape().count(2) > 1;
    const Format format = is_map ? Format::channels_last : Format::contiguous;
    return {uniform_option(bottom, top, DType::f32, format, format)};
  }
  bool accepts(const Layer&, const Tail& tail) const override {
    return tail.size() == 1 && tail[0].kind == TailStep::Kind::relu;
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs, Blobs) const override {
    return std::make_unique<RangeKernel>(static_cast<ConvolutionLayer&>(layer));
  }
};

constexpr const char* kType = "RangeConvolution";

std::string convolution(const std::string& name, const std::string& bottom, int outputs,
                        bool relu = true, const std::string& more = "") {
  const std::string layer = text(
      "layer { name: '", name, "' type: '", kType, "' bottom: '", bottom, "' top: '", name,
      "' convolution_param { num_output: ", outputs,
      " kernel_size: 1 weight_filler { type: 'gaussian' std: 0.7 } bias_filler { type: 'constant' "
      "value: 0.1 } } ",
      more, " } ");
  if (!relu) return layer;
  return text(layer, "layer { name: '", name, "_relu' type: 'ReLU' bottom: '", name, "' top: '",
              name, "' relu_param { negative_slope: 0.25 } ", more, " } ");
}
std::string concat(const std::string& name, const std::vector<std::string>& bottoms,
                   const std::string& more = "") {
  return text("layer { name: '", name, "' type: 'Concat' bottom: '", joined(bottoms, "' bottom: '"),
              "' top: '", name, "' ", more, " } ");
}
std::string layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& top = "") {
  return text("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' top: '",
              top.empty() ? name : top, "' } ");
}

class RowRanges : public ::testing::Test {
 protected:
  struct OnDevice {
    OnDevice() : owned(std::make_unique<FakeDevice>()), device(owned.get()) {}
    std::unique_ptr<FakeDevice> owned;
    FakeDevice* device;
    Context context{{.threads = 1}, std::move(owned)};
  };

  void SetUp() override {
    if (test::kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where passes run on the host: configure with "
                      "CREMA_CUDA=OFF";
    Registry& registry = Registry::instance();
    if (!registry.has(kType)) {
      add_convolution_type(registry, kType, ConvolutionGeometry::Kind::convolution);
      registry.add_engine<RangeEngine>(kType, "ranges", DeviceType::cuda);
    }
    g_data = g_diffs = 0;
  }

  /// `x` and `y`: height and width of the maps of the two inputs.
  static NetParameter net_of(const std::string& layers, int batch = 6,
                             const char* x = "dim: 1 dim: 1", const char* y = "dim: 1 dim: 1") {
    return test::net_param(text(
        "layer { name: 'x' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: ", batch,
        " dim: 4 ", x, " } shape { dim: ", batch, " dim: 5 ", y, " } } } ", layers,
        "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'last' bottom: 'y' top: 'loss' }"));
  }

  static std::vector<double> pass(Net& net, double high) {
    test::fill_inputs(net, -1, high);
    net.clear_gradients();
    net.forward();
    std::vector<double> shown;
    for (const std::string& name : net.outputs()) {
      for (const double value : test::values_of(net.output(name))) shown.push_back(value);
    }
    net.backward();
    for (const double value : test::gradients_of(net)) shown.push_back(value);
    return shown;
  }

  /// Expects, in each pass of a net of `layers`, so many tops that are written as ranges, and so
  /// many diffs that are read as such. Values and gradients are those of a net that joins by copies
  /// to the bit, and near those of the CPU.
  static void expect_ranges(int data, int diffs, const std::string& layers,
                            NetOptions options = {}) {
    expect_ranges(data, diffs, net_of(layers), std::move(options));
  }
  static void expect_ranges(int data, int diffs, const NetParameter& param,
                            NetOptions options = {}) {
    options.phase = Phase::train;
    NetOptions unfused = options;
    unfused.fuse = false;
    OnDevice device, copying;
    Context host({.threads = 1, .engine = "reference"});
    Net net(param, device.context, options);
    Net plain(param, copying.context, unfused), on_cpu(param, host, options);
    constexpr int kPasses = 4;
    int recorded = 0;  // a launch of a record does not count
    for (int i = 0; i < kPasses; ++i) {
      SCOPED_TRACE(i);
      g_data = g_diffs = 0;
      const std::vector<double> expected = pass(plain, 1 + i);
      EXPECT_EQ(g_data + g_diffs, 0);
      const std::vector<double> found = pass(net, 1 + i), near = pass(on_cpu, 1 + i);
      recorded += g_data == 0 && g_diffs == 0 ? 1 : 0;
      if (g_data > 0 || i == 0) {
        EXPECT_EQ(g_data, data);
      }
      if (g_diffs > 0 || i == 0) {
        EXPECT_EQ(g_diffs, diffs);
      }
      EXPECT_EQ(found, expected);
      ASSERT_EQ(found.size(), near.size());
      for (size_t k = 0; k < found.size(); ++k)
        EXPECT_NEAR(found[k], near[k], 1e-4 * (1 + std::abs(near[k]))) << k;
    }
    EXPECT_TRUE(recorded < kPasses || data + diffs == 0);
  }
};

std::string three_branches() {
  return convolution("a", "x", 4) + convolution("b", "x", 8, false) + convolution("c", "x", 12);
}

TEST_F(RowRanges, AllBottomsOfAConcat) {
  const std::string layers =
      three_branches() + concat("abc", {"a", "b", "c"}) + convolution("last", "abc", 5, false);
  expect_ranges(3, 3, layers);
}

TEST_F(RowRanges, NothingIsCopiedAndNoMoreMemoryTaken) {
  const std::string layers =
      three_branches() + concat("abc", {"a", "b", "c"}) + convolution("last", "abc", 5, false);
  const std::string half = text(convolution("refuses", "x", 4), convolution("b", "x", 8, false),
                                convolution("c", "x", 12), concat("abc", {"refuses", "b", "c"}),
                                convolution("last", "abc", 5, false));
  OnDevice device, copying;
  Net net(net_of(layers, 64), device.context, {.phase = Phase::test});
  Net some(net_of(half, 64), copying.context, {.phase = Phase::test});
  for (const auto& [each, on] : {std::pair(&net, &device), {&some, &copying}}) {
    test::fill_inputs(*each);
    each->forward();
  }
  const auto passes_of_concat = [](Net& of, OnDevice& on) {
    on.device->clear();
    for (size_t step = 0; step < of.steps().size(); ++step) {
      if (of.steps()[step].type == "Concat") of.forward_step(step);
    }
    return on.device->count(FakeDevice::Step::Kind::work);
  };
  EXPECT_EQ(passes_of_concat(net, device), 0);
  EXPECT_EQ(passes_of_concat(some, copying), 1);
  EXPECT_LE(net.memory().activations, some.memory().activations);
}

TEST_F(RowRanges, OthersAreCopied) {
  expect_ranges(2, 2,
                convolution("a", "x", 4) + layer("abs", "AbsVal", "x") +
                    convolution("c", "x", 8, false) + concat("abc", {"a", "abs", "c"}) +
                    convolution("last", "abc", 5, false));
  // Its kernel refuses.
  expect_ranges(1, 1,
                convolution("a", "x", 4) + convolution("refuses", "x", 8) +
                    concat("ab", {"a", "refuses"}) + convolution("last", "ab", 5, false));
}

TEST_F(RowRanges, NotWhatOthersRead) {
  expect_ranges(1, 1,
                convolution("a", "x", 4) + convolution("b", "x", 8, false) +
                    concat("ab", {"a", "b"}) + layer("abs", "AbsVal", "b") +
                    concat("all", {"ab", "abs"}) + convolution("last", "all", 5, false));
  // Twice in one Concat.
  expect_ranges(1, 1,
                convolution("a", "x", 4) + convolution("b", "x", 8) +
                    concat("aba", {"a", "b", "a"}) + convolution("last", "aba", 5, false));
  const std::string layers =
      three_branches() + concat("abc", {"a", "b", "c"}) + convolution("last", "abc", 5, false);
  expect_ranges(2, 2, layers, {.keep = {"b"}});
  expect_ranges(0, 0, layers, {.keep_all = true});
  expect_ranges(0, 0, "debug_info: true " + layers);
}

// Vectors of 16 bytes: rows of 4, and what lies behind 5 channels is not aligned.
TEST_F(RowRanges, NotWhereRowsAreNotAligned) {
  expect_ranges(1, 1,
                convolution("a", "x", 4) + convolution("b", "x", 5) + convolution("c", "x", 3) +
                    concat("abc", {"a", "b", "c"}) + convolution("last", "abc", 5, false));
  expect_ranges(0, 0,
                convolution("a", "x", 4) + convolution("b", "x", 5) + concat("ab", {"a", "b"}) +
                    convolution("last", "ab", 5, false));
}

// Kernels took the distance of two images' rows for that of two positions, and wrote far behind.
TEST_F(RowRanges, NotWhereARowHasSeveralPositions) {
  const std::string parts =
      convolution("a", "x", 4) + convolution("b", "x", 8, false) + convolution("c", "x", 4, false);
  const std::string last = convolution("last", "whole", 5, false);
  const char* const x = "dim: 1 dim: 2";
  expect_ranges(2, 2, net_of(parts + concat("whole", {"a", "b"}) + last, 6, x, x));
  const std::string above = concat("whole", {"a", "c"}, "concat_param { axis: 2 }");
  expect_ranges(0, 0, net_of(parts + above + last, 6, x, "dim: 2 dim: 2"));
}

TEST_F(RowRanges, OfAWholeThatIsChangedInPlaceOrShown) {
  const std::string parts = three_branches() + concat("abc", {"a", "b", "c"});
  // a and c need what they gave for the gradient of their ReLU.
  expect_ranges(
      3, 3,
      parts + layer("sigmoid", "Sigmoid", "abc", "abc") + convolution("last", "abc", 5, false));
  // What the caller may read of its diff stays.
  expect_ranges(3, 0, parts + convolution("last", "abc", 5, false), {.keep = {"abc"}});
  // Two readers: their diffs are added up before.
  expect_ranges(3, 3,
                parts + convolution("d", "abc", 5) + convolution("e", "abc", 5, false) +
                    "layer { name: 'last' type: 'Eltwise' bottom: 'd' bottom: 'e' top: 'last' }");
}

TEST_F(RowRanges, OfAConcatOfConcats) {
  expect_ranges(3, 3,
                convolution("a", "x", 4) + convolution("b", "x", 8) + concat("ab", {"a", "b"}) +
                    convolution("c", "x", 8) + concat("all", {"c", "ab"}) +
                    convolution("last", "all", 5, false));
}

TEST_F(RowRanges, NotWhereValuesAreDropped) {
  const std::string again = "recompute: true";
  const std::string behind = concat("abc", {"a", "b", "c"}) + convolution("last", "abc", 5, false);
  expect_ranges(2, 2,
                convolution("a", "x", 4) + convolution("b", "x", 8, true, again) +
                    convolution("c", "x", 12) + behind);
  expect_ranges(0, 0,
                three_branches() + concat("abc", {"a", "b", "c"}, again) +
                    convolution("d", "abc", 5, true, again) + convolution("last", "d", 5, false));
}

TEST_F(RowRanges, NotWhereNoGradientIsAskedFor) {
  const std::string fixed = "param { lr_mult: 0 } param { lr_mult: 0 }";
  expect_ranges(2, 1,
                convolution("a", "x", 4, false, fixed) + convolution("b", "x", 8) +
                    concat("ab", {"a", "b"}) + convolution("last", "ab", 5, false));
}

TEST_F(RowRanges, ShapesThatChange) {
  const std::string layers =
      three_branches() + concat("abc", {"a", "b", "c"}) + convolution("last", "abc", 5, false);
  OnDevice device;
  Context host({.threads = 1, .engine = "reference"});
  Net net(net_of(layers), device.context, {.phase = Phase::train});
  Net on_cpu(net_of(layers), host, {.phase = Phase::train});
  // With one sample, the parts are pieces of the whole.
  for (const int64_t batch : {6, 1, 6, 2, 1, 6}) {
    SCOPED_TRACE(batch);
    for (Net* each : {&net, &on_cpu}) {
      for (const std::string& name : each->inputs()) {
        Shape shape = each->input(name).shape();
        shape.set(0, batch);
        each->reshape_input(name, shape);
      }
    }
    g_data = g_diffs = 0;
    const std::vector<double> found = pass(net, 1), expected = pass(on_cpu, 1);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < found.size(); ++k)
      EXPECT_NEAR(found[k], expected[k], 1e-4 * (1 + std::abs(expected[k]))) << k;
    EXPECT_TRUE(g_data == (batch == 1 ? 0 : 3) || g_data == 0);
    if (batch == 1) {
      EXPECT_EQ(g_data + g_diffs, 0);
    }
  }
}

// A range is looked at where it lies.
TEST_F(RowRanges, ValuesThatAreNotFiniteAreFoundInThem) {
  OnDevice device;
  Net net(net_of(three_branches() + concat("abc", {"a", "b", "c"}) +
                 convolution("last", "abc", 5, false)),
          device.context, {.phase = Phase::train});
  net.input("x").fill(3);
  net.input("y").fill(0);
  // Finite weights, whose products are not.
  std::fill_n(net.layer("b").params()[0]->data.change<float>() + 5 * 4, 4, 2e38F);
  expect_error([&] { throw_not_finite(net, 7, INFINITY); },
               {"iteration 7", "'b' of layer 'b'", "inf at (0, 5, 0, 0)"});
  EXPECT_GT(g_data, 0);
}

}  // namespace
}  // namespace crema
