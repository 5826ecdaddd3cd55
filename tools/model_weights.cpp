#include "tools/model_weights.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "crema/error.hpp"
#include "tools/model_list.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// Those that scripts/from_torchvision.py writes.
constexpr const char* kPublished[] = {
    "alexnet",       "vgg_a",          "vgg16",           "vgg19",        "resnet18",
    "resnext50",     "densenet121",    "squeezenet_v1.1", "inception_v3", "mobilenet_v3_large",
    "shufflenet_v2", "efficientnet_b0"};

/// Of NAME_iter_1000.caffemodel 1000; -1 for other names.
int64_t iteration_of(const std::string& name) {
  const size_t at = name.rfind("_iter_");
  int64_t iteration = -1;
  if (at != std::string::npos)
    std::from_chars(name.data() + at + 6, name.data() + name.size(), iteration);
  return iteration;
}

bool is_weights(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".caffemodel") || name.ends_with(".caffemodel.h5");
}

/// Of the files in the folder: the best one of a run, else the last one.
std::string weights_in(const fs::path& folder) {
  fs::path found;
  int64_t rank = -2;
  std::error_code none;
  for (fs::directory_iterator entry(folder, none), end; !none && entry != end;
       entry.increment(none)) {
    if (!is_weights(entry->path())) continue;
    const std::string name = entry->path().filename().string();
    const int64_t own = name.find("_best.") != std::string::npos ? INT64_MAX : iteration_of(name);
    if (own > rank || (own == rank && entry->path() < found)) {
      found = entry->path();
      rank = own;
    }
  }
  return found.string();
}

}  // namespace

std::string published_start(const std::string& model) {
  const std::string start = model == "fcn8s" ? "vgg16" : model;
  return std::ranges::count(kPublished, start) > 0 ? start : "";
}

std::string way_to_weights(const std::string& published) {
  return text("`scripts/from_torchvision.py ", published, " ", published,
              ".caffemodel` of the repository writes them (it needs PyTorch and torchvision)");
}

std::string weights_of_model(const fs::path& folder, const std::string& model) {
  std::error_code none;
  for (const fs::path& place : {fs::path(), folder.parent_path(), folder}) {
    for (const char* ending : {".caffemodel", ".caffemodel.h5"}) {
      const fs::path file = place / (model + ending);
      if (fs::is_regular_file(file, none)) return file.string();
    }
  }
  // Of runs in the working folder, and of those beside the model.
  for (const fs::path& place : {fs::path("models") / model, folder}) {
    if (const std::string found = weights_in(place); !found.empty()) return found;
  }
  return {};
}

std::string model_with_weights() {
  const std::vector<std::string> models = {"resnet50",           "resnet18",      "mobilenet_v2",
                                           "mobilenet_v3_large", "shufflenet_v2", "squeezenet_v1.1",
                                           "resnet20_cifar10"};
  for (const std::string& model : models) {
    if (!weights_of_model(folder_of_model(model), model).empty()) return model;
  }
  throw Error("--weights=auto: no NAME.caffemodel of ", joined(models),
              " is in the working folder or among the models; `scripts/from_torchvision.py "
              "resnet18 resnet18.caffemodel` of the repository writes one (it needs PyTorch and ",
              "torchvision), and `crema train --solver models/resnet20_cifar10/solver.prototxt` ",
              "trains one; or leave --weights out: the net then starts from random weights");
}

std::string weights_or_advice(const fs::path& folder, const std::string& model) {
  const std::string found = weights_of_model(folder, model), start = published_start(model);
  if (!found.empty()) return found;
  const bool starts_elsewhere = !start.empty() && start != model;
  if (starts_elsewhere) {
    const std::string others = weights_of_model(folder_of_model(start), start);
    if (!others.empty()) return others;
  }
  std::string way =
      text("scripts/from_torchvision.py of the repository writes those of ",
           joined(std::vector<std::string>(std::begin(kPublished), std::end(kPublished))),
           "; give others as --weights=FILE");
  std::error_code none;
  if (!start.empty()) {
    way = way_to_weights(start);
  } else if (fs::exists(folder / "solver.prototxt", none)) {
    way = text("`crema train --solver models/", model, "/solver.prototxt` trains it");
  }
  throw Error("--weights=auto: there are no weights of '", model, "': no ", model,
              ".caffemodel in the working folder or in '", folder.parent_path().string(),
              "', and none in '", folder.string(), "'",
              starts_elsewhere ? "; nor are those of '" + start + "', with which it can begin" : "",
              "; ", way, ", or leave --weights out: the net then starts from random weights");
}

}  // namespace crema::tools
