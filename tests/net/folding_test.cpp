// BatchNorm with stored statistics and Scale, folded into the convolution before them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/dispatch.hpp"
#include "crema/random.hpp"
#include "layers/convolution/convolution.hpp"
#include "layers/convolution/ends.hpp"
#include "support/net_test.hpp"

namespace crema::test {
namespace {

using Values = std::vector<double>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kInput =
    "layer { name: 'in' type: 'Input' top: 'x' "
    "input_param { shape { dim: 2 dim: 6 dim: 7 dim: 9 } } } ";
const std::string kNorm = "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'n' } ";
const std::string kScale =
    "layer { name: 'scale' type: 'Scale' bottom: 'n' top: 's' scale_param { bias_term: true } } ";
const std::string kRelu = "layer { name: 'relu' type: 'ReLU' bottom: 's' top: 's' } ";

std::string convolution(const std::string& settings, const std::string& type = "Convolution") {
  return "layer { name: 'conv' type: '" + type +
         "' bottom: 'x' top: 'c' convolution_param { kernel_size: 3 pad: 1 " + settings + " } } ";
}

/// Random parameters; variances and factors are positive.
void fill_parameters(Net& net) {
  for (Layer* layer : net.layers()) {
    const bool norm = layer->type() == "BatchNorm";
    for (size_t i = 0; i < layer->params().size(); ++i) {
      Tensor& values = layer->params()[i]->data;
      Random random(5, stream_id(layer->name()), i);
      const bool positive = (norm && (i == 1 || i == 2)) || (layer->type() == "BN" && i == 3);
      dispatch_float(values.dtype(), [&]<class T>(T) {
        const auto writing = values.changing<T>();
        for (int64_t k = 0; k < values.count(); ++k) {
          writing[k] = static_cast<T>(positive ? random.uniform(0.5, 2) : random.uniform(-1, 1));
        }
      });
    }
  }
}

/// Names of the layers that the layer computes too.
std::vector<std::string> fused_into(Net& net, const std::string& layer) {
  std::vector<std::string> names;
  for (const LayerSummary& row : net.summary()) {
    if (row.fused_into == layer) names.push_back(row.name);
  }
  return names;
}

class Folding : public ::testing::Test {
 protected:
  Net make(const std::string& text, NetOptions options = {}) {
    options.phase = Phase::test;
    Net net(net_param(text), context_, options);
    fill_inputs(net);
    return net;
  }

  /// Both nets of the text, folded and not, give the same in f64.
  void expect_folded(const std::string& text, const std::string& top,
                     const std::vector<std::string>& layers) {
    SCOPED_TRACE(text);
    Net folded = make(text, {.dtype = DType::f64});
    Net plain = make(text, {.dtype = DType::f64, .fuse = false});
    EXPECT_EQ(fused_into(folded, "conv"), layers);
    for (Net* net : {&folded, &plain}) {
      fill_parameters(*net);
      net->forward();
    }
    const Values y = values_of(folded.output(top)), expected = values_of(plain.output(top));
    ASSERT_EQ(y.size(), expected.size());
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-12) << i;
  }

