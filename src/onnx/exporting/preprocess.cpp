#include "onnx/exporting/preprocess.hpp"

#include "core/json.hpp"
#include "crema/error.hpp"

namespace crema::onnx {
namespace {

/// The means that are subtracted: one, one a channel, or none.
std::vector<double> means_of(const Origin& origin) {
  const auto& own = origin.transform().mean_value();
  const auto& means = own.empty() ? origin.channel_mean() : own;
  return {means.begin(), means.end()};
}

/// Whether the net's channels are in the order RGB; Crema's images have BGR.
bool is_rgb(const Origin& origin) { return origin.transform().bgr2rgb(); }

}  // namespace

std::string add_preprocessing(const Origin& origin, const Shape& shape, const std::string& input,
                              GraphBuilder& graph) {
  const std::vector<double> means = means_of(origin);
  const int64_t channels = shape[1];
  if (channels != 1 && channels != 3)
    throw Error("preprocessing is of images with 1 or 3 channels, and the input '", input, "' has ",
                channels);
  if (origin.transform().has_mean_file() && means.empty())
    throw Error("the mean image '", origin.transform().mean_file(),
                "' has no means of channels in the weights; subtract it in front of the model");
  if (means.size() > 1 && static_cast<int64_t>(means.size()) != channels)
    throw Error("there are ", means.size(), " means for ", channels, " channels of '", input, "'");
  std::string x = input;
  if (channels == 3 && !is_rgb(origin))
    x = graph.add("Gather", {x, graph.ints({2, 1, 0})}, {{"axis", 1}});
  if (!means.empty()) {
    const auto count = static_cast<int64_t>(means.size());
    x = graph.add("Sub", {x, graph.floats(Shape{1, count, 1, 1}, means, "mean")});
  }
  const double scale = origin.transform().scale();
  if (scale != 1) x = graph.add("Mul", {x, graph.number(scale)});
  return x;
}

Tensor pixels_behind(const Origin& origin, const Tensor& input) {
  const std::vector<double> means = means_of(origin);
  const double scale = origin.transform().scale();
  const Shape& shape = input.shape();
  const int64_t channels = shape[1], area = shape.count(2);
  const bool swaps = channels == 3 && !is_rgb(origin);
  Tensor pixels(shape);
  auto* const values = pixels.overwrite<float>();
  for (int64_t i = 0; i < shape.count(); ++i) {
    const int64_t channel = i / area % channels;
    const double mean =
        means.empty() ? 0 : means[means.size() == 1 ? 0 : static_cast<size_t>(channel)];
    const int64_t to = swaps ? i + (channels - 1 - 2 * channel) * area : i;
    values[to] = static_cast<float>(input.at(i) / scale + mean);
  }
  return pixels;
}

void add_preprocessing_metadata(const Origin& origin, ModelProto& model) {
  if (!origin.has_transform()) return;
  const auto add = [&](const char* key, std::string value) {
    StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  std::string list = "[";
  for (const double mean : means_of(origin)) {
    if (list.size() > 1) list += ", ";
    list += json_number(static_cast<float>(mean));
  }
  if (list.size() > 1) add("crema.mean", list + "]");
  add("crema.scale", json_number(origin.transform().scale()));
  add("crema.channels", origin.transform().force_gray() ? "gray" : is_rgb(origin) ? "RGB" : "BGR");
}

}  // namespace crema::onnx
