// Rooms that normalize and scale, on a device: in every format and type of their options, against
// the reference in f64 on the host. In a build with CUDA, the device is that of the machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "crema/registry.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"
#include "support/fake_device.hpp"
#include "support/layer_test.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

class TestDevice {
 public:
  TestDevice() {
    if (kBuiltWithCuda) backend_ = &context().backend();
  }
  /// Why there is none; "" if there is one.
  static std::string missing() {
    const std::string why = kBuiltWithCuda ? why_no_device() : "";
    return why.empty() ? "" : text("needs a CUDA device: ", why);
  }
  DeviceBackend& backend() { return *backend_; }
  /// Of the device of the tests alone: others do not count them, 0.
  int downloads() const { return fake_.downloads; }

 private:
  static Context& context() {
    static Context context(ContextOptions{.device = {DeviceType::cuda, 0}});
    return context;
  }

  FakeDevice fake_;
  DeviceBackend* backend_ = &fake_;
};

class ChannelRooms : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = TestDevice::missing();
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

struct RoomCase {
  LayerCase layer;
  Tail tail = {};
  bool in_place = false;  // y over what is added, dx over dy
  std::vector<Format> formats = {Format::contiguous, Format::channels_last};
};

struct Results {
  std::vector<double> top;
  std::vector<std::vector<double>> diffs, params, gradients;
};

std::vector<double> values_of(const Tensor& tensor) {
  if (tensor.count() == 0) return {};
  const Tensor wide = tensor.to(DType::f64, Format::contiguous);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

void write(Tensor& tensor, const std::vector<double>& values) {
  Tensor source(tensor.shape(), DType::f64);
  std::ranges::copy(values, source.overwrite<double>());
  tensor.copy_from(source);
}

std::vector<double> rounded(const std::vector<double>& values, const Shape& shape, DType dtype) {
  Tensor tensor(shape, dtype);
  write(tensor, values);
  return values_of(tensor);
}

/// The case with bottoms and parameters that the types of a device hold as they are.
LayerCase exact(const RoomCase& c, DType stored) {
  LayerCase result = c.layer;
  LayerRun run(c.layer);
  for (int i = 0; i < run.num_bottoms(); ++i) {
    const Shape& shape = run.bottom_blob(i).shape();
    result.bottoms[static_cast<size_t>(i)] =
        given(shape, rounded(run.bottom_values(i), shape, stored));
  }
  result.params.clear();
  for (int i = 0; i < run.num_params(); ++i) {
    const Shape& shape = run.layer().params()[static_cast<size_t>(i)]->shape();
    result.params.push_back(rounded(run.param_values(i), shape, DType::f32));
  }
  return result;
}

std::vector<double> top_diff_of(const Shape& shape, DType stored) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.count(); ++i) {
    values.push_back(std::sin(static_cast<double>(7 * i % 1013) + 0.3));
  }
  return rounded(values, shape, stored);
}

void set_tail(LayerRun& run, const RoomCase& c, const LayerCase& layer) {
  if (c.tail.empty()) return;
  run.set_tail(c.tail);
  run.reshape(layer.bottoms);
}

Results on_host(const RoomCase& c, const LayerCase& layer, DType stored) {
  LayerRun run(layer, {.dtype = DType::f64});
  set_tail(run, c, layer);
  run.set_top_diff(0, top_diff_of(run.top_blob(0).shape(), stored));
  run.forward();
  run.backward();
  Results results{run.top(0), {}, {}, {}};
  for (int i = 0; i < run.num_bottoms(); ++i) results.diffs.push_back(run.bottom_diff(i));
  for (int i = 0; i < run.num_params(); ++i) {
    results.params.push_back(run.param(i));
    results.gradients.push_back(run.layer().params()[static_cast<size_t>(i)]->learnable
                                    ? run.gradient(i)
                                    : std::vector<double>());
  }
  return results;
}

