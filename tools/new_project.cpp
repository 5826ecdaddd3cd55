#include "tools/new_project.hpp"

#include <algorithm>
#include <filesystem>

#include "analysis/layer_graph.hpp"
#include "crema/net.hpp"
#include "data/batches/image_input.hpp"
#include "model/text_format.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/net.pb.h"
#include "tools/flags.hpp"
#include "tools/model_weights.hpp"

namespace crema::tools {
namespace {

bool says_pixels(const TransformationParameter& transform) {
  return transform.mean_value_size() > 0 || transform.has_mean_file() || transform.has_scale();
}

/// mean_value, scale and bgr2rgb for so many channels.
std::string settings_of(std::vector<float> means, const TransformationParameter& transform,
                        bool is_gray) {
  if (is_gray && means.size() > 1) {
    float sum = 0;
    for (const float mean : means) sum += mean;
    means = {sum / static_cast<float>(means.size())};
  }
  std::vector<std::string> settings;
  for (const float mean : means) settings.push_back(text("mean_value: ", mean));
  if (transform.has_scale()) settings.push_back(text("scale: ", transform.scale()));
  if (transform.bgr2rgb() && !is_gray) settings.emplace_back("bgr2rgb: true");
  return joined(settings, "  ");
}

}  // namespace

ContextOptions quiet_context() {
  ContextOptions options = context_options();
  options.tune = false;
  options.logger = {};
  return options;
}

Schedule schedule_of(int64_t train, int64_t tests, int64_t batch, int64_t most, int64_t epochs,
                     int64_t least) {
  Schedule plan;
  plan.train = train;
  plan.tests = tests;
  plan.batch = std::min(train, batch);
  plan.test_batch = most;
  for (int64_t part = std::min(tests, most); part >= std::min<int64_t>(tests, 8); --part) {
    if (tests % part != 0) continue;
    plan.test_batch = part;
    break;
  }
  plan.iterations = std::clamp<int64_t>(epochs * train / plan.batch, least, 50000);
  plan.epochs = std::max<int64_t>(1, plan.iterations * plan.batch / train);
  return plan;
}

std::pair<std::string, std::string> tops_of(const NetTemplate& net) {
  const auto refuse = [&](const std::string& why) {
    throw Error("'", net.model(), "' ", why, "; `crema models` says what each model is for");
  };
  const Shape input = net.input();
  if (input.rank() > 0 && (input.rank() != 4 || (input[1] != 1 && input[1] != 3)))
    refuse("does not read images of 1 or 3 channels");
  std::pair<std::string, std::string> tops;
  for (size_t i = 0; i < net.blocks(); ++i) {
    const LayerParameter& layer = net.layer(i);
    const std::string& type = layer.type();
    if (is_source(layer) && tops.first.empty()) {
      if (layer.top_size() != 2) refuse("does not read images with one label each");
      if (type != "Input" && type != "Data" && !type.ends_with("ImageData"))
        refuse("reads " + type + " and no images");
      tops = {layer.top(0), layer.top(1)};
    }
    if ((type == "Power" || type == "Tile") && layer.bottom(0) == tops.first)
      refuse("changes its images by layer '" + layer.name() + "' (" + type + ") to suit weights");
  }
  if (tops.first.empty()) refuse("has no data layer");
  return tops;
}

Pixels pixels_for(const NetTemplate& net, const PhotoSurvey& survey, const std::string& weights) {
  if (weights.empty())
    return {pixel_settings(survey), "pixels get the mean 0 and the variance 1", survey.is_gray};
  const Shape input = net.input();
  Pixels pixels{.settings = {}, .why = {}, .is_gray = input.rank() == 4 && input[1] == 1};
  const auto take = [&](const auto& means, const TransformationParameter& transform,
                        const std::string& why) {
    pixels.settings = settings_of({means.begin(), means.end()}, transform, pixels.is_gray);
    pixels.why = why;
    return pixels;
  };
  const Origin origin = origin_of_net(weights);
  if (origin.has_transform()) {
    const TransformationParameter& own = origin.transform();
    if (own.force_gray() || own.force_color()) pixels.is_gray = own.force_gray();
    return take(own.has_mean_file() ? origin.channel_mean() : own.mean_value(), own,
                "as the weights say that they were trained");
  }
  const TransformationParameter own = net.transform();
  const std::string& file = own.mean_file();
  std::error_code none;
  if (std::filesystem::is_regular_file(file, none))
    return take(channel_means(file), own,
                "as '" + net.model() + "' is trained, the mean of each channel of " + file);
  if (says_pixels(own) && file.empty())
    return take(own.mean_value(), own, "as '" + net.model() + "' is trained");
  if (!published_start(net.model()).empty()) {
    // What scripts/from_torchvision.py prints; its weights hold the deviation.
    const bool halves = net.model() == "inception_v3";
    return take(halves ? std::vector{127.5F} : std::vector{103.53F, 116.28F, 123.675F}, {},
                "assumed to be those of scripts/from_torchvision.py, as the weights do not say it");
  }
  return take(std::vector(survey.mean, survey.mean + 3), own,
              "the mean of these images; neither the weights nor the model say what it was in "
              "their training");
}

std::string rename_layer(NetTemplate& net, size_t block, const std::string& ending) {
  const std::string own = net.layer(block).name();
  std::string name = own + "_" + ending;
  net.set(block, "name", "\"" + own + "\"", "\"" + name + "\"");
  return name;
}

std::string renew(NetTemplate& net, size_t block, const std::string& ending) {
  const LayerParameter layer = net.layer(block);
  const bool has_bias = layer.type() == "InnerProduct" ? layer.inner_product_param().bias_term()
                                                       : layer.convolution_param().bias_term();
  net.remove_message(block, "param");
  net.add(block, text("param { lr_mult: 10 decay_mult: 1 }",
                      has_bias ? "  param { lr_mult: 10 decay_mult: 0 }" : ""));
  return rename_layer(net, block, ending);
}

std::vector<std::string> set_classes(NetTemplate& net, int64_t classes, const std::string& ending,
                                     bool has_weights) {
  std::vector<std::string> renewed;
  for (const NetTemplate::Scorer& scorer : net.scorers()) {
    net.set_classes(scorer, classes);
    if (!has_weights) continue;
    if (scorer.enlarges) {
      rename_layer(net, scorer.block, ending);  // by its filler: it has a kernel for each class
    } else {
      renewed.push_back(renew(net, scorer.block, ending));
    }
  }
  return renewed;
}

Trial try_net(const NetTemplate& net, int64_t channels, int64_t size, bool of_pixels) {
  const auto [data, label] = tops_of(net);
  const std::string side = text(" dim: ", size, " dim: ", size, " }");
  NetTemplate fed = net;
  fed.set_data(text("layer { name: \"data\"  type: \"Input\"  top: \"", data, "\"  top: \"", label,
                    "\"  input_param { shape { dim: 1 dim: ", channels, side, " shape { dim: 1",
                    of_pixels ? " dim: 1" + side : " }", " } }\n"));
  NetParameter param;
  parse_text_proto(fed.prototxt(net.model(), ""), net.model(), param);
  Context context(quiet_context());
  try {
    const Net built(param, context, {.phase = Phase::test, .fuse = false});
    int64_t weights = 0;
    for (const LayerSummary& layer : built.summary()) weights += layer.params;
    return {"", weights};
  } catch (const Error& error) {
    return {error.what(), 0};
  }
}

int64_t check_net(const NetTemplate& net, int64_t channels, int64_t size, bool of_pixels,
                  int64_t other) {
  const Trial trial = try_net(net, channels, size, of_pixels);
  if (trial.why_not.empty()) return trial.weights;
  if (try_net(net, channels, size, !of_pixels).why_not.empty())
    throw Error("'", net.model(),
                of_pixels ? "' is no net for segmentation: it gives an image one class"
                          : "' is no classifier: it gives each pixel a class");
  const bool has_other = other != size && try_net(net, channels, other, of_pixels).why_not.empty();
  throw Error("'", net.model(), "' does not take images of ", size, "x", size, ": ", trial.why_not,
              has_other ? text("; it takes --size=", other) : "; give another --from");
}

}  // namespace crema::tools
