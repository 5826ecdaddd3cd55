// crema new for folders of classes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "data/images/image_name.hpp"
#include "data/records/image_folder.hpp"
#include "tools/model_list.hpp"
#include "tools/model_weights.hpp"
#include "tools/new_project.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

struct Classes {
  std::vector<std::string> names;
  std::vector<std::string> train, tests;  // lines of lists, or empty where folders are sources
  int64_t train_count = 0, test_count = 0;
  std::vector<std::string> files;         // of training, for a look at them
  std::string train_folder, test_folder;  // sources, where there are two
};

/// The images of a class, sorted; those in folders of it do not count, as for the data layer.
std::vector<std::string> images_of_class(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code why;
  for (fs::directory_iterator entry(folder, why), end; !why && entry != end; entry.increment(why)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && is_image_name(name) && !entry->is_directory(why))
      names.push_back(name);
  }
  if (why) throw Error("cannot list '", folder.string(), "': ", why.message());
  std::ranges::sort(names);
  return names;
}

void check_names(const std::vector<std::string>& names, const std::string& folder) {
  if (names.empty()) {
    const bool has_images = !images_below(folder).empty();
    throw Error("'", folder, "' has no folder of images",
                has_images ? "; put the images of each class into a folder of its own, as "
                           : "; it should have one for each class, as ",
                folder, "cat/ and ", folder, "dog/");
  }
  if (names.size() == 1)
    throw Error("'", folder, "' has one class alone, '", names[0],
                "'; a classifier tells two or more apart");
}

/// Error for a class of no images.
int64_t count_images(const std::string& folder, const std::vector<std::string>& names,
                     std::vector<std::string>& files) {
  int64_t images = 0;
  for (const std::string& name : names) {
    const size_t before = files.size();
    for (const std::string& file : images_of_class(folder + name))
      files.push_back(text(folder, name, "/", file));
    if (files.size() == before)
      throw Error("class '", name, "' has no image in '", folder, name,
                  "'; add some, or remove the folder");
    images += static_cast<int64_t>(files.size() - before);
  }
  return images;
}

Classes classes_of_two(const std::string& root, const std::string& train,
                       const std::string& tests) {
  Classes classes;
  classes.train_folder = root + train;
  classes.test_folder = root + tests;
  const std::string train_root = classes.train_folder + "/", test_root = classes.test_folder + "/";
  classes.names = folders_of_classes(classes.train_folder);
  check_names(classes.names, train_root);
  const std::vector<std::string> tested = folders_of_classes(classes.test_folder);
  if (tested != classes.names) {
    std::vector<std::string> differing;
    std::ranges::set_symmetric_difference(tested, classes.names, std::back_inserter(differing));
    throw Error("'", classes.train_folder, "' and '", classes.test_folder,
                "' need the same folders; only one of them has '", differing.at(0), "'");
  }
  classes.train_count = count_images(train_root, classes.names, classes.files);
  std::vector<std::string> others;
  classes.test_count = count_images(test_root, classes.names, others);
  return classes;
}

Classes classes_of_one(const std::string& root, uint64_t seed) {
  Classes classes;
  classes.names = folders_of_classes(root);
  check_names(classes.names, root);
  for (size_t label = 0; label < classes.names.size(); ++label) {
    const std::string& name = classes.names[label];
    const std::vector<std::string> images = images_of_class(root + name);
    if (images.size() < 2)
      throw Error("class '", name, "' has ", images.empty() ? "no image" : "one image alone",
                  " in '", root, name, "'; one is for training and one for tests at least");
    const Division division = divide_at_random(images, seed, name);
    for (const std::string& image : division.train) {
      classes.train.push_back(text(name, "/", image, " ", label));
      classes.files.push_back(root + name + "/" + image);
    }
    for (const std::string& image : division.tests)
      classes.tests.push_back(text(name, "/", image, " ", label));
  }
  classes.train_count = static_cast<int64_t>(classes.train.size());
  classes.test_count = static_cast<int64_t>(classes.tests.size());
  return classes;
}

struct Choice {
  std::string model, why;
  int64_t size = 0;
};

