// crema new: the files of a net of one's own, for images of one's own.
#include <cstdio>
#include <filesystem>

#include "analysis/deploy.hpp"
#include "core/path_advice.hpp"
#include "core/utf8.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/written_defaults.hpp"
#include "model/whole_file.hpp"
#include "tools/command.hpp"
#include "tools/deploy_text.hpp"
#include "tools/flags.hpp"
#include "tools/new_project.hpp"

DEFINE_string(images, "",
              "The folder of images. It has a folder for each class, or train/ and val/ or test/, "
              "which have these.");
DEFINE_string(from, "", "The model of `crema models` to begin with. Without it, one is chosen.");
DEFINE_string(detect, "",
              "The folder of boxes, a file for each image, of PASCAL VOC (.xml) or YOLO (.txt): "
              "makes a detector.");
DEFINE_string(segment, "",
              "The folder of masks, an image for each image, whose pixels are classes: makes a net "
              "for segmentation.");
DEFINE_int32(size, 0, "Side of the net's input in pixels. Without it, one is chosen.");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

void write_file(const std::string& path, const std::string& text) {
  WholeFile file(path);
  file.append(text);
  file.finish();
}

NewRequest request_of(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1)
    throw Error(
        "new takes the folder of the new net, as in crema new my_net --images photos/; got ",
        arguments.size(), " arguments");
  NewRequest request;
  request.folder = arguments[0];
  while (request.folder.size() > 1 && request.folder.ends_with('/')) request.folder.pop_back();
  request.name = fs::path(request.folder).filename().string();
  if (request.name.empty() || request.folder.find_first_of("\"'\\\n#") != std::string::npos)
    throw Error("'", arguments[0],
                "' cannot name a net in a prototxt; give a name without quotes, ", "# and \\");
  check_new_path(request.folder);
  request.images = checked_folder("images", required_flag("images", FLAGS_images, "FOLDER"));
  request.from = FLAGS_from;
  request.weights = FLAGS_weights;
  if (!request.weights.empty() && request.weights != "auto" && !fs::exists(request.weights))
    throw Error("--weights=", request.weights, " is not there", path_advice(request.weights),
                "; --weights=auto looks for some");
  if (FLAGS_size != 0 && (FLAGS_size < 8 || FLAGS_size > 4096))
    throw Error("--size=", FLAGS_size, " is no size of images; give 8 to 4096 pixels");
  request.size = FLAGS_size;
  request.seed = seed_flag().value_or(1);
  request.command = "crema new " + request.folder + " --images " + FLAGS_images;
  for (const auto& [flag, value] : {std::pair{"detect", FLAGS_detect},
                                    {"segment", FLAGS_segment},
                                    {"from", FLAGS_from},
                                    {"weights", FLAGS_weights}}) {
    if (!value.empty()) request.command += text(" --", flag, " ", value);
  }
  if (FLAGS_size != 0) request.command += text(" --size ", FLAGS_size);
  if (seed_flag()) request.command += text(" --seed ", request.seed);
  return request;
}

/// The folder, made; removed again, with what is in it, unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) : path_(path) {
    std::error_code why;
    if (fs::exists(path, why)) {
      const bool is_folder = fs::is_directory(path, why);
      if (!is_folder) throw Error("'", path, "' is a file; give another name");
      if (!fs::is_empty(path, why) && !FLAGS_overwrite)
        throw Error("'", path, "' exists; give another name, or --overwrite to replace its nets, ",
                    "its solver and its lists");
      return;
    }
    fs::create_directories(path, why);
    if (why) throw Error("cannot make '", path, "': ", why.message());
    is_new_ = true;
  }
  ~NewFolder() {
    std::error_code none;
    if (is_new_) fs::remove_all(path_, none);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  void keep() { is_new_ = false; }

 private:
  std::string path_;
  bool is_new_ = false;
};

