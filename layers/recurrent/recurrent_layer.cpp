// The layer but for its passes, which are recurrent_steps.cpp: settings, parameters, shapes,
// memory.
#include "layers/recurrent/recurrent_layer.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Multiply-adds of a step that all threads share.
constexpr int64_t kLeastShared = 1 << 20;

}  // namespace

void find_masked_steps(const Tensor& factors, std::vector<bool>& masked) {
  const int64_t batch = factors.shape()[1];
  masked.assign(static_cast<size_t>(factors.shape()[0]), true);
  dispatch_float(factors.dtype(), [&]<class T>(T) {
    const T* values = factors.read<T>();
    for (int64_t i = 0; i < factors.count(); ++i) {
      if (!(values[i] >= 0 && values[i] <= 1))
        throw Error("the indicator ", values[i], " of step ", i / batch, ", sequence ", i % batch,
                    " is outside [0, 1]; give 0 where a sequence begins, and 1 elsewhere");
      if (values[i] != 0) masked[static_cast<size_t>(i / batch)] = false;
    }
  });
}

RecurrentLayer::RecurrentLayer(const LayerInit& init, int64_t blocks, int states, Reset reset)
    : TwoSidedLayer(init),
      blocks_(blocks),
      states_(states),
      reset_(reset),
      carried_(static_cast<size_t>(states)) {
  const RecurrentParameter& settings = init.param.recurrent_param();
  exposes_ = settings.expose_hidden();
  directions_.resize(settings.bidirectional() ? 2 : 1);
  directions_.back().reverse = settings.bidirectional();
  if (settings.has_linear_before_reset() && reset == Reset::none)
    throw Error("linear_before_reset is a setting of GRU; remove it");
  units_ = settings.num_output();
  if (units_ == 0)
    throw Error("num_output is missing or 0; say recurrent_param { num_output: N } with N > 0");
  if (settings.debug_info())
    init.context.log(Severity::info, text("layer '", init.param.name(),
                                          "': debug_info has no effect; there is no unrolled "
                                          "net whose blobs could be shown"));
}

ProductSizes RecurrentLayer::product_sizes(int k) const {
  if (reset_ != Reset::before_product) return {batch_, width(), units_};
  return {batch_, k == 0 ? 2 * units_ : units_, units_};
}

bool RecurrentLayer::directions_side_by_side() const {
  return directions_.size() == 2 &&
         (omp_get_max_threads() <= 2 || batch_ * width() * units_ < kLeastShared);
}

Arity RecurrentLayer::arity() const {
  const int exposed = exposes_ ? states_ : 0;
  return {.min_bottoms = 2 + exposed,
          .max_bottoms = 3 + exposed,
          .min_tops = 1 + exposed,
          .max_tops = 1 + exposed};
}

void RecurrentLayer::setup(Blobs bottom, Blobs) {
  const auto inputs_of = [](const Blob& blob, int axis) {
    if (blob.shape().rank() < axis)
      throw Error("the bottom '", blob.name, "' (", blob.shape().str(), ") needs ",
                  axis == 2 ? "the axes (steps, sequences, ...)" : "an axis of the sequences");
    const int64_t count = blob.shape().count(axis);
    if (count == 0)
      throw Error("the bottom '", blob.name, "' (", blob.shape().str(),
                  ") has no values behind axis ", axis - 1, "; there is nothing to multiply");
    return count;
  };
  has_static_ = bottom.size() == 3 + (exposes_ ? static_cast<size_t>(states_) : 0);
  inputs_ = inputs_of(*bottom[0], 2);
  if (has_static_) static_inputs_ = inputs_of(*bottom[2], 1);
  const RecurrentParameter& settings = param().recurrent_param();
  const Filler weights(settings.weight_filler()), bias(settings.bias_filler());
  for (Direction& direction : directions_) {
    direction.input_weights = &add_param(Shape{width(), inputs_}, weights);
    direction.bias = &add_param(Shape{width()}, bias);
    if (has_static_) direction.static_weights = &add_param(Shape{width(), static_inputs_}, weights);
    direction.recurrent_weights = &add_param(Shape{width(), units_}, weights);
    if (reset_ == Reset::after_product) direction.recurrent_bias = &add_param(Shape{units_}, bias);
    add_output_params(weights, bias);
  }
}

void RecurrentLayer::reshape(Blobs bottom, Blobs top) {
  const auto check = [](const Blob& blob, bool fits, const std::string& needed) {
    if (!fits)
      throw Error("the bottom '", blob.name, "' (", blob.shape().str(), ") has to be ", needed);
  };
  const Shape& x = bottom[0]->shape();
  check(*bottom[0], x.rank() >= 2 && x.count(2) == inputs_,
        text("(steps, sequences, ...) with ", inputs_, " values a step, as the weights are"));
  steps_ = x[0];
  batch_ = x[1];
  const std::string as = text(" for the input '", bottom[0]->name, "' (", x.str(), ")");
  const Shape cont{steps_, batch_};
  check(*bottom[1], bottom[1]->shape() == cont,
        text(cont.str(), ", one indicator for each step and sequence,", as));
  if (has_static_) {
    const Shape& fixed = bottom[2]->shape();
    check(*bottom[2], fixed.rank() >= 1 && fixed[0] == batch_ && fixed.count(1) == static_inputs_,
          text("(", batch_, ", ...) with ", static_inputs_, " values a sequence", as));
  }
  const Shape state{directions(), batch_, units_};
  for (size_t i = 2 + (has_static_ ? 1 : 0); i < bottom.size(); ++i) {
    check(*bottom[i], bottom[i]->shape() == state,
          text(state.str(), ", a first state for each ",
               directions() == 2 ? "direction and sequence," : "sequence,", as));
  }
  top[0]->reshape(Shape{steps_, batch_, directions() * units_});
  for (size_t i = 1; i < top.size(); ++i) top[i]->reshape(state);
}

