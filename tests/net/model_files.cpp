#include "net/model_files.hpp"

#include <algorithm>
#include <set>

#include "crema/random.hpp"
#include "model/text_format.hpp"
#include "support/paths.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

/// Boxes: image, class, number, corners, difficult.
const Shape kBoxes = {1, 1, 12, 8};

/// What the inputs or the data layer of a file hold for one record, where it is not an image as
/// that of deploy.prototxt and a label.
const std::map<std::string, std::vector<Shape>> kRecords = {
    // Rows of characters, of next characters and of continuation.
    {"char_lm/train_val.prototxt", {{1, 1, 3, 128}}},
    {"char_lm/gru_train_val.prototxt", {{1, 1, 3, 128}}},
    {"char_lm/attention_train_val.prototxt", {{1, 1, 3, 128}}},
    {"digits_crnn/train_val.prototxt", {{1, 1, 32, 160}, {1, 7}}},
    {"digits_unet/train_val.prototxt", {{1, 3, 96, 96}, {1, 1, 96, 96}}},
    {"resnet20_finetune/train_val.prototxt", {{1, 1, 32, 32}, {1}}},
    // A pair.
    {"siamese_mnist/train_val.prototxt", {{2, 1, 28, 28}, {2}}},
    {"digits_ssd/train_val.prototxt", {{1, 3, 96, 96}, kBoxes}},
    {"ssd_shapes/train_val.prototxt", {{1, 3, 96, 96}, kBoxes}},
    {"ssd300_vgg/train_val.prototxt", {{1, 3, 300, 300}, kBoxes}},
    // Two images: BatchNorm over one value, the last map's of an image, gives 0.
    {"ssd_mobilenet/train_val.prototxt", {{2, 3, 300, 300}, kBoxes}},
    {"yolo_v2_tiny/train_val.prototxt", {{1, 3, 96, 96}, kBoxes}},
    // Time comes first.
    {"gru/train_val.prototxt", {{4, 1, 512}, {4, 1}, {4, 1}}},
    {"lstm/train_val.prototxt", {{4, 1, 512}, {4, 1}, {4, 1}}},
    {"lrcn/train_val.prototxt", {{1, 3, 227, 227}, {2, 1}, {2, 1}, {2, 1}}},
    // Convolutions only: a smaller image.
    {"fcn8s/train_val.prototxt", {{1, 3, 32, 32}, {1, 32, 32}}},
    {"unet/train_val.prototxt", {{1, 3, 32, 32}, {1, 32, 32}}},
    // Nine anchors at each of 6 x 8 places, and four regions.
    {"rfcn_resnet50/train_val.prototxt",
     {{1, 3, 96, 128},
      {1, 1, 54, 8},
      {1, 36, 6, 8},
      {1, 36, 6, 8},
      {1, 36, 6, 8},
      {4, 5},
      {4, 1, 1, 1},
      {4, 8, 1, 1},
      {4, 8, 1, 1}}},
};

/// The side of a smaller image that the nets of these folders take too, where it makes them much
/// quicker. Inner products of scores then have fewer weights, unless they read a mean.
const std::map<std::string, int64_t> kSmallImages = {
    {"alexnet", 67},
    {"alexnet_two_towers", 67},
    {"caffenet", 67},
    {"densenet121", 96},
    {"efficientnet_b0", 96},
    {"inception_v3", 139},
    {"lrcn", 67},
    {"mobilenet_v1", 96},
    {"mobilenet_v2", 96},
    {"mobilenet_v3_large", 96},
    {"overfeat", 71},
    {"resnet101", 96},
    {"resnet18", 96},
    {"resnext50", 96},
    {"shufflenet_v2", 96},
    {"vgg16", 32},
    {"vgg19", 32},
    {"vgg_a", 32},
};

std::vector<std::string> files_of_models(const std::string& part) {
  std::vector<std::string> files;
  for (const auto& folder : fs::directory_iterator(source_path("models"))) {
    if (!folder.is_directory() || folder.path().filename() == "plugin_example") continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".prototxt") || name.find(part) == std::string::npos) continue;
      files.push_back((folder.path().filename() / name).string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_data(const LayerParameter& layer) {
  return layer.type().ends_with("Data") && layer.type() != "DummyData";
}

void set_shape(BlobShape& to, const Shape& shape) {
  to.clear_dim();
  for (const int64_t dim : shape.dims()) to.add_dim(dim);
}

}  // namespace

std::vector<std::string> deploy_files() { return files_of_models("deploy"); }
std::vector<std::string> training_files() { return files_of_models("train_"); }

std::string deploy_file_of(const std::string& training_file) {
  const std::string own = training_file.substr(0, training_file.find("train_")) + "deploy.prototxt";
  if (fs::exists(source_path("models/" + own))) return own;
  return (fs::path(training_file).parent_path() / "deploy.prototxt").string();
}

NetParameter read_model(const std::string& file) {
  NetParameter net;
  read_text_proto(source_path("models/" + file).string(), net);
  return net;
}

