#include "crema/layer.hpp"

#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {

BackwardReads Engine::backward_reads(const Layer& layer) const {
  return layer.reference_backward_reads();
}

InPlace Engine::in_place(const Layer& layer) const { return layer.reference_in_place(); }

Layer::Layer(const LayerParameter& param, Context& context)
    : name_(param.name()),
      type_(param.type()),
      context_(context),
      phase_(param.phase() == TEST ? Phase::test : Phase::train) {
  // Weights that a file carries are loaded by the net; a second copy of them here would only cost
  // memory.
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

std::vector<FormatOption> Layer::options(Blobs bottom, Blobs top) {
  const auto engines = Registry::instance().engines(type_, context_.device().type);
  const bool by_layer = !param_->engine().empty();
  const std::string& forced = by_layer ? param_->engine() : context_.engine();

  std::vector<FormatOption> found;
  std::vector<std::string> names = {"reference"};
  std::string why;
  bool known = forced.empty() || forced == "reference";
  for (size_t i = 0; i < engines.size() && forced != "reference"; ++i) {
    names.push_back(engines[i]->name);
    if (!forced.empty() && engines[i]->name != forced) continue;
    known = true;
    for (FormatOption option : engines[i]->make()->options(*this, bottom, top, why)) {
      option.engine = static_cast<int>(i);
      found.push_back(option);
    }
    if (found.empty() && !forced.empty()) {
      throw Error("engine '", forced, "' refuses this problem: ", why,
                  "; leave the choice of engine out, or take 'reference'");
    }
  }
  if (!known && by_layer) {
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "'" : ", '") + name + "'";
    throw Error("there is no engine '", forced, "' for ", type_, " on this device; there are ",
                list);
  }
  if (forced.empty() || forced == "reference" || !known) {
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
  if (!engine_) return "reference";
  const auto engines = Registry::instance().engines(type_, context_.device().type);
  return engines.at(static_cast<size_t>(engine_index_))->name;
}

bool Layer::falls_back_to_cpu() const { return context_.on_gpu() && !engine_; }

}  // namespace crema
