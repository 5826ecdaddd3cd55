// crema classify: which classes a net sees in images. The published program classification works
// too.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>

#include "core/json.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "data/records/text_list.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/image_net.hpp"
#include "tools/known_classes.hpp"
#include "tools/saved_pictures.hpp"
#include "tools/terminal.hpp"
#include "tools/trained_images.hpp"

DECLARE_string(scores);
DECLARE_string(resize);
DEFINE_int32(top, 5, "How many classes to name for an image.");
DEFINE_string(
    crop, "",
    "What of an image the net sees: whole (resized to the input), center, or ten (corners, "
    "centre, and these mirrored; the scores are averaged). Default: center where --resize "
    "or a mean image says a larger size, or the weights the resize_param of the training, else "
    "whole.");

namespace crema::tools {
namespace {

/// What the published form gives by position.
struct Sources {
  std::string model, weights, mean, labels;
  bool channel_mean = false;
  NamedImages images;
  bool is_published = false;  // the form of the arguments
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
    sources.is_published = true;
    images = {arguments[4]};
  }
  if (sources.model.empty())
    throw Error(
        "--model is missing; give --model=deploy.prototxt --weights=net.caffemodel, or "
        "--model=net.onnx, and images, or the five arguments DEPLOY WEIGHTS MEAN LABELS IMAGE");
  sources.images = named_images("classify", images);
  return sources;
}

/// Error if the names are those of the weights in another order, so that each stands for another
/// class. Other names, such as translations, nobody can check.
void check_order(const std::string& path, const std::vector<std::string>& names,
                 const std::vector<std::string>& trained) {
  std::vector<std::string> sorted = names, trained_sorted = trained;
  std::ranges::sort(sorted);
  std::ranges::sort(trained_sorted);
  if (names == trained || sorted != trained_sorted) return;
  const auto at = std::ranges::mismatch(names, trained);
  throw Error("--labels=", path, ": class ", at.in1 - names.begin(), " is '", *at.in1, "', and '",
              *at.in2,
              "' in the weights, which were trained with these classes in another order; "
              "leave out --labels, and the names are those of the weights");
}

/// A name for each class, "" without a file and without names in the weights, `trained`.
std::vector<std::string> read_labels(const std::string& path, int64_t classes,
                                     const std::string& scores,
                                     const std::vector<std::string>& trained) {
  std::vector<std::string> names;
  if (path.empty()) {
    if (static_cast<int64_t>(trained.size()) == classes) return trained;
    if (!trained.empty())
      say(Severity::warning, text("the weights name ", trained.size(), " classes, and '", scores,
                                  "' has ", classes, ": --labels=FILE gives their names"));
    return names;
  }
  read_text_list(path, "the names of classes, one a line",
                 [&](std::string_view text, int64_t line) {
                   names.resize(static_cast<size_t>(line) - 1);  // blank lines are classes, too
                   names.emplace_back(text);
                 });
  if (static_cast<int64_t>(names.size()) != classes)
    throw Error("--labels=", path, " has ", names.size(), " lines, and '", scores, "' ", classes,
                " classes; give the labels of this net, a line a class");
  check_order(path, names, trained);
  return names;
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

/// The resize_param of the training, if the net's input can be cut out of what it makes, and no
/// flag says how images are resized; else null. Warns of a flag that says another size.
const ResizeParameter* take_trained_resize(const TransformationParameter& trained,
                                           const Shape& sample) {
  if (trained.resize_param_size() == 0) return nullptr;
  const ResizeParameter& resize = trained.resize_param(0);
  const auto height = static_cast<int64_t>(resize.height());
  const auto width = static_cast<int64_t>(resize.width());
  if (height < sample[1] || width < sample[2]) return nullptr;
  const std::string words =
      text("resize_param { resize_mode: ", ResizeParameter::Resize_mode_Name(resize.resize_mode()),
           " height: ", height, " width: ", width, " }");
  const char* const flag = !FLAGS_resize.empty()   ? "resize"
                           : FLAGS_crop == "whole" ? "crop"
                           : !FLAGS_interp.empty() ? "interp"
                                                   : nullptr;
  if (flag == nullptr) {
    say(text("images are resized as those that the weights were trained on: ", words));
    return &resize;
  }
  // Without --resize, the whole image gets the size of the input.
  std::pair<int64_t, int64_t> size(sample[2], sample[1]);
  if (!FLAGS_resize.empty()) size = parse_size("resize", FLAGS_resize);
  const bool is_same =
      resize.resize_mode() == ResizeParameter::WARP && size == std::pair(width, height);
  if (!is_same)
    warn_of_training(flag, gflags::GetCommandLineFlagInfoOrDie(flag).current_value, words);
  return nullptr;
}

/// `trained`: what was made of images in training; empty if nothing is known of it.
ImageInputOptions read_input(const Sources& sources, const Shape& sample,
                             const TransformationParameter& trained) {
  ImageInputOptions options = image_options(sample, sources.mean, sources.channel_mean);
  if (sources.is_published && !options.interpolation) options.interpolation = Interpolation::linear;
  const ResizeParameter* const resize = take_trained_resize(trained, sample);
  if (resize != nullptr) {
    *options.transform.add_resize_param() = *resize;
  } else if (!FLAGS_resize.empty()) {
    const auto [width, height] = parse_size("resize", FLAGS_resize);
    options.resize = {.height = height, .width = width};
  } else if (is_mean_image(sources.mean) && !sources.channel_mean) {
    const Shape shape = mean_image_shape(sources.mean);
    options.resize = {.height = shape[1], .width = shape[2]};
  }
  const bool larger =
      resize != nullptr || options.resize.height > sample[1] || options.resize.width > sample[2];
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

/// The classes, that of the greatest score first.
std::vector<int> ranked(const std::vector<double>& scores) {
  std::vector<int> best(scores.size());
  std::iota(best.begin(), best.end(), 0);
  std::ranges::stable_sort(best, [&](int a, int b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  return best;
}

std::string name_of(int c, const std::vector<std::string>& names) {
  return names.empty() ? std::to_string(c) : names[static_cast<size_t>(c)];
}

/// The lines above a saved picture, a class of `best` each: "0.92 cat".
std::vector<std::string> lines_for(const std::vector<double>& scores, const std::vector<int>& best,
                                   const std::vector<std::string>& names) {
  std::vector<std::string> lines;
  for (const int c : best) {
    char score[32];
    std::snprintf(score, sizeof score, "%.2f ", scores[static_cast<size_t>(c)]);
    lines.push_back(score + printable(name_of(c, names)));
  }
  return lines;
}

/// `best`: the classes to show. `known`: the class of the image, where something says it.
void print(const std::string& image, const std::vector<double>& scores,
           const std::vector<int>& best, const std::vector<std::string>& names,
           const std::optional<int64_t>& known) {
  const auto name = [&](int c) { return name_of(c, names); };
  if (!FLAGS_json) {
    std::printf("---------- Prediction for %s ----------\n", printable(image).c_str());
    for (const int c : best) {
      std::printf("%.4f - \"%s\"\n", scores[static_cast<size_t>(c)], printable(name(c)).c_str());
    }
    return;
  }
  std::vector<std::string> classes;
  for (const int c : best) {
    classes.push_back(text("{\"class\": ", c,
                           names.empty() ? "" : ", \"label\": " + json_string(name(c)),
                           ", \"score\": ", json_number(scores[static_cast<size_t>(c)]), "}"));
  }
  const std::string truth =
      known
          ? text(", \"class\": ", *known,
                 names.empty() ? "" : ", \"label\": " + json_string(name(static_cast<int>(*known))),
                 ", \"right\": ", best[0] == *known ? "true" : "false")
          : "";
  std::printf("{\"image\": %s%s, \"predictions\": [%s]}\n", json_string(image).c_str(),
              truth.c_str(), joined(classes).c_str());
}

int classify(const std::vector<std::string>& arguments) {
  exclusive_flags("strict", FLAGS_strict, "allow_missing", FLAGS_allow_missing);
  Sources sources = read_sources(arguments);
  for (const auto& [flag, value] : {std::pair{"top", FLAGS_top}, std::pair{"batch", FLAGS_batch}}) {
    if (value < 1) throw Error("--", flag, " ", value, " must be at least 1");
  }
  SavedPictures pictures;
  Context context(context_options());
  NetOptions options = net_options(Phase::test);
  options.weights = split_list(sources.weights);
  options.strict = FLAGS_strict;
  options.need_all_weights = !FLAGS_allow_missing;
  if (!FLAGS_scores.empty()) options.keep = {FLAGS_scores};
  Net net(sources.model, context, std::move(options));
  const Shape sample = image_shape("classify", sources.model, net);
  require_weights(net, sources.model, sources.weights);
  const std::vector<std::string> files = files_of_weights(sources.model, sources.weights);
  TransformationParameter trained;
  if (!sources.is_published) {
    trained = take_trained_images(files, sample[0]);
    sources.mean = FLAGS_mean;
  }
  const std::string scores = scores_of(net);
  const Shape& scores_shape = net.blob(scores).shape();
  if (scores_shape.rank() < 2 || scores_shape.count(2) != 1)
    throw Error(
        "scores '", scores, "' are of ", scores_shape.str(),
        ", not one a class for each image; end the net with InnerProduct or global Pooling. "
        "`crema detect` shows the boxes of a detector");
  const int64_t classes = scores_shape[1];
  const std::vector<std::string> names =
      read_labels(sources.labels, classes, scores, class_names_of_nets(files));
  KnownClasses known(sources.images, names, classes);
  ImageInput input(read_input(sources, sample, trained));
  const auto show = [&](std::span<const ReadImage> images) {
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
            "image '", images[i].path, "': blob '", scores,
            "' has scores that are NaN; the weights may be damaged, or diverged in training "
            "(crema inspect counts such values)");
      std::vector<int> best = ranked(mean);
      known.count(images[i], best);
      best.resize(std::min(best.size(), static_cast<size_t>(FLAGS_top)));
      print(images[i].path, mean, best, names, known.of(images[i]));
      if (pictures.wanted()) pictures.save(images[i].path, {}, lines_for(mean, best, names));
    }
  };
  const int status = for_each_batch(net, input, sample, sources.images.paths, show);
  known.report();
  return status;
}

}  // namespace

extern const Command kClassify = {
    "classify",
    "names the classes that a net sees in images",
    "  crema classify --model deploy.prototxt --weights net.caffemodel --mean mean.binaryproto \\\n"
    "        --labels synset_words.txt cat.jpg photos/\n"
    "  crema classify --model deploy.prototxt --weights net.caffemodel --mean 104,117,123 --scale "
    "0.017 \\\n"
    "        --resize 256x256 --crop ten --json --list images.txt\n"
    "  crema classify --model net.onnx cat.jpg photos/\n"
    "  classification.bin deploy.prototxt net.caffemodel mean.binaryproto labels.txt img.jpg\n"
    "\n"
    "Takes image files, folders of images, with the folders in them, and --list. Where folders "
    "are\n"
    "named as classes, or the lines of the list end with labels, it logs how many images were\n"
    "right. An image is decoded as by data layers (blue\n"
    "first, values 0 to 255), resized, cropped, and becomes (pixel - mean) * scale. The net has\n"
    "one input (N, C, H, W) and one output, or --scores. The published form subtracts the mean of\n"
    "each channel and shows the whole image to the net. It resizes by bilinear interpolation, as\n"
    "published; the other form averages over the area of each new pixel where it shrinks;\n"
    "--interp names another way. --json prints a line an image, in which bytes of names that are\n"
    "no UTF-8 are U+FFFD. Without --labels, classes have the names that the weights say, if they\n"
    "say some. Without --mean and --scale, these are those of the training, if the weights say\n"
    "them, and so is resize_param without --resize, --interp and --crop=whole; flags that\n"
    "contradict the training are warned of.\n"
    "\n"
    "--save_images writes a copy of each image to a folder, with the names and scores above it;\n"
    "that needs a build with OpenCV.\n"
    "\n"
    "Of several images, one that cannot be read is named and left out, and the exit status is 1\n"
    "at the end; --noskip_bad stops there.",
    {"save_images",  "overwrite", "model",  "weights", "strict",       "allow_missing",
     "list",         "labels",    "top",    "mean",    "channel_mean", "scale",
     "channel_swap", "resize",    "interp", "crop",    "batch",        "scores",
     "skip_bad",     "json",      "gpu",    "threads", "engine",       "tune",
     "tuning_file",  "plugin",    "fuse",   "level",   "stage"},
    classify,
    1,
    NetUse::runs};

}  // namespace crema::tools
