#include "crema/layer.hpp"

#include <algorithm>
#include <utility>

#include "core/published_engine.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr const char* kReference = "reference";

}  // namespace

BackwardReads Engine::backward_reads(const Layer& layer) const {
  return layer.reference_backward_reads();
}

InPlace Engine::in_place(const Layer& layer) const { return layer.reference_in_place(); }

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

Layer::Layer(const LayerInit& init)
    : name_(init.param.name()),
      type_(init.param.type()),
      param_(std::make_unique<const LayerParameter>(init.param)),
      context_(init.context),
      run_(init.run),
      phase_(init.phase),
      dtype_(init.dtype),
      activations_(init.activations),
      trains_(init.trains) {}

Layer::~Layer() = default;

Parameter& Layer::add_param(const Shape& shape, Filler filler) {
  auto parameter = std::make_unique<Parameter>(shape, std::move(filler));
  parameter->attach(
      std::make_shared<ParameterStorage>(Tensor(shape, dtype_), Tensor(shape, dtype_)));
  const int index = static_cast<int>(params_.size());
  if (index < param_->param_size()) {
    parameter->lr_mult = param_->param(index).lr_mult();
    parameter->decay_mult = param_->param(index).decay_mult();
  }
  params_.push_back(std::move(parameter));
  return *params_.back();
}

std::vector<Option> Layer::reference_options(Blobs bottom, Blobs top) const {
  return {uniform_option(bottom, top, dtype_)};
}

std::string Layer::forced_engine(const std::vector<const EngineEntry*>& engines) const {
  std::vector<std::string> names = {kReference};
  for (const EngineEntry* entry : engines) names.push_back(entry->name);
  const auto has = [&](const std::string& name) {
    return name.empty() || std::ranges::find(names, name) != names.end();
  };
  const std::string& own = param_->engine();
  if (!own.empty() && has(own)) return own;
  if (!own_engine(*param_).empty())
    throw Error("there is no engine '", own, "' for ", type_, " on this device",
                did_you_mean(own, names, "there are"));
  if (has(context_.engine())) return context_.engine();
  // Other layers may have it.
  Registry::instance().require_engine(context_.engine(), context_.device().type);
  return {};
}

std::vector<Option> Layer::options(const Wanted& wanted, Blobs bottom, Blobs top) {
  wanted_ = wanted;
  const auto engines = Registry::instance().engines(type_, context_.device().type);
  const std::string forced = forced_engine(engines);

  std::vector<Option> found;
  const auto add = [&](std::vector<Option> offered, const EngineEntry* engine) {
    for (Option& option : offered) {
      option.engine = engine;
      const DeviceType device = engine != nullptr ? engine->device : DeviceType::cpu;
      for (auto* layouts : {&option.bottoms, &option.tops}) {
        for (Layout& layout : *layouts) layout.device = device;
      }
      found.push_back(std::move(option));
    }
  };
  std::string why;
  for (const EngineEntry* engine : engines) {
    if (forced == kReference || (!forced.empty() && engine->name != forced)) continue;
    add(engine->make()->options(*this, bottom, top, why), engine);
    if (found.empty() && !forced.empty()) {
      throw Error(
          "engine '", forced, "' refuses this problem: ", why,
          own_engine(param()).empty()
              ? "; it is forced on all layers, by --engine or ContextOptions::engine: leave "
                "that out, or use 'reference'"
              : "; remove the setting of the engine, or use 'reference'");
    }
  }
  if (forced.empty() || forced == kReference) add(reference_options(bottom, top), nullptr);
  return found;
}

void Layer::prepare(const Option& option, Blobs bottom, Blobs top) {
  if (option.engine != engine_entry_) {
    engine_ = option.engine != nullptr ? option.engine->make() : nullptr;
    engine_entry_ = option.engine;
  }
  if (engine_) {
    engine_->prepare(*this, option, bottom, top);
  } else {
    prepare_reference(bottom, top);
  }
}

Layer::Prepared Layer::suspend() {
  return {std::move(engine_), std::exchange(engine_entry_, nullptr), wanted_};
}

void Layer::resume(Prepared prepared, Blobs bottom, Blobs top) {
  engine_ = std::move(prepared.engine);
  engine_entry_ = prepared.entry;
  wanted_ = std::move(prepared.wanted);
  if (engine_) {
    engine_->resume(*this, bottom, top);
  } else {
    prepare_reference(bottom, top);
  }
}

void Layer::forward(Blobs bottom, Blobs top) {
  if (engine_) {
    engine_->forward(*this, bottom, top);
  } else {
    forward_cpu(bottom, top);
  }
}

void Layer::backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (engine_) {
    engine_->backward(*this, top, propagate, bottom);
  } else {
    backward_cpu(top, propagate, bottom);
  }
}

ChannelAffine Layer::stored_affine() const {
  throw Error("type ", type_, " has no stored scale and shift");
}

void Layer::backward_cpu(Blobs, const std::vector<bool>&, Blobs) {
  throw Error("a ", type_,
              " layer has no gradient; keep it out of the path to the loss, or set "
              "propagate_down: false");
}

BackwardReads Layer::backward_reads() const {
  return engine_ ? engine_->backward_reads(*this) : reference_backward_reads();
}

InPlace Layer::in_place() const {
  return engine_ ? engine_->in_place(*this) : reference_in_place();
}

std::string Layer::engine_name() const {
  return engine_entry_ != nullptr ? engine_entry_->name : kReference;
}

bool Layer::falls_back_to_cpu() const { return context_.on_gpu() && !engine_; }

}  // namespace crema