/// The net by the images, where the user names none.
Choice choose(const PhotoSurvey& survey, int64_t images) {
  const auto shorter = survey.shorter;
  if (shorter <= 40 && survey.is_gray)
    return {"lenet", text("the images are gray and small (", shorter, " pixels)"), 28};
  if (shorter <= 40)
    return {"resnet20_cifar10", text("the images are small (", shorter, " pixels)"), 32};
  if (images < 5000)
    return {"resnet20_cifar10",
            text("it has 0.27 million weights, and ", images,
                 " images are few to train a larger net from random weights"),
            64};
  return {"resnet18", text(images, " images are enough for its 11 million weights"), 128};
}

/// The layers whose scores are of other classes: changed to `classes`, and, with weights, renamed,
/// so that those of the other classes are not loaded.
std::vector<std::string> set_classes(NetTemplate& net, int64_t classes, const std::string& name,
                                     bool has_weights) {
  std::vector<std::string> changed;
  for (const NetTemplate::Scorer& scorer : net.scorers()) {
    net.set(scorer.block, "num_output", std::to_string(scorer.classes), std::to_string(classes));
    if (!has_weights) continue;
    const LayerParameter layer = net.layer(scorer.block);
    const bool has_bias = layer.type() == "InnerProduct" ? layer.inner_product_param().bias_term()
                                                         : layer.convolution_param().bias_term();
    net.remove_message(scorer.block, "param");
    net.add(scorer.block, text("param { lr_mult: 10 decay_mult: 1 }",
                               has_bias ? "  param { lr_mult: 10 decay_mult: 0 }" : ""));
    changed.push_back(scorer.name + "_" + name);
    net.set(scorer.block, "name", "\"" + scorer.name + "\"", "\"" + changed.back() + "\"");
  }
  return changed;
}

/// The output that tells how good the net is. Tests of more classes than there are go; a net
/// without any gets one.
std::string set_accuracy(NetTemplate& net, int64_t classes) {
  std::string metric;
  const std::string scores = net.layer(net.scorers().back().block).top(0);
  std::string read;
  for (size_t i = 0; i < net.blocks();) {
    const LayerParameter& layer = net.layer(i);
    if (layer.type() == "SoftmaxWithLoss") read = layer.bottom(0);
    if (layer.type() == "Accuracy" &&
        layer.accuracy_param().top_k() >= std::max<int64_t>(classes, 2)) {
      net.remove(i);
      continue;
    }
    if (layer.type() == "Accuracy" && layer.accuracy_param().top_k() == 1) metric = layer.top(0);
    ++i;
  }
  if (!metric.empty()) return metric;
  std::string label = "label";
  net.append(text("layer { name: \"accuracy\"  type: \"Accuracy\"  bottom: \"", read,
                  "\"  bottom: \"", label, "\"  top: \"accuracy\"  include { phase: TEST } }\n"));
  return "accuracy";
}

/// The tops of the template's data, which its layers read.
std::pair<std::string, std::string> tops_of(const NetTemplate& net) {
  for (size_t i = 0; i < net.blocks(); ++i) {
    const LayerParameter& layer = net.layer(i);
    if (layer.bottom_size() > 0 || layer.top_size() == 0) continue;
    if (layer.top_size() != 2)
      throw Error("'", net.model(), "' does not read images with one label each; `crema models` ",
                  "says what each model is for");
    return {layer.top(0), layer.top(1)};
  }
  throw Error("'", net.model(), "' has no data layer");
}

/// Whether the net has one size of map for all sizes of images.
bool takes_any_size(const NetTemplate& net) {
  for (size_t i = 0; i < net.blocks(); ++i) {
    if (net.layer(i).pooling_param().global_pooling()) return true;
  }
  return false;
}

struct Pixels {
  std::string settings, why;
  int64_t channels = 3;
};

