#include "layers/recurrent/recurrent_layer.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "kit/passes.hpp"
#include "layers/recurrent/recurrent_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// to = from * factor of its row
template <class T>
struct Masked {
  int64_t units;
  const T* factor;
  const T* from;
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    to[i] = cells::masked(factor, i / units, from, i, NumberAccess<T>());
  }
};

}  // namespace

std::vector<bool> masked_steps(const Tensor& factors) {
  const int64_t batch = factors.shape()[1];
  std::vector<bool> masked(static_cast<size_t>(factors.shape()[0]), true);
  dispatch_float(factors.dtype(), [&]<class T>(T) {
    const T* values = factors.host<T>();
    for (int64_t i = 0; i < factors.count(); ++i) {
      if (!(values[i] >= 0 && values[i] <= 1))
        throw Error("the indicator ", values[i], " of step ", i / batch, ", sequence ", i % batch,
                    " is outside [0, 1]; give 0 where a sequence begins, and 1 elsewhere");
      if (values[i] != 0) masked[static_cast<size_t>(i / batch)] = false;
    }
  });
  return masked;
}

RecurrentLayer::RecurrentLayer(const LayerInit& init, int64_t blocks, int states)
    : TwoSidedLayer(init), blocks_(blocks), states_(states), carried_(static_cast<size_t>(states)) {
  const RecurrentParameter& settings = init.param.recurrent_param();
  exposes_ = settings.expose_hidden();
  if (settings.bidirectional())
    throw Error("bidirectional is not there yet; put a Reverse layer before and behind a second ",
                "layer, and join both with Concat");
  if (settings.has_linear_before_reset())
    throw Error("linear_before_reset is a setting of GRU; remove it");
  units_ = settings.num_output();
  if (units_ == 0)
    throw Error("num_output is missing or 0; say recurrent_param { num_output: N } with N > 0");
  if (settings.debug_info())
    init.context.log(Severity::info, concat("layer '", init.param.name(),
                                            "': debug_info has no effect; there is no unrolled "
                                            "net whose blobs could be shown"));
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
  const RecurrentParameter& settings = param().recurrent_param();
  const Filler weights(settings.weight_filler()), bias(settings.bias_filler());
  input_weights_ = &add_param(Shape{width(), inputs_}, weights);
  bias_ = &add_param(Shape{width()}, bias);
  if (has_static_) {
    static_inputs_ = inputs_of(*bottom[2], 1);
    static_weights_ = &add_param(Shape{width(), static_inputs_}, weights);
  }
  recurrent_weights_ = &add_param(Shape{width(), units_}, weights);
  add_output_params(weights, bias);
}

void RecurrentLayer::reshape(Blobs bottom, Blobs top) {
  const auto check = [](const Blob& blob, bool fits, const std::string& needed) {
    if (!fits)
      throw Error("the bottom '", blob.name, "' (", blob.shape().str(), ") has to be ", needed);
  };
  const Shape& x = bottom[0]->shape();
  check(*bottom[0], x.rank() >= 2 && x.count(2) == inputs_,
        concat("(steps, sequences, ...) with ", inputs_, " values a step, as the weights are"));
  steps_ = x[0];
  batch_ = x[1];
  const std::string as = concat(" for the input '", bottom[0]->name, "' (", x.str(), ")");
  const Shape cont{steps_, batch_};
  check(*bottom[1], bottom[1]->shape() == cont,
        concat(cont.str(), ", one indicator for each step and sequence,", as));
  if (has_static_) {
    const Shape& fixed = bottom[2]->shape();
    check(*bottom[2], fixed.rank() >= 1 && fixed[0] == batch_ && fixed.count(1) == static_inputs_,
          concat("(", batch_, ", ...) with ", static_inputs_, " values a sequence", as));
  }
  const Shape state{1, batch_, units_};
  for (size_t i = 2 + (has_static_ ? 1 : 0); i < bottom.size(); ++i) {
    check(*bottom[i], bottom[i]->shape() == state,
          concat(state.str(), ", a first state for each sequence,", as));
  }
  top[0]->reshape(Shape{steps_, batch_, units_});
  for (size_t i = 1; i < top.size(); ++i) top[i]->reshape(state);
}

void RecurrentLayer::prepare_reference(Blobs, Blobs) {
  const auto need = [&](Tensor& tensor, bool wanted, Shape shape) {
    tensor.set_layout(dtype(), Format::contiguous);
    tensor.reshape(wanted ? shape : Shape{0});
  };
  const Shape row{batch_, units_};
  need(gates_, true, {steps_, batch_, width()});
  need(hidden_, true, {steps_ + 1, batch_, units_});
  need(cells_, states_ == 2, {steps_ + 1, batch_, units_});
  need(of_sequence_, has_static_, {batch_, width()});
  need(more_sums_, true, {batch_, width()});
  need(sum_diffs_, trains(), {steps_, batch_, width()});
  need(next_hidden_diff_, trains(), row);
  need(cell_diff_, trains() && states_ == 2, row);
}

