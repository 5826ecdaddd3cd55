#include "crema/layer.hpp"

#include <algorithm>

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

Layer::Layer(const LayerParameter& param, Context& context)
    : name_(param.name()),
      type_(param.type()),
      context_(context),
      phase_(param.phase() == TEST ? Phase::test : Phase::train) {
  // Weights that a file carries are for the net to load; another copy here would only cost memory.
  auto copy = std::make_unique<LayerParameter>();
  if (param.blobs_size() == 0) {
    *copy = param;
  } else {
    LayerParameter light = param;
    light.clear_blobs();
    *copy = std::move(light);
  }
  param_ = std::move(copy);
}

Layer::~Layer() = default;

void Layer::setup(Blobs, Blobs) {}

Parameter& Layer::add_param(const Shape& shape, Filler filler) {
  auto parameter = std::make_unique<Parameter>(shape, std::move(filler));
  parameter->data = Tensor(shape, dtype_);
  parameter->diff = Tensor(shape, dtype_);
  const int index = static_cast<int>(params_.size());
  if (index < param_->param_size()) {
    parameter->lr_mult = param_->param(index).lr_mult();
    parameter->decay_mult = param_->param(index).decay_mult();
  }
  params_.push_back(std::move(parameter));
  return *params_.back();
}

std::vector<FormatOption> Layer::reference_options(Blobs, Blobs) const { return {FormatOption{}}; }

std::string Layer::forced_engine(const std::vector<const EngineEntry*>& engines) const {
  const auto has = [&](const std::string& name) {
    return name.empty() || name == kReference ||
           std::any_of(engines.begin(), engines.end(),
                       [&](const EngineEntry* entry) { return entry->name == name; });
  };
  if (!param_->engine().empty()) {
    if (has(param_->engine())) return param_->engine();
    std::string list = concat("'", kReference, "'");
    for (const EngineEntry* entry : engines) list += concat(", '", entry->name, "'");
    throw Error("there is no engine '", param_->engine(), "' for ", type_,
                " on this device; there are ", list);
  }
  if (has(context_.engine())) return context_.engine();
  // Other layers may have it.
  Registry::instance().require_engine(context_.engine(), context_.device().type);
  return {};
}

std::vector<FormatOption> Layer::options(Blobs bottom, Blobs top) {
  const auto engines = Registry::instance().engines(type_, context_.device().type);
  const std::string forced = forced_engine(engines);

  std::vector<FormatOption> found;
  std::string why;
  for (size_t i = 0; i < engines.size() && forced != kReference; ++i) {
    if (!forced.empty() && engines[i]->name != forced) continue;
    for (FormatOption option : engines[i]->make()->options(*this, bottom, top, why)) {
      option.engine = static_cast<int>(i);
      found.push_back(option);
    }
    if (found.empty() && !forced.empty()) {
      throw Error("engine '", forced, "' refuses this problem: ", why,
                  "; leave the choice of engine out, or take 'reference'");
    }
  }
  if (forced.empty() || forced == kReference) {
    for (FormatOption option : reference_options(bottom, top)) {
      option.engine = -1;
      found.push_back(option);
    }
  }
  return found;
}

void Layer::prepare(const FormatOption& option, Blobs bottom, Blobs top) {
  if (option.engine != engine_index_ || (option.engine >= 0 && !engine_)) {
    engine_.reset();
    if (option.engine >= 0) {
      const auto engines = Registry::instance().engines(type_, context_.device().type);
      engine_ = engines.at(static_cast<size_t>(option.engine))->make();
    }
    engine_index_ = option.engine;
  }
  if (engine_) {
    engine_->prepare(*this, bottom, top);
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
  if (!engine_) return kReference;
  const auto engines = Registry::instance().engines(type_, context_.device().type);
  return engines.at(static_cast<size_t>(engine_index_))->name;
}

bool Layer::falls_back_to_cpu() const { return context_.on_gpu() && !engine_; }

}  // namespace crema
