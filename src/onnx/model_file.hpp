// Reads and writes .onnx files, with tensors in files beside them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/onnx/onnx.pb.h"

namespace crema::onnx {

/// Whether a file of this name is taken for a model of ONNX: it ends in ".onnx".
bool is_onnx_name(std::string_view path);

/// The model with all values inside: those of other files are read into raw_data. Error, about the
/// path, for a file that is no model of ONNX, that is cut or damaged, or larger than 2 GiB, and for
/// values in a file that is missing, too short, or outside of the model's folder (through ".." or
/// links, too).
ModelProto read_model(const std::string& path);
/// The same for bytes in memory; values in other files are refused. `name` stands for the file.
ModelProto parse_model(std::string_view bytes, const std::string& name);

/// Writes the model so that `path` holds the old file or the whole new one at any time. If its
/// message exceeds `limit` bytes, tensors of more than 1 KiB go to `path` + ".data" beside it.
void write_model(const std::string& path, ModelProto model,
                 int64_t limit = (int64_t{1} << 31) - (int64_t{1} << 20));

}  // namespace crema::onnx
