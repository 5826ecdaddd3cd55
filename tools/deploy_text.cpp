#include "tools/deploy_text.hpp"

#include <algorithm>
#include <sstream>

#include "analysis/prediction_heads.hpp"
#include "crema/error.hpp"
#include "model/text_format.hpp"
#include "tools/shell_word.hpp"

namespace crema::tools {
namespace {

/// "125, 123, 114", or with another separator; the shortest digits that give the same float.
std::string numbers(const google::protobuf::RepeatedField<float>& values, const char* separator) {
  std::vector<std::string> words;
  for (const float value : values) words.push_back(text(value));
  return joined(words, separator);
}

/// What becomes of a pixel p; "" for p itself.
std::string pixel_rule(const TransformationParameter& transform) {
  std::string rule = "p";
  if (transform.has_mean_file()) {
    rule = "p - the mean image " + transform.mean_file();
  } else if (transform.mean_value_size() == 1) {
    rule = "p - " + numbers(transform.mean_value(), "");
  } else if (transform.mean_value_size() > 1) {
    rule = "p - (" + numbers(transform.mean_value(), ", ") + ")";
  }
  if (transform.scale() != 1)
    rule = (rule == "p" ? rule : "(" + rule + ")") + text(" * ", transform.scale());
  return rule == "p" ? "" : rule;
}

/// Whether `crema classify` reads the outputs: one probability a class. An autoencoder's are as
/// many as its inputs.
bool classifies(const DeployedNet& deployed) {
  if (deployed.outputs.size() != 1 || deployed.inputs.size() != 1) return false;
  const auto& [blob, shape] = deployed.outputs[0];
  return shape.rank() >= 2 && shape.count(2) == 1 &&
         shape.count(1) != deployed.inputs[0].shape.count(1) &&
         std::ranges::any_of(deployed.net.layer(), [&](const LayerParameter& layer) {
           return (layer.type() == "Softmax" || layer.type() == "Sigmoid") && layer.top(0) == blob;
         });
}

/// What `crema classify` and `crema detect` have to know of the pixels: "--mean 104,117,123 " and
/// the like; "" for pixels as they are.
std::string pixel_flags(const TransformationParameter& transform) {
  std::string flags;
  if (transform.has_mean_file()) {
    flags += "--mean " + shell_word(transform.mean_file()) + " ";
  } else if (transform.mean_value_size() > 0) {
    flags += "--mean " + numbers(transform.mean_value(), ",") + " ";
  }
  if (transform.scale() != 1) flags += text("--scale ", transform.scale(), " ");
  if (transform.bgr2rgb()) flags += "--channel_swap rgb ";
  return flags;
}

}  // namespace

std::string deploy_text(const DeployedNet& deployed, const std::string& from) {
  std::ostringstream out;
  out << "# The net of " << from << " for inference, as `crema deploy` derives it.\n";
  for (const DeployedNet::Input& input : deployed.inputs) {
    const std::string rule = pixel_rule(input.transform);
    if (!rule.empty() || input.transform.bgr2rgb()) {
      out << "# '" << input.blob << "': a pixel p of 0 to 255 has to become "
          << (rule.empty() ? "p" : rule);
      if (input.shape.rank() > 1 && input.shape[1] == 3)
        out << "; channels are "
            << (input.transform.bgr2rgb() ? "red, green, blue" : "blue, green, red");
      out << ".\n";
    }
  }
  return out.str() + prototxt_of(deployed.net);
}

std::string next_command(const DeployedNet& deployed, const std::string& file,
                         const std::string& weights) {
  const bool has_image = deployed.inputs.size() == 1 && deployed.inputs[0].shape.rank() == 4 &&
                         (deployed.inputs[0].shape[1] == 1 || deployed.inputs[0].shape[1] == 3);
  const bool boxes = std::ranges::any_of(
      deployed.net.layer(), [](const LayerParameter& layer) { return makes_boxes(layer.type()); });
  const char* const command = !has_image             ? nullptr
                              : boxes                ? "detect"
                              : classifies(deployed) ? "classify"
                                                     : nullptr;
  if (command == nullptr) return "crema summary --phase TEST --model " + shell_word(file);
  return text("crema ", command, " --model ", shell_word(file), " --weights ",
              weights.empty() ? "net.caffemodel " + pixel_flags(deployed.inputs[0].transform)
                              : shell_word(weights) + " ",
              "photo.jpg");
}

}  // namespace crema::tools
