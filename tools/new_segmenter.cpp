// crema new for images with a class for each pixel.
#include <algorithm>
#include <array>
#include <filesystem>

#include "core/counted.hpp"
#include "data/images/image_decoder.hpp"
#include "data/records/image_list.hpp"
#include "tools/model_weights.hpp"
#include "tools/new_project.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// What the pixels of masks hold.
struct Masks {
  std::array<bool, 256> values{};

  bool has(int value) const { return values[static_cast<size_t>(value)]; }
  /// Black and white: 255 is class 1.
  bool are_black_and_white() const {
    return has(255) && std::count(values.begin() + 1, values.end() - 1, true) == 0;
  }
  int64_t classes() const {
    if (are_black_and_white()) return 2;
    for (int value = 254; value >= 0; --value) {
      if (has(value)) return value + 1;
    }
    return 0;
  }
  bool have_ignored() const { return has(255) && !are_black_and_white(); }
  /// Classes that no pixel has.
  std::vector<std::string> gaps() const {
    std::vector<std::string> missing;
    for (int value = 0; !are_black_and_white() && value < classes(); ++value) {
      if (!has(value)) missing.push_back(text(value));
    }
    return missing;
  }
};

/// The mask of an image: of the same name, as PNG or another kind without loss. "" if there is
/// none.
std::string mask_of(const std::string& image, const std::string& masks) {
  std::error_code none;
  const fs::path name = fs::path(image).replace_extension();
  for (const fs::path& place : {name, name.filename()}) {
    for (const char* kind : {".png", ".pgm", ".bmp", ".tif", ".tiff", ".gif"}) {
      const std::string file = place.string() + kind;
      if (fs::is_regular_file(masks + file, none)) return file;
    }
  }
  return {};
}

void look_at(const std::string& path, ImageDecoder& decoder, Masks& found) {
  std::string bytes;
  in_image(path, "", 0, [&] {
    read_file_bytes(path, bytes);
    decoder.open_labels(bytes);
    const Image mask = decoder.whole();
    if (mask.bytes == nullptr || mask.channels != 1)
      throw Error("it is no mask: it has ", mask.channels, " channels, and a mask has one, gray ",
                  "or of a palette");
    for (int64_t i = 0; i < mask.height * mask.width; ++i) found.values[mask.bytes[i]] = true;
  });
}

std::string data_layer(const std::string& phase, const std::string& comment, int64_t size,
                       const std::pair<std::string, std::string>& tops, const Pixels& pixels,
                       bool black_and_white, const std::string& list, int64_t batch, bool mirror) {
  return text("layer {\n  name: \"data\"  type: \"DenseImageData\"  top: \"", tops.first,
              "\"  top: \"", tops.second, "\"\n", "  include { phase: ", phase, " }\n", comment,
              "  transform_param { ", mirror ? "mirror: true  " : "", pixels.settings,
              " }\n  dense_image_data_param {\n    source: \"", list, "\"  batch_size: ", batch,
              mirror ? "  shuffle: true" : "", "\n    new_height: ", size, "  new_width: ", size,
              pixels.is_gray ? "  is_color: false" : "",
              black_and_white ? "  label_divide_factor: 255" : "", "\n  }\n}\n");
}

/// The loss becomes a mean over pixels, and pixels of 255 do not count where masks have some.
void set_losses(NetTemplate& net, bool ignores) {
  for (size_t i = 0; i < net.blocks(); ++i) {
    const LayerParameter layer = net.layer(i);
    const LossParameter& loss = layer.loss_param();
    if (layer.type() == "SoftmaxWithLoss" && loss.normalization() == LossParameter::BATCH_SIZE)
      net.set(i, "normalization", "BATCH_SIZE", "VALID");
    if (!ignores) continue;
    if (layer.type() == "SoftmaxWithLoss" && !loss.has_ignore_label())
      net.add(i, "ignore_label: 255", "loss_param");
    if (layer.type() == "Accuracy") net.add(i, "ignore_label: 255", "accuracy_param");
  }
}

Schedule training_of(const NetTemplate& net, const Division& division, int64_t weights,
                     bool has_weights) {
  const int64_t train = std::ssize(division.train), tests = std::ssize(division.tests);
  bool has_norms = false;
  for (size_t i = 0; i < net.blocks(); ++i)
    has_norms = has_norms || net.layer(i).type() == "BatchNorm";
  // A net of more weights takes more memory and time for an image, too.
  const bool large = weights > 50'000'000;
  Schedule plan = schedule_of(train, tests, large ? 4 : 16, large ? 8 : 25, 40, 300);
  plan.rule = "type: \"AdamW\"\nmomentum: 0.9\nweight_decay: 0.02\n";
  plan.rate = has_norms ? 0.003 : 0.0001;
  plan.why_rate = has_norms ? "Rate and decay are those that digits_unet was trained with."
                            : "Small, as the net has no BatchNorm";
  if (!has_norms)
    plan.why_rate += has_weights ? ", and its weights are good already; that of new layers is ten "
                                   "times this."
                                 : ".";
  return plan;
}

}  // namespace

