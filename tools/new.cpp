// crema new: the files of a net of one's own, for images of one's own.
#include <cstdio>
#include <filesystem>

#include "analysis/deploy.hpp"
#include "core/counted.hpp"
#include "core/path_advice.hpp"
#include "core/utf8.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/written_defaults.hpp"
#include "model/whole_file.hpp"
#include "tools/command.hpp"
#include "tools/deploy_text.hpp"
#include "tools/flags.hpp"
#include "tools/new_project.hpp"
#include "tools/shell_word.hpp"

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
  check_new_path(request.folder);
  std::error_code none;
  // "." has the name of the working folder.
  request.name = fs::weakly_canonical(request.folder, none).filename().string();
  if (request.name.empty() ||
      (request.folder + request.name).find_first_of("\"'\\\n#") != std::string::npos)
    throw Error("'", arguments[0],
                "' cannot name a net in a prototxt; give a name without quotes, ", "# and \\");
  request.made = request.folder + "/.crema_new";
  request.images = checked_folder("images", required_flag("images", FLAGS_images, "FOLDER"));
  request.from = FLAGS_from;
  request.weights = FLAGS_weights;
  if (!request.weights.empty() && request.weights != "auto" && !fs::exists(request.weights))
    throw Error("--weights=", request.weights, " is not there", path_advice(request.weights),
                "; --weights=auto looks for some");
  if (request.weights.find_first_of("\"'\\\n") != std::string::npos)
    throw Error("--weights=", request.weights, " cannot stand in a prototxt; give the file a name ",
                "without quotes and \\");
  if (FLAGS_size != 0 && (FLAGS_size < 8 || FLAGS_size > 4096))
    throw Error("--size=", FLAGS_size, " is no size of images; give 8 to 4096 pixels");
  request.size = FLAGS_size;
  request.seed = seed_flag().value_or(1);
  request.command =
      "crema new " + shell_word(request.folder) + " --images " + shell_word(FLAGS_images);
  for (const auto& [flag, value] : {std::pair{"detect", FLAGS_detect},
                                    {"segment", FLAGS_segment},
                                    {"from", FLAGS_from},
                                    {"weights", FLAGS_weights}}) {
    if (!value.empty()) request.command += text(" --", flag, " ", shell_word(value));
  }
  if (FLAGS_size != 0) request.command += text(" --size ", FLAGS_size);
  if (seed_flag()) request.command += text(" --seed ", request.seed);
  return request;
}

/// The text with each `from` as `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// The folder of the new net, and one within it in which everything is made before it takes the
/// place of what is there. Unless it is kept, nothing is left of it, and what was there stays.
class NewFolder {
 public:
  explicit NewFolder(const NewRequest& request) : path_(request.folder), made_(request.made) {
    std::error_code why;
    if (fs::exists(path_, why) && !fs::is_directory(path_, why))
      throw Error("'", path_.string(), "' is a file; give another name");
    for (fs::directory_iterator entry(path_, why), end; !why && entry != end;
         entry.increment(why)) {
      // One that was killed may have left the folder within.
      if (!FLAGS_overwrite && entry->path().filename() != made_.filename())
        throw Error("'", path_.string(), "' exists; give another name, or --overwrite to replace ",
                    "its nets, its solver and its lists");
    }
    fs::remove_all(made_, why);
    for (fs::path folder = made_; !folder.empty() && !fs::exists(folder, why);
         folder = folder.parent_path())
      removed_ = folder;
    fs::create_directories(made_, why);
    if (why) {
      remove();
      throw Error("cannot make '", path_.string(), "': ", why.message());
    }
  }
  ~NewFolder() { remove(); }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void keep() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(made_)) files.push_back(entry.path());
    for (const fs::path& file : files) {
      const fs::path place = path_ / file.filename();
      fs::remove_all(place);
      fs::rename(file, place);
    }
    removed_ = made_;
  }

 private:
  void remove() {
    std::error_code none;
    fs::remove_all(removed_, none);
  }
  fs::path path_, made_, removed_;  // removed_: the first folder on the way that was not there
};