std::string solver_text(const NewRequest& request, const Schedule& plan,
                        const std::string& weights) {
  const int64_t tests = (plan.tests + plan.test_batch - 1) / plan.test_batch;
  const int64_t interval = std::max<int64_t>(1, plan.iterations / 10);
  const bool whole = plan.tests % plan.test_batch == 0;
  std::string solver = text("# How ", request.name, " is trained. Made by: ", request.command, "\n",
                            "net: \"", request.path("train_val.prototxt"), "\"\n");
  if (!weights.empty()) solver += "weights: \"" + weights + "\"\n";
  solver += text("\n# ", tests, " batches of ", plan.test_batch, ": ",
                 whole ? "each of the " : "a few twice, of the ", plan.tests, " images for tests",
                 whole ? " once" : "", ". Ten tests a training.\n", "test_iter: ", tests,
                 "\ntest_interval: ", interval, "\ntest_initialization: false\n", plan.more);
  solver += text(
      "\n# ", plan.why_rate, "\n# It rises in the first twentieth, and falls to 0 like a ",
      "cosine.\n", plan.rule, "base_lr: ", plan.rate,
      "\nlr_policy: \"cosine\"\nwarmup_iter: ", std::max<int64_t>(1, plan.iterations / 20), "\n");
  solver += text("\n# ", plan.epochs, plan.epochs == 1 ? " pass" : " passes", " over ", plan.train,
                 " images in batches of ", plan.batch,
                 ". More of them help where the accuracy still rises at the end.\n",
                 "max_iter: ", plan.iterations,
                 "\ndisplay: ", std::clamp<int64_t>(plan.iterations / 50, 1, 100),
                 "\naverage_loss: ", std::clamp<int64_t>(plan.iterations / 50, 1, 100), "\n");
  solver += text("\n# With each test a snapshot; the last one and the best one stay.\nsnapshot: ",
                 interval, "\nsnapshot_keep: 1\nsnapshot_best: \"", plan.metric,
                 "\"\nsnapshot_prefix: \"", request.path(request.name), "\"\n");
  return solver;
}

/// Error where the weights do not fit. Returns how many layers they fill.
size_t check_weights(const DeployedNet& deployed, const std::string& weights, Context& context) {
  Net net(deployed.net, context, {.phase = Phase::test, .fuse = false});
  const LoadReport report = net.load_weights(weights);
  if (report.loaded.empty())
    throw Error("'", weights, "' has no layer of the net; give the weights of the model");
  return report.loaded.size();
}

/// The net for inference, in two forms.
DeployedNet deploy(const NewRequest& request, const std::string& model, Context& context,
                   std::string& text_of) {
  NetParameter net;
  const std::string path = request.path("train_val.prototxt");
  read_text_proto(path, net);
  DeployedNet deployed;
  try {
    deployed = deploy_net(net, context);
  } catch (const Error& error) {
    throw Error("'", model, "' does not take images of this size: ", error.message(),
                "; give a greater --size, or another --from");
  }
  write_out_defaults(deployed.net);
  text_of = deploy_text(deployed, path);
  return deployed;
}

