// A net prototxt: parsed, upgraded from old forms, and built in both phases.
#include "crema/net.hpp"
#include "fuzz/target.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"

using namespace crema;

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  NetParameter net;
  SourceMap source;
  const bool parsed = fuzz::attempt(
      [&] { parse_text_proto(fuzz::text_of(bytes, count), "net.prototxt", net, &source); });
  if (!parsed) return 0;
  fuzz::attempt([&] {
    NetParameter upgraded = net;
    upgrade_net(upgraded, source);
    // What was upgraded is of the current form.
    if (upgrade_net(upgraded).is_old) fuzz::fail("the upgraded net is still old");
  });
  for (const Phase phase : {Phase::train, Phase::test}) {
    fuzz::attempt_in_little_memory(
        [&] { Net(net, source, fuzz::quiet_context(), {.phase = phase}); });
  }
  return 0;
}