/// As the weights saw pixels, else as these images are.
Pixels pixels_for(const NetTemplate& net, const PhotoSurvey& survey, bool has_weights) {
  const int64_t own = survey.is_gray ? 1 : 3;
  if (!has_weights)
    return {pixel_settings(survey), "pixels get the mean 0 and the variance 1", own};
  const TransformationParameter trained = net.transform();
  const Shape input = net.input();
  const int64_t channels = input.rank() == 4 ? input[1] : 3;
  std::string settings;
  if (trained.mean_value_size() > 0 || trained.has_scale()) {
    for (const float mean : trained.mean_value()) settings += text("mean_value: ", mean, "  ");
    if (trained.has_scale()) settings += text("scale: ", trained.scale());
  } else {
    // What scripts/from_torchvision.py prints; its weights hold the deviation.
    settings = "mean_value: 103.53  mean_value: 116.28  mean_value: 123.675";
  }
  while (settings.ends_with(' ')) settings.pop_back();
  return {settings, "as the weights were trained", channels};
}

std::string data_layer(const std::string& phase, const std::pair<std::string, std::string>& tops,
                       const std::string& comment, const std::string& transform,
                       const std::string& data) {
  return text("layer {\n  name: \"data\"  type: \"Data\"  top: \"", tops.first, "\"  top: \"",
              tops.second, "\"\n  include { phase: ", phase, " }\n", comment,
              "  transform_param {\n", transform, "  }\n  data_param { ", data, " }\n}\n");
}

Schedule schedule_of(const Classes& classes, int64_t size, bool has_weights) {
  Schedule plan;
  plan.train = classes.train_count;
  plan.tests = classes.test_count;
  plan.batch = batch_for(plan.train, size <= 40 ? 64 : 32);
  plan.test_batch = test_batch_for(plan.tests, 50);
  plan.epochs = has_weights ? 15 : 30;
  plan.iterations = std::clamp<int64_t>(plan.epochs * plan.train / plan.batch, 300, 50000);
  plan.epochs = std::max<int64_t>(1, plan.iterations * plan.batch / plan.train);
  plan.metric = "accuracy";
  if (has_weights) {
    plan.rule = "type: \"Nesterov\"\nmomentum: 0.9\nweight_decay: 0.0005\n";
    plan.rate = 0.002;
    plan.why_rate =
        "Small, as the weights are good already; that of the new last layer is ten times this.";
  } else {
    plan.rule = "type: \"AdamW\"\nmomentum: 0.9\nweight_decay: 0.01\n";
    plan.rate = 0.001;
    plan.why_rate = "Of AdamW, 0.001 suits most nets that start from random weights.";
  }
  return plan;
}

}  // namespace

int64_t batch_for(int64_t records, int64_t wanted) { return std::min(records, wanted); }

int64_t test_batch_for(int64_t records, int64_t most) {
  for (int64_t batch = std::min(records, most); batch >= std::min<int64_t>(records, 8); --batch) {
    if (records % batch == 0) return batch;
  }
  return most;
}