std::string solver_text(const NewRequest& request, const Schedule& plan,
                        const std::string& weights) {
  const int64_t tests = (plan.tests + plan.test_batch - 1) / plan.test_batch;
  const int64_t interval = std::max<int64_t>(1, plan.iterations / 10);
  const bool whole = plan.tests % plan.test_batch == 0;
  std::string solver = text("# How ", request.name, " is trained. Made by: ", request.command, "\n",
                            "net: \"", request.path("train_val.prototxt"), "\"\n");
  if (!weights.empty()) solver += "weights: \"" + weights + "\"\n";
  solver +=
      text("\n# ", tests, tests == 1 ? " batch" : " batches", " of ", plan.test_batch, ": ",
           whole ? "each of the " : "a few twice, of the ", counted(plan.tests, "image"),
           " for tests", whole ? " once" : "", ". Ten tests a training.\n", "test_iter: ", tests,
           "\ntest_interval: ", interval, "\ntest_initialization: false\n", plan.more);
  solver += text(
      "\n# ", plan.why_rate, "\n# It rises in the first twentieth, and falls to 0 like a ",
      "cosine.\n", plan.rule, "base_lr: ", plan.rate,
      "\nlr_policy: \"cosine\"\nwarmup_iter: ", std::max<int64_t>(1, plan.iterations / 20), "\n");
  solver += text("\n# ", plan.epochs, plan.epochs == 1 ? " pass" : " passes", " over ",
                 counted(plan.train, "image"), " in batches of ", plan.batch,
                 ". More of them help where the accuracy still rises at the end.\n",
                 "max_iter: ", plan.iterations,
                 "\ndisplay: ", std::clamp<int64_t>(plan.iterations / 50, 1, 100),
                 "\naverage_loss: ", std::clamp<int64_t>(plan.iterations / 50, 1, 100), "\n");
  solver += text("\n# With each test a snapshot; the last one and the best one stay.\nsnapshot: ",
                 interval, "\nsnapshot_keep: 1\nsnapshot_best: \"", plan.metric,
                 "\"\nsnapshot_prefix: \"", request.path(request.name), "\"\n");
  return solver;
}

/// How many layers begin with the weights, and which do not. Error where they do not fit.
std::string check_weights(const DeployedNet& deployed, const std::string& weights,
                          Context& context) {
  Net net(deployed.net, context, {.phase = Phase::test, .fuse = false});
  const LoadReport report = net.load_weights(weights);
  if (report.loaded.empty())
    throw Error("'", weights, "' has no layer of the net; give the weights of the model");
  const size_t all = report.loaded.size() + report.missing.size();
  return text(report.loaded.size(), " of ", counted(all, "layer"), " begin with these weights",
              report.missing.empty() ? "" : "; from random values: " + joined(report.missing));
}

/// The net for inference, from the files as they are made. Error unless both phases of the net can
/// be built.
DeployedNet built_net(const NewRequest& request, const std::string& prototxt, Context& context) {
  NetParameter net;
  const std::string path = request.path("train_val.prototxt");
  parse_text_proto(replaced(prototxt, '"' + request.folder + '/', '"' + request.made + '/'), path,
                   net);
  Net train(net, context, {.phase = Phase::train});
  const Net test(net, context, {.phase = Phase::test, .share_params_with = &train});
  DeployedNet deployed = deploy_net(net, context);
  write_out_defaults(deployed.net);
  return deployed;
}

/// Makes everything in the folder for that. Returns the net for inference.
DeployedNet make(const NewRequest& request, NewProject& project) {
  for (const auto& [name, text] : project.files) write_file(request.made_path(name), text);
  if (project.make_databases) project.make_databases();
  project.net.set_data(project.train + project.test);
  const std::string net = project.net.prototxt(
      request.name, text(request.name, ": ", project.header, "\nMade by: ", request.command));
  write_file(request.made_path("train_val.prototxt"), net);
  write_file(request.made_path("solver.prototxt"),
             solver_text(request, project.schedule, project.weights));
  Context context(quiet_context());
  DeployedNet deployed = built_net(request, net, context);
  write_file(request.made_path("deploy.prototxt"),
             replaced(deploy_text(deployed, request.path("train_val.prototxt")), request.made + "/",
                      request.folder + "/"));
  if (!project.weights.empty())
    project.facts.push_back(check_weights(deployed, project.weights, context));
  return deployed;
}