NewProject new_segmenter(const NewRequest& request, const std::string& masks_folder) {
  const std::string masks = checked_folder("segment", masks_folder);
  std::vector<std::string> images, without;
  std::error_code none;
  if (fs::equivalent(masks, request.images, none))
    throw Error("--segment and --images name one folder; put the masks into a folder of their own");
  for (const std::string& image : images_below(request.images))
    (mask_of(image, masks).empty() ? without : images).push_back(image);
  if (images.size() < 2)
    throw Error(images.empty() ? "no image" : "one image alone", " in '", request.images,
                "' has a mask in '", masks, "', which is an image without loss (.png) of the same ",
                "name",
                without.empty() ? "" : ", as '" + fs::path(without[0]).stem().string() + ".png'");
  const Division division = divide(images, request.images, request.seed);
  Masks found;
  ImageDecoder decoder;
  for (const auto* side : {&division.train, &division.tests}) {
    for (const std::string& image : *side) look_at(masks + mask_of(image, masks), decoder, found);
  }
  const int64_t classes = found.classes();
  if (classes < 2)
    throw Error("the masks in '", masks,
                "' have class 0 alone; their pixels are to be classes, 0, 1 ",
                "and so on, or black and white");
  const std::vector<std::string> gaps = found.gaps();
  if (std::ssize(gaps) > classes / 2 || classes > 200)
    throw Error(
        "the masks in '", masks, "' hold values up to ", classes - 1, ", but not ",
        gaps.empty() ? "255" : gaps[0],
        "; are they photographs, or gray levels? Pixels of masks are classes, 0, 1 and so on");

  NewProject project;
  std::vector<std::string> paths;
  const auto list = [&](const std::vector<std::string>& files) {
    std::string lines;
    for (const std::string& file : files) {
      const std::string mask = masks + mask_of(file, masks);
      if (mask.find_first_of(" \t") != std::string::npos)
        throw Error("mask '", mask,
                    "' has a blank in its name, which a list cannot have; rename it");
      lines += request.images + file + " " + mask + "\n";
      paths.push_back(request.images + file);
    }
    return lines;
  };
  project.files["train.txt"] = list(division.train);
  project.files["val.txt"] = list(division.tests);
  check_photos(paths);
  paths.resize(division.train.size());
  const PhotoSurvey survey = survey_photos(paths);

  NetTemplate& net = project.net = NetTemplate(request.from.empty() ? "digits_unet" : request.from);
  // U-Nets halve their maps four times.
  const int64_t size =
      request.size > 0 ? request.size : std::min<int64_t>(survey.shorter, 128) / 16 * 16;
  if (survey.shorter < 16 && request.size == 0)
    throw Error("the images are too small: their shorter side has ", survey.shorter,
                " pixels, and the net needs 16; --size=32 enlarges them");
  const std::string start = published_start(net.model());
  if (request.weights == "auto" && start.empty())
    throw Error("--weights=auto: no weights of '", net.model(), "' are published; it starts from ",
                "random weights, or from --weights=FILE");
  project.weights =
      request.weights == "auto" ? weights_or_advice(net.folder(), net.model()) : request.weights;
  const bool has_weights = !project.weights.empty();
  const auto tops = tops_of(net);
  const Pixels pixels = pixels_for(net, survey, project.weights);
  const std::vector<std::string> renewed = set_classes(net, classes, request.name, has_weights);
  const int64_t weights =
      check_net(net, pixels.is_gray ? 1 : 3, size, true, std::max<int64_t>(16, size / 16 * 16));
  set_losses(net, found.have_ignored());
  Schedule& plan = project.schedule;
  plan = training_of(net, division, weights, has_weights);
  std::string scores;
  for (size_t i = 0; i < net.blocks(); ++i) {
    const LayerParameter& layer = net.layer(i);
    if (layer.type() == "SoftmaxWithLoss") scores = layer.bottom(0);
    if (layer.type() == "Accuracy") plan.metric = layer.top(0);
  }
  if (plan.metric.empty()) {
    net.append(text("layer { name: \"accuracy\"  type: \"Accuracy\"  bottom: \"", scores,
                    "\"  bottom: \"", tops.second, "\"  top: \"accuracy\"  include { phase: TEST }",
                    found.have_ignored() ? "  accuracy_param { ignore_label: 255 }" : "", " }\n"));
    plan.metric = "accuracy";
  }

  const bool bw = found.are_black_and_white();
  const std::string comment =
      text("  # Images and masks become ", size, "x", size, "; half of them are mirrored.",
           bw ? " Masks are black and white: 255 is class 1." : "",
           "\n  # Mean and scale: ", pixels.why, ".\n");
  project.train = data_layer("TRAIN", comment, size, tops, pixels, bw, request.path("train.txt"),
                             plan.batch, true);
  project.test = data_layer("TEST", "", size, tops, pixels, bw, request.path("val.txt"),
                            plan.test_batch, false);
  project.facts.push_back(
      text(classes, " classes of pixels", found.have_ignored() ? " (255: none of them)" : "", ", ",
           counted(plan.train, "image"), " for training and ", plan.tests, " for tests",
           division.by_folder ? "" : text(", one in five, drawn by --seed ", request.seed)));
  project.facts.push_back(
      text("net: ", net.model(), " at ", size, "x", size, ", of ", grouped(weights), " weights"));
  if (has_weights)
    project.facts.push_back(text("weights: ", project.weights, "; new: ", joined(renewed),
                                 "; pixels: ", pixels.settings, ", ", pixels.why));
  project.header = joined(project.facts, "\n");
  if (!without.empty())
    project.notes.push_back(text(counted(without.size(), "image"), " left out, such as '",
                                 without[0], "': without a mask"));
  if (!division.others.empty()) project.notes.push_back(left_out(division));
  if (!has_weights && !start.empty())
    project.notes.push_back(
        text("'", net.model(), "' starts from random weights, and few images do not teach it; ",
             "it can begin with those of '", start, "' (--weights auto): ", way_to_weights(start)));
  if (!gaps.empty()) project.notes.push_back(text("no pixel of a mask has class ", joined(gaps)));
  project.test_flags = "--confusion";
  return project;
}

}  // namespace crema::tools
