// crema deploy: the net for inference of a net that is trained.
#include "analysis/deploy.hpp"

#include <charconv>
#include <cstdio>

#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/written_defaults.hpp"
#include "model/whole_file.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/command.hpp"
#include "tools/deploy_text.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

DECLARE_int32(batch);
DEFINE_string(
    shape, "",
    "Of deploy: Shape of a record of the data, as 3x224x224 or, of the blob named data, "
    "data=3x224x224; several with commas between. Without it, that of the data, or what the data "
    "layers say. Of import-onnx: Shape of an input, as 8x3x224x224 or data=8x3x224x224; several "
    "with commas between. Without it, sizes that the model leaves open are 1.");
DEFINE_string(outputs, "", "Blobs that the net is for, with commas between.");

namespace crema::tools {
namespace {

Shape parse_record_shape(const std::string& text) {
  std::vector<int64_t> dims;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int64_t dim = 0;
    const auto [next, error] = std::from_chars(at, end, dim);
    if (error != std::errc{} || dim < 1 || (next != end && *next != 'x')) {
      throw Error("--shape: '", text, "' is no shape of a record, such as 3x224x224: channels, ",
                  "height and width");
    }
    dims.push_back(dim);
    if (next == end) return Shape(dims);
    at = next + 1;
  }
}

DeployOptions options_of_flags() {
  DeployOptions options;
  if (is_given("batch")) options.batch = FLAGS_batch;
  if (options.batch < 1) throw Error("--batch=", FLAGS_batch, " is no batch; give 1 or more");
  options.outputs = split_list(FLAGS_outputs);
  if (options.outputs.empty() && !FLAGS_outputs.empty())
    throw Error("--outputs=", FLAGS_outputs, " names no blob");
  for (const std::string& part : split_list(FLAGS_shape)) {
    const size_t equals = part.find('=');
    const std::string input = equals == std::string::npos ? "" : part.substr(0, equals);
    if (!options.shapes.emplace(input, parse_record_shape(part.substr(equals + 1))).second)
      throw Error("--shape=", FLAGS_shape, " gives two shapes of one input");
  }
  const NetOptions state = net_options(Phase::test);
  options.level = state.level;
  options.stages = state.stages;
  return options;
}

/// The layers without weights, which have a file of their own. Error for a solver and for other
/// files that are no nets.
NetParameter read_layers(const std::string& path) {
  NetParameter net;
  SourceMap source;
  read_net(path, net, &source);
  for (LayerParameter& layer : *net.mutable_layer()) layer.clear_blobs();
  check_layer_mix(net, source);
  check_has_layers(net, source);
  return net;
}

int deploy(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 2)
    throw Error("deploy takes TRAIN_VAL and, to write a file, DEPLOY; got ", arguments.size(),
                " arguments");
  const bool writes = arguments.size() == 2;
  if (writes) {
    check_replaced(arguments[1], {arguments[0]});
    check_output_file(arguments[1], "the net to write");
  } else if (FLAGS_overwrite) {
    throw Error("--overwrite is for a file to write, which is not given");
  }
  const NetParameter net = read_layers(arguments[0]);
  ContextOptions context_of = context_options();
  context_of.tune = false;  // nothing runs
  context_of.logger = {};   // what it would say is about the net for training
  Context context(context_of);
  DeployedNet result = [&] {
    try {
      return deploy_net(net, context, options_of_flags());
    } catch (Error& error) {
      throw error.at({arguments[0]});
    }
  }();
  write_out_defaults(result.net);
  const std::string text = deploy_text(result, arguments[0]);
  if (!writes) {
    std::printf("%s", text.c_str());
    for (const std::string& note : result.notes) say(Severity::warning, note);
    return 0;
  }
  WholeFile file(arguments[1]);
  file.append(text);
  file.finish();
  for (const DeployedNet::Input& input : result.inputs)
    std::printf("input '%s' of %s\n", printable(input.blob).c_str(), input.shape.str().c_str());
  for (const DeployedNet::Output& output : result.outputs)
    std::printf("output '%s' of %s\n", printable(output.blob).c_str(), output.shape.str().c_str());
  if (!result.left_out.empty())
    std::printf("left out: %s\n", printable_message(joined(result.left_out)).c_str());
  for (const std::string& note : result.notes)
    std::printf("note: %s\n", printable_message(note).c_str());
  std::printf("%s is written; next:\n  %s\n", arguments[1].c_str(),
              next_command(result, arguments[1]).c_str());
  return 0;
}

}  // namespace

extern const Command kDeploy = {
    "deploy",
    "derives the net for inference from the one that is trained",
    "  crema deploy train_val.prototxt [deploy.prototxt]\n"
    "  crema deploy train_val.prototxt deploy.prototxt --shape 3x224x224 --batch 8\n"
    "\n"
    "Prints the net for inference, or writes it to a file. Weights of the net that is trained fit\n"
    "it, and give the same outputs.\n"
    "\n"
    "Data layers become Input layers, with the shape that the net sees: of the data, or, where\n"
    "they are not here, what the layer's crop or size says; --shape says it otherwise. Softmax\n"
    "takes the place of SoftmaxWithLoss, and Sigmoid that of SigmoidCrossEntropyLoss, unless the\n"
    "net has one; MultiBoxLoss and RegionLoss become a layer that gives boxes, unless phase TEST\n"
    "has one. Other losses go, as do Accuracy and what else only tests read, labels, and "
    "auxiliary\n"
    "losses, those of a smaller loss_weight, with their branches. --outputs names other blobs to\n"
    "keep the layers of. Dropout stays, without effect.\n"
    "\n"
    "The file begins with a comment that says what pixels have to become.",
    {"batch", "shape", "outputs", "overwrite", "level", "stage", "plugin", "threads"},
    deploy,
    1,
    NetUse::builds};

}  // namespace crema::tools
