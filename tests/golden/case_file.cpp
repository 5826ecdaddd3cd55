#include "golden/case_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

#include "crema/error.hpp"
#include "model/binary_format.hpp"

namespace crema::golden {
namespace fs = std::filesystem;
namespace {

constexpr double kAbsolute = 1e-5;

}  // namespace

std::vector<const LayerParameter*> Case::entries(const std::string& type) const {
  std::vector<const LayerParameter*> found;
  for (const auto& layer : values.layer()) {
    if (layer.type() == type) found.push_back(&layer);
  }
  return found;
}

std::vector<fs::path> find_cases(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw Error("there is no folder '", folder.string(), "'");
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(folder)) {
    fs::path golden = entry.path();
    if (golden.extension() != ".prototxt") continue;
    golden.replace_extension(".golden");
    if (fs::exists(golden)) cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

Case read_case(const fs::path& prototxt) {
  Case result;
  result.prototxt = prototxt;
  result.name = prototxt.stem().string();
  std::ifstream file(prototxt);
  std::stringstream text;
  text << file.rdbuf();
  result.text = text.str();
  for (std::string line; std::getline(text, line);) {
    result.test_phase = result.test_phase || line == "# phase TEST";
    result.no_backward = result.no_backward || line == "# nobackward";
    result.no_force = result.no_force || line == "# noforce";
  }
  fs::path golden = prototxt;
  golden.replace_extension(".golden");
  read_binary_proto(golden.string(), result.values);
  return result;
}

std::optional<Snapshot> find_snapshot(const Case& golden) {
  const std::string prefix = golden.name + "_iter_";
  std::optional<Snapshot> found;
  for (const auto& entry : fs::directory_iterator(golden.prototxt.parent_path())) {
    const fs::path& path = entry.path();
    const std::string stem = path.stem().string();
    if (path.extension() != ".solverstate" || !stem.starts_with(prefix)) continue;
    int iteration = 0;
    const char* const last = stem.data() + stem.size();
    const auto [end, error] = std::from_chars(stem.data() + prefix.size(), last, iteration);
    if (error != std::errc() || end != last) continue;
    if (!found || iteration < found->iteration) found = {path, iteration};
  }
  return found;
}

void assign(const BlobProto& from, Tensor& to) {
  if (from.data_size() != to.count())
    throw Error("the case has ", from.data_size(), " values for ", to.count());
  if (to.dtype() == DType::f64) {
    std::copy(from.data().begin(), from.data().end(), to.overwrite<double>());
  } else {
    std::copy(from.data().begin(), from.data().end(), to.overwrite<float>());
  }
}

void Comparison::compare(const std::string& what, const Tensor& actual,
                         const google::protobuf::RepeatedField<float>& expected, double relative) {
  if (actual.count() != expected.size()) {
    if (failure_.empty()) {
      failure_ = text(what, " has ", actual.count(), " values instead of ", expected.size());
    }
    return;
  }
  const Tensor plain = actual.contiguous();
  for (int i = 0; i < expected.size(); ++i) {
    compare(text(what, "[", i, "]"), plain.at(i), static_cast<double>(expected.Get(i)), relative);
  }
}

void Comparison::compare(const std::string& what, double actual, double expected, double relative) {
  ++compared_;
  const double error = std::abs(actual - expected);
  worst_ = std::max(worst_, error / (std::abs(expected) + kAbsolute / relative));
  const bool equal = error <= kAbsolute + relative * std::abs(expected) ||
                     (std::isnan(actual) && std::isnan(expected)) || actual == expected;
  if (!equal && failure_.empty()) failure_ = text(what, " = ", actual, " instead of ", expected);
}

}  // namespace crema::golden