void report(const NewRequest& request, const NewProject& project, const DeployedNet& deployed) {
  for (const std::string& fact : project.facts)
    std::printf("%s\n", printable_message(fact).c_str());
  for (const std::string& note : project.notes)
    std::printf("note: %s\n", printable_message(note).c_str());
  const Schedule& plan = project.schedule;
  std::printf("training: %lld iterations of %s, %s\n", static_cast<long long>(plan.iterations),
              counted(plan.batch, "image").c_str(),
              text(plan.epochs, plan.epochs == 1 ? " pass" : " passes").c_str());
  std::string files = "train_val.prototxt, solver.prototxt and deploy.prototxt";
  for (const auto& [name, text] : project.files) files += ", " + name;
  // The solver keeps the weights that were best in tests.
  const std::string weights = request.path(request.name) + "_best.caffemodel";
  const auto path = [&](const char* file) { return shell_word(request.path(file)); };
  std::printf(
      "%s/ has %s; next:\n%s", request.folder.c_str(), files.c_str(),
      text("  crema train --solver ", path("solver.prototxt"), "\n  crema test --model ",
           path("train_val.prototxt"), " --weights ", shell_word(weights), " ", project.test_flags,
           "\n  ", next_command(deployed, request.path("deploy.prototxt"), weights), "\n")
          .c_str());
}

int new_net(const std::vector<std::string>& arguments) {
  const NewRequest request = request_of(arguments);
  exclusive_flags("detect", !FLAGS_detect.empty(), "segment", !FLAGS_segment.empty());
  if (!FLAGS_detect.empty() && request.weights == "auto")
    throw Error("--weights=auto is not for detectors, which start from random weights, or from ",
                "--weights=FILE");
  NewFolder folder(request);
  try {
    NewProject project = !FLAGS_detect.empty()    ? new_detector(request, FLAGS_detect)
                         : !FLAGS_segment.empty() ? new_segmenter(request, FLAGS_segment)
                                                  : new_classifier(request);
    const DeployedNet deployed = make(request, project);
    folder.keep();
    report(request, project, deployed);
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find(request.made) == std::string::npos) throw;
    throw Error(replaced(what, request.made + "/", request.folder + "/"));
  }
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
    "solver.prototxt and deploy.prototxt, with comments on the choices. The commands that it "
    "prints\n"
    "train the net, test it, and run it on an image (of --segment: list its layers); they work in\n"
    "the folder in which `crema new` ran.\n"
    "\n"
    "A classifier has a folder of images for each class, photos/cat and photos/dog. One in five "
    "of\n"
    "them is for tests, as --seed draws them, and lists in my_net say which; or photos/train/cat\n"
    "and photos/val/cat say it. --weights names weights to begin with, of the model of --from: "
    "the\n"
    "last layer is new, and pixels become what the weights, or else the model, say of their\n"
    "training. auto looks for MODEL.caffemodel in the working folder and among the models, and "
    "for\n"
    "snapshots in the model's folder; without --from, it takes the largest model that has some.\n"
    "\n"
    "A detector has a file of boxes for each image, of the same name: of PASCAL VOC (.xml), or of\n"
    "YOLO (.txt, with the names of classes in classes.txt beside them). my_net gets databases of\n"
    "images and boxes, and a small SSD whose prior boxes are of the boxes' sizes.\n"
    "\n"
    "Segmentation has a mask for each image, of the same name: a gray image, or one with a\n"
    "palette, whose values are classes, from 0 on, and 255 where there is none; or black and\n"
    "white. my_net gets lists and a small U-Net. --from fcn8s takes the large net with the layers\n"
    "of VGG-16; with --weights auto it begins with fcn8s.caffemodel, else with vgg16.caffemodel.\n"
    "\n"
    "The nets are those of `crema models`. A folder with files in it is left alone without\n"
    "--overwrite.",
    {"images", "detect", "segment", "from", "weights", "size", "seed", "overwrite", "threads"},
    new_net,
    1,
    NetUse::builds};

}  // namespace crema::tools
