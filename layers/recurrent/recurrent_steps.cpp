// The passes of recurrent layers: products over all steps, and the steps.
#include <array>

#include "core/device_run.hpp"
#include "core/dispatch.hpp"
#include "crema/context.hpp"
#include "layer_support/passes.hpp"
#include "layers/recurrent/recurrent_layer.hpp"
#include "layers/recurrent/recurrent_passes.hpp"

namespace crema {
namespace {

/// to = from * factor of its row, plus the same of `more`. Null: zeros.
template <class T>
struct Masked {
  int64_t units;
  const T* factor;
  const T* from;
  const T* more;
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    T value = from ? cells::masked(factor, i / units, from, i, NumberAccess<T>()) : T(0);
    if (more) value += cells::masked(factor, i / units, more, i, NumberAccess<T>());
    to[i] = value;
  }
};

/// On a device: what the next pass begins with. Behind a failure it stays.
template <class T>
struct Carry {
  Masked<T> set;
  const RunBlock* run;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    if (!run->failed()) set(i);
  }
};

/// The gradient of a bias of the last columns += their sums.
template <class T>
struct AddLastColumns {
  int64_t first;
  AccumulateSum<T> add;
  CREMA_FUNCTOR void operator()(int64_t c, const SumPair& sums) const {
    if (c >= first) add(c - first, sums);
  }
};

/// What `part` of a tensor with one part a direction holds.
template <class T>
T* overwrite_part(const ComputeDevice& device, Tensor& tensor, int part, int64_t count) {
  return (part == 0 ? device.overwrite<T>(tensor) : device.change<T>(tensor)) + part * count;
}

}  // namespace

template <class T>
struct RecurrentLayer::ForwardPass {
  const Direction* direction;
  ForwardStep<T> step;
  const T *weights, *cont;
  T *gates, *hidden, *cells, *of_state, *more_sums;
  T* h;            // of step 0
  int64_t h_step;  // from a step of h to the next
};

template <class T>
struct RecurrentLayer::BackwardPass {
  const Direction* direction;
  BackwardStep<T> step;
  const T *weights, *cont;
  const T *gates, *hidden, *cells, *of_state;
  const T* h_diff;  // of step 0
  int64_t h_step;   // from a step of h_diff to the next
  T *sum_diffs, *recurrent_diffs, *candidate_diffs, *next_hidden_diff, *kept_diff;
  bool to_first_hidden;
};

bool RecurrentLayer::is_masked(const Direction& direction, int64_t t) const {
  if (!direction.reverse) return masked_steps_[static_cast<size_t>(t)];
  return t + 1 < steps_ ? masked_steps_[static_cast<size_t>(t + 1)] : !exposes_;
}

// In reverse, step t gets what step t + 1 gives, unless a sequence begins there.
template <class T>
const T* RecurrentLayer::factors_of(const Direction& direction, const T* cont, int64_t t) const {
  if (t < 0 || t >= steps_) return nullptr;
  const int64_t row = direction.reverse ? t + 1 : t;
  return row < steps_ ? cont + row * batch_ : nullptr;
}

template <class T>
void RecurrentLayer::begin_states(const ComputeDevice& device, int d, const T* cont, Blobs bottom) {
  Direction& direction = directions_[static_cast<size_t>(d)];
  const size_t first = bottom.size() - static_cast<size_t>(states_);
  const int64_t row = batch_ * units_;
  for (size_t i = 0; i < static_cast<size_t>(states_); ++i) {
    const T* from = nullptr;
    if (exposes_) {
      from = device.read<T>(bottom[first + i]->data) + d * row;
    } else if (!direction.reverse) {
      const Shape& carried = carried_[i].shape();
      if (carried.rank() != 2 || carried[0] != batch_ || carried[1] != units_)
        carried_[i] = Tensor(Shape{batch_, units_}, dtype());
      from = device.read<T>(carried_[i]);
    }
    // c gets its factors in the step. Without a step, the first states are the last ones.
    const T* factors =
        i == 0 && steps_ > 0 && !direction.reverse ? factors_of(direction, cont, 0) : nullptr;
    T* to = device.change<T>(i == 0 ? direction.hidden : direction.cells);
    if (direction.reverse) to += steps_ * row;
    for_each(device, row, kPassGrain, Masked<T>{units_, factors, from, nullptr, to});
  }
}

