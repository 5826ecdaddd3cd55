// crema classify: which classes a net sees in images. The published program classification works
// too.
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "core/json.hpp"
#include "core/parse_number.hpp"
#include "core/split_list.hpp"
#include "crema/parameter_arena.hpp"
#include "data/image_input.hpp"
#include "data/text_list.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"

DECLARE_string(scores);
DECLARE_string(resize);
DECLARE_bool(skip_bad);
DEFINE_string(list, "", "A text file with image files, a line each.");
DEFINE_int32(top, 5, "How many classes to name for an image.");
DEFINE_string(mean, "",
              "What to subtract: a mean image (.binaryproto), or a value for each channel of the "
              "net's input, such as 104,117,123.");
DEFINE_bool(channel_mean, false,
            "Of a mean image, subtract the mean of each channel, as the published program does.");
DEFINE_double(scale, 1, "Multiplies pixels, which are 0 to 255, after the mean is subtracted.");
DEFINE_string(channel_swap, "bgr",
              "Channels of the net's input: bgr, as data layers give them, rgb, or three indices "
              "into red, green, blue, such as 2,1,0.");
DEFINE_string(
    crop, "",
    "What of an image the net sees: whole (resized to the input), center, or ten (corners, "
    "centre, and these mirrored; the scores are averaged). Default: center where --resize "
    "or a mean image says a larger size, else whole.");
DEFINE_int32(batch, 16, "Images in a pass of the net.");

