#include "solver/batch_halving.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/carried_state.hpp"
#include "core/published_types.hpp"
#include "data/batches/sampled_layer.hpp"
#include "model/state_rules.hpp"
#include "net/batches.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The settings of a data layer that have its batch_size, and that field; null without.
std::pair<Message*, const FieldDescriptor*> batch_setting(LayerParameter& layer) {
  std::vector<const FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() == nullptr || field->is_repeated()) continue;
    const FieldDescriptor* size = field->message_type()->FindFieldByName("batch_size");
    if (size == nullptr || size->cpp_type() != FieldDescriptor::CPPTYPE_UINT32) continue;
    if (!reads_settings(layer.type(), field->name())) continue;
    return {layer.GetReflection()->MutableMessage(&layer, field), size};
  }
  return {nullptr, nullptr};
}

/// "'data' from 64 to 32".
std::string halved(const std::string& layer, int64_t size) {
  return text("'", layer, "' from ", size, " to ", size / 2);
}

int64_t half_of(const std::string& layer, int64_t size) {
  if (size % 2 != 0)
    throw Error("the batch of layer '", layer, "' has ", size,
                " records, an odd number, and cannot be halved");
  return size / 2;
}

int64_t part_of(const std::string& layer, int64_t size, int64_t parts) {
  if (size % parts != 0)
    throw Error("the batch of layer '", layer, "' has ", size, " records, which ", parts,
                " processes cannot share evenly");
  return size / parts;
}

/// Sets batch_size of all data layers by change(layer, size). `done`: "halved".
template <class Change>
std::string change_batches(NetParameter& net, NetOptions options, const char* done,
                           const Change& change) {
  if (net.layers_size() > 0)
    throw Error("the net is in an old form, whose batches cannot be ", done,
                "; `crema upgrade-net-proto-text OLD NEW` writes the current one");
  merge_state(net, options);
  std::vector<std::string> changes;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.bottom_size() > 0 || !in_state(layer, options)) continue;
    const auto [settings, field] = batch_setting(layer);
    if (settings == nullptr)
      throw Error("the batch of layer '", layer.name(), "' (", layer.type(), ") cannot be ", done,
                  ": it reads no records by a batch_size");
    const int64_t size = settings->GetReflection()->GetUInt32(*settings, field);
    const int64_t changed = change(layer.name(), size);
    settings->GetReflection()->SetUInt32(settings, field, static_cast<uint32_t>(changed));
    changes.push_back(text("'", layer.name(), "' from ", size, " to ", changed));
  }
  return joined(changes);
}

}  // namespace

std::string halve_batches(NetParameter& net, NetOptions options) {
  return change_batches(net, std::move(options), "halved", half_of);
}

std::string divide_batches(NetParameter& net, NetOptions options, int64_t parts) {
  return change_batches(
      net, std::move(options), "divided",
      [&](const std::string& layer, int64_t size) { return part_of(layer, size, parts); });
}

std::vector<SampledLayer*> resizable_sources(Net& net) {
  std::vector<SampledLayer*> sources;
  const auto refuse = [](const Layer& layer, const char* why) {
    throw Error("the batch of layer '", layer.name(), "' (", layer.type(),
                ") cannot have another size: ", why);
  };
  for (Layer* layer : net.layers()) {
    CarriesState* const state = layer->carries_state();
    if (state != nullptr && state->carries() && state->is_of_batch())
      refuse(*layer, "it carries a state of each sample to the next batch");
    if (!layer->is_source()) continue;
    auto* const source = dynamic_cast<SampledLayer*>(layer);
    if (source == nullptr) refuse(*layer, "it reads no records by a batch_size");
    if (!source->set_batch_size(source->records_per_batch()))
      refuse(*layer, "it makes batches of one size alone, as with mixed samples");
    sources.push_back(source);
  }
  if (sources.empty()) throw Error("the net has no data layer whose batch could have another size");
  return sources;
}

std::string halve_batches(Net& net) {
  const std::vector<SampledLayer*> sources = resizable_sources(net);
  std::vector<std::string> done;
  for (const SampledLayer* source : sources) {
    half_of(source->name(), source->records_per_batch());
    done.push_back(halved(source->name(), source->records_per_batch()));
  }
  for (SampledLayer* source : sources) source->set_batch_size(source->records_per_batch() / 2);
  plan_next_batches(net);
  return joined(done);
}

std::string effect_of_halving(const Net& net) {
  const auto takes_means = [](const Layer* layer) { return layer->type() == "BatchNorm"; };
  if (std::ranges::none_of(net.layers(), takes_means)) return "";
  return "; BatchNorm takes its means over half as many samples now, so that the run is another "
         "one "
         "than with the whole batch";
}

}  // namespace crema
