// crema import-onnx: a model of ONNX as a net with weights.
#include <cstdio>
#include <filesystem>

#include "core/parse_number.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "features/npy_file.hpp"
#include "model/origin.hpp"
#include "model/partial_copy.hpp"
#include "model/snapshot_file.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/written_defaults.hpp"
#include "model/whole_file.hpp"
#include "onnx/importing/import.hpp"
#include "onnx/model_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/onnx_proof.hpp"
#include "tools/output_file.hpp"
#include "tools/text.hpp"

DECLARE_string(o);
DECLARE_string(shape);
DECLARE_string(input);
DECLARE_bool(prove);
DEFINE_string(save_outputs, "",
              "Files for what the net gives: y.npy, or prob=y.npy,boxes=z.npy by their names.");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// --shape: whole shapes of inputs, "1x3x224x224" or "data=1x3x224x224,mark=1x20".
onnx::InputShapes shapes_of_flag(const std::vector<std::string>& inputs) {
  onnx::InputShapes shapes;
  for (const auto& [name, value] : files_of_flag("--shape", FLAGS_shape, inputs)) {
    std::vector<int64_t> dims;
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find('x', begin), value.size());
      const auto dim = parse_number<int64_t>(value.substr(begin, end - begin));
      if (!dim || *dim < 1)
        throw Error("--shape: '", value, "' is no shape of an input, such as 1x3x224x224");
      dims.push_back(*dim);
      begin = end + 1;
    }
    shapes.insert_or_assign(name, Shape(dims));
  }
  return shapes;
}

/// Compares with onnxruntime. Error beyond the tolerance.
void prove(Net& net, const onnx::ImportedNet& imported, const std::string& model) {
  NamedArrays inputs;
  for (const onnx::ImportedNet::End& end : imported.inputs)
    inputs.emplace_back(end.name, net.input(end.name));
  const RuntimeResult runtime = run_onnxruntime(model, inputs);
  if (runtime.version.empty()) {
    std::printf("not compared with onnxruntime: %s\n", printable_message(runtime.why_not).c_str());
    return;
  }
  if (!print_differences(differences_of(net, runtime.outputs), output_tolerance(),
                         "onnxruntime " + runtime.version)) {
    throw Error("the net differs from the model by more than --tolerance=", output_tolerance(),
                "; nothing is written");
  }
}

/// Adds the values of outputs to the files of --save_outputs.
void save_outputs(Net& net) {
  for (const auto& [name, file] :
       files_of_flag("--save_outputs", FLAGS_save_outputs, net.outputs())) {
    check_output_file(file, "the output");
    write_npy(file, net.output(name));
    std::printf("output '%s' of %s is in %s\n", printable(name).c_str(),
                net.output(name).shape().str().c_str(), printable(file).c_str());
  }
}

int import_onnx(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1)
    throw Error("import-onnx takes one model, NET.onnx; got ", arguments.size(), " arguments");
  const std::string& model = arguments[0];
  const fs::path folder = FLAGS_o;
  const std::string prototxt = (folder / "deploy.prototxt").string();
  const std::string weights = (folder / (fs::path(model).stem().string() + ".caffemodel")).string();
  if (FLAGS_o.empty() && FLAGS_input.empty() && FLAGS_save_outputs.empty())
    required_flag("o", FLAGS_o, "FOLDER");
  if (!FLAGS_o.empty()) {
    for (const std::string& file : {prototxt, weights}) check_replaced(file, {model});
  }
  onnx::ImportOptions options;
  if (!FLAGS_shape.empty() || !FLAGS_input.empty()) {
    const std::vector<std::string> names = onnx::input_names(onnx::read_model(model));
    if (!FLAGS_shape.empty()) options.shapes = shapes_of_flag(names);
    for (const auto& [name, values] : arrays_of_flag(FLAGS_input, names))
      options.open_shapes.insert_or_assign(name, values.shape());
  }
  onnx::ImportedNet imported = onnx::import_file(model, options);
  for (const std::string& note : imported.notes)
    std::printf("note: %s\n", printable_message(note).c_str());
  Context context(context_options());
  NetOptions net_of = net_options(Phase::test);
  net_of.fuse = false;
  Net net(imported.net, context, net_of);
  fill_inputs(net, arrays_of_flag(FLAGS_input, net.inputs()));
  net.forward();
  if (FLAGS_prove) prove(net, imported, model);
  save_outputs(net);
  if (FLAGS_prove) warn_of_same_outputs(net);
  if (FLAGS_o.empty()) return 0;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("cannot make the folder '", FLAGS_o, "': ", error.message());
  NetParameter layers;
  copy_without(imported.net, {NetParameter::kLayerFieldNumber, NetParameter::kOriginFieldNumber},
               layers);
  for (const LayerParameter& layer : imported.net.layer())
    copy_without(layer, {LayerParameter::kBlobsFieldNumber}, *layers.add_layer());
  write_out_defaults(layers);
  NetParameter saved;
  net.save(saved);
  *saved.mutable_origin() = imported.net.origin();
  saved.mutable_origin()->set_program(program_version());
  saved.mutable_origin()->set_net(model);
  // Neither appears without the other.
  WholeFile text_file(prototxt);
  text_file.append(text("# Made of ", printable(fs::path(model).filename().string()),
                        " by crema import-onnx.\n"));
  text_file.append(prototxt_of(layers));
  text_file.sync();
  write_weights(weights, saved);
  text_file.finish();
  std::printf("%s and %s are written: %d layers\n", printable(prototxt).c_str(),
              printable(weights).c_str(), layers.layer_size());
  return 0;
}

}  // namespace

extern const Command kImportOnnx = {
    "import-onnx",
    "makes a net and weights of a model of ONNX, and proves them",
    "  crema import-onnx net.onnx -o folder\n"
    "  crema import-onnx net.onnx --input x.npy --save_outputs y.npy\n"
    "  crema import-onnx net.onnx -o folder --shape data=8x3x224x224\n"
    "\n"
    "Writes folder/deploy.prototxt and folder/NET.caffemodel, which train and run as any other "
    "net.\n"
    "Constants are folded, and nodes that together are a layer become one. What no layer computes\n"
    "is named, all nodes at once. Sizes of inputs that the model leaves open are those of "
    "--shape,\n"
    "which has the whole shape of an input, or of --input; else they are 1.\n"
    "\n"
    "The net runs once on random values, or on those of --input, and where python3 has "
    "onnxruntime,\n"
    "the model too. The largest difference of each output is printed. Above --tolerance, nothing\n"
    "is written.",
    {"o", "shape", "input", "save_outputs", "tolerance", "prove", "overwrite", "gpu", "threads",
     "engine", "tune", "tuning_file", "seed", "plugin"},
    import_onnx,
    1,
    NetUse::runs};

}  // namespace crema::tools
