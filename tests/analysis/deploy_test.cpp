// Nets for inference that follow from nets for training: those of models/ give the outputs of the
// files that were written by hand.
#include "analysis/deploy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "analysis/prediction_heads.hpp"
#include "crema/net.hpp"
#include "crema/random.hpp"
#include "model/text_format.hpp"
#include "net/model_files.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

NetParameter parse(const std::string& text) {
  NetParameter net;
  parse_text_proto(text, "test", net);
  return net;
}

std::vector<std::string> lines_of(const NetParameter& net) {
  std::vector<std::string> lines;
  for (const LayerParameter& layer : net.layer()) {
    lines.push_back(text(layer.type(), " ", joined(layer.bottom(), " "),
                         layer.bottom_size() > 0 ? " -> " : "-> ", joined(layer.top(), " ")));
  }
  return lines;
}

class Deploy : public ::testing::Test {
 protected:
  DeployedNet deploy(const std::string& net, const DeployOptions& options = {}) {
    return deploy_net(parse(net), context_, options);
  }
  std::string why_not(const std::string& net, const DeployOptions& options = {}) {
    try {
      deploy(net, options);
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  }
  Context context_{{.tune = false}};
};

const char* const kClassifier = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN }
        transform_param { crop_size: 6 mirror: true mean_value: 1 mean_value: 2 mean_value: 3 }
        data_param { source: '/none' batch_size: 16 backend: LMDB } }
layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: TEST }
        transform_param { crop_size: 6 mean_value: 1 mean_value: 2 mean_value: 3 }
        data_param { source: '/none' batch_size: 8 backend: LMDB } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' param { lr_mult: 1 }
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: 'msra' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
layer { name: 'drop' type: 'Dropout' bottom: 'conv' top: 'conv' }
layer { name: 'fc' type: 'InnerProduct' bottom: 'conv' top: 'fc' inner_product_param { num_output: 5 } }
)";

const char* const kSoftmaxLoss =
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'accuracy' type: 'Accuracy' bottom: 'fc' bottom: 'label' top: 'accuracy' "
    "include { phase: TEST } }\n";

TEST_F(Deploy, MakesProbabilitiesOfScores) {
  const DeployedNet deployed = deploy(text(kClassifier, kSoftmaxLoss));
  EXPECT_EQ(lines_of(deployed.net),
            (std::vector<std::string>{"Input -> data", "Convolution data -> conv",
                                      "ReLU conv -> conv", "Dropout conv -> conv",
                                      "InnerProduct conv -> fc", "Softmax fc -> prob"}));
  ASSERT_EQ(deployed.inputs.size(), 1U);
  EXPECT_EQ(deployed.inputs[0].shape, (Shape{1, 3, 6, 6}));
  EXPECT_EQ(deployed.inputs[0].transform.mean_value_size(), 3);
  ASSERT_EQ(deployed.outputs.size(), 1U);
  EXPECT_EQ(deployed.outputs[0].shape, (Shape{1, 5}));
  EXPECT_EQ(deployed.left_out,
            (std::vector<std::string>{"loss (SoftmaxWithLoss)", "accuracy (Accuracy)"}));
  EXPECT_TRUE(deployed.notes.empty()) << joined(deployed.notes);
  EXPECT_EQ(deployed.net.layer(1).param_size(), 0);
  EXPECT_FALSE(deployed.net.layer(1).convolution_param().has_weight_filler());
}

TEST_F(Deploy, TakesTheProbabilitiesOfTheNet) {
  const std::string own =
      "layer { name: 'scores' type: 'Softmax' bottom: 'fc' top: 'scores' include { phase: TEST } }"
      "layer { name: 'accuracy' type: 'Accuracy' bottom: 'scores' bottom: 'label' top: 'a' include "
      "{ phase: TEST } }";
  const DeployedNet deployed = deploy(
      text(kClassifier, own,
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' "
           "include { phase: TRAIN } }"));
  EXPECT_EQ(lines_of(deployed.net).back(), "Softmax fc -> scores");
  EXPECT_EQ(deployed.outputs.size(), 1U);
}

