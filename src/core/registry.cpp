#include "crema/registry.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/device.hpp"
#include "core/published_types.hpp"
#include "proto/layer.pb.h"

namespace crema {

/// Calls every room's registration; written by the build, see scripts/cmake/rooms.cmake.
void register_all_rooms(Registry& registry);

namespace {

/// What a layer of an unknown type may have meant.
std::string advice_for(const std::string& type) {
  const std::vector<std::string> types = Registry::instance().types();
  // Only case and separators differ: no nearer name is meant.
  const std::string wanted = bare_name(type);
  const auto same = std::ranges::find(types, wanted, bare_name);
  if (!wanted.empty() && same != types.end()) return text("; did you mean '", *same, "'?");
  return published_type(type) ? " yet" : did_you_mean(type, types);
}

}  // namespace

Registry::Registry() {
  register_all_rooms(*this);
  register_device_engines(*this);
}

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

void Registry::add(const std::string& type, LayerFactory factory) {
  if (type.empty()) throw Error("a layer type needs a name to be registered");
  if (!factories_.emplace(type, std::move(factory)).second)
    throw Error("layer type '", type, "' is registered already; give the new one another name");
}

void Registry::add_engine(const std::string& type, EngineEntry entry) {
  auto& entries = engines_[type];
  for (const EngineEntry& known : entries) {
    if (known.name == entry.name && known.device == entry.device)
      throw Error("engine '", entry.name, "' of layer type '", type,
                  "' is registered already; give the new one another name");
  }
  entries.push_back(std::move(entry));
}

Error Registry::unknown_type(const LayerParameter& param) {
  const std::string& type = param.type();
  std::string advice = advice_for(type);
  if (!type.empty() && advice.empty()) {
    advice = "; if a plug-in brings it, load that with --plugin=FILE or crema::load_plugin()";
  }
  Error error(type.empty() ? "the layer has no type; add type: \"...\""
                           : text("there is no layer type '", type, "'"),
              advice);
  return error.in_layer(param.name(), type);
}

std::unique_ptr<Layer> Registry::make(const LayerInit& init) const {
  const auto known = factories_.find(init.param.type());
  if (known == factories_.end()) throw unknown_type(init.param);
  return known->second(init);
}

std::vector<const EngineEntry*> Registry::engines(const std::string& type,
                                                  DeviceType device) const {
  std::vector<const EngineEntry*> result;
  const auto known = engines_.find(type);
  if (known == engines_.end()) return result;
  for (const EngineEntry& entry : known->second) {
    if (entry.device == device) result.push_back(&entry);
  }
  // The passes that each device runs come behind the libraries of a type.
  std::stable_partition(result.begin(), result.end(),
                        [](const EngineEntry* entry) { return entry->name != "cuda"; });
  return result;
}

void Registry::require_engine(const std::string& name, DeviceType device) const {
  std::set<std::string> known = {"reference"};
  for (const auto& [type, entries] : engines_) {
    for (const EngineEntry& entry : entries) {
      if (entry.device == device) known.insert(entry.name);
    }
  }
  if (known.count(name) > 0) return;
  throw Error("no layer has an engine '", name, "' on this device",
              did_you_mean(name, {known.begin(), known.end()}, "there are"));
}

std::vector<std::string> Registry::types() const {
  std::vector<std::string> names;
  for (const auto& entry : factories_) names.push_back(entry.first);
  return names;
}

}  // namespace crema
