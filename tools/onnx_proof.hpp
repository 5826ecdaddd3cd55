// The proof of an export or import: both sides run on the same inputs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analysis/compare_nets.hpp"
#include "crema/net.hpp"

namespace crema::tools {

/// --tolerance: the largest relative difference of an output that passes. 1e-4 without the flag.
/// Error for what is none.
double output_tolerance();

/// Arrays by the names of inputs or outputs.
using NamedArrays = std::vector<std::pair<std::string, Tensor>>;

/// What --input names: "x.npy" for the only one of `inputs`, or "data=x.npy,mark=y.npy". Error for
/// names that are no inputs, and for several inputs without names.
NamedArrays arrays_of_flag(const std::string& flag, const std::vector<std::string>& inputs);
/// The files of --save_outputs, by the names of outputs, in the same form.
std::vector<std::pair<std::string, std::string>> files_of_flag(
    const std::string& flag, const std::string& value, const std::vector<std::string>& names);

/// Fills the inputs of the net: those that `given` names with these values and their shapes, others
/// with random ones.
void fill_inputs(Net& net, const NamedArrays& given);

/// The outputs that onnxruntime, a package of Python, computes for a model.
struct RuntimeResult {
  std::string version;  // "": it did not run
  std::string why_not;
  NamedArrays outputs;
};
/// Runs it by python3. `inputs` are those of the model. Error if it refuses the model.
RuntimeResult run_onnxruntime(const std::string& model, const NamedArrays& inputs);
NamedArrays inputs_of(Net& net);

/// Compares outputs of a net with others by their names, or else in their order.
std::vector<ValueDifference> differences_of(Net& net, const NamedArrays& others);

/// Prints a warning if other inputs give the net, which has run, the same outputs, as weights of 0
/// do: whatever stands in front of these, a comparison finds no difference. The net runs again.
void warn_of_same_outputs(Net& net);

/// Prints a line for each output. Returns whether all are within the tolerance.
bool print_differences(const std::vector<ValueDifference>& outputs, double tolerance,
                       const std::string& by);

}  // namespace crema::tools
