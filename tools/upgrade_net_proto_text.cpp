// crema upgrade-net-proto-text: rewrites an old net prototxt in the current form.
#include "model/text_format.hpp"
#include "model/upgrade/written_defaults.hpp"
#include "tools/command.hpp"
#include "tools/upgrade_report.hpp"

namespace crema::tools {
namespace {

/// Whether the file is a net prototxt, of any form.
bool is_net_text(const std::string& path) try {
  NetParameter net;
  read_text_proto(path, net);
  return net.layer_size() > 0 || net.layers_size() > 0;
} catch (const Error&) {
  return false;
}

int upgrade_net_proto_text(const std::vector<std::string>& arguments) {
  NetParameter net;
  return upgrade_file(
      "upgrade-net-proto-text", arguments,
      [&](const std::string& path) {
        SourceMap source;
        read_text_proto(path, net, &source);
        check_has_layers(net, source);
        NetUpgrade done = upgrade_net(net, source);
        const auto written = write_out_defaults(net);
        done.changes.insert(done.changes.end(), written.begin(), written.end());
        return done;
      },
      [&](const std::string& path) { write_text_proto_atomically(path, net); },
      {"net prototxt", is_net_text});
}

}  // namespace

extern const Command kUpgradeNetProtoText = {
    "upgrade-net-proto-text",
    "rewrites an old net prototxt in the current form",
    "  crema upgrade-net-proto-text OLD NEW\n"
    "\n"
    "OLD is a net of the V0 or V1 format (`layers {}`), or one with `input` and `input_dim`, or\n"
    "with scale, mean_file, crop_size or mirror in the settings of a data layer. With "
    "--overwrite,\n"
    "NEW may exist, and may be the same file; it is replaced when the new one is whole. By the\n"
    "published name, upgrade_net_proto_text, an earlier net at NEW is replaced without it.\n"
    "Comments are not kept. Fields of detection layers for which other programs lack our defaults\n"
    "are written out. crema trains and runs old nets as they are, too.",
    {"overwrite"},
    upgrade_net_proto_text};

}  // namespace crema::tools
