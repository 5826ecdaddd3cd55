// crema compare: two nets on the same inputs, layer by layer.
#include <cstdio>

#include "analysis/compare_nets.hpp"
#include "core/utf8.hpp"
#include "model/file_kind.hpp"
#include "onnx/model_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/onnx_proof.hpp"

DECLARE_string(input);

namespace crema::tools {
namespace {

/// A net and its weights, as files.
struct Side {
  std::string net;
  std::vector<std::string> weights;

  std::string str() const { return weights.empty() ? net : text(net, " with ", joined(weights)); }
};

/// A model of ONNX and a prototxt begin a side; files of weights belong to the net before them.
std::vector<Side> sides_of(const std::vector<std::string>& arguments) {
  std::vector<Side> sides;
  for (const std::string& path : arguments) {
    const bool is_net = onnx::is_onnx_name(path) || kind_of_file(path) == FileKind::text;
    if (is_net) {
      sides.push_back({path, {}});
    } else if (sides.empty()) {
      throw Error("compare: weights '", path,
                  "' stand in front of the first net; give a net and then ", "its weights");
    } else {
      sides.back().weights.push_back(path);
    }
  }
  if (sides.size() != 2)
    throw Error("compare takes two nets, each a .onnx or a prototxt with weights after it; got ",
                sides.size());
  return sides;
}

Net make_net(const Side& side, Context& context) {
  NetOptions options = net_options(Phase::test);
  options.keep_all = true;
  options.weights = side.weights;
  options.need_all_weights = !side.weights.empty();
  Net net(side.net, context, options);
  if (net.inputs().empty())
    throw Error(side.net,
                " has no inputs; crema deploy makes a net for inference of one that reads data");
  return net;
}

void print_row(const ValueDifference& value, double tolerance) {
  const std::string name =
      value.name == value.other ? value.name : text(value.name, " / ", value.other);
  const std::string which = text(printable(name), value.layer.empty() || value.layer == value.name
                                                      ? ""
                                                      : text(" (", printable(value.layer), ")"));
  if (value.problem.empty()) {
    std::printf("%-40s  %-9.2g %-9.2g%s\n", which.c_str(), value.absolute, value.relative,
                value.within(tolerance) ? "" : "  differs");
  } else {
    std::printf("%-40s  %s\n", which.c_str(), value.problem.c_str());
  }
}

int compare(const std::vector<std::string>& arguments) {
  const std::vector<Side> sides = sides_of(arguments);
  Context context(context_options());
  Net a = make_net(sides[0], context), b = make_net(sides[1], context);
  fill_inputs(a, arrays_of_flag(FLAGS_input, a.inputs()));
  const NetComparison comparison = compare_nets(a, b, output_tolerance());
  std::printf("%-40s  %-9s %s\n", "blob", "absolute", "relative");
  for (const ValueDifference& value : comparison.values) print_row(value, output_tolerance());
  std::printf("\noutputs\n");
  for (const ValueDifference& value : comparison.outputs) print_row(value, output_tolerance());
  for (const std::string& name : comparison.only_a)
    std::printf("%-40s  only in %s\n", printable(name).c_str(), sides[0].net.c_str());
  for (const std::string& name : comparison.only_b)
    std::printf("%-40s  only in %s\n", printable(name).c_str(), sides[1].net.c_str());
  if (comparison.first >= 0) {
    const ValueDifference& first = comparison.values[static_cast<size_t>(comparison.first)];
    std::printf("\nthe first that differs: '%s', of layer '%s'\n", printable(first.name).c_str(),
                printable(first.layer).c_str());
  }
  const bool same = comparison.same(output_tolerance());
  std::printf("%s and %s %s: largest relative difference %.2g\n", sides[0].str().c_str(),
              sides[1].str().c_str(), same ? "agree" : "differ", comparison.relative());
  return same ? 0 : 1;
}

}  // namespace

extern const Command kCompare = {
    "compare",
    "runs two nets on the same inputs and compares what they give, layer by layer",
    "  crema compare deploy.prototxt net.caffemodel net.onnx\n"
    "  crema compare a.prototxt a.caffemodel b.prototxt b.caffemodel --input x.npy\n"
    "\n"
    "Each net is a model of ONNX, or a prototxt with its weights after it. Both get the values "
    "of\n"
    "--input, or the same random ones. A line a blob that both have, by name: the largest\n"
    "difference, and that by the greatest value of the blob in the first net; then the outputs, "
    "by\n"
    "name or in their order, and the first blob that differs by more than --tolerance. The exit\n"
    "status is 1 if outputs differ.",
    {"input", "tolerance", "gpu", "threads", "engine", "tune", "tuning_file", "seed", "plugin",
     "level", "stage"},
    compare,
    2,
    NetUse::runs};

}  // namespace crema::tools
