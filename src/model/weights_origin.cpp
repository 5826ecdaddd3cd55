#include "model/weights_origin.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/wire_format_lite.h>

#include "crema/error.hpp"
#include "model/model_folders.hpp"
#include "model/open_file.hpp"
#include "model/snapshot_file.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// Steps over the layers.
Origin origin_in_binary(const std::string& path) {
  using google::protobuf::internal::WireFormatLite;
  constexpr uint32_t kTag = static_cast<uint32_t>(NetParameter::kOriginFieldNumber) << 3 |
                            static_cast<uint32_t>(WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  Origin origin;
  const OpenFile file(path, O_RDONLY);
  if (!file.is_open()) return origin;
  google::protobuf::io::FileInputStream bytes(file.get());
  google::protobuf::io::CodedInputStream in(&bytes);
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != kTag) {
      if (!WireFormatLite::SkipField(&in, tag)) break;
      continue;
    }
    uint32_t size = 0;
    std::string message;
    if (!in.ReadVarint32(&size) || !in.ReadString(&message, static_cast<int>(size))) break;
    origin.MergeFromString(message);
  }
  return origin;
}

}  // namespace

Origin origin_of_weights(const std::string& path) {
  const std::string file = find_model_file(path);
  try {
    return is_hdf5_file(file) ? read_hdf5_origin(file) : origin_in_binary(file);
  } catch (const Error&) {
    return {};  // loading it says why
  }
}

std::vector<std::string> class_names_of_weights(const std::string& path) {
  const Origin origin = origin_of_weights(path);
  return {origin.class_name().begin(), origin.class_name().end()};
}

std::vector<std::string> class_names_of_weights(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (std::vector<std::string> names = class_names_of_weights(path); !names.empty()) return names;
  }
  return {};
}

}  // namespace crema
