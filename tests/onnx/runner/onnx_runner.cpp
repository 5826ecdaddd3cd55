// Runs cases of operators: onnx_runner FOLDER... A folder has model.onnx and test_data_set_K with
// input_I.pb and output_I.pb, as those of the Python package onnx (scripts/onnx_backend_tests.py).
// Prints a line a folder: "pass NAME", "none NAME: why" where the model cannot be imported or
// built, or "WRONG NAME: why". Exit status 1 if anything is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "crema/net.hpp"
#include "onnx/importing/import.hpp"
#include "onnx/model_file.hpp"
#include "onnx/operators/array.hpp"

namespace crema::onnx {
namespace {

namespace fs = std::filesystem;

/// The case cannot be run, for this reason.
struct NotRun {
  std::string why;
};

TensorProto read_tensor(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  TensorProto tensor;
  if (!tensor.ParseFromString(bytes)) throw NotRun{text(path.filename().string(), " is no tensor")};
  return tensor;
}

Array read_array(const fs::path& path) {
  try {
    return array_of(read_tensor(path));
  } catch (const Error& error) {
    throw NotRun{text(path.filename().string(), ": ", error.message())};
  }
}

void give(Net& net, const std::string& name, const Array& values) {
  net.reshape_input(name, values.shape());
  net.reshape();
  const std::vector<double> numbers = values.doubles();
  std::ranges::copy(numbers, net.input(name).overwrite<double>());
}

/// Why the values differ, or "". Tolerances are those of ONNX's own runner; those of 16-bit floats
/// are one step of their type.
std::string difference(const Tensor& got, const Array& expected) {
  if (got.count() != expected.count() || got.shape().dims() != expected.shape().dims())
    return text("of ", got.shape().str(), " and not ", expected.shape().str());
  double relative = 1e-3;
  if (expected.type() == TensorProto::FLOAT16) relative = 2e-3;
  if (expected.type() == TensorProto::BFLOAT16) relative = 1e-2;
  const double absolute = 1e-7;
  const std::vector<double> wanted = expected.doubles();
  for (int64_t i = 0; i < got.count(); ++i) {
    const double x = got.at(i), y = wanted[static_cast<size_t>(i)];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (std::abs(x - y) <= absolute + relative * std::abs(y)) continue;
    return text("element ", i, " is ", x, " and not ", y);
  }
  return {};
}

/// "" or what is wrong. Throws NotRun.
std::string run_set(const ModelProto& model, const fs::path& set) {
  // Inputs that are initialisers of the model, too, are not given.
  std::vector<Array> inputs, outputs;
  for (int i = 0; fs::exists(set / text("input_", i, ".pb")); ++i)
    inputs.push_back(read_array(set / text("input_", i, ".pb")));
  for (int i = 0; fs::exists(set / text("output_", i, ".pb")); ++i)
    outputs.push_back(read_array(set / text("output_", i, ".pb")));
  ImportOptions options;
  const GraphProto& graph = model.graph();
  if (graph.input_size() < static_cast<int>(inputs.size()))
    throw NotRun{"more inputs than the model has"};
  for (size_t i = 0; i < inputs.size(); ++i)
    options.shapes.insert_or_assign(graph.input(static_cast<int>(i)).name(), inputs[i].shape());
  ContextOptions context_options;
  context_options.threads = 1;
  context_options.tune = false;
  context_options.logger = {};
  Context context(context_options);
  std::optional<Net> net;
  ImportedNet imported;
  // Values that shapes follow from, such as those of Reshape, have to be constants: as they are in
  // what other programs write, they become that here if the model cannot be imported without.
  const auto build = [&](const ModelProto& of) {
    imported = import_model(of, options);
    net.emplace(imported.net, context, NetOptions{.phase = Phase::test, .dtype = DType::f64});
  };
  try {
    try {
      build(model);
    } catch (const Error&) {
      ModelProto fixed = model;
      bool any = false;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (is_float(inputs[i].type())) continue;
        *fixed.mutable_graph()->add_initializer() =
            message_of(inputs[i], graph.input(static_cast<int>(i)).name());
        options.shapes.erase(graph.input(static_cast<int>(i)).name());
        any = true;
      }
      if (!any) throw;
      build(fixed);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = graph.input(static_cast<int>(i)).name();
      const bool is_input = std::ranges::count(net->inputs(), name) > 0;
      if (is_input) give(*net, name, inputs[i]);
    }
    net->forward();
  } catch (const Error& error) {
    throw NotRun{error.what()};
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = graph.output(static_cast<int>(i)).name();
    if (name.empty()) continue;
    if (!net->has_blob(name)) return text("there is no output '", name, "'");
    const std::string why = difference(net->output(name), outputs[i]);
    if (!why.empty()) return text("output '", name, "': ", why);
  }
  return {};
}

bool run_case(const fs::path& folder) {
  const std::string name = folder.filename().string();
  try {
    ModelProto model;
    try {
      model = read_model((folder / "model.onnx").string());
    } catch (const Error& error) {
      throw NotRun{error.what()};
    }
    int sets = 0;
    for (; fs::exists(folder / text("test_data_set_", sets)); ++sets) {
      const std::string why = run_set(model, folder / text("test_data_set_", sets));
      if (why.empty()) continue;
      std::printf("WRONG %s: %s\n", name.c_str(), why.c_str());
      return false;
    }
    if (sets == 0) throw NotRun{"no test_data_set_0"};
    std::printf("pass %s\n", name.c_str());
  } catch (const NotRun& reason) {
    std::string why = reason.why;
    std::ranges::replace(why, '\n', ' ');
    std::printf("none %s: %s\n", name.c_str(), why.c_str());
  }
  return true;
}

}  // namespace
}  // namespace crema::onnx

int main(int argc, char** argv) {
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    good = crema::onnx::run_case(argv[i]) && good;
    std::fflush(stdout);
  }
  return good ? 0 : 1;
}