template <class T>
void RecurrentLayer::end_states(const ComputeDevice& device, int d, Blobs top) {
  Direction& direction = directions_[static_cast<size_t>(d)];
  if (!exposes_ && direction.reverse) return;
  const int64_t row = batch_ * units_;
  for (size_t i = 0; i < static_cast<size_t>(states_); ++i) {
    const T* from = device.read<T>(i == 0 ? direction.hidden : direction.cells);
    if (!direction.reverse) from += steps_ * row;
    T* const to = overwrite_part<T>(device, exposes_ ? top[1 + i]->data : carried_[i], d, row);
    const Masked<T> set{units_, nullptr, from, nullptr, to};
    if (device.on_host() || exposes_ || !context().on_gpu()) {
      for_each(device, row, kPassGrain, set);
    } else {
      for_each(device, row, kPassGrain, Carry<T>{set, context().device_run().block()});
    }
  }
}

template <class T>
void RecurrentLayer::input_sums(const ComputeDevice& device, Direction& direction,
                                ForwardPass<T>& pass, Blobs bottom) {
  gemm<T>(device, arithmetic().math, false, true, steps_ * batch_, width(), inputs_,
          device.read<T>(bottom[0]->data), device.read<T>(direction.input_weights->data), 0,
          pass.gates);
  if (!has_static_) return;
  T* of_sequence = device.overwrite<T>(direction.of_sequence);
  gemm<T>(device, arithmetic().math, false, true, batch_, width(), static_inputs_,
          device.read<T>(bottom[2]->data), device.read<T>(direction.static_weights->data), 0,
          of_sequence);
  pass.step.of_sequence = of_sequence;
}

template <class T>
auto RecurrentLayer::forward_pass(const ComputeDevice& device, int d, Blobs bottom, Blobs top)
    -> ForwardPass<T> {
  Direction& direction = directions_[static_cast<size_t>(d)];
  ForwardPass<T> pass{};
  pass.direction = &direction;
  pass.cont = device.read<T>(bottom[1]->data);
  // A repeated pass begins as the first one did.
  if (!run().recomputing) begin_states<T>(device, d, pass.cont, bottom);
  pass.weights = device.read<T>(direction.recurrent_weights->data);
  pass.gates = device.overwrite<T>(direction.gates);
  pass.hidden = device.change<T>(direction.hidden);
  if (states_ == 2) pass.cells = device.change<T>(direction.cells);
  if (direction.of_state.count() > 0) pass.of_state = device.overwrite<T>(direction.of_state);
  pass.more_sums = device.overwrite<T>(direction.more_sums);
  pass.step.units = units_;
  pass.step.bias = device.read<T>(direction.bias->data);
  pass.step.recurrent_bias = read_parameter<T>(device, direction.recurrent_bias);
  pass.step.hidden_row = has_outputs() ? units_ : directions() * units_;
  pass.h = has_outputs() ? pass.gates : overwrite_part<T>(device, top[0]->data, d, units_);
  pass.h_step = batch_ * pass.step.hidden_row;
  input_sums(device, direction, pass, bottom);
  return pass;
}

template <class T, class Products>
void RecurrentLayer::forward_step(const ComputeDevice& device, ForwardPass<T>& pass,
                                  Products* products, int64_t i) {
  const Direction& direction = *pass.direction;
  const int64_t row = batch_ * units_, t = direction.step(i, steps_);
  const T* const before = pass.hidden + direction.before(t) * row;
  const bool masked = is_masked(direction, t);
  ForwardStep<T> step = pass.step;
  step.sums = pass.gates + t * batch_ * width();
  step.gates = has_outputs() ? nullptr : pass.gates + t * batch_ * width();
  step.factor = factors_of(direction, pass.cont, t);
  step.next_factor = factors_of(direction, pass.cont, direction.step(i + 1, steps_));
  if (pass.cells) {
    step.cell_before = pass.cells + direction.before(t) * row;
    step.cell = pass.cells + direction.after(t) * row;
  }
  step.hidden_before = before;
  if (pass.of_state) step.of_state = pass.of_state + t * row;
  step.hidden = pass.h + t * pass.h_step;
  step.next_hidden = pass.hidden + direction.after(t) * row;
  step.more_sums = masked ? nullptr : pass.more_sums;
  if (!masked) products[0].times_transposed(before, pass.weights, pass.more_sums);
  run_step(device, row, step, 0);
  if (reset_ != Reset::before_product) return;
  if (!masked)
    products[1].times_transposed(step.of_state, pass.weights + 2 * units_ * units_, pass.more_sums);
  run_step(device, row, step, 1);
}