TEST_F(Deploy, KnowsWhatLossesAreOf) {
  const auto last = [&](const std::string& loss) {
    return lines_of(deploy(text(kClassifier, loss)).net).back();
  };
  EXPECT_EQ(last("layer { name: 'l' type: 'SigmoidCrossEntropyLoss' bottom: 'fc' bottom: 'label' "
                 "top: 'l' }"),
            "Sigmoid fc -> prob");
  EXPECT_EQ(last("layer { name: 'l' type: 'HingeLoss' bottom: 'fc' bottom: 'label' top: 'l' }"),
            "InnerProduct conv -> fc");
  // The label first.
  EXPECT_EQ(last("layer { name: 'l' type: 'EuclideanLoss' bottom: 'label' bottom: 'fc' top: 'l' }"),
            "InnerProduct conv -> fc");
  EXPECT_EQ(
      last(
          "layer { name: 'half' type: 'Power' bottom: 'label' top: 'half' power_param { scale: 0.5 "
          "} } layer { name: 'l' type: 'EuclideanLoss' bottom: 'half' bottom: 'fc' top: 'l' }"),
      "InnerProduct conv -> fc");
}

TEST_F(Deploy, KnowsTheOutputsOfLosses) {
  const auto made = [&](const std::string& loss) {
    const NetParameter net =
        parse(text("layer { name: 'data' type: 'Input' top: 'x' top: 'c' top: 'p' top: 'label' } "
                   "layer { name: "
                   "'l' bottom: 'x' ",
                   loss, " }"));
    std::vector<std::string> taken;
    NetParameter layers;
    for (const LayerParameter& layer :
         output_layers({0, 3, net.layer(1), 1}, LayerGraph(net), taken, false))
      *layers.add_layer() = layer;
    return layers;
  };
  EXPECT_EQ(lines_of(made("type: 'FocalLoss' bottom: 'label'"))[0], "Softmax x -> prob");
  EXPECT_EQ(
      lines_of(made("type: 'FocalLoss' bottom: 'label' focal_loss_param { activation: SIGMOID "
                    "}"))[0],
      "Sigmoid x -> prob");
  const NetParameter sequences = made("type: 'WarpCTCLoss' bottom: 'label'");
  EXPECT_EQ(lines_of(sequences)[0], "CTCGreedyDecoder x -> sequences");
  EXPECT_EQ(sequences.layer(0).ctc_decoder_param().blank_index(), 0);
  const NetParameter region = made(
      "type: 'RegionLoss' bottom: 'label' region_loss_param { num_class: 7 num: 2 biases: 1 "
      "biases: 2 "
      "biases: 3 biases: 4 }");
  EXPECT_EQ(lines_of(region)[0], "RegionDetectionOutput x -> detection_out");
  EXPECT_EQ(region.layer(0).region_detection_output_param().num_classes(), 7);
  EXPECT_EQ(region.layer(0).region_detection_output_param().biases_size(), 4);
  EXPECT_EQ(lines_of(made("type: 'MultiBoxLoss' bottom: 'c' bottom: 'p' bottom: 'label' "
                          "multibox_loss_param { num_classes: 3 conf_loss_type: LOGISTIC }")),
            (std::vector<std::string>{"Sigmoid c -> c_sigmoid",
                                      "DetectionOutput x c_sigmoid p -> detection_out"}));
}

// Whatever computes it, a prediction is one, and neither loss nor label stays.
TEST_F(Deploy, KnowsPredictionsOfAllLayers) {
  for (const std::string layer :
       {"type: 'Convolution3D' convolution3d_param { num_output: 2 kernel_size: 1 kernel_depth: 1 "
        "}",
        "type: 'PReLU'", "type: 'BatchNorm'",
        "type: 'DepthwiseConvolution' convolution_param { num_output: 3 kernel_size: 1 group: 3 }",
        "type: 'LRN'", "type: 'LocallyConnected'"}) {
    NetParameter net = parse(text(
        "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: "
        "4 dim: 3 dim: 8 dim: 8 } shape { dim: 4 dim: 1 dim: 8 dim: 8 } } }"
        "layer { name: 'x' bottom: 'data' top: 'x' ",
        layer,
        " } layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' top: 'l' "
        "}"));
    const LayerGraph graph(net);
    const std::vector<PredictionHead> heads = heads_of(graph, net);
    ASSERT_EQ(heads.size(), 1U) << layer;
    EXPECT_EQ(graph.name(heads[0].value), "x") << layer;
    EXPECT_EQ(graph.name(heads[0].target), "label") << layer;
  }
  // A loss of labels alone is none of a prediction.
  const std::string why = why_not(
      text(kClassifier,
           "layer { name: 'l' type: 'HingeLoss' bottom: 'label' bottom: 'label' top: 'l' }"));
  EXPECT_NE(why.find("--outputs"), std::string::npos) << why;
  const DeployedNet without = deploy(kClassifier);
  EXPECT_EQ(lines_of(without.net).back(), "InnerProduct conv -> fc");
  ASSERT_EQ(without.notes.size(), 1U);
  EXPECT_NE(without.notes[0].find("no loss"), std::string::npos);
}

