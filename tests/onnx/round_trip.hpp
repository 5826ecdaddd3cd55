// Nets that go to a model of ONNX and come back.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "analysis/compare_nets.hpp"
#include "crema/net.hpp"
#include "crema/onnx.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {

/// Parameters become numbers in which each place differs from its neighbours: those of fillers are
/// often 0 or 1. Variances are positive.
inline void vary_parameters(Net& net) {
  for (Layer* layer : net.layers()) {
    const auto& params = layer->params();
    const bool is_batch_norm = layer->type() == "BatchNorm";
    for (size_t p = 0; p < params.size(); ++p) {
      Tensor& data = params[p]->data;
      auto* const values = data.overwrite<float>();
      for (int64_t i = 0; i < data.count(); ++i) {
        const double x = 0.4 * std::sin(1.7 * static_cast<double>(i + 1) + static_cast<double>(p));
        values[i] = static_cast<float>(!is_batch_norm || p == 0 ? x : p == 1 ? 1 + x : 2);
      }
    }
  }
}

/// Exports the net, which is of phase TEST and not fused, imports the model, and runs both on the
/// values that the inputs of the net have. Returns "" or what differs, or why the model is refused.
inline std::string round_trip(Net& net, const OnnxOptions& options = {}, double tolerance = 1e-5) {
  const TempFolder folder;
  save_onnx(net, folder.path("net.onnx"), options);
  std::string problems;
  try {
    Net again(folder.path("net.onnx"), net.context(), {.phase = Phase::test, .fuse = false});
    const NetComparison comparison = compare_nets(net, again, tolerance);
    for (const ValueDifference& output : comparison.outputs) {
      if (output.within(tolerance)) continue;
      problems += text(
          "output '", output.name, "': ",
          output.problem.empty() ? text("relative difference ", output.relative) : output.problem,
          "; ");
    }
    for (const std::string& name : comparison.only_a) problems += text("no output '", name, "'; ");
    for (const std::string& name : comparison.only_b) problems += text("a new output '", name, "'");
  } catch (const Error& error) {
    problems = text("refused: ", error.what());
  }
  return problems;
}

}  // namespace crema::test
