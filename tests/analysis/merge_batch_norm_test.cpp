// Folding of BatchNorm, Scale and Bias into the weights beside them.
#include "analysis/merge_batch_norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crema/random.hpp"
#include "model/binary_format.hpp"
#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/paths.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

using ::testing::HasSubstr;

/// Weights of all layers: random, but for variances, which are positive, and the factor, 2.
/// `norm_blobs` and `four_dims`: how published files write BatchNorm.
NetParameter random_weights(const NetParameter& net, int norm_blobs = 0, bool four_dims = false) {
  Context context({.tune = false});
  Net built(net, context, {.phase = Phase::test});
  NetParameter weights;
  built.save(weights);
  for (LayerParameter& layer : *weights.mutable_layer()) {
    for (int i = 0; i < layer.blobs_size(); ++i) {
      Random random(7, stream_id(layer.name()), static_cast<uint64_t>(i));
      const bool norm = layer.type() == "BatchNorm";
      const bool variance = norm ? i == 1 : layer.type() == "BN" && i == 3;
      for (float& value : *layer.mutable_blobs(i)->mutable_data()) {
        value = static_cast<float>(variance ? random.uniform(0.5, 2) : random.uniform(-1, 1));
        if (norm && i == 2) value = 2;
      }
      if (norm && four_dims && i != 2) {
        BlobProto& blob = *layer.mutable_blobs(i);
        blob.clear_shape();
        blob.set_num(1);
        blob.set_channels(blob.data_size());
        blob.set_height(1);
        blob.set_width(1);
      }
    }
    // Without the factor: mean and variance, and scale and bias behind them if the layer has some.
    if (layer.type() == "BatchNorm" && (norm_blobs == 2 || norm_blobs == 4)) {
      layer.mutable_blobs()->DeleteSubrange(2, 1);
    }
  }
  return weights;
}

MergedNet merge(const NetParameter& net, const NetParameter& weights) {
  const TempFolder folder;
  const std::string file = folder.path("weights.caffemodel");
  write_binary_proto_atomically(file, weights);
  Context context({.tune = false});
  return merge_batch_norm(net, SourceMap(), file, context, {});
}

MergedNet merge(const std::string& layers) {
  const NetParameter net = net_param(layers);
  return merge(net, random_weights(net));
}

const MergedNet::Entry& entry(const MergedNet& merged, const std::string& layer) {
  for (const auto& each : merged.entries) {
    if (each.layer == layer) return each;
  }
  throw Error("no entry for ", layer);
}

std::vector<std::string> layers_of(const NetParameter& net) {
  std::vector<std::string> names;
  for (const auto& layer : net.layer()) names.push_back(layer.name());
  return names;
}

constexpr const char* kInput =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 dim: 6 dim: 5 } "
    "} }";

std::string convolution(const std::string& name, const std::string& bottom,
                        const std::string& settings, const std::string& type = "Convolution") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
         name +
         "' convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } " +
         settings + " } }";
}

TEST(MergeBatchNorm, ChainsBehindEachKindOfWeights) {
  const std::string norm =
      "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'conv' }"
      "layer { name: 'scale' type: 'Scale' bottom: 'conv' top: 'scaled' scale_param { bias_term: "
      "true } }"
      "layer { name: 'bias' type: 'Bias' bottom: 'scaled' top: 'scaled' }"
      "layer { name: 'relu' type: 'ReLU' bottom: 'scaled' top: 'scaled' }";
  for (const std::string& weights :
       {convolution("conv", "x", "pad: 1 stride: 2"), convolution("conv", "x", "bias_term: false"),
        convolution("conv", "x", "group: 2 dilation: 2 pad: 2"),
        convolution("conv", "x", "pad: 1 stride: 2", "Deconvolution"),
        convolution("conv", "x", "group: 2 bias_term: false", "Deconvolution"),
        std::string("layer { name: 'conv' type: 'InnerProduct' bottom: 'x' top: 'conv' "
                    "inner_product_param { num_output: 6 weight_filler { type: 'xavier' } } }"),
        std::string("layer { name: 'conv' type: 'InnerProduct' bottom: 'x' top: 'conv' "
                    "inner_product_param { num_output: 6 transpose: true bias_term: false "
                    "weight_filler { type: 'xavier' } } }")}) {
    SCOPED_TRACE(weights);
    const MergedNet merged = merge(kInput + weights + norm);
    EXPECT_EQ(merged.merged(), 3);
    EXPECT_EQ(layers_of(merged.net), (std::vector<std::string>{"x", "conv", "relu"}));
    EXPECT_EQ(layers_of(merged.weights), layers_of(merged.net));
    EXPECT_EQ(merged.net.layer(1).top(0), "scaled");
    EXPECT_EQ(merged.net.layer(1).blobs_size(), 0);
    EXPECT_EQ(merged.weights.layer(1).blobs_size(), 2);
    EXPECT_GT(merged.difference, 0);  // the outputs were compared, and rounding differs
  }
}

