# cmake -DOUTPUT=FILE -DNAME=... -DDESCRIPTORS=FILE -DREGISTRATIONS=LIST -P this
# Writes what a plug-in shows of itself: its passport, which src/core/plugin.cpp reads, and the function
# that registers its rooms.
file(READ "${DESCRIPTORS}" digits HEX)
set(declarations "")
set(calls "")
foreach(name IN LISTS REGISTRATIONS)
  string(APPEND declarations "void register_${name}(Registry& registry);\n")
  string(APPEND calls "  crema::register_${name}(registry);\n")
endforeach()
# In pieces, since compilers warn of long literals; lines of a passport end with \n.
string(REGEX REPLACE "(................................................................................)"
  "\\1\"\n    \"" digits "${digits}")
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
"// Written by crema_add_plugin.
#include \"crema/plugin_abi.hpp\"
#include \"crema/registry.hpp\"

namespace crema {
${declarations}}  // namespace crema

extern \"C\" {
[[gnu::visibility(\"default\")]] extern const char crema_plugin_passport[];
const char crema_plugin_passport[] =
    \"crema plug-in passport\\n\" CREMA_PLUGIN_ABI \"\\n${NAME}\\n\"
    \"${digits}\";

[[gnu::visibility(\"default\")]] void crema_plugin_register(crema::Registry& registry);
void crema_plugin_register(crema::Registry& registry) {
${calls}}
}
" @ONLY)
