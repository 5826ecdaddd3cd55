// Options and kernels of layers, of their engines and of the reference.
#include "crema/engine.hpp"

#include <algorithm>
#include <utility>

#include "core/decided_by.hpp"
#include "core/published_engine.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr const char* kReference = "reference";

/// Runs the functions of the layer itself. What these need is in the layer.
class ReferenceKernel : public Kernel {
 public:
  ReferenceKernel(Layer& layer, Blobs bottom, Blobs top) : Kernel(layer), layer_(layer) {
    layer_.prepare_reference(bottom, top);
  }
  void enter(Blobs bottom, Blobs top) override { layer_.prepare_reference(bottom, top); }
  size_t bytes() const override { return layer_.kept_bytes(); }
  void forward(Blobs bottom, Blobs top) override { layer_.forward_cpu(bottom, top); }
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    layer_.backward_cpu(top, propagate, bottom);
  }

 private:
  Layer& layer_;
};

/// The engine of the layer's type that its message or the context forces; "" if none.
std::string known_forced_engine(const Layer& layer,
                                const std::vector<const EngineEntry*>& engines) {
  std::vector<std::string> names = {kReference};
  for (const EngineEntry* entry : engines) names.push_back(entry->name);
  const auto has = [&](const std::string& name) {
    return name.empty() || std::ranges::find(names, name) != names.end();
  };
  const std::string& own = layer.param().engine();
  if (!own.empty() && has(own)) return own;
  if (!own_engine(layer.param()).empty())
    throw Error("there is no engine '", own, "' for ", layer.type(), " on this device",
                did_you_mean(own, names, "there are"));
  const Context& context = layer.context();
  if (has(context.engine())) return context.engine();
  // Other layers may have it.
  Registry::instance().require_engine(context.engine(), context.device().type);
  return {};
}

}  // namespace

BackwardReads Kernel::backward_reads() const { return layer_.reference_backward_reads(); }

InPlace Kernel::in_place() const { return layer_.reference_in_place(); }

Option uniform_option(Blobs bottom, Blobs top, DType dtype, Format from, Format to) {
  const auto layouts = [dtype](Blobs blobs, Format format) {
    std::vector<Layout> list;
    for (const Blob* blob : blobs) {
      list.push_back({dtype, blob->shape().rank() < 3 ? Format::contiguous : format});
    }
    return list;
  };
  return {.bottoms = layouts(bottom, from), .tops = layouts(top, to)};
}

std::vector<Option> options_of(const Layer& layer, Blobs bottom, Blobs top) {
  const auto engines = Registry::instance().engines(layer.type(), layer.context().device().type);
  const std::string forced = known_forced_engine(layer, engines);

  std::vector<Option> found;
  const auto add = [&](std::vector<Option> offered, const EngineEntry* entry) {
    for (Option& option : offered) {
      option.engine = entry;
      const DeviceType device = entry != nullptr ? entry->device : DeviceType::cpu;
      for (auto* layouts : {&option.bottoms, &option.tops}) {
        for (Layout& layout : *layouts) layout.device = device;
      }
      found.push_back(std::move(option));
    }
  };
  std::string why;
  for (const EngineEntry* entry : engines) {
    if (forced == kReference || (!forced.empty() && entry->name != forced)) continue;
    add(entry->engine->options(layer, bottom, top, why), entry);
    if (found.empty() && !forced.empty()) {
      throw Error(
          "engine '", forced, "' refuses this problem: ", why,
          own_engine(layer.param()).empty()
              ? "; it is forced on all layers, by --engine or ContextOptions::engine: leave "
                "that out, or use 'reference'"
              : "; remove the setting of the engine, or use 'reference'");
    }
  }
  if (forced.empty() || forced == kReference) add(layer.reference_options(bottom, top), nullptr);
  return found;
}

bool accepts_tail(const Layer& layer, const Tail& tail) {
  const auto engines = Registry::instance().engines(layer.type(), layer.context().device().type);
  return layer.accepts(tail) && std::ranges::all_of(engines, [&](const EngineEntry* entry) {
           return entry->engine->accepts(layer, tail);
         });
}

std::unique_ptr<Kernel> make_kernel(Layer& layer, const Option& option, Blobs bottom, Blobs top) {
  if (option.engine != nullptr) return option.engine->engine->make(layer, option, bottom, top);
  return std::make_unique<ReferenceKernel>(layer, bottom, top);
}

std::string engine_name(const Option& option) {
  // One that tunes is not shown as tuned where it had no times.
  for (const DecidedBy by : {DecidedBy::order, DecidedBy::model}) {
    const std::string_view mark = mark_of(by);
    const auto is_marked = [&](const std::string& choice) { return choice.starts_with(mark); };
    if (std::ranges::any_of(option.choice, is_marked))
      return std::string(mark.substr(0, mark.find(':')));
  }
  return option.engine != nullptr ? option.engine->name : kReference;
}

}  // namespace crema
