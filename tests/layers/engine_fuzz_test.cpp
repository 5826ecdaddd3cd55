// Random problems for every engine of the CPU, in all its formats, against the reference in f64.
//
//   CREMA_FUZZ_PROBLEMS   problems of each layer type; default 30, 10 of Convolution, which
//   measures CREMA_FUZZ_SEED       default 1; problem i of a seed is the same whatever their number
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <iostream>

#include "core/simd.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "support/draw.hpp"
#include "support/layer_test.hpp"

namespace crema::test {
namespace {

/// Draws what the problems of layers are made of.
class LayerDraw : public Draw {
 public:
  using Draw::Draw;

  bool coin() { return one_in(2); }
  /// Full and broken blocks of channels, and too few for any.
  int64_t channels() { return coin() ? one_of<int64_t>({1, 3, 8, 16, 24, 32}) : between(1, 37); }
  /// Of images: seldom none.
  int64_t batch(int64_t most) { return between(0, 9) == 0 ? 0 : between(1, most); }
  /// A ReLU behind a layer that applies it in the same pass, or nothing.
  std::vector<std::string> relu_tail() {
    return coin() ? std::vector<std::string>{"layer { type: 'ReLU' }"} : std::vector<std::string>();
  }
  /// Sizes of so many axes, `most` values at most.
  Shape shape(int64_t rank, int64_t most) {
    std::vector<int64_t> sizes;
    for (int64_t axis = 0; axis < rank; ++axis) {
      const int64_t size = axis == 1 ? channels() : between(1, 9);
      sizes.push_back(std::max<int64_t>(1, std::min(size, most)));
      most /= sizes.back();
    }
    return Shape(sizes);
  }
  /// The same; a batch of two axes or more may be empty.
  Shape batch_shape(int64_t rank, int64_t most) {
    Shape drawn = shape(rank, most);
    std::vector<int64_t> sizes;
    for (int64_t axis = 0; axis < rank; ++axis) sizes.push_back(drawn[axis]);
    if (rank > 1 && between(0, 9) == 0) sizes[0] = 0;
    return Shape(sizes);
  }
};

LayerCase convolution_of_type(LayerDraw& draw, const std::string& type) {
  const int64_t axes = draw.one_of<int64_t>({2, 2, 2, 2, 1, 3});
  const bool depthwise = draw.between(0, 4) == 0;
  // Of 4, 8 or 16 channels, or so many that they fill blocks.
  const bool whole = !depthwise && draw.between(0, 3) == 0;
  const int64_t groups = depthwise ? draw.channels() : draw.one_of<int64_t>({1, 1, 1, 2, 3});
  const auto of_group = [&]() -> int64_t {
    return whole ? draw.one_of<int64_t>({4, 8, 16, 16, 32})
                 : (draw.channels() + groups - 1) / groups;
  };
  const int64_t seen = depthwise ? 1 : of_group();
  const int64_t made = depthwise ? draw.between(1, 2) : whole && draw.coin() ? seen : of_group();
  std::vector<int64_t> bottom = {draw.batch(3), seen * groups};
  std::string settings;
  const bool alike = draw.between(0, 2) > 0;
  int64_t kernel = 0, stride = 0, dilation = 0, pad = 0;
  for (int64_t axis = 0; axis < axes; ++axis) {
    if (axis == 0 || !alike) {
      kernel = axes > 2 ? draw.between(1, 3) : draw.one_of<int64_t>({1, 2, 3, 3, 3, 3, 5, 7});
      stride = draw.one_of<int64_t>({1, 1, 1, 2, 3});
      dilation = draw.one_of<int64_t>({1, 1, 1, 2});
      pad = draw.coin() ? (kernel - 1) / 2 : draw.between(0, kernel);
    }
    const int64_t reach = (kernel - 1) * dilation + 1;
    // A top of a deconvolution has no elements if the padding takes them all.
    const int64_t least = type == "Deconvolution" ? 1 + 2 * pad : reach - 2 * pad;
    bottom.push_back(std::max<int64_t>(1, least) + draw.between(0, axes > 2 ? 4 : 12));
    settings +=
        text(" kernel_size: ", kernel, " stride: ", stride, " dilation: ", dilation, " pad: ", pad);
  }
  return {.layer = text("layer { type: '", type, "' convolution_param { num_output: ",
                        made * groups, " group: ", groups, settings, " bias_term: ", draw.boolean(),
                        " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
                        " bias_filler { type: 'uniform' min: -1 max: 1 } } }"),
          .bottoms = {uniform(Shape(bottom))},
          .tail = draw.relu_tail()};
}

LayerCase convolution(LayerDraw& draw) { return convolution_of_type(draw, "Convolution"); }
LayerCase deconvolution(LayerDraw& draw) { return convolution_of_type(draw, "Deconvolution"); }

LayerCase pooling(LayerDraw& draw) {
  const int64_t axes = draw.one_of<int64_t>({2, 2, 2, 2, 1, 3}), most = axes > 2 ? 5 : 12;
  std::vector<int64_t> bottom = {draw.batch(3), draw.channels()};
  const bool global = draw.between(0, 5) == 0;
  std::string settings = global ? " global_pooling: true" : "";
  for (int64_t axis = 0; axis < axes; ++axis) {
    if (global) {
      bottom.push_back(draw.between(1, most));
      continue;
    }
    const int64_t kernel = draw.between(1, axes > 2 ? 3 : 5), pad = draw.between(0, kernel - 1);
    bottom.push_back(std::max<int64_t>(1, kernel - 2 * pad) + draw.between(0, most));
    settings +=
        text(" kernel_size_3d: ", kernel, " stride_3d: ", draw.between(1, 3), " pad_3d: ", pad);
  }
  const bool maximum = draw.coin();
  return {.layer = text("layer { type: 'Pooling' pooling_param { pool: ", maximum ? "MAX" : "AVE",
                        " round_mode: ", draw.coin() ? "CEIL" : "FLOOR",
                        " avg_include_pad: ", draw.boolean(), settings, " } }"),
          // Few values are equal, or many.
          .bottoms = {draw.coin() ? uniform(Shape(bottom)) : labels(Shape(bottom), 3)},
          .tail = maximum ? draw.relu_tail() : std::vector<std::string>()};
}

LayerCase inner_product(LayerDraw& draw) {
  const Shape bottom = draw.batch_shape(draw.between(1, 4), 3000);
  const int64_t rank = bottom.rank();
  const int64_t axis = draw.between(bottom[0] == 0 ? 1 : 0, rank - 1);
  return {.layer = text("layer { type: 'InnerProduct' inner_product_param { num_output: ",
                        draw.between(1, 70), " axis: ", draw.coin() ? axis : axis - rank,
                        " transpose: ", draw.boolean(), " bias_term: ", draw.boolean(),
                        " weight_filler { type: 'uniform' min: -0.5 max: 0.5 }"
                        " bias_filler { type: 'uniform' min: -1 max: 1 } } }"),
          .bottoms = {uniform(bottom)},
          .tail = draw.relu_tail()};
}

LayerCase lrn(LayerDraw& draw) {
  const bool across = draw.coin();
  return {.layer = text("layer { type: 'LRN' lrn_param { local_size: ", 2 * draw.between(0, 4) + 1,
                        " alpha: ", draw.number(0.1, 2),
                        " beta: ", draw.one_of({0.5, 0.75, 1.0, 1.3}), " k: ", draw.one_of({1, 2}),
                        " norm_region: ", across ? "ACROSS_CHANNELS" : "WITHIN_CHANNEL", " } }"),
          .bottoms = {uniform(draw.batch_shape(across ? draw.between(2, 5) : 4, 6000), -2, 2)}};
}

LayerCase softmax(LayerDraw& draw) {
  const Shape bottom = draw.batch_shape(draw.between(1, 4), 6000);
  const int64_t axis = draw.between(bottom[0] == 0 ? 1 : 0, bottom.rank() - 1);
  return {.layer = text("layer { type: 'Softmax' softmax_param { axis: ",
                        draw.coin() ? axis : axis - bottom.rank(), " } }"),
          .bottoms = {uniform(bottom, -5, 5)}};
}

LayerCase scale(LayerDraw& draw) {
  const Shape bottom = draw.batch_shape(draw.between(1, 4), 6000);
  const int64_t axis = draw.between(bottom[0] == 0 ? 1 : 0, bottom.rank() - 1);
  const int64_t covered = draw.between(0, bottom.rank() - axis);
  LayerCase result{.bottoms = {uniform(bottom)}};
  std::string settings = text("axis: ", axis, " bias_term: ", draw.boolean());
  if (draw.coin()) {
    std::vector<int64_t> sizes;
    for (int64_t i = axis; i < axis + covered; ++i) sizes.push_back(bottom[i]);
    result.bottoms.push_back(uniform(Shape(sizes)));
  } else {
    settings += text(" num_axes: ", covered, " filler { type: 'uniform' min: -2 max: 2 }");
  }
  result.layer = text("layer { type: 'Scale' scale_param { ", settings,
                      " bias_filler { type: 'uniform' min: -1 max: 1 } } }");
  return result;
}

LayerCase batch_norm(LayerDraw& draw) {
  // Enough values a channel that none of them has next to no variance.
  std::vector<int64_t> bottom = {draw.between(8, 12), draw.channels()};
  const int64_t spatial = draw.between(0, 3);
  for (int64_t axis = 0; axis < spatial; ++axis) bottom.push_back(draw.between(1, 7));
  const bool stored = draw.coin();
  LayerCase result{.layer = text("layer { type: 'BatchNorm' batch_norm_param { use_global_stats: ",
                                 stored ? "true" : "false", " scale_bias: ", draw.boolean(),
                                 " moving_average_fraction: ", draw.number(0.1, 0.999),
                                 " eps: ", draw.one_of({1e-5, 1e-3}),
                                 " scale_filler { type: 'uniform' min: -2 max: 2 }"
                                 " bias_filler { type: 'uniform' min: -1 max: 1 } } }"),
                   .bottoms = {uniform(Shape(bottom), -2, 3)}};
  if (stored) {
    result.params.resize(2);
    for (int64_t c = 0; c < bottom[1]; ++c) {
      result.params[0].push_back(draw.number(-1, 1));
      result.params[1].push_back(draw.number(0.5, 2));
    }
    result.params.push_back({draw.number(0.5, 2)});
  }
  return result;
}

LayerCase mvn(LayerDraw& draw) {
  // Groups of few values may have next to no variance, but for eps.
  return {.layer =
              text("layer { type: 'MVN' mvn_param { normalize_variance: ", draw.boolean(),
                   " across_channels: ", draw.boolean(), " eps: ", draw.one_of({0.1, 1.0}), " } }"),
          .bottoms = {uniform(draw.batch_shape(draw.between(1, 5), 6000), -2, 3)}};
}

LayerCase prelu(LayerDraw& draw) {
  const Shape bottom = draw.batch_shape(draw.between(1, 5), 6000);
  const bool shared = bottom.rank() == 1 || draw.coin();
  return {.layer = text(
              "layer { type: 'PReLU' prelu_param { channel_shared: ", shared ? "true" : "false",
              " filler { type: 'uniform' min: -1 max: 1 } } }"),
          .bottoms = {uniform(bottom)}};
}

LayerCase spp(LayerDraw& draw) {
  const auto size = [&] { return 4 * draw.between(3, 6) - draw.between(0, 3); };
  const Shape bottom{draw.batch(3), draw.between(1, 5), size(), size()};
  return {.layer = text("layer { type: 'SPP' spp_param { pool: ", draw.one_of({"MAX", "AVE"}),
                        " pyramid_height: ", draw.between(1, 3), " } }"),
          .bottoms = {draw.coin() ? uniform(bottom) : labels(bottom, 3)}};
}

LayerCase eltwise(LayerDraw& draw) {
  const auto count = static_cast<size_t>(draw.between(2, 4));
  const std::string operation = draw.one_of({"SUM", "PROD", "MAX"});
  std::string settings = text("operation: ", operation);
  for (size_t i = 0; i < count && operation == "SUM"; ++i) {
    settings += text(" coeff: ", draw.number(-2, 2));
  }
  LayerCase result{.layer = text("layer { type: 'Eltwise' eltwise_param { ", settings, " } }")};
  result.bottoms.assign(count, uniform(draw.batch_shape(draw.between(2, 5), 6000), -2, 2));
  if (operation == "SUM") result.tail = draw.relu_tail();
  return result;
}

LayerCase dropout(LayerDraw& draw) {
  return {.layer = text("layer { type: 'Dropout' dropout_param { dropout_ratio: ",
                        draw.number(0.1, 0.9), " } }"),
          .bottoms = {uniform(draw.batch_shape(draw.between(2, 5), 6000))}};
}

LayerCase relu(LayerDraw& draw) {
  return {.layer = text("layer { type: 'ReLU' relu_param { negative_slope: ",
                        draw.one_of({0.0, 0.1, -0.5}), " } }"),
          .bottoms = {uniform(draw.batch_shape(draw.between(2, 5), 6000))}};
}

/// Extents of so many parts of an axis, and the shape of each.
std::vector<Shape> parts(LayerDraw& draw, int64_t axis, size_t count) {
  const Shape first = draw.batch_shape(draw.between(std::max<int64_t>(2, axis + 1), 5), 3000);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < count; ++i) {
    std::vector<int64_t> sizes;
    for (int k = 0; k < first.rank(); ++k) sizes.push_back(first[k]);
    const auto at = static_cast<size_t>(axis);
    if (sizes[at] > 0) sizes[at] = axis == 1 ? draw.channels() : draw.between(1, 5);
    shapes.emplace_back(sizes);
  }
  return shapes;
}

LayerCase concatenation(LayerDraw& draw) {
  const int64_t axis = draw.one_of<int64_t>({0, 1, 1, 1, 2});
  LayerCase result{.layer = text("layer { type: 'Concat' concat_param { axis: ", axis, " } }")};
  for (const Shape& shape : parts(draw, axis, static_cast<size_t>(draw.between(1, 4)))) {
    result.bottoms.push_back(uniform(shape));
  }
  return result;
}

LayerCase slice(LayerDraw& draw) {
  const int64_t axis = draw.one_of<int64_t>({1, 1, 1, 2});
  const std::vector<Shape> shapes = parts(draw, axis, static_cast<size_t>(draw.between(1, 4)));
  std::vector<int64_t> whole;
  for (int k = 0; k < shapes[0].rank(); ++k) whole.push_back(shapes[0][k]);
  int64_t& end = whole[static_cast<size_t>(axis)];
  std::string points;
  for (size_t i = 1; i < shapes.size(); ++i) {
    points += text(" slice_point: ", end);
    end += shapes[i][static_cast<int>(axis)];
  }
  return {.layer = text("layer { type: 'Slice' slice_param { axis: ", axis, points, " } }"),
          .bottoms = {uniform(Shape(whole))},
          .tops = static_cast<int>(shapes.size())};
}

LayerCase softmax_loss(LayerDraw& draw) {
  const Shape scores = draw.batch_shape(draw.between(2, 4), 6000);
  std::vector<int64_t> places;
  for (int k = 0; k < scores.rank(); ++k) {
    if (k != 1) places.push_back(scores[k]);
  }
  const std::string ignored = draw.coin() ? " ignore_label: 0" : "";
  return {.layer = text("layer { type: 'SoftmaxWithLoss' loss_param { normalization: ",
                        draw.one_of({"VALID", "FULL", "BATCH_SIZE", "NONE"}), ignored, " } }"),
          .bottoms = {uniform(scores, -5, 5), labels(Shape(places), scores[1])}};
}

LayerCase sigmoid_loss(LayerDraw& draw) {
  const Shape shape = draw.batch_shape(draw.between(1, 4), 6000);
  const bool ignores = draw.coin();
  return {.layer = text("layer { type: 'SigmoidCrossEntropyLoss' loss_param { normalization: ",
                        draw.one_of({"VALID", "FULL", "BATCH_SIZE", "NONE"}),
                        ignores ? " ignore_label: 1" : "", " } }"),
          .bottoms = {uniform(shape, -20, 20), ignores ? labels(shape, 3) : uniform(shape)}};
}

struct Kind {
  const char* type;
  LayerCase (*draw)(LayerDraw& draw);
  Tolerance tolerance;
  uint64_t problems = 30;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.type; }

class EngineFuzz : public ::testing::TestWithParam<Kind> {};

/// Engines that do not take the problem, which they have to say in the words for that.
std::vector<std::string> refusing(const LayerCase& layer_case, const std::string& type) {
  std::vector<std::string> names;
  for (const EngineEntry* entry : Registry::instance().engines(type, DeviceType::cpu)) {
    try {
      LayerRun(layer_case, {.engine = entry->name});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("refuses this problem"));
      names.push_back(entry->name);
    }
  }
  return names;
}

