// crema upgrade-net-proto-binary: rewrites an old weights file in the current form.
#include "model/binary_format.hpp"
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
      [&](const std::string& path) { write_binary_proto_atomically(path, net); });
}

}  // namespace

const Command kUpgradeNetProtoBinary = {
    "upgrade-net-proto-binary",
    "rewrites an old weights file in the current form",
    "  crema upgrade-net-proto-binary OLD NEW\n"
    "\n"
    "OLD is a .caffemodel or another binary net of the V0 or V1 format. NEW may be the same file;\n"
    "it is replaced when the new one is whole. crema reads old weights as they are, too.",
    {},
    upgrade_net_proto_binary};

}  // namespace crema::tools