TEST_F(Deploy, LeavesAuxiliaryLossesOut) {
  const DeployedNet deployed = deploy(text(
      kClassifier,
      "layer { name: 'side' type: 'InnerProduct' bottom: 'conv' top: 'side' inner_product_param { "
      "num_output: 5 } }"
      "layer { name: 'side_loss' type: 'SoftmaxWithLoss' bottom: 'side' bottom: 'label' top: 's' "
      "loss_weight: 0.3 }"
      "layer { name: 'side_accuracy' type: 'Accuracy' bottom: 'side' bottom: 'label' top: 'b' }",
      kSoftmaxLoss));
  EXPECT_EQ(lines_of(deployed.net).back(), "Softmax fc -> prob");
  EXPECT_EQ(deployed.net.layer_size(), 6);
  ASSERT_EQ(deployed.notes.size(), 1U);
  EXPECT_NE(deployed.notes[0].find("side_loss"), std::string::npos);
}

TEST_F(Deploy, LeavesAuxiliaryLossesOutWhereTheLabelIsFirst) {
  const DeployedNet deployed = deploy(text(
      kClassifier,
      "layer { name: 'side' type: 'InnerProduct' bottom: 'conv' top: 'side' inner_product_param { "
      "num_output: 1 } }"
      "layer { name: 'side_loss' type: 'EuclideanLoss' bottom: 'label' bottom: 'side' top: 's' "
      "loss_weight: 0.3 }"
      "layer { name: 'main' type: 'InnerProduct' bottom: 'fc' top: 'main' inner_product_param { "
      "num_output: 1 } }"
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'label' bottom: 'main' top: 'l' }"));
  ASSERT_EQ(deployed.outputs.size(), 1U);
  EXPECT_EQ(deployed.outputs[0].blob, "main");
}

TEST_F(Deploy, KeepsTwoTasksApart) {
  const DeployedNet deployed = deploy(text(
      kClassifier, kSoftmaxLoss,
      "layer { name: 'age' type: 'InnerProduct' bottom: 'conv' top: 'age' inner_product_param { "
      "num_output: 1 } }"
      "layer { name: 'years' type: 'DummyData' top: 'years' dummy_data_param { shape { dim: 8 dim: "
      "1 } } }"
      "layer { name: 'age_loss' type: 'EuclideanLoss' bottom: 'age' bottom: 'years' top: 'l' "
      "loss_weight: 0.1 }"));
  ASSERT_EQ(deployed.outputs.size(), 2U);
  EXPECT_EQ(deployed.outputs[0].blob, "age");
  EXPECT_EQ(deployed.outputs[1].blob, "fc_prob");
}

TEST_F(Deploy, MakesBoxesOfALossOfBoxes) {
  const DeployedNet deployed = deploy(R"(
layer { name: 'data' type: 'Input' top: 'data' top: 'label'
        input_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } shape { dim: 1 dim: 1 dim: 2 dim: 8 } } }
layer { name: 'loc' type: 'Convolution' bottom: 'data' top: 'loc_map' convolution_param { num_output: 4 kernel_size: 8 } }
layer { name: 'loc_flat' type: 'Flatten' bottom: 'loc_map' top: 'loc' }
layer { name: 'conf' type: 'Convolution' bottom: 'data' top: 'conf_map' convolution_param { num_output: 3 kernel_size: 8 } }
layer { name: 'conf_flat' type: 'Flatten' bottom: 'conf_map' top: 'conf' }
layer { name: 'prior' type: 'PriorBox' bottom: 'loc_map' bottom: 'data' top: 'prior' prior_box_param { min_size: 4 } }
layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'loc' bottom: 'conf' bottom: 'prior' bottom: 'label' top: 'loss'
        include { phase: TRAIN } multibox_loss_param { num_classes: 3 code_type: CENTER_SIZE } })");
  EXPECT_EQ(lines_of(deployed.net).back(), "DetectionOutput loc conf_flat prior -> detection_out");
  const DetectionOutputParameter& out =
      deployed.net.layer(deployed.net.layer_size() - 1).detection_output_param();
  EXPECT_EQ(out.num_classes(), 3U);
  EXPECT_EQ(out.code_type(), PriorBoxParameter::CENTER_SIZE);
  EXPECT_EQ(deployed.outputs.size(), 1U);
  EXPECT_EQ(deployed.inputs.size(), 1U);
  EXPECT_EQ(deployed.inputs[0].shape, (Shape{1, 3, 8, 8}));
  ASSERT_EQ(deployed.notes.size(), 1U);
  EXPECT_NE(deployed.notes[0].find("confidence of 0.01"), std::string::npos) << deployed.notes[0];
}