NewProject new_classifier(const NewRequest& request) {
  const auto [train, tests] = divided_folders(request.images);
  const Classes classes = train.empty() ? classes_of_one(request.images, request.seed)
                                        : classes_of_two(request.images, train, tests);
  const PhotoSurvey survey = survey_photos(classes.files);
  if (survey.smallest < 8)
    throw Error("image '", survey.smallest_file, "' is too small: its shorter side has ",
                survey.smallest, " pixels, and a net needs 8 at least");
  Choice choice = choose(survey, classes.train_count);
  NewProject project;
  if (!request.from.empty()) {
    choice = {request.from, "--from names it", 0};
  } else if (request.weights == "auto") {
    // The largest that weights are here for.
    for (const char* model : {"resnet50", "resnet18", "mobilenet_v2", "mobilenet_v3_large",
                              "shufflenet_v2", "squeezenet_v1.1", "resnet20_cifar10"}) {
      const std::string found = weights_of_model(folder_of_model(model), model);
      if (found.empty()) continue;
      choice = {model, "its weights are here", 0};
      break;
    }
  }
  NetTemplate& net = project.net = NetTemplate(choice.model);
  project.weights =
      request.weights == "auto" ? weights_or_advice(net.folder(), net.model()) : request.weights;
  const bool has_weights = !project.weights.empty();
  const Shape input = net.input();
  const int64_t own = input.rank() == 4 ? input[2] : 224;
  // A large net is quick enough for random weights where its images are smaller.
  int64_t size = choice.size > 0                                    ? choice.size
                 : has_weights || own <= 64 || !takes_any_size(net) ? own
                                                                    : 128;
  if (request.size > 0) size = request.size;

  const auto count = static_cast<int64_t>(classes.names.size());
  const auto tops = tops_of(net);
  const std::vector<std::string> renamed = set_classes(net, count, request.name, has_weights);
  const std::string metric = set_accuracy(net, count);
  const Pixels pixels = pixels_for(net, survey, has_weights);
  project.schedule = schedule_of(classes, size, has_weights);
  project.schedule.metric = metric;

  const std::string color = pixels.channels == 1 ? "force_gray: true" : "force_color: true";
  const bool small = survey.shorter <= size * 3 / 2;
  const int64_t larger = size * 8 / 7;
  const int64_t border = std::max<int64_t>(1, size / 14);
  const std::string resize =
      small ? text("resize_param { height: ", size, "  width: ", size, " }")
            : text("resize_param { resize_mode: FIT_SMALL_SIZE  height: ", larger,
                   "  width: ", larger, " }  crop_size: ", size);
  const bool mirrors = !survey.is_gray;
  const std::string augment = text(small ? text("  pad: ", border, "  crop_size: ", size) : "",
                                   mirrors ? "  mirror: true" : "");
  std::string comment;
  if (small) {
    comment =
        text("  # Images become ", size, "x", size, ". In training they move by up to ", border,
             " pixels.\n",
             mirrors ? "  # Half of them are mirrored: take mirror out for letters and the like.\n"
                     : "  # They are not mirrored, as gray ones may be letters: add mirror: "
                       "true where left and right are\n  # the same.\n");
  } else {
    comment = text("  # The shorter side becomes ", larger, " pixels, and a square of ", size,
                   " is cut out: anywhere in training, and in\n  # the middle in tests.\n",
                   mirrors ? "  # Half of them are mirrored: take mirror out where left and right "
                             "differ.\n"
                           : "");
  }
  comment += "  # Mean and scale: " + pixels.why + ".\n";
  const auto source = [&](const std::string& folder, const char* list) {
    if (!folder.empty()) return text("source: \"", folder, "\"  backend: FOLDER  ");
    return text("source: \"", request.path(list), "\"  backend: IMAGE_LIST  root_folder: \"",
                request.images, "\"\n    class_names: \"", request.path("classes.txt"), "\"  ");
  };
  project.train =
      data_layer("TRAIN", tops, comment,
                 text("    ", resize, augment, "\n    ", color, "  ", pixels.settings, "\n"),
                 text(source(classes.train_folder, "train.txt"),
                      "batch_size: ", project.schedule.batch, "  shuffle: true"));
  project.test = data_layer(
      "TEST", tops, "", text("    ", resize, "\n    ", color, "  ", pixels.settings, "\n"),
      text(source(classes.test_folder, "val.txt"), "batch_size: ", project.schedule.test_batch));

  project.files["classes.txt"] = joined(classes.names, "\n") + "\n";
  if (classes.train_folder.empty()) {
    project.files["train.txt"] = joined(classes.train, "\n") + "\n";
    project.files["val.txt"] = joined(classes.tests, "\n") + "\n";
  }
  project.facts.push_back(text(
      count, " classes (",
      count <= 8 ? joined(classes.names) : classes.names[0] + ", " + classes.names[1] + ", ...",
      "), ", classes.train_count, " images for training and ", classes.test_count, " for tests",
      classes.train_folder.empty()
          ? text(", one in five of each class, drawn by --seed ", request.seed)
          : ""));
  project.facts.push_back(text("net: ", net.model(), " at ", size, "x", size, ": ", choice.why));
  if (has_weights)
    project.facts.push_back(text("weights: ", project.weights, "; new: ", joined(renamed)));
  project.header = joined(project.facts, "\n");
  if (survey.shorter * 4 < size)
    project.facts.push_back(text("note: the images, of ", survey.shorter,
                                 " pixels, are enlarged to ", size, "; --size ", survey.shorter,
                                 " would do less work"));
  project.test_flags = "--confusion";
  return project;
}

}  // namespace crema::tools