// BN with statistics, and with those of a file folded into scale and shift.
TEST(MergeBatchNorm, BothKindsOfBN) {
  for (const char* settings : {"", "bn_mode: INFERENCE"}) {
    const MergedNet merged =
        merge(kInput + convolution("conv", "x", "pad: 1") +
              text("layer { name: 'bn' type: 'BN' bottom: 'conv' top: 'bn' bn_param { ", settings,
                   " } }"));
    EXPECT_EQ(merged.merged(), 1) << settings;
    EXPECT_EQ(layers_of(merged.net), (std::vector<std::string>{"x", "conv"}));
  }
}

// It depends on the batch; the rest of the net is merged.
TEST(MergeBatchNorm, LeavesOutBNThatLearns) {
  const MergedNet merged =
      merge(kInput + convolution("conv", "x", "pad: 1") +
            "layer { name: 'bn' type: 'BN' bottom: 'conv' top: 'bn' bn_param { bn_mode: LEARN } }" +
            convolution("second", "bn", "pad: 1") +
            "layer { name: 'norm' type: 'BatchNorm' bottom: 'second' top: 'norm' }");
  EXPECT_EQ(merged.merged(), 1);
  EXPECT_EQ(entry(merged, "norm").into, "second");
  EXPECT_NE(entry(merged, "bn").why.find("all batches"), std::string::npos)
      << entry(merged, "bn").why;
}

TEST(MergeBatchNorm, IntoConvolution3D) {
  const MergedNet merged = merge(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 dim: 5 dim: 6 "
      "dim: 7 } } } layer { name: 'conv' type: 'Convolution3D' bottom: 'x' top: 'conv' "
      "convolution3d_param { num_output: 6 kernel_size: 3 kernel_depth: 2 pad: 1 bias_term: false "
      "weight_filler { type: 'xavier' } } } "
      "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' }");
  EXPECT_EQ(merged.merged(), 1);
  const LayerParameter& conv = merged.net.layer(1);
  EXPECT_TRUE(conv.convolution3d_param().bias_term());
  EXPECT_FALSE(conv.has_convolution_param());
}

// Published files hold 2, 3, 4 or 5 blobs, in one or four dimensions.
TEST(MergeBatchNorm, EachPublishedFormOfStatistics) {
  for (const int blobs : {2, 3, 4, 5}) {
    for (const bool four_dims : {false, true}) {
      const std::string settings =
          blobs >= 4 ? "batch_norm_param { scale_bias: true eps: 0.001 }" : "";
      const NetParameter net = net_param(
          kInput + convolution("conv", "x", "") +
          "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' " + settings + " }");
      const MergedNet merged = merge(net, random_weights(net, blobs, four_dims));
      EXPECT_EQ(merged.merged(), 1) << blobs;
      EXPECT_EQ(entry(merged, "norm").into, "conv");
      EXPECT_EQ(layers_of(merged.net), (std::vector<std::string>{"x", "conv"}));
    }
  }
}

