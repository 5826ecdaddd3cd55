// crema export-onnx: a net as a model of ONNX.
#include <stdlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "crema/onnx.hpp"
#include "crema/parameter_arena.hpp"
#include "model/whole_file.hpp"
#include "onnx/exporting/preprocess.hpp"
#include "onnx/importing/net_file.hpp"
#include "onnx/model_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/onnx_proof.hpp"
#include "tools/output_file.hpp"
#include "tools/terminal.hpp"

DEFINE_string(
    o, "",
    "What to write: the .onnx file, the folder of import-onnx, the curve of find-lr (.svg), the "
    "page of report, the trace of profile.");
DEFINE_int32(opset, 17, "Version of ONNX's operators, 13 to 23.");
DEFINE_bool(dynamic_batch, false, "Leave the batch of inputs and outputs open.");
DEFINE_bool(fold, false, "BatchNorm, Scale and Bias become part of the weights beside them.");
DEFINE_bool(preprocess, false,
            "Mean, scale and order of channels of the training become nodes: the model takes "
            "pixels of 0 to 255, red first.");
DEFINE_string(input, "",
              "Arrays for inputs: x.npy of numpy.save(), or data=x.npy,mark=y.npy by their names. "
              "Default: random values.");
DEFINE_bool(prove, true, "Run the model by another import and by onnxruntime, and compare.");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// A folder beside the output: files get their names when they are proven.
class FolderBeside {
 public:
  explicit FolderBeside(const std::string& output) {
    std::string name = output + ".XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      throw Error("cannot make a folder beside '", output, "': ", std::strerror(errno));
    path_ = name;
  }
  ~FolderBeside() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  FolderBeside(const FolderBeside&) = delete;
  FolderBeside& operator=(const FolderBeside&) = delete;

  std::string file(const std::string& output) const {
    return (path_ / fs::path(output).filename()).string();
  }

 private:
  fs::path path_;
};

/// What the model takes where the net takes the values of its inputs.
NamedArrays model_inputs(Net& net, const Origin& origin) {
  NamedArrays inputs = inputs_of(net);
  if (!FLAGS_preprocess) return inputs;
  const auto images = std::ranges::find_if(
      inputs, [](const auto& input) { return input.second.shape().rank() == 4; });
  if (images != inputs.end()) images->second = onnx::pixels_behind(origin, images->second);
  return inputs;
}

/// Error unless the model gives what the net gives.
void prove(Net& net, const std::string& model, const OnnxReport& report, const Origin& origin) {
  fill_inputs(net, arrays_of_flag(FLAGS_input, net.inputs()));
  net.forward();
  const NamedArrays inputs = model_inputs(net, origin);
  NetOptions options = net_options(Phase::test);
  options.fuse = false;
  Net again(model, net.context(), options);
  fill_inputs(again, inputs);
  again.forward();
  NamedArrays outputs;
  for (const std::string& name : again.outputs()) outputs.emplace_back(name, again.output(name));
  bool good = print_differences(differences_of(net, outputs), output_tolerance(), "imported again");
  if (!report.custom.empty()) {
    std::printf("onnxruntime does not know the domain \"crema\" of %s\n",
                printable_message(joined(report.custom)).c_str());
  } else {
    const RuntimeResult runtime = run_onnxruntime(model, inputs);
    if (runtime.version.empty()) {
      std::printf("not run by onnxruntime: %s\n", printable_message(runtime.why_not).c_str());
    } else {
      good = print_differences(differences_of(net, runtime.outputs), output_tolerance(),
                               "onnxruntime " + runtime.version) &&
             good;
    }
  }
  warn_of_same_outputs(again);
  if (!good) {
    throw Error("the model differs from the net by more than --tolerance=", output_tolerance(),
                "; nothing is written");
  }
}

