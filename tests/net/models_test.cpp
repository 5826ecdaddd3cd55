// The nets of models/ are the published ones: numbers of learned parameters, the same weights for
// training and for inference, inference with any batch.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "crema/net.hpp"
#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

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
    // Twenty convolutions of 3x3.
    {"vdsr", (64 * 9 + 64) + 18 * (64 * 64 * 9 + 64) + (64 * 9 + 1)},
    // timm's vit_tiny_patch16_224; one block has
    // 2 * 2 * 192 + (192 + 1) * 576 + (192 + 1) * 192 + (192 + 1) * 768 + (768 + 1) * 192 =
    // 444,864.
    {"vit_tiny", 12 * 444'864 + (3 * 16 * 16 + 1) * 192 + 192 + 197 * 192 + 2 * 192 + 193 * 1000},
    // The paper has 7 million. torchvision's googlenet is another net: BatchNorm, and 3x3 for 5x5.
    {"googlenet", 6'998'552},
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
};

/// Layer, index and shape of each parameter, and whether it learns.
using Weights = std::map<std::string, std::pair<Shape, bool>>;

Weights weights_of(const Net& net) {
  Weights weights;
  for (const Layer* layer : net.layers()) {
    for (size_t i = 0; i < layer->params().size(); ++i) {
      const Parameter& parameter = *layer->params()[i];
      weights[concat(layer->name(), " ", i)] = {parameter.shape(), parameter.learnable};
    }
  }
  return weights;
}

std::string first_type(const std::string& path) {
  NetParameter net;
  read_text_proto(path, net);
  return net.layer(0).type();
}

/// A row of the table in models/README.md by the name of its model.
std::map<std::string, std::string> rows_of_table() {
  std::map<std::string, std::string> rows;
  std::ifstream page(test::source_path("models/README.md"));
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    const size_t end = line.find('`', 3);
    rows.emplace(line.substr(3, end - 3), line);
  }
  return rows;
}

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

TEST(Models, HaveThePublishedParameters) {
  const std::map<std::string, std::string> rows = rows_of_table();
  Context context({.tune = false});
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(test::source_path("models"))) {
    if (!fs::exists(entry.path() / "deploy.prototxt")) continue;
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    folders.insert(name);
    // With gradients, for the training net to share.
    Net deploy((entry.path() / "deploy.prototxt").string(), context,
               {.phase = Phase::test, .backward = NetOptions::Backward::yes});
    const Weights weights = weights_of(deploy);
    int64_t learned = 0;
    for (const auto& [key, weight] : weights) learned += weight.second ? weight.first.count() : 0;
    const auto published = kLearned.find(name);
    EXPECT_EQ(learned, published == kLearned.end() ? 0 : published->second);
    const Net inference((entry.path() / "deploy.prototxt").string(), context,
                        {.phase = Phase::test, .share_params_with = &deploy});
    double operations = 0;
    for (const LayerSummary& layer : inference.summary()) operations += layer.flops.forward;
    ASSERT_EQ(rows.count(name), 1U) << "models/README.md has no row of it";
    const std::string figures = concat(" | ", fixed(static_cast<double>(learned) / 1e6, 2), " | ",
                                       fixed(operations / 1e9, 3), " ");
    EXPECT_NE(rows.at(name).find(figures), std::string::npos) << rows.at(name) << figures;
    const std::string train = (entry.path() / "train_val.prototxt").string();
    // Data layers need their databases.
    if (!fs::exists(train) || first_type(train) != "Input") continue;
    const Net net(train, context, {.share_params_with = &deploy});
    EXPECT_EQ(weights_of(net), weights);
  }
  EXPECT_EQ(folders.size(), kLearned.size());
}

// Its page says so. The published net has a convolution for the last layer.
TEST(Models, DenseNetTakesThePublishedWeights) {
  const fs::path published = test::shared_path("wild/shicai__DenseNet-Caffe/DenseNet_121.prototxt");
  if (!fs::exists(published)) GTEST_SKIP() << "needs " << published << ": set CREMA_SHARED_DIR";
  Context context({.tune = false});
  NetParameter weights;
  Net(published.string(), context, {.phase = Phase::test}).save(weights);
  Net net(test::source_path("models/densenet121/deploy.prototxt").string(), context,
          {.phase = Phase::test});
  EXPECT_EQ(net.load_weights(weights, true).loaded.size(), 363U);  // 121 * (weights, bn, scale)
}

TEST(Models, InferWithAnyBatch) {
  Context context({.tune = false});
  for (const auto& [name, learned] : kLearned) {
    SCOPED_TRACE(name);
    // The number of detections follows from their values.
    const std::string scores = name == "ssd_shapes" ? "conf_flat" : name == "vdsr" ? "sum" : "prob";
    Net net(test::source_path("models/" + name + "/deploy.prototxt").string(), context,
            {.phase = Phase::test, .keep = {scores}});
    const Shape before = net.blob(scores).shape();
    for (const std::string& input : net.inputs()) {
      std::vector<int64_t> dims = net.input(input).shape().dims();
      dims[0] *= 3;
      net.reshape_input(input, Shape(dims));
    }
    net.reshape();
    EXPECT_EQ(net.blob(scores).shape()[0], 3 * before[0]);
    EXPECT_EQ(net.blob(scores).shape().count(), 3 * before.count());
  }
}

}  // namespace
}  // namespace crema