template <class Step>
void RecurrentLayer::each_step(const ComputeDevice& device, const Step& step) const {
  if (device.on_host() && directions_side_by_side()) {
    return parallel_for(directions(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t d = begin; d < end; ++d) {
        for (int64_t i = 0; i < steps_; ++i) step(d, i);
      }
    });
  }
  for (int64_t i = 0; i < steps_; ++i) {
    for (int64_t d = 0; d < directions(); ++d) step(d, i);
  }
}

template <class T, class Products>
void RecurrentLayer::forward_by(const ComputeDevice& device, Products* products, Blobs bottom,
                                Blobs top) {
  find_masked_steps(bottom[1]->data, masked_steps_);
  std::array<ForwardPass<T>, 2> passes{};
  for (int d = 0; d < directions(); ++d)
    passes[static_cast<size_t>(d)] = forward_pass<T>(device, d, bottom, top);
  each_step(device, [&](int64_t d, int64_t i) {
    forward_step(device, passes[static_cast<size_t>(d)], products + d * product_count(), i);
  });
  for (int d = 0; d < directions(); ++d) {
    end_states<T>(device, d, top);
    if (has_outputs()) outputs(device, d, directions_[static_cast<size_t>(d)].gates, top[0]->data);
  }
}

template <class T>
auto RecurrentLayer::backward_pass(const ComputeDevice& device, int d, Blobs top,
                                   const std::vector<bool>& propagate, Blobs bottom)
    -> BackwardPass<T> {
  Direction& direction = directions_[static_cast<size_t>(d)];
  BackwardPass<T> pass{};
  pass.direction = &direction;
  pass.cont = device.read<T>(bottom[1]->data);
  pass.weights = device.read<T>(direction.recurrent_weights->data);
  pass.gates = device.read<T>(direction.gates);
  pass.hidden = device.read<T>(direction.hidden);
  if (states_ == 2) pass.cells = device.read<T>(direction.cells);
  if (reset_ == Reset::after_product) pass.of_state = device.read<T>(direction.of_state);
  const Tensor& hidden_diff = hidden_diffs(device, d, direction.gates, *top[0]);
  pass.step.units = units_;
  pass.step.hidden_row = has_outputs() ? units_ : directions() * units_;
  pass.h_diff = device.read<T>(hidden_diff) + (has_outputs() ? 0 : d * units_);
  pass.h_step = batch_ * pass.step.hidden_row;
  pass.sum_diffs = device.overwrite<T>(direction.sum_diffs);
  pass.recurrent_diffs = pass.sum_diffs;
  pass.next_hidden_diff = device.overwrite<T>(direction.next_hidden_diff);
  if (direction.kept_diff.count() > 0) pass.kept_diff = device.overwrite<T>(direction.kept_diff);
  if (reset_ != Reset::none) {
    pass.recurrent_diffs = device.overwrite<T>(direction.recurrent_diffs);
    pass.step.kept_before_diff = pass.kept_diff;
  } else {
    pass.step.cell_before_diff = pass.kept_diff;
  }
  if (reset_ == Reset::before_product)
    pass.candidate_diffs = device.overwrite<T>(direction.candidate_diffs);
  if (exposes_) {
    pass.to_first_hidden = propagate[bottom.size() - static_cast<size_t>(states_)];
    pass.step.next_hidden_diff = device.read<T>(top[1]->diff) + d * batch_ * units_;
    if (states_ == 2) pass.step.cell_diff = device.read<T>(top[2]->diff) + d * batch_ * units_;
  }
  return pass;
}

