// crema new for folders of classes.
#include <algorithm>
#include <filesystem>
#include <set>

#include "core/counted.hpp"
#include "core/utf8.hpp"
#include "data/images/image_name.hpp"
#include "data/records/image_folder.hpp"
#include "tools/model_weights.hpp"
#include "tools/new_project.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

struct Classes {
  std::vector<std::string> names;
  std::vector<std::string> train, tests;             // files, relative to the folder of images
  std::vector<std::string> train_lines, test_lines;  // of lists
  std::string train_folder, test_folder;  // sources in the place of lists, where there are two
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
  for (const std::string& name : names) {
    if (name.starts_with(' ') || name.ends_with(' ') || printable(name) != name)
      throw Error("folder '", printable(folder + name),
                  "' cannot name a class in a list: its name begins or ends with a blank, or has ",
                  "control characters; rename it");
  }
  if (names.size() == 1 && names[0] == "train")
    throw Error("'", folder, "' has train/ and no val/ beside it (valid/, validation/ and test/ ",
                "are known, too); add it, or give --images=", folder, "train");
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

/// The images of classes in `root` + `folder`, as names relative to the root. Error for a class of
/// none.
std::vector<std::string> images_of_classes(const std::string& root, const std::string& folder,
                                           const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    const size_t before = files.size();
    for (const std::string& file : images_of_class(root + folder + "/" + name))
      files.push_back(text(folder, "/", name, "/", file));
    if (files.size() == before)
      throw Error("class '", name, "' has no image in '", root, folder, "/", name,
                  "'; add some, or remove the folder");
  }
  return files;
}

Classes classes_of_two(const std::string& root, const std::string& train,
                       const std::string& tests) {
  Classes classes;
  classes.train_folder = root + train;
  classes.test_folder = root + tests;
  classes.names = folders_of_classes(classes.train_folder);
  check_names(classes.names, classes.train_folder + "/");
  const std::vector<std::string> tested = folders_of_classes(classes.test_folder);
  if (tested != classes.names) {
    std::vector<std::string> differing;
    std::ranges::set_symmetric_difference(tested, classes.names, std::back_inserter(differing));
    throw Error("'", classes.train_folder, "' and '", classes.test_folder,
                "' need the same folders; only one of them has '", differing.at(0), "'");
  }
  classes.train = images_of_classes(root, train, classes.names);
  classes.tests = images_of_classes(root, tests, classes.names);
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
      classes.train.push_back(name + "/" + image);
      classes.train_lines.push_back(text(classes.train.back(), " ", label));
    }
    for (const std::string& image : division.tests) {
      classes.tests.push_back(name + "/" + image);
      classes.test_lines.push_back(text(classes.tests.back(), " ", label));
    }
  }
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

/// The images below the folder that are in no folder of a class.
std::vector<std::string> notes_of_others(const NewRequest& request, const Classes& classes) {
  std::vector<std::string> others;
  std::set<std::string> used(classes.train.begin(), classes.train.end());
  used.insert(classes.tests.begin(), classes.tests.end());
  for (const std::string& image : images_below(request.images)) {
    if (used.count(image) == 0) others.push_back(image);
  }
  if (others.empty()) return {};
  return {text(counted(others.size(), "image"), " in '", request.images, "' left out, such as '",
               others[0], "': not in a folder of a class",
               classes.train_folder.empty()
                   ? ""
                   : " of '" + classes.train_folder + "' and '" + classes.test_folder + "'")};
}

/// The output that tells how good the net is. Tests of more classes than there are go; a net
/// without any gets one.
std::string set_accuracy(NetTemplate& net, int64_t classes, const std::string& label) {
  std::string metric, read;
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
  net.append(text("layer { name: \"accuracy\"  type: \"Accuracy\"  bottom: \"", read,
                  "\"  bottom: \"", label, "\"  top: \"accuracy\"  include { phase: TEST } }\n"));
  return "accuracy";
}

/// Whether the net has one size of map for all sizes of images.
bool takes_any_size(const NetTemplate& net) {
  for (size_t i = 0; i < net.blocks(); ++i) {
    if (net.layer(i).pooling_param().global_pooling()) return true;
  }
  return false;
}

