#include "crema/layer.hpp"

#include <utility>

#include "proto/layer.pb.h"

namespace crema {

Layer::Layer(const LayerInit& init)
    : name_(init.param.name()),
      type_(init.param.type()),
      param_(std::make_unique<const LayerParameter>(init.param)),
      context_(init.context),
      run_(init.run),
      phase_(init.phase),
      dtype_(init.dtype),
      activations_(init.activations),
      trains_(init.trains),
      arithmetic_(init.arithmetic) {}

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

ChannelAffine Layer::stored_affine() const {
  throw Error("type ", type_, " has no stored scale and shift");
}

void Layer::backward_cpu(Blobs, const std::vector<bool>&, Blobs) {
  throw Error("a ", type_,
              " layer has no gradient; keep it out of the path to the loss, or set "
              "propagate_down: false");
}

}  // namespace crema