int export_onnx(const std::vector<std::string>& arguments) {
  refuse_arguments("export-onnx", arguments, "give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  required_flag("o", FLAGS_o, "NET.onnx");
  constexpr int kOldest = 13, kNewest = 23;
  if (FLAGS_opset < kOldest || FLAGS_opset > kNewest)
    throw Error("--opset=", FLAGS_opset, " is not from ", kOldest, " to ", kNewest);
  if (!onnx::is_onnx_name(FLAGS_o)) throw Error("-o ", FLAGS_o, ": give a name that ends in .onnx");
  std::vector<std::string> inputs = split_list(FLAGS_weights);
  inputs.push_back(FLAGS_model);
  check_replaced(FLAGS_o, inputs);
  check_output_file(FLAGS_o, "the model");
  NetOptions options = net_options(Phase::test);
  options.weights = split_list(FLAGS_weights);
  options.strict = FLAGS_strict;
  options.need_all_weights = !options.weights.empty() && !FLAGS_allow_missing;
  options.fuse = false;
  Context context(context_options());
  NetParameter param;
  SourceMap source;
  read_net(FLAGS_model, param, &source);
  // What the weights say of classes and pixels goes along with them.
  Origin origin = param.origin();
  for (const std::string& weights : options.weights) {
    const Origin written = origin_of_net(weights);
    if (written.ByteSizeLong() > 0) origin = written;
  }
  Net net(param, source, context, options);
  const FolderBeside beside(FLAGS_o);
  const std::string file = beside.file(FLAGS_o);
  const OnnxOptions onnx_options{.opset = FLAGS_opset,
                                 .dynamic_batch = FLAGS_dynamic_batch,
                                 .fold = FLAGS_fold,
                                 .origin = &origin,
                                 .preprocess = FLAGS_preprocess};
  const OnnxReport report = save_onnx(net, file, onnx_options);
  if (!net.params().segments().empty() && options.weights.empty() &&
      !onnx::is_onnx_name(FLAGS_model)) {
    say(Severity::warning,
        "without --weights, the model has the values of the net's fillers: it is not trained");
  }
  for (const std::string& note : report.notes)
    std::printf("note: %s\n", printable_message(note).c_str());
  if (FLAGS_prove) prove(net, file, report, origin);
  for (const std::string& name : {file + ".data", file}) {
    std::error_code missing;
    if (!fs::exists(name, missing)) continue;
    const fs::path to = name == file ? fs::path(FLAGS_o) : fs::path(FLAGS_o + ".data");
    fs::rename(name, to);
  }
  std::printf("%s is written, of opset %d\n", printable(FLAGS_o).c_str(), FLAGS_opset);
  return 0;
}

}  // namespace

extern const Command kExportOnnx = {
    "export-onnx",
    "writes a net as a model of ONNX, and proves it",
    "  crema export-onnx --model deploy.prototxt --weights net.caffemodel -o net.onnx\n"
    "  crema export-onnx --model deploy.prototxt --weights net.caffemodel -o net.onnx \\\n"
    "    --opset 21 --dynamic_batch --fold --preprocess\n"
    "\n"
    "Writes the net of phase TEST by the standard operators, each layer under its name, and "
    "layers\n"
    "that these cannot express as operators of the domain \"crema\". Layers without a meaning in\n"
    "inference are named, all at once, and nothing is written: crema deploy makes the net for\n"
    "inference of one that is trained. Tensors of models above 2 GB go to NET.onnx.data.\n"
    "\n"
    "Then the model runs on random values, or on those of --input: imported again, and by\n"
    "onnxruntime where python3 has it. The largest difference of each output is printed. Above\n"
    "--tolerance, nothing is written.",
    {"model",         "weights", "allow_missing", "strict",    "o",     "opset",
     "dynamic_batch", "fold",    "preprocess",    "tolerance", "input", "prove",
     "overwrite",     "gpu",     "threads",       "engine",    "tune",  "tuning_file",
     "seed",          "plugin",  "level",         "stage"},
    export_onnx,
    1,
    NetUse::runs};

}  // namespace crema::tools