/// The same by the passes of a device, which have to leave the device's memory as they found it
/// after a repetition.
Results on_device(const RoomCase& c, const LayerCase& layer, DType stored, Format format,
                  bool repeats) {
  TestDevice device;
  const ComputeDevice side(device.backend());
  LayerRun run(layer, {.dtype = stored == DType::f64 ? DType::f64 : DType::f32});
  set_tail(run, c, layer);
  auto& room = dynamic_cast<TwoSidedLayer&>(run.layer());
  std::vector<std::unique_ptr<Blob>> blobs;
  const auto make = [&](const Shape& shape, DType dtype) {
    Blob& blob = *blobs.emplace_back(std::make_unique<Blob>("blob"));
    blob.reshape(shape);
    blob.set_layout({dtype, shape.rank() < 3 ? Format::contiguous : format});
    return &blob;
  };
  // Operands of Scale stay in the type of parameters.
  const bool has_operand = run.layer().type() == "Scale" || run.layer().type() == "Bias";
  std::vector<Blob*> bottoms, tops = {make(run.top_blob(0).shape(), stored)};
  for (int i = 0; i < run.num_bottoms(); ++i) {
    const DType dtype = i > 0 && has_operand ? run.layer().dtype() : stored;
    bottoms.push_back(make(run.bottom_blob(i).shape(), dtype));
    write(bottoms.back()->data, run.bottom_values(i));
  }
  const size_t shared = room.in_place_bottom();
  if (c.in_place) {
    bottoms[shared]->data.read_bytes();  // the memory is there
    tops[0]->data.bind(bottoms[shared]->data.memory());
  }
  room.prepare_device(bottoms, tops);
  room.run_forward(side, bottoms, tops);
  if (repeats) {
    run.state().recomputing = true;
    room.run_forward(side, bottoms, tops);
    run.state().recomputing = false;
  }
  if (!kBuiltWithCuda) {
    EXPECT_EQ(device.downloads(), 0);
  }
  Results results{values_of(tops[0]->data), {}, {}, {}};

  write(tops[0]->diff, top_diff_of(tops[0]->shape(), stored));
  if (c.in_place) bottoms[shared]->diff.bind(tops[0]->diff.memory());
  const int downloads = device.downloads();
  room.run_backward(side, tops, std::vector<bool>(bottoms.size(), true), bottoms);
  if (!kBuiltWithCuda) {
    EXPECT_EQ(device.downloads(), downloads);
  }
  for (Blob* blob : bottoms) results.diffs.push_back(values_of(blob->diff));
  for (int i = 0; i < run.num_params(); ++i) {
    Parameter& parameter = *run.layer().params()[static_cast<size_t>(i)];
    if (parameter.learnable) {
      EXPECT_EQ(parameter.diff.dtype(), room.dtype());
    }
    results.params.push_back(values_of(parameter.data));
    results.gradients.push_back(parameter.learnable ? run.gradient(i) : std::vector<double>());
  }
  return results;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

void check(const RoomCase& c) {
  const bool reads_top = c.layer.layer.find("'MVN'") != std::string::npos;
  for (const DType stored : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const LayerCase layer = exact(c, stored);
    const Results expected = on_host(c, layer, stored);
    // A result has the rounding of its type; what it was computed from is exact.
    const double round = stored == DType::f64    ? 1e-11
                         : stored == DType::f32  ? 1e-5
                         : stored == DType::bf16 ? 0x1p-8
                                                 : 0x1p-10;
    const Tolerance close{stored == DType::f64 ? 1e-11 : 1e-5, round};
    const Tolerance sums{stored == DType::f64 ? 1e-10 : 1e-4, 1e-5};
    for (const Format format : c.formats) {
      if (format != Format::contiguous && layer.bottoms[0].shape.rank() < 3) continue;
      for (const bool repeats : {false, true}) {
        if (repeats && c.in_place) continue;
        SCOPED_TRACE(text(layer.layer, ' ', layer.bottoms[0].shape.str(), ' ',
                          to_string(Layout{stored, format}), c.in_place ? " in place" : ""));
        const Results found = on_device(c, layer, stored, format, repeats);
        expect_close(found.top, expected.top, close, "top");
        for (size_t i = 0; i < expected.diffs.size(); ++i) {
          const bool operand = i > 0 && c.tail.empty();
          Tolerance tolerance = operand ? sums : close;
          // MVN's gradient has its top as a factor, which has been rounded.
          if (reads_top && stored != DType::f64 && stored != DType::f32)
            tolerance.absolute += round * largest(expected.top) * largest(expected.diffs[i]);
          // A value alone has no gradient: terms cancel that are dy / sqrt(eps), each rounded to
          // f32.
          constexpr double kMostGain = 1000;
          if (stored != DType::f64 && largest(expected.diffs[i]) == 0)
            tolerance.absolute = kMostGain * 0x1p-23;
          expect_close(found.diffs[i], expected.diffs[i], tolerance, text("diff ", i));
        }
        for (size_t i = 0; i < expected.params.size(); ++i) {
          expect_close(found.params[i], expected.params[i], sums, text("parameter ", i));
          expect_close(found.gradients[i], expected.gradients[i], sums, text("gradient ", i));
        }
      }
    }
  }
}

const Shape kShapes[] = {{6, 5},        {1, 8},          {300, 24},    {2, 16, 5, 7},
                         {3, 6, 9, 11}, {2, 40, 20, 21}, {4, 3, 1, 1}, {2, 8, 3, 4, 5}};

std::string batch_norm(const std::string& settings) {
  return text("layer { type: 'BatchNorm' batch_norm_param { ", settings, " } }");
}

/// Scale and bias that are not 1 and 0, and stored statistics that are not 0.
LayerCase with_params(LayerCase c) {
  LayerRun run(c);
  for (int i = 0; i < run.num_params(); ++i) {
    std::vector<double> values = run.param(i);
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = 0.5 + 0.25 * static_cast<double>((k + static_cast<size_t>(i)) % 7);
    }
    c.params.push_back(values);
  }
  return c;
}