TEST_P(EngineFuzz, AgreesWithTheReference) {
  const Kind& kind = GetParam();
  const uint64_t seed = number_from("CREMA_FUZZ_SEED", 1);
  const uint64_t problems = number_from("CREMA_FUZZ_PROBLEMS", kind.problems);
  std::cout << problems << " problems of " << kind.type << ", seed " << seed << "\n";
  size_t ran = 0;
  for (uint64_t i = 0; i < problems; ++i) {
    LayerDraw draw(seed, i);
    const LayerCase layer_case = kind.draw(draw);
    std::string bottoms;
    for (const Input& input : layer_case.bottoms) bottoms += " " + input.shape.str();
    const auto level =
        draw.one_of({SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, simd_level()});
    SCOPED_TRACE(text("CREMA_FUZZ_SEED=", seed, ", problem ", i, ", bottoms", bottoms, ", ",
                      to_string(level)));
    const SimdLimit limit(std::min(level, simd_level()));
    ran += check_engines(layer_case, kind.tolerance, refusing(layer_case, kind.type)).size() - 1;
    if (HasFailure()) return;
  }
  if (problems > 0 && !Registry::instance().engines(kind.type, DeviceType::cpu).empty()) {
    EXPECT_GT(ran, 0U) << "no engine but the reference took any problem";
  }
}

// Sums of up to some thousand products of numbers below 1, in f32.
constexpr Tolerance kSums{.absolute = 1e-4, .relative = 1e-4};
const Kind kKinds[] = {
    {"Convolution", convolution, kSums, 10},
    {"Deconvolution", deconvolution, kSums, 10},
    {"Pooling", pooling, {}},
    {"InnerProduct", inner_product, kSums},
    {"LRN", lrn, kSums},
    {"Softmax", softmax, {}},
    {"Scale", scale, kSums},
    {"BatchNorm", batch_norm, kSums},
    {"MVN", mvn, kSums},
    {"PReLU", prelu, kSums},
    {"SPP", spp, {}},
    {"Eltwise", eltwise, {}},
    {"Dropout", dropout, {}},
    {"ReLU", relu, {}},
    {"Concat", concatenation, {}},
    {"Slice", slice, {}},
    {"SoftmaxWithLoss", softmax_loss, kSums},
    {"SigmoidCrossEntropyLoss", sigmoid_loss, kSums},
};
INSTANTIATE_TEST_SUITE_P(Layers, EngineFuzz, ::testing::ValuesIn(kKinds),
                         [](const auto& param_info) { return param_info.param.type; });

}  // namespace
}  // namespace crema::test