// By hand: y = (w x - mean / 2) / sqrt(variance / 2).
TEST(MergeBatchNorm, ValuesOfOneWeight) {
  const NetParameter net = net_param(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 1 } } }"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' "
      "inner_product_param { num_output: 1 bias_term: false } }"
      "layer { name: 'norm' type: 'BatchNorm' bottom: 'ip' top: 'ip' batch_norm_param { eps: 0 } "
      "}");
  NetParameter weights = random_weights(net);
  weights.mutable_layer(1)->mutable_blobs(0)->set_data(0, 3);
  weights.mutable_layer(2)->mutable_blobs(0)->set_data(0, 10);
  weights.mutable_layer(2)->mutable_blobs(1)->set_data(0, 8);
  const MergedNet merged = merge(net, weights);
  EXPECT_FLOAT_EQ(merged.weights.layer(1).blobs(0).data(0), 1.5F);
  EXPECT_FLOAT_EQ(merged.weights.layer(1).blobs(1).data(0), -2.5F);
}

TEST(MergeBatchNorm, GoesIntoTheLayerBehindWhereThatIsExact) {
  const std::string norm = "layer { name: 'norm' type: 'BatchNorm' bottom: 'x' top: 'norm' }";
  for (const std::string& behind :
       {convolution("next", "norm", ""), convolution("next", "norm", "group: 2 bias_term: false"),
        std::string("layer { name: 'next' type: 'InnerProduct' bottom: 'norm' top: 'next' "
                    "inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }")}) {
    SCOPED_TRACE(behind);
    const MergedNet merged = merge(kInput + norm + behind);
    EXPECT_EQ(entry(merged, "norm").into, "next");
    EXPECT_EQ(layers_of(merged.net), (std::vector<std::string>{"x", "next"}));
    EXPECT_EQ(merged.net.layer(1).bottom(0), "x");
  }
  const MergedNet padded = merge(kInput + norm + convolution("next", "norm", "pad: 1"));
  EXPECT_EQ(padded.merged(), 0);
  EXPECT_THAT(entry(padded, "norm").why, HasSubstr("pads with zeros"));
  const MergedNet scaled =
      merge(std::string(kInput) + "layer { name: 'scale' type: 'Scale' bottom: 'x' top: 'norm' }" +
            convolution("next", "norm", "pad: 1"));
  EXPECT_EQ(entry(scaled, "scale").into, "next") << "zeros times a scale are zeros";
}

TEST(MergeBatchNorm, SaysWhatStaysAndWhy) {
  const std::string norm = "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' ";
  const auto why = [&](const std::string& layers) {
    const MergedNet merged = merge(kInput + layers);
    EXPECT_EQ(merged.merged(), 0);
    return entry(merged, "norm").why;
  };
  const std::string conv = convolution("conv", "x", "");
  EXPECT_THAT(why(conv + norm + "} layer { name: 'r' type: 'ReLU' bottom: 'conv' top: 'r' }"),
              HasSubstr("other layers read 'conv', too"));
  EXPECT_THAT(
      why(conv + "layer { name: 'r' type: 'ReLU' bottom: 'conv' top: 'conv' }" + norm + "}"),
      HasSubstr("layer 'r' (ReLU) beside it has no weights"));
  EXPECT_THAT(why(conv + norm + "batch_norm_param { use_global_stats: false } }"),
              HasSubstr("statistics of each batch"));
  EXPECT_THAT(
      why("layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv' param { name: 'w' } "
          "convolution_param { num_output: 2 kernel_size: 1 weight_filler { type: 'xavier' } } }"
          "layer { name: 'twin' type: 'Convolution' bottom: 'x' top: 'twin' param { name: 'w' } "
          "convolution_param { num_output: 2 kernel_size: 1 } }" +
          norm + "}"),
      HasSubstr("shares its parameter 'w'"));
  EXPECT_THAT(why(conv + "layer { name: 'norm' type: 'Scale' bottom: 'conv' top: 'norm' "
                         "scale_param { axis: 1 num_axes: -1 filler { type: 'uniform' } } }"),
              HasSubstr("by one number"));
}

// That of the weights stays and is not drawn when the nets are compared; that of a layer would go.
TEST(MergeBatchNorm, NoiseOnParameters) {
  std::string conv = convolution("conv", "x", "");
  conv.insert(conv.find("convolution_param"), "param { noise { std: 10 } } ");
  const MergedNet merged =
      merge(kInput + conv +
            "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' } layer { name: "
            "'scale' type: 'Scale' bottom: 'norm' top: 'y' param { noise { std: 1 } } }");
  EXPECT_EQ(merged.merged(), 1);
  ASSERT_EQ(layers_of(merged.net), (std::vector<std::string>{"x", "conv", "scale"}));
  EXPECT_EQ(merged.net.layer(1).param(0).noise().std(), 10);
  EXPECT_EQ(merged.net.layer(2).param(0).noise().std(), 1);
  EXPECT_THAT(entry(merged, "scale").why, HasSubstr("its parameters have noise"));
}