TEST_F(ChannelRooms, BatchNorm) {
  for (const Shape& shape : kShapes) {
    for (const char* settings :
         {"", "relu: true", "scale_bias: true", "scale_bias: true relu: true",
          "use_global_stats: true", "use_global_stats: true scale_bias: true relu: true",
          "use_global_stats: true relu: true", "use_weight_bias: true bias_term: false",
          "moving_average_fraction: 0.5 eps: 0.1"}) {
      check({with_params({.layer = batch_norm(settings), .bottoms = {uniform(shape, -2, 3)}})});
    }
  }
  // One value a channel, whose variance is 0.
  check({with_params({.layer = batch_norm("scale_bias: true"), .bottoms = {uniform({1, 3})}})});
  check({.layer = {.layer = batch_norm(""), .bottoms = {uniform({50})}}});
}

TEST_F(ChannelRooms, BatchNormWithASumAndReLU) {
  const TailStep add{.kind = TailStep::Kind::add, .bottom = 1};
  const TailStep relu{.kind = TailStep::Kind::relu};
  for (const Shape& shape : kShapes) {
    for (const char* settings : {"scale_bias: true", "use_global_stats: true", ""}) {
      const LayerCase layer = with_params(
          {.layer = batch_norm(settings), .bottoms = {uniform(shape, -2, 3), uniform(shape)}});
      for (const Tail& tail : {Tail{add}, Tail{add, relu}}) {
        for (const bool in_place : {false, true}) check({layer, tail, in_place});
      }
    }
  }
}

TEST_F(ChannelRooms, BatchNormFarFromZero) {
  TestDevice device;
  for (const Format format : {Format::contiguous, Format::channels_last}) {
    LayerRun run({.layer = batch_norm("eps: 0"), .bottoms = {uniform({8, 16, 30, 31})}});
    Blob x("x"), y("y");
    for (Blob* blob : {&x, &y}) {
      blob->reshape(run.bottom_blob(0).shape());
      blob->set_layout({DType::f32, format});
    }
    std::vector<double> values = run.bottom_values(0);
    for (double& value : values) value = static_cast<float>(1000 + 0.01 * value);
    write(x.data, values);
    std::vector<Blob*> bottoms = {&x}, tops = {&y};
    auto& room = dynamic_cast<TwoSidedLayer&>(run.layer());
    room.prepare_device(bottoms, tops);
    room.run_forward(ComputeDevice(device.backend()), bottoms, tops);
    const std::vector<double> found = values_of(y.data);
    for (size_t c = 0; c < 16; ++c) {
      double mean = 0, square = 0, exact = 0, exact_square = 0;
      const double each = 8 * 930;
      const auto all = [&](const auto& body) {
        for (size_t n = 0; n < 8; ++n) {
          for (size_t i = 0; i < 930; ++i) body((n * 16 + c) * 930 + i);
        }
      };
      all([&](size_t i) { exact += (values[i] - 1000) / each; });
      all([&](size_t i) { exact_square += std::pow(values[i] - 1000 - exact, 2) / each; });
      all([&](size_t i) { mean += found[i] / each; });
      all([&](size_t i) { square += found[i] * found[i] / each; });
      EXPECT_NEAR(mean, 0, 1e-4);
      EXPECT_NEAR(square, 1, 1e-5);
      double worst = 0;
      all([&](size_t i) {
        worst = std::max(worst,
                         std::abs(found[i] - (values[i] - 1000 - exact) / std::sqrt(exact_square)));
      });
      EXPECT_LT(worst, 1e-4);
    }
    for (Blob* blob : {&x, &y}) blob->data = Tensor();
    for (auto& parameter : run.layer().params()) parameter->data.read<float>();
  }
}

