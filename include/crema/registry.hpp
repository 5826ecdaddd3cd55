// Registry: the layer types by name, and the engines of each type.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

using LayerFactory = std::function<std::unique_ptr<Layer>(const LayerInit&)>;

struct EngineEntry {
  std::string name;
  DeviceType device;
  std::unique_ptr<const Engine> engine;
};

/// Built once, at first use, from every room; read-only then, but for plug-ins, which must register
/// before nets are built.
class Registry {
 public:
  static Registry& instance();

  /// Error when the type exists already.
  void add(const std::string& type, LayerFactory factory);
  template <class L>
  void add(const std::string& type) {
    add(type, [](const LayerInit& init) { return std::make_unique<L>(init); });
  }
  /// Engines are tried in the order they were added.
  void add_engine(const std::string& type, EngineEntry entry);
  template <class E, class... Args>
  void add_engine(const std::string& type, const std::string& name, DeviceType device,
                  Args&&... args) {
    add_engine(type, {name, device, std::make_unique<const E>(std::forward<Args>(args)...)});
  }

  /// Error for an unknown type, with the nearest known name.
  std::unique_ptr<Layer> make(const LayerInit& init) const;
  /// The Error of make() for the unknown type of this layer.
  static Error unknown_type(const LayerParameter& param);
  bool has(const std::string& type) const { return factories_.count(type) != 0; }
  /// Engines of the type on that device, in order.
  std::vector<const EngineEntry*> engines(const std::string& type, DeviceType device) const;
  /// Error, with the nearest known name, unless some type has such an engine on that device.
  void require_engine(const std::string& name, DeviceType device) const;
  std::vector<std::string> types() const;

 private:
  Registry();
  std::map<std::string, LayerFactory> factories_;
  std::map<std::string, std::deque<EngineEntry>> engines_;  // options keep pointers to entries
};

}  // namespace crema
