// The nets of models/ are the published ones: numbers of learned parameters, the same weights for
// training and for inference, inference with any batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "crema/parameter_arena.hpp"
#include "model/text_format.hpp"
#include "net/model_files.hpp"
#include "support/paths.hpp"
#include "tools/markdown.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

using test::learned_in;
using test::Weights;
using test::weights_of;

/// Without biases, each convolution with the two numbers a channel of Scale.
constexpr int64_t convolution_scale(int64_t inputs, int64_t outputs, int64_t kernel) {
  return kernel * kernel * inputs * outputs + 2 * outputs;
}

/// `blocks` inverted residuals, each of which widens its bottom `expand` times, sums up each
/// channel by 3x3 and narrows to `outputs`. `inputs`: of the first one.
constexpr int64_t inverted_residuals(int64_t inputs, int64_t expand, int64_t outputs, int blocks) {
  int64_t sum = 0;
  for (int block = 0; block < blocks; ++block) {
    const int64_t width = expand * inputs;
    if (expand > 1) sum += convolution_scale(inputs, width, 1);
    sum += convolution_scale(1, width, 3) + convolution_scale(width, outputs, 1);
    inputs = outputs;
  }
  return sum;
}

/// Learned parameters; the statistics of BatchNorm are none.
const std::map<std::string, int64_t> kLearned = {
    // The sums of p.numel() over torchvision's models of these names, vgg11 for vgg_a,
    // squeezenet1_1, resnext50_32x4d, shufflenet_v2_x1_0, and inception_v3 without AuxLogits, which
    // has 3,326,696.
    {"alexnet", 61'100'840},
    {"vgg_a", 132'863'336},
    {"resnet18", 11'689'512},
    {"resnet50", 25'557'032},
    {"resnet101", 44'549'160},
    {"mobilenet_v2", 3'504'872},
    {"densenet121", 7'978'856},
    {"squeezenet_v1.1", 1'235'496},
    {"inception_v3", 23'834'568},
    {"vgg16", 138'357'544},
    {"vgg19", 143'667'240},
    {"resnext50", 25'028'904},
    {"mobilenet_v3_large", 5'483'032},
    {"shufflenet_v2", 2'278'604},
    {"efficientnet_b0", 5'288'548},
    // Keras's MobileNet, without the 21,888 that do not train.
    {"mobilenet_v1", 4'231'976},
    // The shapes that Caffe gives the parameters of its models/bvlc_reference_caffenet.
    {"caffenet", (96 * 3 * 121 + 96) + (256 * 48 * 25 + 256) + (384 * 256 * 9 + 384) +
                     (384 * 192 * 9 + 384) + (256 * 192 * 9 + 256) + (4096 * 9216 + 4096) +
                     (4096 * 4096 + 4096) + (1000 * 4096 + 1000)},
    // The same shapes.
    {"alexnet_two_towers", 60'965'224},
    // VGG-16's convolutions, fc6 and fc7; six heads, whose boxes have 4 locations and 21 scores;
    // the scale of conv4_3_norm.
    {"ssd300_vgg", 14'714'688 + (1024 * 512 * 9 + 1024) + (1024 * 1024 + 1024) +
                       (256 * 1024 + 256) + (512 * 256 * 9 + 512) + (128 * 512 + 128) +
                       3 * (256 * 128 * 9 + 256) + 2 * (128 * 256 + 128) + 512 +
                       (512 * 9 + 1) * 4 * 25 + (1024 * 9 + 1) * 6 * 25 + (512 * 9 + 1) * 6 * 25 +
                       (256 * 9 + 1) * (6 + 4 + 4) * 25},
    // MobileNet v1 without its inner product; four pairs of 1x1 and 3x3 convolutions, each with the
    // two numbers a channel of Scale; six heads of 1x1.
    {"ssd_mobilenet", 4'231'976 - 1'025'000 + (256 * 1024 + 512 * 256 * 9 + 2 * 768) +
                          (128 * 512 + 256 * 128 * 9 + 2 * 384) +
                          (128 * 256 + 256 * 128 * 9 + 2 * 384) +
                          (64 * 256 + 128 * 64 * 9 + 2 * 192) + (512 + 1) * 3 * 25 +
                          ((1024 + 1) + (512 + 1) + (256 + 1) + (256 + 1) + (128 + 1)) * 6 * 25},
    // The file of the published weights has four bytes for each of these and of 2 * 3,056
    // statistics.
    {"yolo_v2_tiny", 15'867'885 - 2 * 3'056},
    // VGG-16 with convolutions for fc6 and fc7; three layers of scores; a scale for each channel of
    // pool4 and pool3; a kernel for each class in the three layers that enlarge.
    {"fcn8s", 14'714'688 + (4096 * 512 * 49 + 4096) + (4096 * 4096 + 4096) +
                  21 * (4096 + 1 + 512 + 1 + 256 + 1) + (512 + 256) + 21 * (16 + 16 + 256)},
    // ResNet-50 without its inner product but with the bias of conv1; the regions; the maps.
    {"rfcn_resnet50", 25'557'032 - 2'049'000 + 64 + (512 * 1024 * 9 + 512) + (512 + 1) * (18 + 36) +
                          (1024 * 2048 + 1024) + (1024 + 1) * (21 + 8) * 49},
    // CaffeNet; words; two LSTM layers of 4 gates, the second one with a static input; scores of
    // words.
    {"lrcn", 60'965'224 + 8801 * 1000 + 4000 * (2000 + 1) + 4000 * (3000 + 1) + 8801 * 1001},
    // Twenty convolutions of 3x3.
    {"vdsr", (64 * 9 + 64) + 18 * (64 * 64 * 9 + 64) + (64 * 9 + 1)},
    // timm's vit_tiny_patch16_224; one block has
    // 2 * 2 * 192 + (192 + 1) * 576 + (192 + 1) * 192 + (192 + 1) * 768 + (768 + 1) * 192 =
    // 444,864.
    {"vit_tiny", 12 * 444'864 + (3 * 16 * 16 + 1) * 192 + 192 + 197 * 192 + 2 * 192 + 193 * 1000},
    // Devlin et al., arXiv:1810.04805, have 110 million, with 512 positions and two kinds of
    // sentences. One block has 4 * (768 + 1) * 768 + 769 * 3072 + 3073 * 768 + 4 * 768.
    {"bert_base", (30522 + 128 + 2) * 768 + 12 * 7'087'872 + 769 * 768 + 769 * 2},
    // The paper has 7 million. torchvision's googlenet is another net: BatchNorm, and 3x3 for 5x5.
    {"googlenet", 6'998'552},
    // The sum of the shapes in the published deploy.prototxt; its auxiliary classifiers are in
    // kHeads.
    {"bvlc_googlenet", 6'998'552},
    // The paper has 145 million: convolutions, then inner products.
    {"overfeat", (96 * 3 * 121 + 96) + (256 * 96 * 25 + 256) + (512 * 256 * 9 + 512) +
                     (1024 * 512 * 9 + 1024) + (1024 * 1024 * 9 + 1024) +
                     (3072 * 1024 * 36 + 3072) + (4096 * 3072 + 4096) + (1000 * 4096 + 1000)},
    // As the PyTorch-UNet of many users has with n_channels=3, n_classes=2, bilinear=False.
    {"unet", 31'037'698},
    // Two layers: 4 or 3 gates of 512 x (512 + 512) weights and a bias; the candidate of a GRU has
    // two.
    {"lstm", 2 * 4 * (512 * 1024 + 512) + 5130},
    {"gru", 2 * (3 * (512 * 1024 + 512) + 512) + 5130},
    {"lenet", 431'080},
    {"cifar10_quick", 145'578},
    // Six convolutions of 3x3, and four of 16 outputs for locations and scores.
    {"ssd_shapes", (16 * 27 + 16) + (32 * 144 + 32) + (64 * 288 + 64) + (64 * 576 + 64) +
                       (96 * 576 + 96) + (96 * 864 + 96) + 2 * (16 * 576 + 16) +
                       2 * (16 * 864 + 16)},
    {"mlp_mnist", (784 + 1) * 512 + (512 + 1) * 512 + (512 + 1) * 10},
    {"lenet_fashion", 431'080},
    // LeNet with 16 coordinates in place of its ten scores.
    {"siamese_mnist", 431'080 + (500 + 1) * (16 - 10)},
    {"autoencoder_mnist", (784 + 1) * 1000 + (1000 + 1) * 500 + (500 + 1) * 250 + (250 + 1) * 30 +
                              (30 + 1) * 250 + (250 + 1) * 500 + (500 + 1) * 1000 +
                              (1000 + 1) * 784},
    {"conv_autoencoder_mnist", (9 + 1) * 16 + (16 * 9 + 1) * 32 + (32 * 9 + 1) * 4 +
                                   (4 * 9 + 0) * 32 + 32 + 32 * 9 * 16 + 16 + 16 * 9 + 1},
    // Three convolutions of 5x5, and the scores of 4x4 places.
    {"cifar10_full",
     (3 * 25 + 1) * 32 + (32 * 25 + 1) * 32 + (32 * 25 + 1) * 64 + (64 * 16 + 1) * 10},
    // He et al., section 4.2, say 0.27 million: 19 convolutions of 3x3 without bias, each with two
    // numbers a channel of Scale; two shortcuts of 1x1 with theirs; the scores.
    {"resnet20_cifar10",
     9 * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64) +
         2 * (7 * 16 + 6 * 32 + 6 * 64) + (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64) + (64 + 1) * 10},
    // MobileNet v2 of half the width, with 640 channels before the scores.
    {"mobilenet_v2_cifar10",
     convolution_scale(3, 16, 3) + inverted_residuals(16, 1, 8, 1) +
         inverted_residuals(8, 6, 16, 2) + inverted_residuals(16, 6, 16, 3) +
         inverted_residuals(16, 6, 32, 4) + inverted_residuals(32, 6, 48, 3) +
         inverted_residuals(48, 6, 80, 3) + inverted_residuals(80, 6, 160, 1) +
         convolution_scale(160, 640, 1) + (640 + 1) * 10},
    // 63 characters, embedded in 64 numbers; 4 gates of 256 cells; the scores.
    {"char_lm", 63 * 64 + 4 * 256 * (64 + 256 + 1) + (256 + 1) * 63},
    // Convolutions of 3x3 without bias, each with the two numbers a channel of Scale; the scores.
    {"keyword_hdf5",
     9 * (16 + 16 * 32 + 32 * 32 + 32 * 64) + 2 * (16 + 32 + 32 + 64) + (64 + 1) * 10},
    // Eight convolutions of 3x3 without bias, each with the two numbers a channel of Scale; for
    // each place of two maps, 6 and 4 boxes of 4 locations and 11 scores, also by 3x3.
    {"digits_ssd",
     9 * (3 * 16 + 16 * 24 + 24 * 48 + 48 * 64 + 64 * 96 + 96 * 96 + 96 * 128 + 128 * 128) +
         2 * (16 + 24 + 48 + 64 + 96 + 96 + 128 + 128) + (96 * 9 + 1) * 6 * 15 +
         (128 * 9 + 1) * 4 * 15},
    // Thirteen convolutions of 3x3 without bias, each with the two numbers a channel of Scale; four
    // deconvolutions of 2x2 and the scores with bias.
    {"digits_unet",
     9 * (3 * 16 + 16 * 24 + 24 * 24 + 24 * 48 + 48 * 48 + 48 * 96 + 96 * 96 + 96 * 128 +
          128 * 128 + (96 + 64) * 96 + (48 + 32) * 48 + (24 + 24) * 24 + (16 + 16) * 16) +
         2 * (2 * 16 + 3 * 24 + 3 * 48 + 3 * 96 + 2 * 128) + (128 * 4 * 64 + 64) +
         (96 * 4 * 32 + 32) + (48 * 4 * 24 + 24) + (24 * 4 * 16 + 16) + (16 + 1) * 11},
    // Five convolutions of 3x3 and one of 4x1 without bias, each with the two numbers a channel of
    // Scale; 4 gates of 64 cells in two directions; the scores.
    {"digits_crnn", 9 * (16 + 16 * 32 + 32 * 64 + 64 * 64 + 64 * 96) + 4 * 96 * 128 +
                        2 * (16 + 32 + 64 + 64 + 96 + 128) + 2 * 4 * 64 * (128 + 64 + 1) +
                        (128 + 1) * 11},
    // As resnet20_cifar10: ten classes again.
    {"resnet20_finetune", 272'474},
    {"cartpole_dqn", (4 + 1) * 64 + (64 + 1) * 64 + (64 + 1) * 2},
};

/// The same of further files for inference.
const std::map<std::string, int64_t> kLearnedInFurther = {
    // As char_lm; 3 gates of 256 units, the candidate of a GRU with two biases.
    {"char_lm/gru_deploy.prototxt", 63 * 64 + 3 * 256 * (64 + 256 + 1) + 256 + (256 + 1) * 63},
    // 63 characters and 128 places of 128 numbers; three blocks of two normalizations, of queries,
    // keys and values, of their projection and of two inner products; a normalization; the scores.
    {"char_lm/attention_deploy.prototxt",
     63 * 128 + 128 * 128 +
         3 * (2 * 2 * 128 + (128 + 1) * 384 + (128 + 1) * 128 + (128 + 1) * 512 + (512 + 1) * 128) +
         2 * 128 + (128 + 1) * 63},
    {"lenet_fashion/finetune_deploy.prototxt", 431'080},
};

/// What nets learn more than they need for inference: two auxiliary classifiers of a convolution of
/// 512 and of 528 channels to 128, 1024 hidden units at 4 x 4 places, and 1000 scores.
const std::map<std::string, int64_t> kHeads = {
    {"bvlc_googlenet", (512 + 528 + 2) * 128 + 2 * ((128 * 16 + 1) * 1024 + (1024 + 1) * 1000)},
};

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A row of the table in models/README.md by the name of its model.
std::map<std::string, tools::TableRow> rows_of_table() {
  std::map<std::string, tools::TableRow> rows;
  const tools::Table table = tools::tables_of(text_of(test::source_path("models/README.md"))).at(0);
  for (size_t i = 1; i < table.size(); ++i)
    rows.emplace(tools::without_marks(table[i].at(0)), table[i]);
  return rows;
}

/// What a model's page says of its parameters.
std::string parameters_of_page(const fs::path& folder) {
  for (const tools::Table& table : tools::tables_of(text_of(folder / "README.md"))) {
    for (const tools::TableRow& row : table) {
      if (row.size() > 1 && row[0] == "parameters") return row[1];
    }
  }
  return "a page without a line of parameters";
}

/// 25557032 as 25,557,032.
std::string with_commas(int64_t value) {
  std::string text = std::to_string(value);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

/// With so many decimals, and more where two digits of the value need them.
std::string fixed(double value, int decimals) {
  const int first = value > 0 ? static_cast<int>(std::floor(std::log10(value))) : 0;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", std::max(decimals, 1 - first), value);
  return text;
}

TEST(Models, HaveThePublishedParameters) {
  const std::map<std::string, tools::TableRow> rows = rows_of_table();
  Context context({.tune = false});
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(test::source_path("models"))) {
    if (!fs::exists(entry.path() / "deploy.prototxt")) continue;
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    folders.insert(name);
    const Net inference((entry.path() / "deploy.prototxt").string(), context,
                        {.phase = Phase::test});
    const int64_t learned = learned_in(weights_of(inference));
    const auto published = kLearned.find(name);
    EXPECT_EQ(learned, published == kLearned.end() ? 0 : published->second);
    int64_t statistics = 0;
    for (const auto& segment : inference.params().segments()) {
      if (!segment.parameter->learnable) statistics += segment.count;
    }
    const std::string page = parameters_of_page(entry.path());
    EXPECT_TRUE(page.starts_with(with_commas(learned))) << page << ", not " << learned;
    if (page.find(" and ") != std::string::npos) {
      EXPECT_TRUE(page.ends_with(" and " + with_commas(statistics) + " statistics"))
          << page << ", not " << statistics;
    }
    double operations = 0;
    for (const LayerSummary& layer : inference.summary()) operations += layer.flops.forward;
    ASSERT_EQ(rows.count(name), 1U) << "models/README.md has no row of it";
    const tools::TableRow& row = rows.at(name);
    ASSERT_GT(row.size(), 4U);
    EXPECT_EQ(row[3], fixed(static_cast<double>(learned) / 1e6, 2)) << "million parameters";
    // Behind the number may stand what it is for.
    EXPECT_EQ(row[4].substr(0, row[4].find(' ')), fixed(operations / 1e9, 3)) << "GFLOP";
  }
  EXPECT_EQ(folders.size(), kLearned.size());
  for (const auto& [file, published] : kLearnedInFurther) {
    SCOPED_TRACE(file);
    EXPECT_EQ(learned_in(weights_of(Net(test::read_model(file), context, {.phase = Phase::test}))),
              published);
  }
}

TEST(Models, HaveAPageAndARowOfTheTable) {
  const std::map<std::string, tools::TableRow> rows = rows_of_table();
  size_t folders = 0;
  for (const auto& entry : fs::directory_iterator(test::source_path("models"))) {
    if (!entry.is_directory()) continue;
    EXPECT_TRUE(fs::exists(entry.path() / "README.md")) << entry.path();
    EXPECT_EQ(rows.count(entry.path().filename().string()), 1U) << entry.path();
    ++folders;
  }
  EXPECT_EQ(rows.size(), folders) << "rows of models that are not there";
}

TEST(Models, TrainTheWeightsOfDeploy) {
  Context context({.tune = false});
  std::set<std::string> folders;
  for (const std::string& file : test::training_files()) {
    SCOPED_TRACE(file);
    const std::string folder = fs::path(file).parent_path().string();
    folders.insert(folder);
    // With gradients, for the training net to share.
    Net deploy(test::read_model(test::deploy_file_of(file)), context,
               {.phase = Phase::test, .backward = NetOptions::Backward::yes});
    const Net train(test::training_net(file), context, {.share_params_with = &deploy});
    const Weights weights = weights_of(deploy);
    Weights heads = weights_of(train);
    for (const auto& [key, weight] : weights) {
      ASSERT_TRUE(heads.contains(key)) << key;
      EXPECT_EQ(heads[key], weight) << key;
      heads.erase(key);
    }
    const auto expected = kHeads.find(folder);
    EXPECT_EQ(learned_in(heads), expected == kHeads.end() ? 0 : expected->second);
    EXPECT_EQ(heads.empty(), expected == kHeads.end());
  }
  EXPECT_EQ(folders.size(), kLearned.size());
}

// The branch that siamese_mnist's features come from, on either part of MNIST.
TEST(Models, TrainTheWeightsOfFeatures) {
  Context context({.tune = false});
  const Weights trained =
      weights_of(Net(test::training_net("siamese_mnist/train_val.prototxt"), context));
  NetParameter param = test::read_model("siamese_mnist/features.prototxt");
  ASSERT_EQ(param.layer(0).include(0).stage(0), "train");
  ASSERT_EQ(param.layer(1).include(0).stage(0), "test");
  param.mutable_layer()->DeleteSubrange(1, 1);
  test::replace_data(param, {{1, 1, 28, 28}, {1}});
  for (const auto& [key, weight] : weights_of(Net(param, context, {.phase = Phase::test}))) {
    ASSERT_TRUE(trained.contains(key)) << key;
    EXPECT_EQ(trained.at(key).first, weight.first) << key;
  }
}

/// A net of models/ whose page says that weights of another one fit, how many layers they fill, and
/// whether both nets have the same layers.
struct Fitting {
  std::string file, source;
  size_t layers;
  bool same;
  std::vector<Shape> data = {};  // of one record, where the source has data layers
};

const std::vector<Fitting> kFitting = {
    // 121 * (weights, bn, scale). The published net has a convolution for the last layer.
    {"densenet121/deploy.prototxt", "shicai__DenseNet-Caffe/DenseNet_121.prototxt", 363, true},
    {"alexnet_two_towers/deploy.prototxt",
     "intel__caffe/models/intel_optimized_models/benchmark/alexnet/deploy.prototxt", 8, true},
    // 15 + 3 convolutions and two scales.
    {"fcn8s/deploy.prototxt",
     "foss-for-synopsys-dwc-arc-processors__synopsys-caffe-models/caffe_models/fcn/caffe_model/"
     "voc-fcn8s-atonce/deploy.prototxt",
     20, false},
    {"lrcn/deploy.prototxt", "BVLC__caffe/models/bvlc_reference_caffenet/deploy.prototxt", 8,
     false},
    {"caffenet/deploy.prototxt", "BVLC__caffe/models/bvlc_reference_caffenet/deploy.prototxt", 8,
     true},
    // 57 convolutions and an inner product.
    {"bvlc_googlenet/deploy.prototxt", "BVLC__caffe/models/bvlc_googlenet/deploy.prototxt", 58,
     true},
    // And two auxiliary classifiers of a convolution and two inner products.
    {"bvlc_googlenet/train_val.prototxt",
     "BVLC__caffe/models/bvlc_googlenet/train_val.prototxt",
     64,
     true,
     {{1, 3, 224, 224}, {1}}},
    {"squeezenet_v1.1/deploy.prototxt",
     "forresti__SqueezeNet/SqueezeNet_v1.1/train_val.prototxt",
     26,
     true,
     {{1, 3, 227, 227}, {1}}},
};

TEST(Models, TakeThePublishedWeights) {
  Context context({.tune = false});
  for (const Fitting& fitting : kFitting) {
    SCOPED_TRACE(fitting.file);
    const fs::path published = test::shared_path("wild/" + fitting.source);
    if (!fs::exists(published)) GTEST_SKIP() << "needs " << published << ": set CREMA_SHARED_DIR";
    NetParameter source, weights;
    read_text_proto(published.string(), source);
    if (!fitting.data.empty()) test::replace_data(source, fitting.data);
    Net(source, context, {.phase = Phase::test}).save(weights);
    Net net(test::read_model(fitting.file), context, {.phase = Phase::test});
    EXPECT_EQ(net.load_weights(weights, fitting.same).loaded.size(), fitting.layers);
  }
}

// The pages say that the published weights fit. Their authors' VGG_ILSVRC_16_layers_deploy.prototxt
// and VGG_ILSVRC_19_layers_deploy.prototxt have these layers.
TEST(Models, VggHasThePublishedLayers) {
  const std::map<std::string, std::vector<int>> convolutions = {{"vgg16", {2, 2, 3, 3, 3}},
                                                                {"vgg19", {2, 2, 4, 4, 4}}};
  Context context({.tune = false});
  for (const auto& [name, counts] : convolutions) {
    SCOPED_TRACE(name);
    Weights published;
    const auto layer = [&](const std::string& key, const Shape& shape) {
      published[key + " 0"] = {shape, true};
      published[key + " 1"] = {{shape[0]}, true};
    };
    int64_t inputs = 3;
    for (int stage = 1; stage <= 5; ++stage) {
      const int64_t outputs = std::min(64 << (stage - 1), 512);
      for (int number = 1; number <= counts[static_cast<size_t>(stage - 1)]; ++number) {
        layer(text("conv", stage, "_", number), {outputs, inputs, 3, 3});
        inputs = outputs;
      }
    }
    layer("fc6", {4096, 512 * 7 * 7});
    layer("fc7", {4096, 4096});
    layer("fc8", {1000, 4096});
    const Net net(test::read_model(name + "/deploy.prototxt"), context, {.phase = Phase::test});
    EXPECT_EQ(weights_of(net), published);
  }
}

// The page of FCN-8s says so: fc6 and fc7 are inner products there.
TEST(Models, FcnTakesTheWeightsOfVgg) {
  Context context({.tune = false});
  const auto deploy = [](const std::string& name) {
    return test::source_path("models/" + name + "/deploy.prototxt").string();
  };
  NetParameter weights;
  Net(deploy("vgg16"), context, {.phase = Phase::test}).save(weights);
  Net net(deploy("fcn8s"), context, {.phase = Phase::test});
  EXPECT_EQ(net.load_weights(weights, false).loaded.size(), 15U);
}

/// What to compare of a net whose scores are not "prob", and which inputs have the batch on axis 1.
struct Batched {
  std::string scores;
  std::set<std::string> second_axis;
};

// The number of detections follows from their values, so those of detectors are the numbers before.
const std::map<std::string, Batched> kBatched = {
    {"ssd_shapes", {"conf_flat", {}}},
    {"ssd300_vgg", {"mbox_conf_flatten", {}}},
    {"ssd_mobilenet", {"mbox_conf_flatten", {}}},
    {"yolo_v2_tiny", {"conv9", {}}},
    {"rfcn_resnet50", {"rfcn_cls", {}}},
    {"fcn8s", {"score", {}}},
    {"lrcn", {"probs", {"cont_sentence", "input_sentence"}}},
    {"vdsr", {"sum", {}}},
    {"siamese_mnist", {"feat", {}}},
    {"autoencoder_mnist", {"reconstruction", {}}},
    {"conv_autoencoder_mnist", {"reconstruction", {}}},
    {"cartpole_dqn", {"q", {}}},
    {"digits_ssd", {"conf_flat", {}}},
    {"digits_crnn", {"digits", {}}},
    {"char_lm", {"prob", {"data", "cont"}}},
};

TEST(Models, InferWithAnyBatch) {
  Context context({.tune = false});
  for (const auto& [name, learned] : kLearned) {
    SCOPED_TRACE(name);
    const auto found = kBatched.find(name);
    const auto [scores, second_axis] =
        found == kBatched.end() ? Batched{"prob", {}} : found->second;
    Net net(test::source_path("models/" + name + "/deploy.prototxt").string(), context,
            {.phase = Phase::test, .keep = {scores}});
    const Shape before = net.blob(scores).shape();
    for (const std::string& input : net.inputs()) {
      std::vector<int64_t> dims = net.input(input).shape().dims();
      dims[second_axis.contains(input) ? 1 : 0] *= 3;
      net.reshape_input(input, Shape(dims));
    }
    net.reshape();
    EXPECT_EQ(net.blob(scores).shape().count(), 3 * before.count());
    EXPECT_EQ(net.blob(scores).shape()[second_axis.empty() ? 0 : 1],
              3 * before[second_axis.empty() ? 0 : 1]);
  }
}

}  // namespace
}  // namespace crema
