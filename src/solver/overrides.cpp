#include "solver/overrides.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/published_types.hpp"
#include "crema/error.hpp"
#include "model/set_value.hpp"
#include "model/state_rules.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

/// Calls body, and tells an Error as one of the text.
template <class Body>
decltype(auto) in_text(const std::string& text, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error("setting '", text, "': ", error.message());
  }
}

std::string line_of(const std::string& text, const std::string& before) {
  const std::string value = text.substr(text.find('=') + 1);
  if (value == before) return crema::text(text, ", as it is in the file");
  return crema::text(text, " in place of ", before);
}

/// The field that says the same as this one in other units, as max_iter does of max_epochs; "" for
/// others.
std::string other_of(const std::string& field) {
  for (const auto& [one, two] : {std::pair{"max_iter", "max_epochs"},
                                 {"test_interval", "test_every_epochs"},
                                 {"stepvalue", "stepvalue_percent"}}) {
    if (field == one) return two;
    if (field == two) return one;
  }
  return "";
}

/// Removes that field. Returns its name, or "" where there is none.
std::string remove_other(SolverParameter& solver, const std::string& field) {
  const std::string name = other_of(field);
  if (name.empty()) return "";
  const FieldDescriptor* other = solver.GetDescriptor()->FindFieldByName(name);
  const auto* reflection = solver.GetReflection();
  const bool has = other->is_repeated() ? reflection->FieldSize(solver, other) > 0
                                        : reflection->HasField(solver, other);
  if (!has) return "";
  reflection->ClearField(&solver, other);
  return name;
}

/// The settings that layers of the type read, as fields of the layer, the most general first: those
/// of data and losses in general have taken the place of old ones of single types.
std::vector<const FieldDescriptor*> settings_of(const LayerParameter& layer) {
  const Descriptor& type = *layer.GetDescriptor();
  std::vector<const FieldDescriptor*> general, own;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->message_type() == nullptr || field->is_repeated()) continue;
    const bool is_general = field->name() == "transform_param" || field->name() == "loss_param";
    if (reads_settings(layer.type(), field->name())) (is_general ? general : own).push_back(field);
  }
  general.insert(general.end(), own.begin(), own.end());
  return general;
}

/// Sets a field of the layer, or of its settings. Returns what it was.
std::string set_in_layer(LayerParameter& layer, std::string_view path, const std::string& value) {
  const std::string name = first_step(path);
  if (layer.GetDescriptor()->FindFieldByName(name) != nullptr) return set_value(layer, path, value);
  std::vector<std::string> known;
  for (const FieldDescriptor* settings : settings_of(layer)) {
    const Descriptor& type = *settings->message_type();
    if (type.FindFieldByName(name) != nullptr)
      return set_value(*layer.GetReflection()->MutableMessage(&layer, settings), path, value);
    for (int i = 0; i < type.field_count(); ++i) known.emplace_back(type.field(i)->name());
  }
  for (int i = 0; i < layer.GetDescriptor()->field_count(); ++i)
    known.emplace_back(layer.GetDescriptor()->field(i)->name());
  throw Error("layer '", layer.name(), "' (", layer.type(), ") has no field '", name, "'",
              did_you_mean(name, known));
}

/// "; its layers are a, b, c, ..." of the first of them.
std::string list_of(std::vector<std::string> layers) {
  constexpr size_t kMost = 12;
  // Layers of several nets, in their order.
  std::set<std::string> seen;
  std::erase_if(layers, [&](const std::string& name) { return !seen.insert(name).second; });
  if (layers.empty()) return "";
  const bool is_cut = layers.size() > kMost;
  if (is_cut) layers.resize(kMost);
  return text("; its layers are ", joined(layers), is_cut ? ", ..." : "");
}

/// The name of a layer with which the path begins: the longest one, since names may have dots.
std::string layer_in(const std::string& path, const NetParameter& net) {
  std::string found;
  for (const LayerParameter& layer : net.layer()) {
    const std::string& name = layer.name();
    if (name.size() > found.size() && path.starts_with(name + ".")) found = name;
  }
  return found;
}

}  // namespace

Overrides::Overrides(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error("setting '", text,
                  "' has no value; write it as FIELD=VALUE, such as base_lr=0.01");
    One one{text, text.substr(0, equals), text.substr(equals + 1), Of::solver, false, {}};
    for (const auto& [begin, of] : {std::pair{"net.", Of::nets},
                                    {"train_net.", Of::train_net},
                                    {"test_net.", Of::test_net}}) {
      if (!one.path.starts_with(begin)) continue;
      one.path.erase(0, std::string_view(begin).size());
      one.of = of;
      break;
    }
    all_.push_back(std::move(one));
  }
}