void RecurrentLayer::prepare_reference(Blobs, Blobs) {
  const auto need = [&](Tensor& tensor, bool wanted, Shape shape) {
    tensor.set_layout(dtype(), Format::contiguous);
    tensor.reshape(wanted ? shape : Shape{0});
  };
  const Shape row{batch_, units_}, all{steps_, batch_, units_};
  const bool is_gru = reset_ != Reset::none, two_products = reset_ == Reset::before_product;
  for (Direction& d : directions_) {
    need(d.gates, true, {steps_, batch_, width()});
    need(d.hidden, true, {steps_ + 1, batch_, units_});
    need(d.cells, states_ == 2, {steps_ + 1, batch_, units_});
    need(d.of_state, two_products || (is_gru && trains()), all);
    need(d.of_sequence, has_static_, {batch_, width()});
    need(d.more_sums, true, {batch_, width()});
    need(d.sum_diffs, trains(), {steps_, batch_, width()});
    need(d.recurrent_diffs, is_gru && trains(), {steps_, batch_, product_sizes(0).rows});
    need(d.candidate_diffs, two_products && trains(), all);
    need(d.next_hidden_diff, trains(), row);
    need(d.kept_diff, trains() && (states_ == 2 || is_gru), row);
  }
}

size_t RecurrentLayer::kept_bytes() const {
  size_t bytes = 0;
  for (const Tensor& tensor : carried_) bytes += tensor.bytes();
  for (const Direction& direction : directions_) {
    direction.each_tensor([&](const Tensor& tensor) { bytes += tensor.bytes(); });
  }
  return bytes;
}

std::optional<LibraryCell> RecurrentLayer::library_cell() const {
  if (reset_ == Reset::before_product) return std::nullopt;
  if (reset_ == Reset::after_product) return LibraryCell::gru;
  return states_ == 2 ? LibraryCell::lstm : LibraryCell::tanh;
}

Parameter* RecurrentLayer::parameter(SpaceParam which, int direction) const {
  const Direction& of = directions_[static_cast<size_t>(direction)];
  switch (which) {
    case SpaceParam::input_weights:
      return of.input_weights;
    case SpaceParam::recurrent_weights:
      return of.recurrent_weights;
    case SpaceParam::bias:
      return of.bias;
    case SpaceParam::recurrent_bias:
      return of.recurrent_bias;
    case SpaceParam::none:
      return nullptr;
  }
  return nullptr;
}

Flops RecurrentLayer::flops(Blobs, Blobs) const {
  const auto units = static_cast<double>(units_), number = static_cast<double>(directions());
  const double sums = 2 * number * static_cast<double>(batch_ * width());
  const auto steps = static_cast<double>(steps_);
  const double of_input = sums * steps * static_cast<double>(inputs_);
  const double outputs =
      has_outputs() ? 2 * number * steps * static_cast<double>(batch_) * units * units : 0;
  const double others = sums * (steps * units + static_cast<double>(static_inputs_)) + outputs;
  return {of_input + others, (propagates(0) ? 2 : 1) * of_input + 2 * others};
}

BackwardReads RecurrentLayer::reference_backward_reads() const {
  bool x = false, fixed = false;
  for (const Direction& direction : directions_) {
    x = x || direction.input_weights->needs_gradient;
    fixed = fixed || (has_static_ && direction.static_weights->needs_gradient);
  }
  BackwardReads reads{.bottom_data = {1}, .top_data = {}};
  if (x) reads.bottom_data = {0, 1};
  if (fixed) reads.bottom_data = {1, 2};
  if (x && fixed) reads.bottom_data = {0, 1, 2};
  if (has_outputs() && directions() == 1) reads.top_data = {0};
  return reads;
}

std::vector<Tensor> RecurrentLayer::carried() const {
  std::vector<Tensor> copies;
  for (const Tensor& state : carried_) {
    if (state.shape().rank() == 2) copies.push_back(state.to(dtype(), Format::contiguous));
  }
  return copies;
}

void RecurrentLayer::carry(const std::vector<Tensor>& state) {
  std::vector<Tensor> taken(carried_.size());
  for (size_t i = 0; i < state.size(); ++i) {
    const Shape& shape = state[i].shape();
    if (state.size() != taken.size() || shape.rank() != 2 || shape[1] != units_)
      throw Error("a state of shape ", shape.str(), " is not one of the ", states_,
                  " states (sequences, ", units_, ") of layer '", name(), "'");
    taken[i] = state[i].to(dtype(), Format::contiguous);
  }
  carried_ = std::move(taken);
}

}  // namespace crema
