#include "python/messages.hpp"

#include "crema/error.hpp"
#include "model/text_format.hpp"
#include "onnx/importing/net_file.hpp"

namespace crema::python {

void read_message(const std::string& source, const std::string& kind,
                  google::protobuf::Message& out, SourceMap& map) {
  if (kind == "file") {
    if (auto* const net = dynamic_cast<NetParameter*>(&out)) return read_net(source, *net, &map);
    return read_text_proto(source, out, &map);
  }
  if (kind == "text") return parse_text_proto(source, "<text>", out, &map);
  if (!out.ParseFromString(source))
    throw Error("the ", source.size(), " bytes are no serialised ", out.GetTypeName(),
                "; give the message itself, its SerializeToString(), or the path of a prototxt");
}

nanobind::bytes bytes_of(const google::protobuf::Message& message) {
  std::string bytes;
  if (!message.SerializeToString(&bytes))
    throw Error("the message of ", message.ByteSizeLong(),
                " bytes cannot be serialised: 2 GiB are the most; write it to a file of HDF5");
  return nanobind::bytes(bytes.data(), bytes.size());
}

}  // namespace crema::python
