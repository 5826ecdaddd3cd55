// Plug-ins: shared libraries that bring layer types, with their settings, to a program that runs.
//
// A plug-in is built against an installed Crema by the CMake function crema_add_plugin, which
// writes its entry point. layers/README.md, "A layer as a plug-in", shows one.
//
// A program that loads plug-ins and links libcrema.a calls crema_plugin_host(TARGET) in its
// CMakeLists.txt: there is one copy of the registry and of each message, the program's, and
// plug-ins find it there. A program that links libcrema.so needs nothing.
#pragma once

#include <string>
#include <vector>

namespace crema {

struct Plugin {
  std::string name;                // as crema_add_plugin calls it
  std::string path;                // absolute, without links
  std::vector<std::string> types;  // the layer types that it brought
};

/// Loads a plug-in and registers its layer types. Its settings can be parsed from then on, as
/// `[package.field] { ... }` of a layer. Call it before nets are built, from one thread at a time
/// that uses Crema. A file that is loaded already is left as it is.
///
/// Error when the file is missing or no plug-in, was built against another Crema, declares a
/// message, a file of messages or a field number of another plug-in, needs symbols that the program
/// does not export, or registers a layer type that exists. But for the last two, the file is
/// refused before any of its code runs. A plug-in that fails in registering stays in memory, with
/// the types that it registered before the error. Plug-ins are never unloaded.
Plugin load_plugin(const std::string& path);

}  // namespace crema