size_t RecurrentLayer::kept_bytes() const {
  size_t bytes = 0;
  for (const Tensor& tensor : carried_) bytes += tensor.bytes();
  for (const Tensor* tensor : {&gates_, &hidden_, &cells_, &of_sequence_, &more_sums_, &sum_diffs_,
                               &next_hidden_diff_, &cell_diff_}) {
    bytes += tensor->bytes();
  }
  return bytes;
}

Flops RecurrentLayer::flops(Blobs, Blobs) const {
  const auto units = static_cast<double>(units_);
  const double sums = 2 * static_cast<double>(batch_ * width());
  const auto steps = static_cast<double>(steps_);
  const double of_input = sums * steps * static_cast<double>(inputs_);
  const double outputs =
      has_outputs() ? 2 * steps * static_cast<double>(batch_) * units * units : 0;
  const double others = sums * (steps * units + static_cast<double>(static_inputs_)) + outputs;
  return {of_input + others, (propagates(0) ? 2 : 1) * of_input + 2 * others};
}

BackwardReads RecurrentLayer::reference_backward_reads() const {
  const bool x = input_weights_->needs_gradient;
  const bool fixed = has_static_ && static_weights_->needs_gradient;
  BackwardReads reads{.bottom_data = {1}, .top_data = {}};
  if (x) reads.bottom_data = {0, 1};
  if (fixed) reads.bottom_data = {1, 2};
  if (x && fixed) reads.bottom_data = {0, 1, 2};
  if (has_outputs()) reads.top_data = {0};
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

template <class T>
void RecurrentLayer::begin_states(const Side& side, const T* factors, Blobs bottom) {
  const size_t first = bottom.size() - static_cast<size_t>(states_);
  for (size_t i = 0; i < static_cast<size_t>(states_); ++i) {
    const Tensor* from = &carried_[i];
    if (exposes_) {
      from = &bottom[first + i]->data;
    } else if (carried_[i].shape() != Shape{batch_, units_}) {
      carried_[i] = Tensor(Shape{batch_, units_}, dtype());
    }
    // c gets its factors in the step. Without a step, the first states are the last ones.
    T* to = side.change<T>(i == 0 ? hidden_ : cells_);
    for_each(side, batch_ * units_, kPassGrain,
             Masked<T>{units_, i == 0 && steps_ > 0 ? factors : nullptr, side.read<T>(*from), to});
  }
}

void RecurrentLayer::end_states(const Side& side, Blobs top) {
  const auto bytes = static_cast<int64_t>(static_cast<size_t>(batch_ * units_) * size_of(dtype()));
  for (size_t i = 0; i < static_cast<size_t>(states_); ++i) {
    copy_rows(side, {1, bytes, bytes, bytes},
              side.read_bytes(i == 0 ? hidden_ : cells_) + steps_ * bytes,
              side.overwrite_bytes(exposes_ ? top[1 + i]->data : carried_[i]));
  }
}

template <class T, class Products>
void RecurrentLayer::forward_by(const Side& side, Products& products, Blobs bottom, Blobs top) {
  masked_steps_ = masked_steps(bottom[1]->data);
  const int64_t row = batch_ * units_, sums_row = batch_ * width();
  const T* factors = side.read<T>(bottom[1]->data);
  // A repeated pass begins as the first one did.
  if (!run().recomputing) begin_states<T>(side, factors, bottom);

  T* gates = side.overwrite<T>(gates_);
  gemm<T>(side, false, true, steps_ * batch_, width(), inputs_, side.read<T>(bottom[0]->data),
          side.read<T>(input_weights_->data), 0, gates);
  ForwardStep<T> step{.units = units_, .bias = side.read<T>(bias_->data)};
  if (has_static_) {
    T* of_sequence = side.overwrite<T>(of_sequence_);
    gemm<T>(side, false, true, batch_, width(), static_inputs_, side.read<T>(bottom[2]->data),
            side.read<T>(static_weights_->data), 0, of_sequence);
    step.of_sequence = of_sequence;
  }
  const T* weights = side.read<T>(recurrent_weights_->data);
  T* more_sums = side.overwrite<T>(more_sums_);
  T* hidden = side.change<T>(hidden_);
  T* cells = states_ == 2 ? side.change<T>(cells_) : nullptr;
  T* h = has_outputs() ? gates : side.overwrite<T>(top[0]->data);
  for (int64_t t = 0; t < steps_; ++t) {
    const bool masked = masked_steps_[static_cast<size_t>(t)];
    if (!masked) products.times_transposed(hidden + t * row, weights, more_sums);
    step.more_sums = masked ? nullptr : more_sums;
    step.sums = step.gates = gates + t * sums_row;
    step.factor = factors + t * batch_;
    step.next_factor = t + 1 < steps_ ? factors + (t + 1) * batch_ : nullptr;
    if (cells) {
      step.cell_before = cells + t * row;
      step.cell = cells + (t + 1) * row;
    }
    step.hidden = h + t * row;
    step.next_hidden = hidden + (t + 1) * row;
    run_step(side, row, step);
  }
  end_states(side, top);
  if (has_outputs()) outputs(side, gates_, top[0]->data);
}

template <class T, class Products>
void RecurrentLayer::backward_by(const Side& side, Products& products, Blobs top,
                                 const std::vector<bool>& propagate, Blobs bottom) {
  const int64_t row = batch_ * units_, sums_row = batch_ * width();
  const T* factors = side.read<T>(bottom[1]->data);
  const T* gates = side.read<T>(gates_);
  const T* weights = side.read<T>(recurrent_weights_->data);
  const T* hidden_diff = side.read<T>(hidden_diffs(side, gates_, *top[0]));
  const T* cells = states_ == 2 ? side.read<T>(cells_) : nullptr;
  T* diffs = side.overwrite<T>(sum_diffs_);
  T* next_hidden_diff = side.overwrite<T>(next_hidden_diff_);
  T* cell_diff = states_ == 2 ? side.overwrite<T>(cell_diff_) : nullptr;
  const size_t first_state = bottom.size() - static_cast<size_t>(states_);
  const bool to_first_hidden = exposes_ && propagate[first_state];

  BackwardStep<T> step{.units = units_, .cell_before_diff = cell_diff};
  if (exposes_) {
    step.next_hidden_diff = side.read<T>(top[1]->diff);
    if (cells) step.cell_diff = side.read<T>(top[2]->diff);
  }
  for (int64_t t = steps_ - 1; t >= 0; --t) {
    step.gates = gates + t * sums_row;
    step.factor = factors + t * batch_;
    if (cells) step.cell_before = cells + t * row;
    step.hidden_diff = hidden_diff + t * row;
    step.sum_diffs = diffs + t * sums_row;
    run_step(side, row, step);
    const bool passes_on = !masked_steps_[static_cast<size_t>(t)] && (t > 0 || to_first_hidden);
    if (passes_on) products.times(step.sum_diffs, weights, next_hidden_diff);
    step.next_hidden_diff = passes_on ? next_hidden_diff : nullptr;
    step.next_factor = step.factor;
    step.cell_diff = cell_diff;
  }
  for (size_t i = first_state; exposes_ && i < bottom.size(); ++i) {
    if (!propagate[i]) continue;
    const bool of_hidden = i == first_state;
    const T* from = of_hidden ? step.next_hidden_diff : step.cell_diff;
    if (from == nullptr) {
      fill_zero(side, bottom[i]->diff);
    } else {
      for_each(side, row, kPassGrain,
               Masked<T>{units_, of_hidden ? step.next_factor : nullptr, from,
                         side.overwrite<T>(bottom[i]->diff)});
    }
  }

  const int64_t rows = steps_ * batch_;
  if (input_weights_->needs_gradient)
    add_outer<T>(side, *input_weights_, rows, diffs, side.read<T>(bottom[0]->data));
  if (bias_->needs_gradient) add_rows<T>(side, *bias_, rows, diffs);
  if (recurrent_weights_->needs_gradient)
    add_outer<T>(side, *recurrent_weights_, rows, diffs, side.read<T>(hidden_));
  if (has_static_) static_gradients<T>(side, diffs, propagate[2], bottom);
  if (propagate[0]) {
    gemm<T>(side, false, false, rows, inputs_, width(), diffs, side.read<T>(input_weights_->data),
            0, side.overwrite<T>(bottom[0]->diff));
  }
}

template <class T>
void RecurrentLayer::static_gradients(const Side& side, const T* diffs, bool propagates,
                                      Blobs bottom) {
  T* sums = side.overwrite<T>(of_sequence_);
  channel_sums(side, {steps_, batch_ * width(), 1}, kPassGrain, ValueTerm<T>{diffs},
               AccumulateSum<T>{0, sums});
  if (static_weights_->needs_gradient)
    add_outer<T>(side, *static_weights_, batch_, sums, side.read<T>(bottom[2]->data));
  if (!propagates) return;
  gemm<T>(side, false, false, batch_, static_inputs_, width(), sums,
          side.read<T>(static_weights_->data), 0, side.overwrite<T>(bottom[2]->diff));
}

void RecurrentLayer::run_forward(const Side& side, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    LibraryProducts<T> products{{side}, product_sizes()};
    forward_by<T>(side, products, bottom, top);
  });
}

void RecurrentLayer::run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                                  Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    LibraryProducts<T> products{{side}, product_sizes()};
    backward_by<T>(side, products, top, propagate, bottom);
  });
}

template void RecurrentLayer::forward_by<float>(const Side&, FasterProducts&, Blobs, Blobs);
template void RecurrentLayer::backward_by<float>(const Side&, FasterProducts&, Blobs,
                                                 const std::vector<bool>&, Blobs);

}  // namespace crema