TEST_F(ChannelRooms, AnEmptyBatchLeavesStoredStatisticsAlone) {
  const LayerCase c{.layer = batch_norm("scale_bias: true"),
                    .bottoms = {uniform({0, 2, 3, 3})},
                    .params = {{1, 2}, {3, 4}, {5}, {1, 1}, {0, 0}}};
  const Results found = on_device({c}, c, DType::f32, Format::channels_last, false);
  EXPECT_EQ(found.params, c.params);
}

TEST_F(ChannelRooms, BnOfTwoForks) {
  for (const char* settings :
       {"", "frozen: true", "momentum: 0.8", "scale_filler { type: 'constant' value: 2 }"}) {
    check({with_params({.layer = text("layer { type: 'BN' bn_param { ", settings, " } }"),
                        .bottoms = {uniform({3, 8, 5, 6}, -2, 3)}})});
  }
}

TEST_F(ChannelRooms, ScaleAndBias) {
  const auto scale = [](const std::string& settings) {
    return text("layer { type: 'Scale' scale_param { ", settings, " } }");
  };
  const auto bias = [](const std::string& settings) {
    return text("layer { type: 'Bias' bias_param { ", settings, " } }");
  };
  for (const Shape& shape : kShapes) {
    const Input x = uniform(shape, -2, 3);
    check({with_params({.layer = scale("bias_term: true"), .bottoms = {x}})});
    check({with_params({.layer = scale(""), .bottoms = {x}})});
    check({with_params({.layer = scale("num_axes: 0 bias_term: true"), .bottoms = {x}})});
    check({with_params({.layer = bias(""), .bottoms = {x}})});
    check({with_params({.layer = bias("num_axes: 0"), .bottoms = {x}})});
    check({.layer = {.layer = scale(""), .bottoms = {x, uniform({shape[1]})}}});
    if (shape.rank() < 3) continue;
    const Input each = uniform({shape[0], shape[1]});
    check({.layer = {.layer = scale("axis: 0"), .bottoms = {x, each}}});
    check({.layer = {.layer = bias("axis: 0"), .bottoms = {x, each}}});
    check({.layer = with_params({.layer = scale("axis: 1 num_axes: 2"), .bottoms = {x}}),
           .formats = {Format::contiguous}});
  }
}

TEST_F(ChannelRooms, Mvn) {
  for (const Shape& shape : {Shape{2, 16, 5, 7}, Shape{3, 6, 9, 11}, Shape{2, 3, 40, 41},
                             Shape{4, 1, 1, 9}, Shape{5, 40}}) {
    for (const char* settings : {"", "across_channels: true", "normalize_variance: false",
                                 "across_channels: true normalize_variance: false", "eps: 0.1"}) {
      // A single value has no deviation, and eps alone to be divided by.
      if (shape.rank() == 2 && !std::string_view(settings).starts_with("across")) continue;
      check({{.layer = text("layer { type: 'MVN' mvn_param { ", settings, " } }"),
              .bottoms = {uniform(shape, -2, 3)}}});
    }
  }
}

TEST_F(ChannelRooms, RowsAndGroups) {
  const auto norm = [](const char* type, const char* field, const std::string& settings) {
    return text("layer { type: '", type, "' ", field, " { ", settings, " } }");
  };
  const auto check_norm = [](const std::string& layer, const Shape& shape) {
    const bool rows = layer.find("LayerNorm") != std::string::npos;
    RoomCase c{with_params({.layer = layer, .bottoms = {uniform(shape, -2, 3)}})};
    if (rows) c.formats = {Format::contiguous};
    check(c);
  };
  // Rows that a lane holds, that lanes hold, that do not fit, and of no whole vectors.
  for (const Shape& shape : {Shape{3, 8}, Shape{5, 1}, Shape{4, 37}, Shape{2, 3, 96}, Shape{3, 640},
                             Shape{2, 4096}, Shape{2, 3001}}) {
    for (const char* settings : {"", "scale_term: false", "bias_term: false",
                                 "scale_term: false bias_term: false eps: 0.1"}) {
      check_norm(norm("LayerNorm", "layer_norm_param", settings), shape);
    }
  }
  check_norm(norm("LayerNorm", "layer_norm_param", "axis: 1"), {3, 4, 5});
  check_norm(norm("LayerNorm", "layer_norm_param", "axis: 0"), {6});
  for (const char* settings :
       {"group: 2", "group: 8", "group: 1 scale_term: false", "group: 4 bias_term: false",
        "group: 2 scale_term: false "
        "bias_term: false"}) {
    check_norm(norm("GroupNorm", "group_norm_param", settings), {2, 8, 3, 5});
    check_norm(norm("GroupNorm", "group_norm_param", settings), {3, 16, 21, 20});
    check_norm(norm("GroupNorm", "group_norm_param", settings), {2, 8, 7});
    check_norm(norm("GroupNorm", "group_norm_param", settings), {3, 16});
  }
  for (const char* settings : {"", "scale_term: true bias_term: true", "scale_term: true"}) {
    check_norm(norm("InstanceNorm", "instance_norm_param", settings), {2, 3, 4, 5});
    check_norm(norm("InstanceNorm", "instance_norm_param", settings), {3, 8, 33, 17});
    check_norm(norm("InstanceNorm", "instance_norm_param", settings), {2, 3, 4, 1, 5});
  }
}