namespace crema::tools {
namespace {

/// What the published form gives by position.
struct Sources {
  std::string model, weights, mean, labels;
  bool channel_mean = false;
  std::vector<std::string> images;
  Shrinking shrinking = Shrinking::average;
};

Sources read_sources(const std::vector<std::string>& arguments) {
  Sources sources{FLAGS_model, FLAGS_weights, FLAGS_mean, FLAGS_labels, FLAGS_channel_mean, {}};
  std::vector<std::string> images = arguments;
  if (FLAGS_model.empty() && arguments.size() == 5) {
    sources.model = arguments[0];
    sources.weights = arguments[1];
    sources.mean = arguments[2];
    sources.labels = arguments[3];
    sources.channel_mean = true;
    sources.shrinking = Shrinking::bilinear;
    images = {arguments[4]};
  }
  if (sources.model.empty())
    throw Error(
        "--model is missing; give --model=deploy.prototxt --weights=net.caffemodel and "
        "images, or the five arguments DEPLOY WEIGHTS MEAN LABELS IMAGE");
  for (const std::string& image : images) {
    if (std::filesystem::is_directory(image)) {
      const std::vector<std::string> all = images_in_folder(image);
      sources.images.insert(sources.images.end(), all.begin(), all.end());
    } else {
      sources.images.push_back(image);
    }
  }
  if (!FLAGS_list.empty()) {
    read_text_list(FLAGS_list, "lines with an image file",
                   [&](std::string_view text, int64_t) { sources.images.emplace_back(text); });
  }
  if (sources.images.empty()) throw Error("classify needs images: files, folders, or --list=FILE");
  return sources;
}

/// A name for each class, "" without a file.
std::vector<std::string> read_labels(const std::string& path, int64_t classes,
                                     const std::string& scores) {
  std::vector<std::string> names;
  if (path.empty()) return names;
  std::ifstream file(path);
  if (!file.is_open()) throw Error("cannot read --labels=", path);
  for (std::string line; std::getline(file, line);) names.emplace_back(trimmed(line));
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (static_cast<int64_t>(names.size()) != classes)
    throw Error("--labels=", path, " has ", names.size(), " lines, and '", scores, "' ", classes,
                " classes; give the labels of this net, a line a class");
  return names;
}

std::array<int, 3> read_channels() {
  if (FLAGS_channel_swap == "bgr") return {2, 1, 0};
  if (FLAGS_channel_swap == "rgb") return {0, 1, 2};
  const std::vector<std::string> words = split_list(FLAGS_channel_swap);
  std::array<int, 3> channels{};
  bool good = words.size() == 3;
  for (size_t i = 0; good && i < 3; ++i) {
    good = words[i] == "0" || words[i] == "1" || words[i] == "2";
    if (good) channels[i] = words[i][0] - '0';
  }
  if (!good)
    throw Error("--channel_swap=", FLAGS_channel_swap, " is not bgr, rgb or three of 0, 1, 2");
  return channels;
}

/// Numbers separated by commas; none if the text is something else.
std::vector<float> read_numbers(const std::string& text) {
  std::vector<float> numbers;
  for (const std::string& word : split_list(text)) {
    const auto number = parse_number<float>(word);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

/// Error where the whole image is resized to the input, whatever --resize says.
void check_resize(const ImageSize& resize, const Shape& sample) {
  if (FLAGS_resize.empty() || (resize.height == sample[1] && resize.width == sample[2])) return;
  throw Error("--resize=", FLAGS_resize, " has no effect: ",
              FLAGS_crop.empty() ? "it is not larger than the net's input of "
                                 : "--crop=whole resizes images to the net's input of ",
              sample[2], "x", sample[1], "; leave it out, or give a larger size with --crop=center",
              " or --crop=ten");
}

ImageInputOptions read_input(const Sources& sources, const Shape& sample) {
  ImageInputOptions options{.sample = sample};
  options.channels = read_channels();
  options.shrinking = sources.shrinking;
  options.transform.set_scale(static_cast<float>(FLAGS_scale));
  if (!FLAGS_resize.empty()) {
    const auto [width, height] = parse_size("resize", FLAGS_resize);
    options.resize = {.height = height, .width = width};
  }
  if (std::vector<float> values = read_numbers(sources.mean); !values.empty()) {
    options.transform.mutable_mean_value()->Add(values.begin(), values.end());
  } else if (!sources.mean.empty() && sources.channel_mean) {
    values = channel_means(sources.mean);
    options.transform.mutable_mean_value()->Add(values.begin(), values.end());
  } else if (!sources.mean.empty()) {
    options.transform.set_mean_file(sources.mean);
    const Shape shape = mean_image_shape(sources.mean);
    if (options.resize.height == 0) options.resize = {.height = shape[1], .width = shape[2]};
  }
  const bool larger = options.resize.height > sample[1] || options.resize.width > sample[2];
  const std::string crop = !FLAGS_crop.empty() ? FLAGS_crop : larger ? "center" : "whole";
  if (crop == "whole") {
    check_resize(options.resize, sample);
    options.crop = ImageCrop::whole;
  } else if (crop == "center") {
    options.crop = ImageCrop::center;
  } else if (crop == "ten") {
    options.crop = ImageCrop::ten;
  } else {
    throw Error("--crop=", crop, " is not whole, center or ten");
  }
  return options;
}

/// The blob of scores: the one that the flag names, or the only output.
std::string scores_of(Net& net) {
  if (!FLAGS_scores.empty()) return FLAGS_scores;
  if (net.outputs().size() != 1)
    throw Error("the net has the outputs ", joined(net.outputs()),
                "; choose the scores with --scores=BLOB");
  return net.outputs()[0];
}

void print(const std::string& image, const std::vector<double>& scores,
           const std::vector<std::string>& names) {
  std::vector<int> best(scores.size());
  std::iota(best.begin(), best.end(), 0);
  std::ranges::stable_sort(best, [&](int a, int b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  best.resize(std::min(best.size(), static_cast<size_t>(FLAGS_top)));
  const auto name = [&](int c) {
    return names.empty() ? std::to_string(c) : names[static_cast<size_t>(c)];
  };
  if (!FLAGS_json) {
    std::printf("---------- Prediction for %s ----------\n", image.c_str());
    for (const int c : best) {
      std::printf("%.4f - \"%s\"\n", scores[static_cast<size_t>(c)], name(c).c_str());
    }
    return;
  }
  std::vector<std::string> classes;
  for (const int c : best) {
    classes.push_back(concat("{\"class\": ", c,
                             names.empty() ? "" : ", \"label\": " + json_string(name(c)),
                             ", \"score\": ", json_number(scores[static_cast<size_t>(c)]), "}"));
  }
  std::printf("{\"image\": %s, \"predictions\": [%s]}\n", json_string(image).c_str(),
              joined(classes).c_str());
}

/// Reads the images into the input, those that can be read if --skip_bad says so. Returns these.
std::vector<std::string> read_batch(Net& net, ImageInput& input, const Shape& sample,
                                    std::span<const std::string> images, int& bad) {
  std::vector<std::string> read;
  std::vector<float> values;
  const auto of_image = static_cast<size_t>(input.samples() * sample.count());
  for (const std::string& image : images) {
    values.resize((read.size() + 1) * of_image);
    try {
      input.read(image, values.data() + read.size() * of_image);
      read.push_back(image);
    } catch (const Error& error) {
      if (!FLAGS_skip_bad) throw;
      LOG(WARNING) << error.what();
      ++bad;
    }
  }
  if (read.empty()) return read;
  const std::string& name = net.inputs()[0];
  net.reshape_input(
      name, {static_cast<int64_t>(read.size()) * input.samples(), sample[0], sample[1], sample[2]});
  net.reshape();
  std::copy_n(values.begin(), read.size() * of_image, net.input(name).host_overwrite<float>());
  return read;
}

int classify(const std::vector<std::string>& arguments) {
  const Sources sources = read_sources(arguments);
  for (const auto& [flag, value] : {std::pair{"top", FLAGS_top}, std::pair{"batch", FLAGS_batch}}) {
    if (value < 1) throw Error("--", flag, " ", value, " must be at least 1");
  }
  Context context(context_options());
  NetOptions options = net_options(Phase::test);
  options.weights = split_list(sources.weights);
  options.strict = FLAGS_strict;
  if (!FLAGS_scores.empty()) options.keep = {FLAGS_scores};
  Net net(sources.model, context, std::move(options));
  if (net.inputs().size() != 1)
    throw Error(sources.model, " has ", net.inputs().size(),
                " inputs; classify takes a deploy net with one, for images");
  const Shape& input_shape = net.input(net.inputs()[0]).shape();
  if (input_shape.rank() != 4)
    throw Error("input '", net.inputs()[0], "' is of ", input_shape.str(),
                "; images need (N, C, H, W)");
  const Shape sample{input_shape[1], input_shape[2], input_shape[3]};
  if (!net.params().segments().empty()) required_flag("weights", sources.weights);
  const std::string scores = scores_of(net);
  const Shape& scores_shape = net.blob(scores).shape();
  if (scores_shape.rank() < 2 || scores_shape.count(2) != 1)
    throw Error(
        "scores '", scores, "' are of ", scores_shape.str(),
        ", not one a class for each image; end the net with InnerProduct or global Pooling");
  const int64_t classes = scores_shape[1];
  const std::vector<std::string> names = read_labels(sources.labels, classes, scores);
  ImageInput input(read_input(sources, sample));
  int bad = 0;
  const std::span<const std::string> all = sources.images;
  for (size_t first = 0; first < all.size(); first += static_cast<size_t>(FLAGS_batch)) {
    const auto batch =
        all.subspan(first, std::min<size_t>(all.size() - first, static_cast<size_t>(FLAGS_batch)));
    const std::vector<std::string> images = read_batch(net, input, sample, batch, bad);
    if (images.empty()) continue;
    net.forward();
    const Tensor out = net.output(scores);
    for (size_t i = 0; i < images.size(); ++i) {
      std::vector<double> mean(static_cast<size_t>(classes));
      for (int64_t s = 0; s < input.samples(); ++s) {
        const int64_t item = static_cast<int64_t>(i) * input.samples() + s;
        for (int64_t c = 0; c < classes; ++c) {
          mean[static_cast<size_t>(c)] +=
              out.at(item * classes + c) / static_cast<double>(input.samples());
        }
      }
      if (std::ranges::any_of(mean, [](double score) { return std::isnan(score); }))
        throw Error(
            "image '", images[i], "': blob '", scores,
            "' has scores that are NaN; the weights may be damaged, or diverged in training "
            "(crema inspect counts such values)");
      print(images[i], mean, names);
    }
  }
  if (bad != 0) LOG(WARNING) << bad << " of " << all.size() << " images could not be read";
  return bad == 0 ? 0 : 1;
}

}  // namespace

const Command kClassify = {
    "classify",
    "names the classes that a net sees in images",
    "  crema classify --model deploy.prototxt --weights net.caffemodel --mean mean.binaryproto \\\n"
    "        --labels synset_words.txt cat.jpg photos/\n"
    "  crema classify --model deploy.prototxt --weights net.caffemodel --mean 104,117,123 --scale "
    "0.017 \\\n"
    "        --resize 256x256 --crop ten --json --list images.txt\n"
    "  classification.bin deploy.prototxt net.caffemodel mean.binaryproto labels.txt img.jpg\n"
    "\n"
    "Takes image files, folders of images and --list. An image is decoded as by data layers (blue\n"
    "first, values 0 to 255), resized, cropped, and becomes (pixel - mean) * scale. The net has\n"
    "one input (N, C, H, W) and one output, or --scores. The published form subtracts the mean of\n"
    "each channel and shows the whole image to the net. It resizes by bilinear interpolation, as\n"
    "published; the other form averages over the area of each new pixel where it shrinks. --json\n"
    "prints a line an image, in which bytes of names that are no UTF-8 are U+FFFD.",
    {"model",        "weights", "strict",       "list",    "labels", "top",   "mean",
     "channel_mean", "scale",   "channel_swap", "resize",  "crop",   "batch", "scores",
     "skip_bad",     "json",    "gpu",          "threads", "engine", "tune",  "tuning_file",
     "plugin",       "fuse",    "level",        "stage"},
    classify};

}  // namespace crema::tools