std::string data_layer(const std::string& phase, const std::pair<std::string, std::string>& tops,
                       const std::string& comment, const std::string& transform,
                       const std::string& data) {
  return text("layer {\n  name: \"data\"  type: \"Data\"  top: \"", tops.first, "\"  top: \"",
              tops.second, "\"\n  include { phase: ", phase, " }\n", comment,
              "  transform_param {\n", transform, "  }\n  data_param { ", data, " }\n}\n");
}

Schedule training_of(const Classes& classes, int64_t size, bool has_weights) {
  Schedule plan = schedule_of(std::ssize(classes.train), std::ssize(classes.tests),
                              size <= 40 ? 64 : 32, 50, has_weights ? 15 : 30, 300);
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

NewProject new_classifier(const NewRequest& request) {
  const auto [train, tests] = divided_folders(request.images);
  const Classes classes = train.empty() ? classes_of_one(request.images, request.seed)
                                        : classes_of_two(request.images, train, tests);
  std::vector<std::string> files;  // of training, then of tests
  for (const auto* side : {&classes.train, &classes.tests}) {
    for (const std::string& file : *side) files.push_back(request.images + file);
  }
  check_photos(files);
  files.resize(classes.train.size());
  const PhotoSurvey survey = survey_photos(files);
  if (survey.smallest < 8)
    throw Error("image '", survey.smallest_file, "' is too small: its shorter side has ",
                survey.smallest, " pixels, and a net needs 8 at least");
  Choice choice = choose(survey, std::ssize(classes.train));
  NewProject project;
  if (!request.from.empty()) {
    choice = {request.from, "--from names it", 0};
  } else if (request.weights == "auto") {
    choice = {model_with_weights(), "its weights are here", 0};
  }
  NetTemplate& net = project.net = NetTemplate(choice.model);
  project.weights =
      request.weights == "auto" ? weights_or_advice(net.folder(), net.model()) : request.weights;
  const bool has_weights = !project.weights.empty();
  const Shape input = net.input();
  const int64_t own = input.rank() == 4 ? input[2] : 224;
  const auto tops = tops_of(net);
  const auto count = static_cast<int64_t>(classes.names.size());
  const std::vector<std::string> renewed = set_classes(net, count, request.name, has_weights);
  const std::string metric = set_accuracy(net, count, tops.second);
  const Pixels pixels = pixels_for(net, survey, project.weights);
  const int64_t channels = pixels.is_gray ? 1 : 3;
  const auto fits = [&](int64_t side) {
    return try_net(net, channels, side, false).why_not.empty();
  };
  // A large net is quick enough for random weights where its images are smaller.
  int64_t size = choice.size > 0                                                  ? choice.size
                 : has_weights || own <= 64 || !takes_any_size(net) || !fits(128) ? own
                                                                                  : 128;
  if (request.size > 0) size = request.size;
  check_net(net, channels, size, false, own);
  project.schedule = training_of(classes, size, has_weights);
  project.schedule.metric = metric;

  const std::string color = pixels.is_gray ? "force_gray: true" : "force_color: true";
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
    project.files["train.txt"] = joined(classes.train_lines, "\n") + "\n";
    project.files["val.txt"] = joined(classes.test_lines, "\n") + "\n";
  }
  project.facts.push_back(text(
      count, " classes (",
      count <= 8 ? joined(classes.names) : classes.names[0] + ", " + classes.names[1] + ", ...",
      "), ", counted(classes.train.size(), "image"), " for training and ", classes.tests.size(),
      " for tests",
      classes.train_folder.empty()
          ? text(", one in five of each class, drawn by --seed ", request.seed)
          : ""));
  project.facts.push_back(text("net: ", net.model(), " at ", size, "x", size, ": ", choice.why));
  if (has_weights)
    project.facts.push_back(text("weights: ", project.weights, "; new: ", joined(renewed),
                                 "; pixels: ", pixels.settings, ", ", pixels.why));
  project.header = joined(project.facts, "\n");
  project.notes = notes_of_others(request, classes);
  if (survey.shorter * 4 < size && fits(survey.shorter))
    project.notes.push_back(text("the images, of ", survey.shorter, " pixels, are enlarged to ",
                                 size, "; --size ", survey.shorter, " would do less work"));
  project.test_flags = "--confusion";
  return project;
}

}  // namespace crema::tools