int new_net(const std::vector<std::string>& arguments) {
  const NewRequest request = request_of(arguments);
  exclusive_flags("detect", !FLAGS_detect.empty(), "segment", !FLAGS_segment.empty());
  const bool classifies = FLAGS_detect.empty() && FLAGS_segment.empty();
  if (!classifies && !request.weights.empty() && request.weights == "auto")
    throw Error("--weights=auto is for classifiers; a detector and a net for segmentation start ",
                "from random weights, or from --weights=FILE");
  NewFolder folder(request.folder);
  NewProject project = !FLAGS_detect.empty()    ? new_detector(request, FLAGS_detect)
                       : !FLAGS_segment.empty() ? new_segmenter(request, FLAGS_segment)
                                                : new_classifier(request);
  for (const auto& [name, text] : project.files) write_file(request.path(name), text);
  project.net.set_data(project.train + project.test);
  write_file(request.path("train_val.prototxt"),
             project.net.prototxt(request.name, text(request.name, ": ", project.header,
                                                     "\nMade by: ", request.command)));
  write_file(request.path("solver.prototxt"),
             solver_text(request, project.schedule, project.weights));
  ContextOptions options = context_options();
  options.tune = false;
  options.logger = {};
  Context context(options);
  std::string text_of;
  const DeployedNet deployed = deploy(request, project.net.model(), context, text_of);
  if (classifies && deployed.outputs[0].shape.count(2) != 1)
    throw Error("'", project.net.model(), "' gives scores of each pixel, ",
                deployed.outputs[0].shape.str(), ", and is no classifier of images");
  write_file(request.path("deploy.prototxt"), text_of);
  if (!project.weights.empty()) {
    const size_t layers = check_weights(deployed, project.weights, context);
    project.facts.push_back(text(layers, " layers begin with these weights"));
  }
  folder.keep();

  for (const std::string& fact : project.facts)
    std::printf("%s\n", printable_message(fact).c_str());
  std::printf("training: %lld iterations of %lld images, %lld passes\n",
              static_cast<long long>(project.schedule.iterations),
              static_cast<long long>(project.schedule.batch),
              static_cast<long long>(project.schedule.epochs));
  std::printf("%s/ has train_val.prototxt, solver.prototxt and deploy.prototxt",
              request.folder.c_str());
  for (const auto& [name, text] : project.files) std::printf(", %s", name.c_str());
  const std::string weights =
      text(request.path(request.name), "_iter_", project.schedule.iterations, ".caffemodel");
  std::printf(
      "; next:\n  crema train --solver %s\n  crema test --model %s --weights %s%s%s\n  %s\n",
      request.path("solver.prototxt").c_str(), request.path("train_val.prototxt").c_str(),
      weights.c_str(), project.test_flags.empty() ? "" : " ", project.test_flags.c_str(),
      next_command(deployed, request.path("deploy.prototxt"), weights).c_str());
  return 0;
}

}  // namespace

extern const Command kNew = {
    "new",
    "writes the nets and the solver for images of your own",
    "  crema new my_net --images photos/ [--from MODEL] [--weights auto|FILE] [--size 128]\n"
    "  crema new my_net --images photos/ --detect annotations/\n"
    "  crema new my_net --images photos/ --segment masks/\n"
    "  crema train --solver my_net/solver.prototxt\n"
    "\n"
    "Looks at the images, chooses a net and how to train it, and writes "
    "my_net/train_val.prototxt,\n"
    "solver.prototxt and deploy.prototxt, with comments that say why. The commands that it prints\n"
    "train the net, test it and run it; they work in the folder in which `crema new` ran.\n"
    "\n"
    "A classifier has a folder of images for each class, photos/cat and photos/dog. One in five "
    "of\n"
    "them is for tests, as --seed draws them, and lists in my_net say which; or photos/train/cat\n"
    "and photos/val/cat say it. --weights names weights to begin with, of the model of --from: "
    "the\n"
    "last layer is new, and pixels become what these weights saw. auto looks for MODEL.caffemodel\n"
    "in the working folder and among the models, and for snapshots in the model's folder.\n"
    "\n"
    "A detector has a file of boxes for each image, of the same name: of PASCAL VOC (.xml), or of\n"
    "YOLO (.txt, with the names of classes in classes.txt beside them). my_net gets databases of\n"
    "images and boxes, and a small SSD whose prior boxes are of the boxes' sizes.\n"
    "\n"
    "Segmentation has a mask for each image, of the same name: a gray image, or one with a\n"
    "palette, whose values are classes, from 0 on, and 255 where there is none; or black and\n"
    "white. my_net gets lists and a small U-Net.\n"
    "\n"
    "The nets are those of `crema models`. A folder with files in it is left alone without\n"
    "--overwrite.",
    {"images", "detect", "segment", "from", "weights", "size", "seed", "overwrite", "threads"},
    new_net,
    1,
    NetUse::builds};

}  // namespace crema::tools
