// Rooms whose bottoms and tops have 16 bits on a device, against the reference in f32 with the same
// values, and nets of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/convert.hpp"
#include "crema/net.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

void round_to(DType narrow, std::vector<double>& values) {
  for (double& value : values) {
    const auto single = static_cast<float>(value);
    value = static_cast<double>(narrow == DType::bf16
                                    ? convert_value<float>(convert_value<bfloat16>(single))
                                    : convert_value<float>(convert_value<float16>(single)));
  }
}

/// One rounding of a result to that type.
Tolerance rounding_of(DType type) {
  if (type == DType::bf16) return {4e-5, 1.0 / 256};
  if (type == DType::f16) return {4e-5, 1.0 / 2048};
  return {2e-6, 2e-5};
}

struct RoomCase {
  std::string name;
  LayerCase layer;
  /// Of a gradient that is computed from a top that was rounded.
  double looser = 1;
  /// What has to be among the options: the layouts of bottom 0 and top 0.
  std::vector<std::string> offers = {"bf16 contiguous>bf16 contiguous"};
};

void PrintTo(const RoomCase& room, std::ostream* out) { *out << room.name; }

/// Runs every option of the device, and returns the layouts of bottom 0 and top 0 of each.
std::set<std::string> check_on_device(const RoomCase& room, DType narrow, bool in_place) {
  std::set<std::string> offered;
  const RunOptions on_device{
      .engine = "cuda", .device = DeviceType::cuda, .in_place = in_place, .activations = narrow};
  RunOptions first = on_device;
  first.in_place = false;
  const LayerRun probe(room.layer, first);
  for (int option = 0; option < static_cast<int>(probe.options().size()); ++option) {
    const Option& layouts = probe.options()[static_cast<size_t>(option)];
    if (layouts.bottoms.empty() || layouts.tops.empty()) continue;
    const std::string name = text(to_string(layouts.bottoms[0]), ">", to_string(layouts.tops[0]));
    SCOPED_TRACE(name);
    offered.insert(name);
    if (in_place && layouts.bottoms[0] != layouts.tops[0]) continue;
    RunOptions chosen = on_device;
    chosen.option = option;
    LayerRun run(room.layer, chosen), host(room.layer);
    for (int i = 0; i < run.num_bottoms(); ++i) {
      round_to(narrow, run.bottom_values(i));
      host.bottom_values(i) = run.bottom_values(i);
    }
    run.forward();
    host.forward();
    for (int i = 0; i < run.num_tops(); ++i) {
      expect_close(run.top(i), host.top(i), rounding_of(run.top_blob(i).data.dtype()),
                   text("top ", i));
    }
    std::vector<bool> propagate;
    for (int i = 0; i < run.num_bottoms(); ++i) {
      propagate.push_back(run.layer().can_propagate(i));
    }
    if (std::ranges::find(propagate, true) == propagate.end() && run.num_params() == 0) continue;
    for (int i = 0; i < run.num_tops(); ++i) {
      std::vector<double> diff = run.top_diff(i);
      round_to(narrow, diff);
      run.set_top_diff(i, diff);
      host.set_top_diff(i, diff);
    }
    run.backward();
    host.backward();
    for (int i = 0; i < run.num_bottoms(); ++i) {
      if (!propagate[static_cast<size_t>(i)]) continue;
      Tolerance close = rounding_of(run.bottom_blob(i).diff.dtype());
      if (run.top_blob(0).data.dtype() == narrow) {
        close.absolute = std::max(close.absolute, room.looser * rounding_of(narrow).relative / 2);
        close.relative *= room.looser;
      }
      expect_close(run.bottom_diff(i), host.bottom_diff(i), close, text("diff of bottom ", i));
    }
    for (int i = 0; i < run.num_params(); ++i) {
      expect_close(run.gradient(i), host.gradient(i), {1e-4, 1e-3}, text("gradient ", i));
    }
  }
  return offered;
}

class SixteenBits : public testing::TestWithParam<RoomCase> {};

