#include "tools/onnx_proof.hpp"

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "features/npy_file.hpp"
#include "tools/child_process.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"

DECLARE_double(tolerance);

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kNotInstalled = 3;
constexpr const char* kScript = R"py(
import sys
sys.path = [folder for folder in sys.path if folder]  # no modules of the present folder
try:
    import numpy
    import onnxruntime
except ImportError as error:
    print(error)
    sys.exit(3)
model, folder = sys.argv[1:3]
onnxruntime.set_default_logger_severity(3)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
types = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(bool)": "?",
         "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(int16)": "i2", "tensor(int8)": "i1",
         "tensor(uint64)": "u8", "tensor(uint32)": "u4", "tensor(uint16)": "u2", "tensor(uint8)": "u1"}
with open(folder + "/inputs", encoding="utf-8") as file:
    names = file.read().split("\n")
files = {name: f"{folder}/in{i}.npy" for i, name in enumerate(names)}
feed = {x.name: numpy.load(files[x.name]).astype(types[x.type]) for x in session.get_inputs()}
outputs = session.run(None, feed)
for i, (value, output) in enumerate(zip(outputs, session.get_outputs())):
    value = numpy.asarray(value)
    is_wide = value.dtype.kind in "iu" and value.dtype.itemsize > 4 or value.dtype == "f8"
    numpy.save(f"{folder}/out{i}.npy", numpy.ascontiguousarray(value, "f8" if is_wide else "f4"))
with open(folder + "/outputs", "w", encoding="utf-8") as file:
    file.write("\n".join([onnxruntime.__version__] + [output.name for output in session.get_outputs()]))
)py";

/// A folder for the arrays, gone in the end.
class WorkingFolder {
 public:
  WorkingFolder() {
    std::string name = (fs::temp_directory_path() / "crema_onnx_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error("cannot make a folder like '", name, "': ", std::strerror(errno));
    path_ = name;
  }
  ~WorkingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy(tensor.shape(), tensor.dtype());
  copy.copy_from(tensor);
  return copy;
}

}  // namespace

double output_tolerance() {
  constexpr double kUsual = 1e-4;
  if (!is_given("tolerance")) return kUsual;
  if (!(FLAGS_tolerance >= 0))
    throw Error("--tolerance=", FLAGS_tolerance, " is no difference that may be; give 0 or more");
  return FLAGS_tolerance;
}

std::vector<std::pair<std::string, std::string>> files_of_flag(
    const std::string& flag, const std::string& value, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string& part : split_list(value)) {
    const size_t equals = part.find('=');
    std::string name = equals == std::string::npos ? "" : part.substr(0, equals);
    if (name.empty()) {
      if (names.size() != 1) {
        throw Error(flag, "=", value, ": say which of ", joined(names), " it is for, as ", flag,
                    "=", names.empty() ? "NAME" : names[0], "=FILE.npy");
      }
      name = names[0];
    }
    if (std::ranges::count(names, name) == 0)
      throw Error(flag, "=", value, ": there is no '", name, "'",
                  did_you_mean(name, names, "there are"));
    files.emplace_back(name, equals == std::string::npos ? part : part.substr(equals + 1));
  }
  return files;
}

NamedArrays arrays_of_flag(const std::string& flag, const std::vector<std::string>& inputs) {
  NamedArrays arrays;
  for (const auto& [name, file] : files_of_flag("--input", flag, inputs)) {
    arrays.emplace_back(name, read_npy(file, "--input"));
  }
  return arrays;
}

void fill_inputs(Net& net, const NamedArrays& given) {
  uint64_t seed = 1;
  for (const auto& [name, values] : given) net.reshape_input(name, values.shape());
  net.reshape();
  for (const std::string& name : net.inputs()) {
    const auto found = std::ranges::find(given, name, &std::pair<std::string, Tensor>::first);
    if (found == given.end()) {
      fill_input(net, name, seed++);
    } else {
      net.input(name).copy_from(found->second);
    }
  }
}