template <class T, class Products>
void RecurrentLayer::backward_step(const ComputeDevice& device, BackwardPass<T>& pass,
                                   Products* products, int64_t i) {
  const Direction& direction = *pass.direction;
  const int64_t row = batch_ * units_, t = direction.step(i, steps_);
  const int64_t recurrent_row = batch_ * product_sizes(0).rows;
  const bool masked = is_masked(direction, t);
  BackwardStep<T>& step = pass.step;
  step.gates = pass.gates + t * batch_ * width();
  step.factor = factors_of(direction, pass.cont, t);
  if (pass.cells) step.cell_before = pass.cells + direction.before(t) * row;
  step.hidden_before = pass.hidden + direction.before(t) * row;
  if (pass.of_state) step.of_state = pass.of_state + t * row;
  step.hidden_diff = pass.h_diff + t * pass.h_step;
  step.sum_diffs = pass.sum_diffs + t * batch_ * width();
  step.recurrent_diffs = pass.recurrent_diffs + t * recurrent_row;
  if (reset_ == Reset::before_product) {
    step.candidate_diffs = pass.candidate_diffs + t * row;
    run_step(device, row, step, 1);
    if (!masked) {
      products[1].times(step.candidate_diffs, pass.weights + 2 * units_ * units_,
                        pass.next_hidden_diff);
    }
    step.of_state_diff = masked ? nullptr : pass.next_hidden_diff;
  }
  run_step(device, row, step, 0);
  const bool passes_on = !masked && (i > 0 || pass.to_first_hidden);
  if (passes_on) products[0].times(step.recurrent_diffs, pass.weights, pass.next_hidden_diff);
  step.next_hidden_diff = passes_on ? pass.next_hidden_diff : nullptr;
  step.next_factor = step.factor;
  if (reset_ != Reset::none) step.kept_diff = pass.kept_diff;
  if (pass.cells) step.cell_diff = pass.kept_diff;
}

template <class T>
void RecurrentLayer::first_state_diffs(const ComputeDevice& device, int d,
                                       const BackwardPass<T>& pass,
                                       const std::vector<bool>& propagate, Blobs bottom) {
  if (!exposes_) return;
  const size_t first = bottom.size() - static_cast<size_t>(states_);
  const int64_t row = batch_ * units_;
  const BackwardStep<T>& step = pass.step;
  for (size_t i = first; i < bottom.size(); ++i) {
    if (!propagate[i]) continue;
    T* const to = overwrite_part<T>(device, bottom[i]->diff, d, row);
    // That of c has its factors already.
    const Masked<T> masked =
        i == first ? Masked<T>{units_, step.next_factor, step.next_hidden_diff, step.kept_diff, to}
                   : Masked<T>{units_, nullptr, step.cell_diff, nullptr, to};
    for_each(device, row, kPassGrain, masked);
  }
}

template <class T, class Products>
void RecurrentLayer::backward_by(const ComputeDevice& device, Products* products, Blobs top,
                                 const std::vector<bool>& propagate, Blobs bottom) {
  std::array<BackwardPass<T>, 2> passes{};
  for (int d = 0; d < directions(); ++d)
    passes[static_cast<size_t>(d)] = backward_pass<T>(device, d, top, propagate, bottom);
  each_step(device, [&](int64_t d, int64_t i) {
    backward_step(device, passes[static_cast<size_t>(d)], products + d * product_count(),
                  steps_ - 1 - i);
  });
  for (int d = 0; d < directions(); ++d) {
    first_state_diffs(device, d, passes[static_cast<size_t>(d)], propagate, bottom);
    gradients<T>(device, d, propagate, bottom);
  }
}

template <class T>
void RecurrentLayer::gradients(const ComputeDevice& device, int d,
                               const std::vector<bool>& propagate, Blobs bottom) {
  Direction& direction = directions_[static_cast<size_t>(d)];
  const int64_t rows = steps_ * batch_;
  const T* diffs = device.read<T>(direction.sum_diffs);
  if (direction.input_weights->needs_gradient)
    add_outer<T>(device, arithmetic().math, *direction.input_weights, rows, diffs,
                 device.read<T>(bottom[0]->data));
  if (direction.bias->needs_gradient) add_rows<T>(device, *direction.bias, rows, diffs);
  recurrent_gradients(device, direction, diffs);
  if (has_static_) static_gradients<T>(device, d, diffs, propagate[2], bottom);
  if (propagate[0]) {
    T* const dx = d == 0 ? device.overwrite<T>(bottom[0]->diff) : device.change<T>(bottom[0]->diff);
    gemm<T>(device, arithmetic().math, false, false, rows, inputs_, width(), diffs,
            device.read<T>(direction.input_weights->data), static_cast<T>(d > 0), dx);
  }
}

