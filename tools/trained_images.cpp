#include "tools/trained_images.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/net.pb.h"
#include "tools/flags.hpp"
#include "tools/image_net.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {
namespace {

std::string listed(const std::vector<float>& values) {
  std::vector<std::string> words;
  for (const float value : values) words.push_back(json_number(value));
  return joined(words, ",");
}

/// Of each channel; one for all of them, or none.
std::vector<float> means_of(const Origin& origin) {
  const auto& values =
      origin.transform().has_mean_file() ? origin.channel_mean() : origin.transform().mean_value();
  return {values.begin(), values.end()};
}

/// Of the flag: those of a mean image, or its values; none for 0.
std::vector<float> means_of_flag(int64_t channels) {
  if (is_mean_image(FLAGS_mean)) return channel_means(FLAGS_mean);
  const ImageInputOptions options = image_options({channels, 1, 1}, FLAGS_mean, false);
  const auto& values = options.transform.mean_value();
  return {values.begin(), values.end()};
}

/// Whether they are the same to what images can tell: half a step of a byte.
bool are_alike(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr float kTolerance = 0.5F;
  const auto at = [](const std::vector<float>& values, size_t i) {
    return values.empty() ? 0 : values[std::min(i, values.size() - 1)];
  };
  for (size_t i = 0; i < std::max({a.size(), b.size(), size_t{1}}); ++i) {
    if (std::abs(at(a, i) - at(b, i)) > kTolerance) return false;
  }
  return true;
}

/// Whether the file of the training's mean image is here. Another data set may have one of the same
/// name: the means of its channels tell.
bool has_mean_image(const std::string& file, const std::vector<float>& means) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) {
    if (!means.empty())
      say(text("the mean image of the training, ", printable(file),
               ", is not here: the mean of each channel stands for it"));
    return false;
  }
  if (means.empty()) return true;
  const std::vector<float> here = channel_means(file);
  if (are_alike(here, means)) return true;
  say(Severity::warning,
      text(printable(file), " is not the mean image of the training: its channels have ",
           "the means ", listed(here), ", and had ", listed(means), " there, which stand for it"));
  return false;
}

/// What the flag --mean would be. "": nothing.
std::string trained_mean(const Origin& origin, int64_t channels) {
  const std::string& file = origin.transform().mean_file();
  const std::vector<float> means = means_of(origin);
  if (!file.empty() && has_mean_image(file, means)) return file;
  if (means.size() > 1 && static_cast<int64_t>(means.size()) != channels)
    throw Error("the weights were trained with the mean ", listed(means), " of ", means.size(),
                " channels, and the net's input has ", channels,
                "; give --mean, which is 0 where nothing is to be subtracted");
  return listed(means);
}

}  // namespace

void warn_of_training(const std::string& flag, const std::string& value,
                      const std::string& trained) {
  say(Severity::warning,
      text("--", flag, "=", printable(value), ": the weights were trained with ", trained,
           "; leave the flag out, and images become what they were in training"));
}

TransformationParameter take_trained_images(const std::vector<std::string>& weights,
                                            int64_t channels) {
  Origin origin;
  for (const std::string& file : weights) {
    if (origin.has_transform()) break;
    origin = origin_of_net(file);
  }
  if (!origin.has_transform()) return {};
  std::vector<std::string> taken;
  if (!is_given("mean")) {
    FLAGS_mean = trained_mean(origin, channels);
    if (!FLAGS_mean.empty()) taken.push_back("--mean=" + printable(FLAGS_mean));
  } else if (const std::vector<float> means = means_of(origin);
             !are_alike(means_of_flag(channels), means)) {
    warn_of_training("mean", FLAGS_mean, means.empty() ? "none" : listed(means));
  }
  const double scale = static_cast<double>(origin.transform().scale());
  if (!is_given("scale")) {
    FLAGS_scale = scale;
    if (scale != 1) taken.push_back("--scale=" + json_number(origin.transform().scale()));
  } else if (constexpr double kTolerance = 0.01;
             std::abs(FLAGS_scale - scale) > kTolerance * std::abs(scale)) {
    warn_of_training("scale", json_number(FLAGS_scale), json_number(origin.transform().scale()));
  }
  const bool is_rgb = origin.transform().bgr2rgb();
  const std::string order = is_rgb ? "rgb" : "bgr", indices = is_rgb ? "0,1,2" : "2,1,0";
  if (channels == 3 && FLAGS_channel_swap != order && FLAGS_channel_swap != indices) {
    if (is_given("channel_swap")) {
      warn_of_training("channel_swap", FLAGS_channel_swap, order);
    } else {
      FLAGS_channel_swap = order;
      taken.push_back("--channel_swap=" + order);
    }
  }
  if (!taken.empty())
    say(text("images become what the weights were trained on: ", joined(taken, " ")));
  return origin.transform();
}

}  // namespace crema::tools
