#include "onnx/importing/names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace crema::onnx {

namespace {

template <size_t N>
bool is_among(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

std::string lower(std::string_view word) {
  std::string result(word);
  for (char& letter : result)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

bool is_number(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char letter) {
    return std::isdigit(static_cast<unsigned char>(letter)) != 0;
  });
}

// What frameworks put around the names of variables.
std::string_view without_frame(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kFronts = {"StatefulPartitionedCall/", "node_",
                                                              "/"};
  static constexpr std::array<std::string_view, 5> kEnds = {":0", "/ReadVariableOp", "/Read",
                                                            "/resource", "__"};
  for (const std::string_view front : kFronts) {
    while (name.starts_with(front)) name.remove_prefix(front.size());
  }
  for (const std::string_view end : kEnds) {
    while (name.ends_with(end)) name.remove_suffix(end.size());
  }
  return name;
}

// Takes "weight" off "conv1.weight", and operators of TensorFlow off "conv1/Conv2D".
std::string_view without_last_word(std::string_view name) {
  static constexpr std::array<std::string_view, 33> kWords = {"mean",
                                                              "var",
                                                              "variance",
                                                              "slope",
                                                              "weight",
                                                              "weights",
                                                              "bias",
                                                              "kernel",
                                                              "gamma",
                                                              "beta",
                                                              "scale",
                                                              "moving_mean",
                                                              "moving_variance",
                                                              "running_mean",
                                                              "running_var",
                                                              "embeddings",
                                                              "embedding",
                                                              "alpha",
                                                              "Conv2D",
                                                              "MatMul",
                                                              "BiasAdd",
                                                              "depthwise",
                                                              "Tensordot",
                                                              "Conv1D",
                                                              "Conv3D",
                                                              "FusedBatchNormV3",
                                                              "depthwise_kernel",
                                                              "pointwise_kernel",
                                                              "recurrent_kernel",
                                                              "input_weight",
                                                              "state_weight",
                                                              "weight_ih",
                                                              "weight_hh"};
  bool goes_on = true;
  while (goes_on) {
    goes_on = false;
    const size_t place = name.find_last_of("./");
    if (place == std::string_view::npos || place == 0) break;
    if (is_among(name.substr(place + 1), kWords)) {
      name = name.substr(0, place);
      goes_on = true;
    }
  }
  for (const std::string_view end : {"_weight", "_bias", "_kernel"}) {
    if (name.size() > end.size() && name.ends_with(end)) name.remove_suffix(end.size());
  }
  return name;
}

// Whether an exporter made the name up.
bool is_made_up(std::string_view name) {
  if (name.size() < 2 || is_number(name) || name.find("::") != std::string_view::npos) return true;
  const std::string small = lower(name);
  for (const std::string_view front :
       {"val_", "const", "_v_", "fold", "tmp", "new_shape", "value"}) {
    if (small.starts_with(front)) return true;
  }
  return small.find("constant") != std::string::npos ||
         small.find("const_fold") != std::string::npos;
}

std::string name_from_weight(std::string_view weight) {
  const std::string_view name = without_frame(weight);
  if (is_made_up(name)) return {};
  const std::string_view shorter = without_last_word(name);
  return is_made_up(shorter) ? std::string() : std::string(shorter);
}

// Operators that are modules of their own in frameworks: the last part of "/layer1/conv1/Conv" adds
// nothing to the name.
bool is_module(const Node& node) {
  static constexpr std::array<std::string_view, 34> kModules = {"Conv",
                                                                "ConvTranspose",
                                                                "BatchNormalization",
                                                                "Gemm",
                                                                "MatMul",
                                                                "Relu",
                                                                "LeakyRelu",
                                                                "PRelu",
                                                                "Sigmoid",
                                                                "Tanh",
                                                                "Elu",
                                                                "Selu",
                                                                "Celu",
                                                                "Clip",
                                                                "HardSwish",
                                                                "HardSigmoid",
                                                                "Softplus",
                                                                "Gelu",
                                                                "Mish",
                                                                "Swish",
                                                                "MaxPool",
                                                                "AveragePool",
                                                                "GlobalAveragePool",
                                                                "GlobalMaxPool",
                                                                "LRN",
                                                                "LayerNormalization",
                                                                "InstanceNormalization",
                                                                "GroupNormalization",
                                                                "LSTM",
                                                                "GRU",
                                                                "RNN",
                                                                "Softmax",
                                                                "Dropout",
                                                                "Resize"};
  static constexpr std::array<std::string_view, 13> kLayers = {
      "Embed",   "Swish",     "GELU",         "HardSwish", "HardSigmoid", "Mish", "LayerNorm",
      "RMSNorm", "GroupNorm", "InnerProduct", "Attention", "LSTM",        "GRU"};
  if (node.message.domain() == kLayerDomain) return is_among(node.op(), kLayers);
  return node.message.domain().empty() && is_among(node.op(), kModules);
}

// "/layer1/layer1.0/conv1/Conv_2" of PyTorch's exporter: the modules, then the operator.
std::string name_from_path(const Node& node, std::string_view path) {
  std::vector<std::string> parts;
  std::string last;
  while (!path.empty()) {
    const size_t place = path.find('/');
    const std::string part(path.substr(0, place));
    path = place == std::string_view::npos ? std::string_view() : path.substr(place + 1);
    if (part.empty()) continue;
    if (path.empty()) {
      last = part;
    } else if (!parts.empty() && part.starts_with(parts.back() + ".")) {
      parts.back() = part;
    } else {
      parts.push_back(part);
    }
  }
  if (parts.empty()) return lower(last);
  const std::string modules = joined(parts, ".");
  if (!is_module(node)) return modules + "." + lower(last);
  const size_t number = last.find_last_of('_');
  const bool is_again =
      number != std::string::npos && is_number(std::string_view(last).substr(number + 1));
  return is_again ? modules + last.substr(number) : modules;
}

}  // namespace

std::string name_of_node(const Node& node) {
  const std::string& name = node.message.name();
  if (name.starts_with("/")) {
    const std::string found = name_from_path(node, name);
    if (!found.empty()) return found;
  }
  const std::string_view rest = without_last_word(without_frame(name));
  return rest.empty() ? lower(node.op()) : std::string(rest);
}

std::string name_of_weights(const Node& node) {
  for (const Value* input : node.inputs) {
    if (input == nullptr || input->weight.empty() || input->values().count() < 2) continue;
    std::string name = name_from_weight(input->weight);
    if (!name.empty()) return name;
  }
  return {};
}

std::string constant_name_of(const Value& value) {
  if (!value.weight.empty()) {
    const std::string_view name = without_frame(value.weight);
    if (!is_made_up(name)) return std::string(name);
  }
  const std::string_view name = without_frame(value.name);
  return is_made_up(name) ? "constant" : std::string(name);
}

}  // namespace crema::onnx
