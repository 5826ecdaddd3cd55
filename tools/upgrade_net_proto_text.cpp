// crema upgrade-net-proto-text: rewrites an old net prototxt in the current form.
#include "model/text_format.hpp"
#include "tools/command.hpp"
#include "tools/upgrade_report.hpp"

namespace crema::tools {
namespace {

int upgrade_net_proto_text(const std::vector<std::string>& arguments) {
  NetParameter net;
  return upgrade_file(
      "upgrade-net-proto-text", arguments,
      [&](const std::string& path) {
        SourceMap source;
        read_text_proto(path, net, &source);
        check_has_layers(net, source);
        return upgrade_net(net, source);
      },
      [&](const std::string& path) { write_text_proto_atomically(path, net); });
}

}  // namespace

const Command kUpgradeNetProtoText = {
    "upgrade-net-proto-text",
    "rewrites an old net prototxt in the current form",
    "  crema upgrade-net-proto-text OLD NEW\n"
    "\n"
    "OLD is a net of the V0 or V1 format (`layers {}`), or one with `input` and `input_dim`, or\n"
    "with scale, mean_file, crop_size or mirror in the settings of a data layer. NEW may be the\n"
    "same file; it is replaced when the new one is whole. Comments are not kept. crema trains and\n"
    "runs old nets as they are, too.",
    {},
    upgrade_net_proto_text};

}  // namespace crema::tools