TEST_F(Deploy, TakesShapesBatchAndOutputs) {
  DeployOptions options;
  options.batch = 4;
  options.shapes[""] = {1, 9, 7};
  options.outputs = {"conv"};
  const DeployedNet deployed = deploy(text(kClassifier, kSoftmaxLoss), options);
  EXPECT_EQ(deployed.inputs[0].shape, (Shape{4, 1, 9, 7}));
  EXPECT_EQ(lines_of(deployed.net).back(), "Dropout conv -> conv");
  options.outputs = {"conv", "fc"};
  EXPECT_NE(why_not(text(kClassifier, kSoftmaxLoss), options).find("'conv' cannot be an output"),
            std::string::npos);
  options.outputs = {"convo"};
  EXPECT_NE(why_not(text(kClassifier, kSoftmaxLoss), options).find("did you mean 'conv'"),
            std::string::npos);
  options.outputs = {};
  options.shapes["date"] = {1};
  EXPECT_NE(why_not(text(kClassifier, kSoftmaxLoss), options).find("no input 'date'"),
            std::string::npos);
  options.shapes = {{"", {9, 7}}};
  EXPECT_NE(why_not(text(kClassifier, kSoftmaxLoss), options).find("channels, height and width"),
            std::string::npos);
}

// Of a data layer whose records are cut into several inputs, the shape is that of its records.
TEST_F(Deploy, TakesTheShapeOfWhatIsCut) {
  const std::string pairs =
      "layer { name: 'pairs' type: 'Data' top: 'both' top: 'label' data_param { source: '/none' "
      "batch_size: 6 backend: LMDB } }"
      "layer { name: 'cut' type: 'Slice' bottom: 'both' top: 'a' top: 'b' slice_param { axis: 0 } }"
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'a' top: 'fc' inner_product_param { "
      "num_output: 5 } }"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' }";
  const std::string why = why_not(pairs);
  EXPECT_NE(why.find("the shape of 'both' cannot be told"), std::string::npos) << why;
  EXPECT_NE(why.find("--shape=both=3x224x224"), std::string::npos) << why;
  for (const char* name : {"", "both"}) {
    const DeployedNet deployed = deploy(pairs, {.shapes = {{name, {2, 28, 28}}}});
    ASSERT_EQ(deployed.inputs.size(), 1U);
    EXPECT_EQ(deployed.inputs[0].blob, "a");
    EXPECT_EQ(deployed.inputs[0].shape, (Shape{1, 2, 28, 28}));
  }
  const DeployedNet channels =
      deploy(std::string(pairs).replace(pairs.find("axis: 0"), 7, "axis: 1"),
             {.shapes = {{"", {2, 9, 9}}}});
  EXPECT_EQ(channels.inputs[0].shape, (Shape{1, 1, 9, 9}));
  EXPECT_EQ(deploy(pairs, {.shapes = {{"a", {3, 9, 9}}}}).inputs[0].shape, (Shape{1, 3, 9, 9}));
}

TEST_F(Deploy, NamesTheInputsWithoutAShape) {
  const std::string why = why_not(
      "layer { name: 'data' type: 'Data' top: 'data' top: 'info' transform_param { crop_size: 8 } "
      "data_param { source: '/none' backend: LMDB batch_size: 2 } }"
      "layer { name: 'sum' type: 'InnerProduct' bottom: 'data' top: 'sum' inner_product_param { "
      "num_output: 1 } }"
      "layer { name: 'more' type: 'InnerProduct' bottom: 'info' top: 'more' inner_product_param { "
      "num_output: 1 } }"
      "layer { name: 'all' type: 'Eltwise' bottom: 'sum' bottom: 'more' top: 'all' }");
  EXPECT_NE(why.find("the shape of 'info' cannot be told"), std::string::npos) << why;
}

TEST_F(Deploy, SaysWhatItCannotTell) {
  std::string sizeless = text(kClassifier, kSoftmaxLoss);
  for (size_t at = 0; (at = sizeless.find("crop_size: 6", at)) != std::string::npos;)
    sizeless.erase(at, 12);
  EXPECT_NE(why_not(sizeless).find("the shape of 'data' cannot be told"), std::string::npos)
      << why_not(sizeless);
  EXPECT_NE(why_not("layer { name: 'd' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: "
                    "2 } } }")
                .find("name the outputs"),
            std::string::npos);
}

// A Reshape that has the batch in it keeps the batch.
TEST_F(Deploy, KeepsABatchThatTheNetNeeds) {
  const DeployedNet deployed = deploy(R"(
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 6 dim: 4 } } }
layer { name: 'pairs' type: 'Reshape' bottom: 'data' top: 'pairs' reshape_param { shape { dim: 3 dim: 8 } } }
layer { name: 'fc' type: 'InnerProduct' bottom: 'pairs' top: 'fc' inner_product_param { num_output: 5 } }
layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 3 } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' })");
  EXPECT_EQ(deployed.inputs[0].shape, (Shape{6, 4}));
  ASSERT_EQ(deployed.notes.size(), 1U);
  EXPECT_NE(deployed.notes[0].find("the batch stays 6"), std::string::npos);
}