TEST_F(ChannelRooms, Normalize) {
  for (const Shape& shape : {Shape{2, 16, 5, 7}, Shape{3, 6, 9, 11}, Shape{2, 520, 3, 3},
                             Shape{5, 40}, Shape{2, 8, 3, 4, 5}}) {
    for (const char* settings : {"across_spatial: false", "across_spatial: true",
                                 "across_spatial: false channel_shared: false",
                                 "across_spatial: true channel_shared: false eps: 0.1"}) {
      check(
          {with_params({.layer = text("layer { type: 'Normalize' norm_param { ", settings, " } }"),
                        .bottoms = {uniform(shape, -2, 3)}})});
    }
  }
}

// On a device, the blocks of a pass end in any order.
TEST_F(ChannelRooms, ResultsAreTheSameBitsAgain) {
  for (const char* layer :
       {"layer { type: 'BatchNorm' batch_norm_param { scale_bias: true } }",
        "layer { type: 'LayerNorm' }", "layer { type: 'GroupNorm' group_norm_param { group: 8 } }",
        "layer { type: 'Scale' scale_param { bias_term: true } }", "layer { type: 'PReLU' }",
        "layer { type: 'Normalize' }",
        "layer { type: 'Normalize' norm_param { across_spatial: false channel_shared: false } }"}) {
    // The blocks of the device of the tests end in their order: there, a few are enough.
    const Shape shape = kBuiltWithCuda ? Shape{8, 24, 40, 41} : Shape{2, 24, 10, 11};
    const RoomCase c{with_params({.layer = layer, .bottoms = {uniform(shape, -2, 3)}})};
    for (const DType stored : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(text(layer, ' ', to_string(stored)));
      const bool rows = std::string_view(layer).find("LayerNorm") != std::string_view::npos;
      const Format format = rows ? Format::contiguous : Format::channels_last;
      const LayerCase exactly = exact(c, stored);
      const Results first = on_device(c, exactly, stored, format, false);
      const Results again = on_device(c, exactly, stored, format, false);
      EXPECT_EQ(first.top, again.top);
      EXPECT_EQ(first.diffs, again.diffs);
      EXPECT_EQ(first.params, again.params);
      EXPECT_EQ(first.gradients, again.gradients);
    }
  }
}

TEST_F(ChannelRooms, OptionsPreferTheTypeOfActivations) {
  Context context;
  RunState state;
  const auto param = [](const std::string& layer) { return net_param(layer).layer(0); };
  for (const char* layer : {"layer { name: 'a' type: 'BatchNorm' bottom: 'x' top: 'y' }",
                            "layer { name: 'a' type: 'Scale' bottom: 'x' top: 'y' }",
                            "layer { name: 'a' type: 'MVN' bottom: 'x' top: 'y' }",
                            "layer { name: 'a' type: 'InstanceNorm' bottom: 'x' top: 'y' }"}) {
    SCOPED_TRACE(layer);
    const LayerParameter message = param(layer);
    const auto made = Registry::instance().make({.param = message,
                                                 .context = context,
                                                 .run = state,
                                                 .dtype = DType::f32,
                                                 .activations = DType::bf16});
    Blob x("x"), y("y");
    x.reshape(Shape{2, 8, 4, 5});
    std::vector<Blob*> bottoms = {&x}, tops = {&y};
    made->setup(bottoms, tops);
    made->reshape(bottoms, tops);
    std::vector<std::string> offered;
    for (const Option& option : dynamic_cast<TwoSidedLayer&>(*made).device_options(bottoms, tops)) {
      offered.push_back(text(to_string(option.bottoms[0]), '>', to_string(option.tops[0])));
    }
    EXPECT_EQ(offered,
              (std::vector<std::string>{"bf16 contiguous>bf16 contiguous",
                                        "bf16 channels_last>bf16 channels_last",
                                        "contiguous>contiguous", "channels_last>channels_last"}));
  }
}

}  // namespace
}  // namespace crema::test