void replace_data(NetParameter& net, const std::vector<Shape>& shapes) {
  auto& layers = *net.mutable_layer();
  layers.erase(std::remove_if(layers.begin(), layers.end(),
                              [](const LayerParameter& layer) {
                                return is_data(layer) && layer.include_size() > 0 &&
                                       layer.include(0).phase() == TEST;
                              }),
               layers.end());
  for (LayerParameter& layer : layers) {
    if (!is_data(layer)) continue;
    LayerParameter input;
    input.set_name(layer.name());
    input.set_type("Input");
    *input.mutable_top() = layer.top();
    for (int top = 0; top < layer.top_size(); ++top) {
      set_shape(*input.mutable_input_param()->add_shape(), shapes.at(static_cast<size_t>(top)));
    }
    layer = input;
  }
}

NetParameter training_net(const std::string& file) {
  NetParameter net = read_model(file);
  const auto record = kRecords.find(file);
  if (record != kRecords.end()) {
    replace_data(net, record->second);
  } else {
    const BlobShape image = read_model((fs::path(file).parent_path() / "deploy.prototxt").string())
                                .layer(0)
                                .input_param()
                                .shape(0);
    std::vector<int64_t> dims(image.dim().begin(), image.dim().end());
    dims[0] = 1;
    replace_data(net, {Shape(dims), {1}});
  }
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() != "Input") continue;
    auto& shapes = *layer.mutable_input_param()->mutable_shape();
    for (int top = 0; top < shapes.size(); ++top) {
      if (record != kRecords.end()) {
        set_shape(shapes[top], record->second.at(static_cast<size_t>(top)));
      } else {
        shapes[top].set_dim(0, 1);
      }
    }
  }
  return net;
}

NetParameter small_training_net(const std::string& file) {
  NetParameter net = training_net(file);
  const auto side = kSmallImages.find(fs::path(file).parent_path().string());
  if (side == kSmallImages.end()) return net;
  BlobShape& image = *net.mutable_layer(0)->mutable_input_param()->mutable_shape(0);
  image.set_dim(2, side->second);
  image.set_dim(3, side->second);
  return net;
}

void fill_training_inputs(Net& net) {
  static const std::set<std::string> kImages = {"data", "both", "images", "state", "taken"};
  for (const std::string& name : net.inputs()) {
    Tensor& input = net.input(name);
    Random random(11, stream_id(name));
    auto* values = input.overwrite<float>();
    for (int64_t i = 0; i < input.count(); ++i) {
      values[i] = kImages.contains(name) ? static_cast<float>(random.uniform(0, 1)) : 0;
      if (name == "sequences") values[i] = static_cast<float>(random.below(2));
      if (name == "cont_sentence" || name.ends_with("_weights")) values[i] = 1;
    }
    if (name == "label" && input.shape() == kBoxes) {
      for (int64_t i = 0; i < kBoxes[2]; ++i) {
        const float side = 0.95F * static_cast<float>(i + 1) / static_cast<float>(kBoxes[2]);
        const float box[] = {0, 1, static_cast<float>(i), 0.02F, 0.02F, side, side, 0};
        std::copy(std::begin(box), std::end(box), values + 8 * i);
      }
    }
  }
}

void fill_zero_weights(Net& net) {
  for (Layer* layer : net.layers()) {
    if (layer->type() != "Convolution" && layer->type() != "InnerProduct") continue;
    const auto& parameter = layer->params()[0];
    const auto* read = parameter->data.read<float>();
    if (std::any_of(read, read + parameter->data.count(), [](float x) { return x != 0; })) continue;
    Random random(12, stream_id(layer->name()));
    auto* values = parameter->data.overwrite<float>();
    for (int64_t i = 0; i < parameter->data.count(); ++i)
      values[i] = static_cast<float>(random.uniform(-0.1, 0.1));
  }
}

void standardize(Net& net) {
  for (Layer* layer : net.layers()) {
    if (layer->type() != "BatchNorm") continue;
    const auto& params = layer->params();
    for (size_t i : {1, 2}) {
      float* values = params[i]->data.overwrite<float>();
      std::fill_n(values, params[i]->data.count(), 1.F);
    }
  }
}

Weights weights_of(const Net& net) {
  Weights weights;
  std::set<const ParameterStorage*> seen;
  for (const Layer* layer : net.layers()) {
    for (size_t i = 0; i < layer->params().size(); ++i) {
      const Parameter& parameter = *layer->params()[i];
      if (!seen.insert(parameter.storage().get()).second) continue;
      weights[text(layer->name(), " ", i)] = {parameter.shape(), parameter.learnable};
    }
  }
  return weights;
}

int64_t learned_in(const Weights& weights) {
  int64_t learned = 0;
  for (const auto& [key, weight] : weights) learned += weight.second ? weight.first.count() : 0;
  return learned;
}

}  // namespace crema::test
