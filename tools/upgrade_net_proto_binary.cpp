// crema upgrade-net-proto-binary: rewrites an old weights file in the current form.
#include "model/binary_format.hpp"
#include "model/file_kind.hpp"
#include "model/origin.hpp"
#include "tools/command.hpp"
#include "tools/upgrade_report.hpp"

namespace crema::tools {
namespace {

int upgrade_net_proto_binary(const std::vector<std::string>& arguments) {
  NetParameter net;
  return upgrade_file(
      "upgrade-net-proto-binary", arguments,
      [&](const std::string& path) {
        read_binary_proto(path, net);
        return upgrade_net(net);
      },
      [&](const std::string& path) {
        // Weights of a run keep the word of the program that trained them.
        if (!net.has_origin()) net.mutable_origin()->set_program(program_version());
        write_binary_proto_atomically(path, net);
      },
      {"weights file",
       [](const std::string& path) { return guess_message(path) == NetParameter::descriptor(); }});
}

}  // namespace

extern const Command kUpgradeNetProtoBinary = {
    "upgrade-net-proto-binary",
    "rewrites an old weights file in the current form",
    "  crema upgrade-net-proto-binary OLD NEW\n"
    "\n"
    "OLD is a .caffemodel or another binary net of the V0 or V1 format. With --overwrite, NEW\n"
    "may exist, and may be the same file; it is replaced when the new one is whole. By the\n"
    "published name, upgrade_net_proto_binary, earlier weights at NEW are replaced without it. "
    "crema\n"
    "reads old weights as they are, too.",
    {"overwrite"},
    upgrade_net_proto_binary};

}  // namespace crema::tools
