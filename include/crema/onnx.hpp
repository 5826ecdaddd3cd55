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

class Origin;  // proto/net.proto

struct OnnxOptions {
  /// The version of ONNX's operators: 13 to 23.
  int opset = 17;
  /// Leaves axis 0 of all inputs and outputs open. Error with the layers that need a fixed batch.
  bool dynamic_batch = false;
  /// BatchNorm, Scale and Bias become part of the weights beside them.
  bool fold = false;
  /// What weights say of the data that they were trained on (src/model/weights_origin.hpp):
  /// classes, and what becomes of pixels. It is copied into the metadata of the file.
  const Origin* origin = nullptr;
  /// The mean, scale and order of channels that `origin` has become nodes: the first input takes
  /// pixels from 0 to 255 in the order RGB, as (N, 3, H, W). Error without an origin that has them.
  bool preprocess = false;
};

struct OnnxReport {
  std::vector<std::string> custom;  // layers that are operators of the domain "crema"
  std::vector<std::string> notes;
};

/// Writes the net of phase TEST in its present shapes and with its present parameters, as f32.
/// Inputs, outputs and blobs keep their names; of a blob that layers change in place, the last
/// version does. Values above 2 GiB go to `path` + ".data". Error that names all layers that cannot
/// be exported, with the reasons, such as layers that read data.
OnnxReport save_onnx(const Net& net, const std::string& path, const OnnxOptions& options = {});

}  // namespace crema
