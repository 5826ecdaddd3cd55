// Nets as files of ONNX, the format that other runtimes read.
//
//   crema::save_onnx(net, "net.onnx", {.opset = 17});
//
// Net's constructor reads such files, where it reads a prototxt.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "crema/context.hpp"
#include "crema/net.hpp"

namespace crema {

struct OnnxOptions {
  /// The version of ONNX's operators: 13 to 23.
  int opset = 17;
  /// Leaves axis 0 of all inputs and outputs open. Error with the layers that need a fixed batch.
  bool dynamic_batch = false;
  /// BatchNorm, Scale and Bias become part of the weights beside them.
  bool fold = false;
  /// The mean, scale and order of channels of the net's data become nodes: the input takes pixels
  /// from 0 to 255 in the order RGB. Without it, they are metadata of the file.
  bool preprocess = false;
};

struct OnnxReport {
  std::vector<std::string> custom;  // layers that are operators of the domain "crema"
  std::vector<std::string> notes;
};

/// Writes the net, in its present shapes and with its present parameters, as it computes in phase
/// TEST. Error with all layers that ONNX cannot express, and for a net that reads data.
OnnxReport save_onnx(const Net& net, const std::string& path, const OnnxOptions& options = {});

}  // namespace crema