NamedArrays inputs_of(Net& net) {
  NamedArrays inputs;
  for (const std::string& name : net.inputs()) inputs.emplace_back(name, net.input(name));
  return inputs;
}

RuntimeResult run_onnxruntime(const std::string& model, const NamedArrays& inputs) {
  const WorkingFolder folder;
  {
    std::ofstream names(folder.file("inputs"));
    for (size_t i = 0; i < inputs.size(); ++i) {
      names << (i > 0 ? "\n" : "") << inputs[i].first;
      write_npy(folder.file(text("in", i, ".npy")), inputs[i].second);
    }
  }
  const ChildResult run = run_child({"python3", "-c", kScript, model, folder.path()});
  RuntimeResult result;
  if (run.reason != 0) {
    result.why_not = text("python3 cannot be started: ", std::strerror(run.reason));
    return result;
  }
  if (WIFEXITED(run.status) && WEXITSTATUS(run.status) == kNotInstalled) {
    result.why_not = text("python3 has no onnxruntime (", last_line(run.said), ")");
    return result;
  }
  if (!run.succeeded())
    throw Error("onnxruntime does not run '", model, "': ", last_line(run.said));
  const std::vector<std::string> lines = lines_of(folder.file("outputs"));
  if (lines.empty()) throw Error("onnxruntime gave no outputs of '", model, "'");
  result.version = lines[0];
  for (size_t i = 1; i < lines.size(); ++i) {
    result.outputs.emplace_back(
        lines[i], read_npy(folder.file(text("out", i - 1, ".npy")), "the output of onnxruntime"));
  }
  return result;
}

std::vector<ValueDifference> differences_of(Net& net, const NamedArrays& others) {
  std::vector<ValueDifference> differences;
  const std::vector<std::string> names = computed_outputs(net);
  if (others.size() != names.size())
    throw Error("the net has ", names.size(), " outputs (", joined(names), "), and the model ",
                others.size());
  for (size_t i = 0; i < others.size(); ++i) {
    const bool has_name = std::ranges::count(names, others[i].first) > 0;
    const std::string& name = has_name ? others[i].first : names[i];
    differences.push_back(difference_of_blob(net, name, others[i].second));
  }
  return differences;
}

void warn_of_same_outputs(Net& net) {
  constexpr double kSame = 1e-6;
  constexpr uint64_t kOtherSeed = 1000;
  const std::vector<std::string> names = computed_outputs(net);
  if (names.empty() || net.inputs().empty()) return;
  NamedArrays before;
  for (const std::string& name : names) before.emplace_back(name, copy_of(net.output(name)));
  try {
    for (size_t i = 0; i < net.inputs().size(); ++i)
      fill_input(net, net.inputs()[i], kOtherSeed + i);
    net.forward();
  } catch (const Error&) {
    return;  // random values that a layer refuses, where --input gave others
  }
  for (const auto& [name, values] : before) {
    if (!difference_of(name, values, net.output(name)).within(kSame)) return;
  }
  say(Severity::warning,
      text(joined(names), names.size() == 1 ? " is" : " are",
           " the same for other inputs, so that the proof shows nothing of the layers in front: ",
           "give weights that are not 0, or by --input values that the net finds something in"));
}

bool print_differences(const std::vector<ValueDifference>& outputs, double tolerance,
                       const std::string& by) {
  size_t width = std::strlen("output");
  for (const ValueDifference& output : outputs)
    width = std::max(width, printable(output.name).size());
  bool good = true;
  for (const ValueDifference& output : outputs) {
    const std::string name = printable(output.name);
    const bool within = output.within(tolerance);
    good = good && within;
    if (output.problem.empty()) {
      std::printf("%-*s  absolute %-9.2g relative %-9.2g %s%s\n", static_cast<int>(width),
                  name.c_str(), output.absolute, output.relative, by.c_str(),
                  within ? "" : "   TOO LARGE");
    } else {
      std::printf("%-*s  %s   %s\n", static_cast<int>(width), name.c_str(), output.problem.c_str(),
                  by.c_str());
    }
  }
  return good;
}

}  // namespace crema::tools