template <class T>
void RecurrentLayer::recurrent_gradients(const ComputeDevice& device, Direction& direction,
                                         const T* sum_diffs) {
  const int64_t rows = steps_ * batch_, units = units_;
  const T* diffs = reset_ == Reset::none ? sum_diffs : device.read<T>(direction.recurrent_diffs);
  const T* before = device.read<T>(direction.hidden) + direction.before(0) * batch_ * units;
  Parameter& weights = *direction.recurrent_weights;
  if (weights.needs_gradient) {
    const T beta = static_cast<T>(weights.begin_gradient());
    T* const gradient = device.change<T>(weights.diff);
    gemm<T>(device, arithmetic().math, true, false, product_sizes(0).rows, units, rows, diffs,
            before, beta, gradient);
    if (reset_ == Reset::before_product) {
      gemm<T>(device, arithmetic().math, true, false, units, units, rows,
              device.read<T>(direction.candidate_diffs), device.read<T>(direction.of_state), beta,
              gradient + 2 * units * units);
    }
  }
  Parameter* const bias = direction.recurrent_bias;
  if (bias != nullptr && bias->needs_gradient) {
    const T beta = static_cast<T>(bias->begin_gradient());
    channel_sums(
        device, {rows, width(), 1}, kPassGrain, ValueTerm<T>{diffs},
        AddLastColumns<T>{2 * units, AccumulateSum<T>{beta, device.change<T>(bias->diff)}});
  }
}

template <class T>
void RecurrentLayer::static_gradients(const ComputeDevice& device, int d, const T* diffs,
                                      bool propagates, Blobs bottom) {
  Direction& direction = directions_[static_cast<size_t>(d)];
  T* sums = device.overwrite<T>(direction.of_sequence);
  channels::add_channel_sums(device, {steps_, batch_ * width(), 1}, kPassGrain, diffs, true, sums);
  if (direction.static_weights->needs_gradient)
    add_outer<T>(device, arithmetic().math, *direction.static_weights, batch_, sums,
                 device.read<T>(bottom[2]->data));
  if (!propagates) return;
  T* const dx = d == 0 ? device.overwrite<T>(bottom[2]->diff) : device.change<T>(bottom[2]->diff);
  gemm<T>(device, arithmetic().math, false, false, batch_, static_inputs_, width(), sums,
          device.read<T>(direction.static_weights->data), static_cast<T>(d > 0), dx);
}

namespace {

constexpr size_t kMostOfAll = 2 * RecurrentLayer::kMostProducts;

/// Products by the library, for all directions.
template <class T>
std::array<LibraryProducts<T>, kMostOfAll> library_products(const ComputeDevice& device,
                                                            const RecurrentLayer& layer) {
  std::array<LibraryProducts<T>, kMostOfAll> products{};
  for (int i = 0; i < layer.directions() * layer.product_count(); ++i) {
    products[static_cast<size_t>(i)] = {{device, layer.arithmetic().math},
                                        layer.product_sizes(i % layer.product_count())};
  }
  return products;
}

}  // namespace

void RecurrentLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    auto products = library_products<T>(device, *this);
    forward_by<T>(device, products.data(), bottom, top);
  });
}

void RecurrentLayer::run_backward(const ComputeDevice& device, Blobs top,
                                  const std::vector<bool>& propagate, Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    auto products = library_products<T>(device, *this);
    backward_by<T>(device, products.data(), top, propagate, bottom);
  });
}

template void RecurrentLayer::forward_by<float>(const ComputeDevice&, FasterProducts*, Blobs,
                                                Blobs);
template void RecurrentLayer::backward_by<float>(const ComputeDevice&, FasterProducts*, Blobs,
                                                 const std::vector<bool>&, Blobs);

}  // namespace crema