bool Overrides::change_nets() const {
  return std::ranges::any_of(all_, [](const One& one) { return one.of != Of::solver; });
}

std::vector<std::string> Overrides::undone() const {
  std::vector<std::string> found;
  for (size_t i = 0; i < all_.size(); ++i) {
    const std::string other = all_[i].of == Of::solver ? other_of(first_step(all_[i].path)) : "";
    if (other.empty()) continue;
    for (size_t k = 0; k < i; ++k) {
      if (all_[k].of == Of::solver && first_step(all_[k].path) == other)
        found.push_back(text("setting '", all_[i].text, "' undoes the setting '", all_[k].text,
                             "' before it; give one of them"));
    }
  }
  return found;
}

std::vector<std::string> Overrides::apply(SolverParameter& solver, SourceMap& source) const {
  std::vector<std::string> lines;
  for (const One& one : all_) {
    if (one.of != Of::solver) continue;
    std::string before = in_text(one.text, [&] { return set_value(solver, one.path, one.value); });
    const std::string other = remove_other(solver, first_step(one.path));
    if (!other.empty()) before = other;
    lines.push_back(line_of(one.text, before));
    source.set_elsewhere(one.path, "setting " + one.text);
  }
  return lines;
}

std::vector<std::string> Overrides::apply(NetParameter& net, SourceMap& source,
                                          NetOptions options) {
  const bool trains = options.phase == Phase::train;
  merge_state(net, options);
  std::vector<std::string> lines;
  for (One& one : all_) {
    if (one.of == Of::solver || one.of == (trains ? Of::test_net : Of::train_net)) continue;
    if (net.layers_size() > 0)
      throw Error("setting '", one.text,
                  "': the net is in an old form, whose layers cannot be set; `crema "
                  "upgrade-net-proto-text OLD NEW` writes the current one");
    const std::string name = layer_in(one.path, net);
    const std::string rest = name.empty() ? "" : one.path.substr(name.size() + 1);
    std::vector<std::string> before;
    for (int i = 0; i < net.layer_size(); ++i) {
      LayerParameter& layer = *net.mutable_layer(i);
      if (!layer.name().empty()) one.known.push_back(layer.name());
      if (name.empty() || layer.name() != name || !in_state(layer, options)) continue;
      before.push_back(in_text(one.text, [&] { return set_in_layer(layer, rest, one.value); }));
      const std::string place = text("layer[", i, "]");
      source.set_elsewhere(place, text(source.position(place).str(), ", setting ", one.text));
    }
    const std::string field = first_step(one.path);
    if (before.empty() && net.GetDescriptor()->FindFieldByName(field) != nullptr) {
      before.push_back(in_text(one.text, [&] { return set_value(net, one.path, one.value); }));
    }
    if (before.empty()) continue;
    before.erase(std::unique(before.begin(), before.end()), before.end());
    lines.push_back(line_of(one.text, joined(before, " and ")));
    one.found = true;
  }
  return lines;
}

void Overrides::check_found() const {
  for (const One& one : all_) {
    if (one.of == Of::solver || one.found) continue;
    const std::string name = one.path.substr(0, one.path.rfind('.'));
    const bool is_layer = std::ranges::count(one.known, one.path) > 0;
    if (is_layer)
      throw Error("setting '", one.text, "' names no field of the layer; write it as ",
                  one.text.substr(0, one.text.find('=')), ".FIELD=VALUE");
    for (const std::string& layer : one.known) {
      if (one.path.starts_with(layer + "."))
        throw Error("setting '", one.text, "' has no effect: the rules of layer '", layer,
                    "' leave it out of ",
                    one.of == Of::nets        ? "all nets of the solver"
                    : one.of == Of::train_net ? "the training net"
                                              : "the test nets",
                    "; remove the setting, or name another net (net., train_net., test_net.)");
    }
    std::string near = did_you_mean(name, one.known);
    if (near.empty()) near = did_you_mean(first_step(one.path), one.known);
    throw Error("setting '", one.text, "': the net has no layer '", first_step(one.path), "'",
                near.empty() ? list_of(one.known) : near);
  }
}

}  // namespace crema