TEST_P(SixteenBits, AgreeWithTheReferenceInF32) {
  const RoomCase& room = GetParam();
  for (const DType narrow : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(to_string(narrow));
    const std::set<std::string> offered = check_on_device(room, narrow, false);
    if (narrow != DType::bf16) continue;
    for (const std::string& layouts : room.offers) {
      EXPECT_THAT(offered, testing::Contains(layouts));
    }
  }
}

TEST_P(SixteenBits, RunInPlaceWhereTheyMay) {
  const RoomCase& room = GetParam();
  LayerRun probe(room.layer, {.engine = "cuda", .device = DeviceType::cuda});
  if (probe.kernel().in_place() != InPlace::overwrite ||
      probe.kernel().backward_reads().bottom_data[0])
    return;
  check_on_device(room, DType::bf16, true);
}

const char* const kLast = "bf16 channels_last>bf16 channels_last";
const char* const kBoth[] = {"bf16 contiguous>bf16 contiguous", kLast};
const std::vector<std::string> kFormats(std::begin(kBoth), std::end(kBoth));

std::string of(std::string_view type, std::string_view settings = "") {
  return text("layer { type: '", type, "' ", settings, " }");
}

/// Odd numbers of channels, whole packs of them, and packs that begin at odd places.
std::vector<RoomCase> rooms() {
  std::vector<RoomCase> all;
  const auto add = [&](std::string name, LayerCase layer,
                       std::vector<std::string> offers = kFormats, double looser = 1) {
    all.push_back({std::move(name), std::move(layer), looser, std::move(offers)});
  };
  for (const int64_t channels : {5, 16}) {
    const std::string c = text("_", channels, "_channels");
    const Input images = uniform({2, channels, 7, 9}, -5, 5);
    const Input positive = uniform({2, channels, 7, 9}, 0.5, 2);
    const auto pool = [](const char* windows) {
      return of("Pooling", text("pooling_param { ", windows, " }"));
    };
    for (const char* type : {"ReLU", "ReLU6", "AbsVal", "Threshold", "Clip"}) {
      const bool clip = std::string_view(type) == "Clip";
      add(type + c,
          {.layer = of(type, clip ? "clip_param { min: -1 max: 2 }" : ""), .bottoms = {images}});
    }
    for (const char* type :
         {"Sigmoid", "TanH", "ELU", "Swish", "Mish", "GELU", "HardSwish", "HardSigmoid", "BNLL"}) {
      add(type + c, {.layer = of(type), .bottoms = {images}}, kFormats, 4);
    }
    add("Power" + c,
        {.layer = of("Power", "power_param { scale: 2 shift: 1 }"), .bottoms = {images}});
    add("Log" + c, {.layer = of("Log"), .bottoms = {positive}});
    add("Exp" + c, {.layer = of("Exp"), .bottoms = {positive}}, kFormats, 4);
    add("Sum" + c, {.layer = of("Eltwise", "eltwise_param { coeff: 2 coeff: -1 coeff: 0.5 }"),
                    .bottoms = {images, images, images}});
    add("SumAndReLU" + c,
        {.layer = of("Eltwise"), .bottoms = {images, images}, .tail = {of("ReLU")}});
    add("Product" + c, {.layer = of("Eltwise", "eltwise_param { operation: PROD }"),
                        .bottoms = {positive, positive, positive}});
    add("Maximum" + c,
        {.layer = of("Eltwise", "eltwise_param { operation: MAX }"), .bottoms = {images, images}});
    add("Dropout" + c, {.layer = of("Dropout"), .bottoms = {images}});
    add("DropoutInTest" + c, {.layer = of("Dropout"), .bottoms = {images}, .phase = Phase::test});
    add("MaxPooling" + c, {.layer = pool("kernel_size: 3 stride: 2 pad: 1"), .bottoms = {images}});
    add("MaxPoolingAndReLU" + c,
        {.layer = pool("kernel_size: 2 stride: 2"), .bottoms = {images}, .tail = {of("ReLU")}});
    add("MaxPoolingWithMask" + c,
        {.layer = pool("kernel_size: 3 stride: 2 pad: 1"), .bottoms = {images}, .tops = 2});
    add("MaxPoolingOfLargeWindows" + c,
        {.layer = pool("kernel_size: 17 stride: 2 pad: 8"), .bottoms = {images}});
    for (const char* more : {"", "avg_include_pad: false"}) {
      add(text("AveragePooling", *more ? "WithoutPadding" : "", c),
          {.layer = pool(text("pool: AVE kernel_size: 3 stride: 2 pad: 1 ", more).c_str()),
           .bottoms = {images}});
    }
    add("GlobalAverage" + c,
        {.layer = pool("pool: AVE global_pooling: true"), .bottoms = {images}});
    add("GlobalMaximum" + c, {.layer = pool("global_pooling: true"), .bottoms = {images}});
    add("PoolingOfVolumes" + c, {.layer = pool("kernel_size: 3 stride: 2 pad: 1"),
                                 .bottoms = {uniform({2, channels, 5, 4, 6})}});
    for (const char* size : {"3", "5", "9", "11"}) {
      add(text("LRNOf", size, c),
          {.layer = of("LRN", text("lrn_param { alpha: 2 local_size: ", size, " }")),
           .bottoms = {images}},
          kFormats, 4);
    }
    add("LRNOfAnotherPower" + c,
        {.layer = of("LRN", "lrn_param { alpha: 2 beta: 0.6 }"), .bottoms = {images}}, kFormats, 4);
    add("LRNWithinChannels" + c,
        {.layer = of("LRN", "lrn_param { norm_region: WITHIN_CHANNEL alpha: 2 }"),
         .bottoms = {images}},
        {kFormats[0]}, 4);
    // Without k, the scale of channels that are not there may be 0.
    std::vector<double> edges_are_zero;
    for (int64_t i = 0; i < channels * 6; ++i) {
      const int64_t channel = i / 6;
      const bool edge = channel == 0 || channel == channels - 1;
      edges_are_zero.push_back(edge ? 0 : 0.5 + 0.25 * static_cast<double>(i * 7 % 11));
    }
    add("LRNWithoutK" + c,
        {.layer = of("LRN", "lrn_param { alpha: 2 k: 0 local_size: 5 }"),
         .bottoms = {given({1, channels, 2, 3}, edges_are_zero)}},
        kFormats, 4);
    for (const char* slopes : {"", "prelu_param { channel_shared: true }"}) {
      add(text("PReLU", *slopes ? "OfOneSlope" : "", c),
          {.layer = of("PReLU", slopes), .bottoms = {images}});
    }
    const Input factors = uniform({2, channels, 1, 1});
    add("Axpy" + c, {.layer = of("Axpy"), .bottoms = {factors, images, images}});
    const std::vector<std::string> contiguous = {kFormats[0]};
    for (const char* operation : {"ADD", "MUL", "DIV", "MAX"}) {
      const std::string settings = text("arithmetic_param { operation: ", operation, " }");
      add(text("Arithmetic", operation, "OfRows", c),
          {.layer = of("Arithmetic", settings), .bottoms = {images, uniform({9}, 1, 2)}},
          contiguous, 2);
    }
    add("ArithmeticOfChannels" + c,
        {.layer = of("Arithmetic", "arithmetic_param { operation: MUL }"),
         .bottoms = {uniform({channels, 1, 1}), images}},
        contiguous);
    add("Where" + c,
        {.layer = of("Where"), .bottoms = {labels({channels, 1, 9}, 2), images, uniform({9})}},
        {"contiguous>bf16 contiguous"});
    add("Expand" + c,
        {.layer = of("Expand", "expand_param { dim: 3 dim: -1 dim: 4 }"),
         .bottoms = {uniform({channels, 1})}},
        contiguous);
    add("Gather" + c,
        {.layer = of("Gather", "gather_param { axis: 2 }"), .bottoms = {images, labels({3, 4}, 7)}},
        contiguous);
    for (const char* mode : {"CONSTANT", "REFLECT"}) {
      add(text("Pad", mode, c),
          {.layer =
               of("Pad", text("pad_param { begin: 2 begin: 1 end: -1 end: 3 mode: ", mode, " }")),
           .bottoms = {images}},
          contiguous);
    }
    add("StridedSlice" + c,
        {.layer = of("StridedSlice",
                     "strided_slice_param { axis: 1 axis: 3 begin: 0 begin: 8 end: 9 end: 1 "
                     "step: 2 step: -3 }"),
         .bottoms = {images}},
        contiguous);
    add("CumSum" + c, {.layer = of("CumSum", "cumsum_param { axis: 1 }"), .bottoms = {images}},
        contiguous, 4);
    add("RMSNorm" + c, {.layer = of("RMSNorm"), .bottoms = {images}}, contiguous, 4);
    for (const char* operation : {"SUM", "MAX", "LOG_SUM_EXP"}) {
      add(text("Reduce", operation, c),
          {.layer =
               of("Reduce", text("reduce_param { axis: 1 axis: 3 operation: ", operation, " }")),
           .bottoms = {images}},
          {"bf16 contiguous>contiguous"});
    }
    add("SpatialDropout" + c, {.layer = of("SpatialDropout"), .bottoms = {images}});
    add("Interp" + c,
        {.layer = of("Interp", "interp_param { height: 13 width: 5 }"), .bottoms = {images}});
    add("Reduction" + c,
        {.layer = of("Reduction", "reduction_param { axis: 2 operation: SUMSQ }"),
         .bottoms = {images}},
        {"bf16 contiguous>contiguous"});
    const std::string width = text("embed_param { input_dim: 7 num_output: ", channels,
                                   " weight_filler { type: 'gaussian' } }");
    add("Embed" + c, {.layer = of("Embed", width), .bottoms = {labels({9, 4}, 7)}},
        {"contiguous>bf16 contiguous"});
    for (const char* axis : {"0", "1", "2"}) {
      add(text("ConcatAlong", axis, c),
          {.layer = of("Concat", text("concat_param { axis: ", axis, " }")),
           .bottoms = std::vector<Input>(19, images)});
      add(text("SliceAlong", axis, c),
          {.layer = of("Slice", text("slice_param { axis: ", axis, " slice_point: 1 }")),
           .bottoms = {images},
           .tops = 2});
    }
    add("Softmax" + c, {.layer = of("Softmax"), .bottoms = {images}}, kFormats, 8);
    add("SoftmaxOfRows" + c, {.layer = of("Softmax"), .bottoms = {uniform({5, channels}, -5, 5)}},
        {kFormats[0]}, 8);
    for (const char* settings : {"", "loss_param { ignore_label: 2 label_smoothing: 0.1 }"}) {
      add(text("SoftmaxWithLoss", *settings ? "Smoothed" : "", c),
          {.layer = of("SoftmaxWithLoss", settings),
           .bottoms = {images, labels({2, 7, 9}, channels)}},
          {"bf16 contiguous>contiguous", "bf16 channels_last>contiguous"});
      add(text("SoftmaxWithLossOfRows", *settings ? "Smoothed" : "", c),
          {.layer = of("SoftmaxWithLoss", settings),
           .bottoms = {uniform({5, channels}, -5, 5), labels({5}, channels)},
           .tops = 2},
          {"bf16 contiguous>contiguous"});
    }
  }
  for (const char* settings : {"num_heads: 2", "num_heads: 2 causal: true"}) {
    add(text("attention_", std::strstr(settings, "causal") != nullptr ? "causal" : "all"),
        {.layer = of("Attention", text("attention_param { ", settings, " }")),
         .bottoms = {uniform({2, 9, 8}), uniform({2, 40, 8}), uniform({2, 40, 12}),
                     given({2}, {40, 7})}},
        {"bf16 contiguous>bf16 contiguous", "contiguous>contiguous"}, 4);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Rooms, SixteenBits, testing::ValuesIn(rooms()),
                         [](const auto& room) { return room.param.name; });

TEST(SixteenBitRooms, TakeMapsWithoutChannels) {
  const Input none = uniform({2, 0, 3, 3});
  for (const LayerCase& layer :
       {LayerCase{.layer = of("Axpy"), .bottoms = {uniform({2, 0, 1, 1}), none, none}},
        LayerCase{.layer = of("SpatialDropout"), .bottoms = {none}},
        LayerCase{.layer = of("LRN"), .bottoms = {none}},
        LayerCase{.layer = of("Dropout"), .bottoms = {none}}}) {
    SCOPED_TRACE(layer.layer);
    check_on_device({"none", layer}, DType::bf16, false);
  }
}

// Between the conversion of the input and the loss nothing is converted.
TEST(SixteenBitNets, HaveNoConversionsBetweenRoomsThatTakeThem) {
  const std::string text_of_net = R"(
      force_backward: true
      layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 16 dim: 9 dim: 9 } } }
      layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
      layer { name: "pool1" type: "Pooling" bottom: "x" top: "a" pooling_param { kernel_size: 3 } }
      layer { name: "relu" type: "ReLU" bottom: "a" top: "b" relu_param { negative_slope: -0.5 } }
      layer { name: "norm" type: "LRN" bottom: "b" top: "c" }
      layer { name: "sum" type: "Eltwise" bottom: "b" bottom: "c" top: "d" }
      layer { name: "concat" type: "Concat" bottom: "c" bottom: "d" top: "e" }
      layer { name: "power" type: "Power" bottom: "e" top: "f" power_param { scale: 2 } }
      layer { name: "drop" type: "Dropout" bottom: "f" top: "g" }
      layer { name: "soft" type: "Softmax" bottom: "g" top: "h" }
      layer { name: "pool2" type: "Pooling" bottom: "h" top: "i"
              pooling_param { pool: AVE global_pooling: true } }
      layer { name: "flat" type: "Flatten" bottom: "i" top: "j" }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "j" bottom: "label" top: "loss" })";
  Context context({.device = {.type = DeviceType::cuda}}), host;
  Net net(net_param(text_of_net), context, {.phase = Phase::train, .activations = DType::bf16});
  Net single(net_param(text_of_net), host, {.phase = Phase::train});
  std::vector<std::string> conversions, on_host;
  for (const NetStep& step : net.steps()) {
    if (step.type == "Conversion") {
      conversions.push_back(text(step.name, ": ", step.bottom_format, " > ", step.top_format));
    } else if (step.falls_back_to_cpu) {
      on_host.push_back(step.name);
    }
    if (step.type == "LRN" || step.type == "Dropout" || step.type == "Softmax") {
      EXPECT_EQ(step.bottom_format, "bf16 contiguous") << step.name;
      EXPECT_EQ(step.top_format, "bf16 contiguous") << step.name;
    }
  }
  // That of the input, or of what the first layer makes of it in f32.
  EXPECT_THAT(conversions, testing::SizeIs(1));
  EXPECT_THAT(conversions, testing::Each(testing::AnyOf(testing::StartsWith("x: contiguous >"),
                                                        testing::StartsWith("a: contiguous >"))));
  EXPECT_THAT(on_host, testing::IsEmpty());
  for (Net* each : {&net, &single}) fill_inputs(*each);
  const double loss = single.forward();
  EXPECT_NEAR(net.forward(), loss, 0.01 * loss);
  net.backward();
  single.backward();
  const auto diff = [](Net& of) { return values_of(of.blob("x").diff); };
  const std::vector<double> expected = diff(single);
  const double largest = *std::ranges::max_element(expected);
  expect_close(diff(net), expected, {0.05 * largest, 0.05}, "diff of x");
}

}  // namespace
}  // namespace crema::test