TEST(MergeBatchNorm, AReluOfTheLayerStays) {
  const MergedNet merged =
      merge(kInput + convolution("conv", "x", "") +
            "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' "
            "batch_norm_param { relu: true } }");
  EXPECT_EQ(entry(merged, "norm").into, "conv");
  EXPECT_EQ(merged.net.layer(2).type(), "ReLU");
  EXPECT_EQ(merged.net.layer(2).top(0), "norm");
}

std::string norm(const std::string& bottom) {
  return "layer { name: 'norm' type: 'BatchNorm' bottom: '" + bottom + "' top: 'norm' }";
}

// Classes and hits hide differences of the scores, which are compared instead.
TEST(MergeBatchNorm, ComparesScoresBehindArgMaxAndAccuracy) {
  const std::string scores = kInput + convolution("conv", "x", "") + norm("conv");
  for (const char* last :
       {"layer { name: 'last' type: 'ArgMax' bottom: 'norm' top: 'last' }",
        "layer { name: 'labels' type: 'Input' top: 'labels' input_param { shape { dim: 2 dim: 4 "
        "dim: 3 } } } layer { name: 'last' type: 'Accuracy' bottom: 'norm' bottom: 'labels' top: "
        "'last' }"}) {
    const NetParameter net = net_param(scores + last);
    NetParameter weights = random_weights(net);
    EXPECT_EQ(entry(merge(net, weights), "norm").into, "conv");
    // The scores of channel 0 become minus infinity. They are never the greatest, so the classes
    // and the hits stay finite.
    LayerParameter& statistics = *weights.mutable_layer(2);
    ASSERT_EQ(statistics.name(), "norm");
    statistics.mutable_blobs(0)->set_data(0, 3e38F);
    statistics.mutable_blobs(1)->set_data(0, 1e-4F);
    expect_error([&] { merge(net, weights); }, {"the outputs of the merged net differ by inf"});
  }
}

TEST(MergeBatchNorm, LabelsOfALossAreClasses) {
  const MergedNet merged = merge(
      kInput + convolution("conv", "x", "") + norm("conv") +
      "layer { name: 'labels' type: 'Input' top: 'labels' input_param { shape { dim: 2 dim: 4 dim: "
      "3 } } } layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'norm' bottom: 'labels' top: "
      "'loss' }");
  EXPECT_EQ(entry(merged, "norm").into, "conv");
}

TEST(MergeBatchNorm, OutputsThatAreNotFiniteProveNothing) {
  const NetParameter net = net_param(kInput + convolution("conv", "x", "") + norm("conv"));
  NetParameter weights = random_weights(net);
  weights.mutable_layer(1)->mutable_blobs(1)->set_data(0, HUGE_VALF);
  expect_error([&] { merge(net, weights); }, {"differ by inf"});
}

TEST(MergeBatchNorm, WeightsHaveToBeThere) {
  const NetParameter net = net_param(kInput + convolution("conv", "x", ""));
  NetParameter weights = random_weights(net);
  weights.mutable_layer(1)->set_name("other");
  expect_error([&] { merge(net, weights); }, {"no weights for conv"});
}

TEST(MergeBatchNorm, APublishedNet) {
  const auto folder = shared_path("data/models/resnet20_cifar10");
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "needs " << folder << ": set CREMA_SHARED_DIR";
  NetParameter net;
  SourceMap source;
  read_text_proto((folder / "deploy.prototxt").string(), net, &source);
  Context context({.tune = false});
  const MergedNet merged =
      merge_batch_norm(net, source, (folder / "weights.caffemodel").string(), context, {});
  EXPECT_GT(merged.merged(), 0);
  EXPECT_EQ(merged.merged(), static_cast<int>(merged.entries.size())) << "all of them";
  EXPECT_LT(merged.difference, 1e-4);
}

}  // namespace
}  // namespace crema::test