  Context context_{{.tune = false}};
};

TEST_F(Folding, GivesTheSame) {
  const std::string all = kNorm + kScale + kRelu;
  const std::vector<std::string> layers = {"bn", "scale", "relu"};
  expect_folded(kInput + convolution("num_output: 5") + all, "s", layers);
  expect_folded(kInput + convolution("num_output: 5 bias_term: false") + all, "s", layers);
  expect_folded(kInput + convolution("num_output: 4 group: 2 stride: 2") + all, "s", layers);
  expect_folded(kInput + convolution("num_output: 6", "DepthwiseConvolution") + all, "s", layers);
  expect_folded(kInput + convolution("num_output: 5", "Deconvolution") + all, "s", layers);
  expect_folded(kInput + convolution("num_output: 4 group: 2", "Deconvolution") + all, "s", layers);
}

TEST_F(Folding, TakesAnyNumberOfSteps) {
  const std::string conv = kInput + convolution("num_output: 5");
  expect_folded(conv + kNorm, "n", {"bn"});
  expect_folded(conv +
                    "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'n' "
                    "batch_norm_param { scale_bias: true eps: 0.1 } } ",
                "n", {"bn"});
  expect_folded(conv + "layer { name: 'bn' type: 'BN' bottom: 'c' top: 'n' } ", "n", {"bn"});
  expect_folded(conv + "layer { name: 'scale' type: 'Scale' bottom: 'c' top: 's' } " + kRelu, "s",
                {"scale", "relu"});
  expect_folded(conv +
                    "layer { name: 'a' type: 'Scale' bottom: 'c' top: 'a' } "
                    "layer { name: 'b' type: 'Bias' bottom: 'a' top: 'b' } "
                    "layer { name: 'bn' type: 'BatchNorm' bottom: 'b' top: 'n' } ",
                "n", {"a", "b", "bn"});
}

TEST_F(Folding, AShortcutIsAddedBehind) {
  expect_folded(kInput +
                    "layer { name: 'power' type: 'Power' bottom: 'x' top: 'p' power_param "
                    "{ scale: 2 } } " +
                    convolution("num_output: 6") + kNorm + kScale +
                    "layer { name: 'sum' type: 'Eltwise' bottom: 'p' bottom: 's' top: 'e' } "
                    "layer { name: 'last' type: 'ReLU' bottom: 'e' top: 'e' } ",
                "e", {"bn", "scale", "sum", "last"});
}

TEST_F(Folding, IsNotDoneWhereItWouldShow) {
  const std::string conv = kInput + convolution("num_output: 5"), all = kNorm + kScale;
  const auto layers = [&](const std::string& text, const NetOptions& options = {}) {
    Net net = make(text, options);
    return fused_into(net, "conv");
  };
  EXPECT_THAT(layers(conv + all, {.keep = {"c"}}), IsEmpty());
  EXPECT_THAT(layers(conv + all + "layer { name: 'd' type: 'Silence' bottom: 'c' }"), IsEmpty());
  EXPECT_THAT(layers(kInput + convolution("num_output: 5 relu: true") + all), IsEmpty());
  EXPECT_THAT(layers(conv + "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'n' "
                            "batch_norm_param { use_global_stats: false } } "),
              IsEmpty())
      << "statistics of the batch";
  EXPECT_THAT(layers(conv + "layer { name: 'scale' type: 'Scale' bottom: 'c' top: 's' "
                            "scale_param { axis: 2 num_axes: 1 } } "),
              IsEmpty());
  Net training(net_param(conv + all +
                         "layer { name: 'loss' type: 'Reduction' bottom: 's' "
                         "top: 'loss' loss_weight: 1 }"),
               context_, {.phase = Phase::train});
  EXPECT_THAT(fused_into(training, "conv"), IsEmpty()) << "the weights learn";
}

// Each parameter that the folded values follow from may change between passes.
TEST_F(Folding, FollowsTheParameters) {
  const std::string text = kInput + convolution("num_output: 5") + kNorm + kScale;
  Net folded = make(text), plain = make(text, {.fuse = false});
  for (Net* net : {&folded, &plain}) fill_parameters(*net);
  Values last;
  for (const std::string layer : {"", "conv", "bn", "scale"}) {
    const size_t count = layer.empty() ? 1 : folded.layer(layer).params().size();
    for (size_t i = 0; i < count; ++i) {
      SCOPED_TRACE(layer + " " + std::to_string(i));
      for (Net* net : {&folded, &plain}) {
        if (!layer.empty()) net->layer(layer).params()[i]->data.changing<float>()[0] += 0.25F;
        net->forward();
      }
      const Values y = values_of(folded.output("s")), expected = values_of(plain.output("s"));
      for (size_t k = 0; k < y.size(); ++k) {
        ASSERT_NEAR(y[k], expected[k], 1e-5 * (1 + std::abs(expected[k]))) << k;
      }
      EXPECT_NE(y, last);
      last = y;
    }
  }
}

// The folded values of nets that share parameters are one copy; of other parameters they are not.
TEST_F(Folding, OfSharedParametersIsShared) {
  const std::string text = kInput + convolution("num_output: 5") + kNorm + kScale;
  Net first = make(text);
  fill_parameters(first);
  const auto folded_by = [](Net& net) {
    net.forward();
    auto& conv = static_cast<ConvolutionLayer&>(net.layer("conv"));
    ConvolutionEnds ends(conv);
    ends.fold(ComputeDevice());
    EXPECT_NE(ends.weights().storage(), conv.params()[0]->storage());
    return ends.weights().storage();
  };
  const auto values = folded_by(first);
  Net second = make(text, {.share_params_with = &first});
  EXPECT_EQ(folded_by(second), values);
  EXPECT_EQ(folded_by(first), values);
  second.layer("bn").params()[0]->data.changing<float>()[1] += 1;
  const auto moved = folded_by(first);
  EXPECT_NE(moved, values);
  EXPECT_EQ(folded_by(second), moved);
  Net third = make(text);
  fill_parameters(third);
  EXPECT_NE(folded_by(third), moved);
}

// A Convolution and a Deconvolution scale different axes of the same weights.
TEST_F(Folding, OfTiedLayersIsOfEachLayer) {
  const std::string weights =
                        "param { name: 'w' } convolution_param { num_output: 6 kernel_size: 3 "
                        "pad: 1 bias_term: false weight_filler { type: 'gaussian' } } } ",
                    scale = "scale_param { filler { type: 'uniform' } } param { name: 's' } } ";
  const std::string text =
      kInput + "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'c' " + weights +
      "layer { name: 'scale' type: 'Scale' bottom: 'c' top: 's' " + scale +
      "layer { name: 'deconv' type: 'Deconvolution' bottom: 'x' top: 'd' " + weights +
      "layer { name: 'scale2' type: 'Scale' bottom: 'd' top: 't' " + scale;
  Net folded = make(text, {.dtype = DType::f64});
  Net plain = make(text, {.dtype = DType::f64, .fuse = false});
  ASSERT_THAT(fused_into(folded, "deconv"), ElementsAre("scale2"));
  for (Net* net : {&folded, &plain}) net->forward();
  for (const char* top : {"s", "t"}) {
    const Values y = values_of(folded.output(top)), expected = values_of(plain.output(top));
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-12) << top << " " << i;
  }
}

TEST_F(Folding, IsInThePlannedMemory) {
  const std::string text = kInput + convolution("num_output: 5") + kNorm + kScale;
  Net net = make(text, {.dtype = DType::f64});
  constexpr size_t kWeights = 5 * 6 * 9, kBias = 5;
  const size_t planned = net.memory().engines;
  EXPECT_GE(planned, (kWeights + kBias) * sizeof(double));
  net.forward();
  EXPECT_EQ(net.memory().engines, planned);
}

// Files hold the parameters as they are, not the folded ones.
TEST_F(Folding, LeavesTheParameters) {
  const std::string text = kInput + convolution("num_output: 5") + kNorm + kScale;
  Net net = make(text);
  fill_parameters(net);
  NetParameter before, after;
  net.save(before);
  net.forward();
  net.save(after);
  EXPECT_EQ(before.SerializeAsString(), after.SerializeAsString());
}

}  // namespace
}  // namespace crema::test