/// Random numbers, the same for both nets.
void fill(Net& net) {
  for (const std::string& name : net.inputs()) {
    Tensor& input = net.input(name);
    Random random(1701, stream_id(name));
    float* values = input.overwrite<float>();
    // Characters and indicators are whole numbers.
    const bool whole = input.shape().rank() < 4 && name != "state" && input.shape().rank() != 3;
    for (int64_t i = 0; i < input.count(); ++i)
      values[i] = name == "zeros" ? 0.0F : whole ? 1.0F : static_cast<float>(random.uniform(-1, 1));
  }
}

double difference(const Tensor& a, const Tensor& b) {
  if (a.count() != b.count()) return 1e30;
  double most = 0, greatest = 1e-30;
  for (int64_t i = 0; i < a.count(); ++i) {
    most = std::max(most, std::abs(a.at(i) - b.at(i)));
    greatest = std::max(greatest, std::abs(a.at(i)));
  }
  return most / greatest;
}

// The others are like some of these, and take seconds each.
const std::set<std::string> kCompared = {"autoencoder_mnist",
                                         "bvlc_googlenet",
                                         "cartpole_dqn",
                                         "char_lm",
                                         "cifar10_full",
                                         "cifar10_quick",
                                         "digits_crnn",
                                         "digits_ssd",
                                         "digits_unet",
                                         "gru",
                                         "keyword_hdf5",
                                         "lenet",
                                         "lenet_fashion",
                                         "lstm",
                                         "mlp_mnist",
                                         "mobilenet_v2",
                                         "resnet20_cifar10",

                                         "siamese_mnist",
                                         "squeezenet_v1.1",
                                         "ssd_shapes",
                                         "vdsr",
                                         "mobilenet_v2_cifar10",
                                         "conv_autoencoder_mnist"};

TEST_F(Deploy, GivesTheOutputsOfThePublishedFiles) {
  std::set<std::string> compared;
  for (const std::string& file : test::training_files()) {
    const std::string folder = fs::path(file).parent_path().string();
    if (kCompared.count(folder) == 0) continue;
    compared.insert(folder);
    SCOPED_TRACE(file);
    const NetParameter training = test::training_net(file);
    const DeployedNet deployed = deploy_net(training, context_);
    NetParameter weights;
    {
      Net trained(training, context_, {.backward = NetOptions::Backward::no});
      test::standardize(trained);
      test::fill_zero_weights(trained);
      trained.save(weights);
    }
    const NetOptions options = {.phase = Phase::test, .fuse = false};
    Net own(deployed.net, context_, options);
    Net published(test::read_model(test::deploy_file_of(file)), context_, options);
    EXPECT_TRUE(own.load_weights(weights).missing.empty());
    EXPECT_TRUE(published.load_weights(weights).missing.empty());
    EXPECT_EQ(std::set<std::string>(own.inputs().begin(), own.inputs().end()),
              std::set<std::string>(published.inputs().begin(), published.inputs().end()));
    for (const std::string& name : published.inputs()) {
      if (std::ranges::count(own.inputs(), name) > 0)
        own.reshape_input(name, published.input(name).shape());
    }
    own.reshape();
    fill(own);
    fill(published);
    own.forward();
    published.forward();
    ASSERT_EQ(own.outputs().size(), published.outputs().size())
        << joined(own.outputs()) << " | " << joined(published.outputs());
    for (size_t i = 0; i < own.outputs().size(); ++i) {
      EXPECT_LT(difference(published.output(published.outputs()[i]), own.output(own.outputs()[i])),
                1e-5)
          << published.outputs()[i] << ", " << own.outputs()[i];
    }
  }
  EXPECT_EQ(compared, kCompared);
}

}  // namespace
}  // namespace crema
