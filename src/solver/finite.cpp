#include "solver/finite.hpp"

#include "core/data_source.hpp"
#include "core/finite.hpp"
#include "crema/parameter_arena.hpp"

namespace crema {
namespace {

constexpr const char* kWayOut =
    "; lower base_lr, set clip_gradients, or check the data; the last snapshot is untouched";

bool is_source(const Net& net, const NetStep& step) {
  return step.layer >= 0 && net.layers()[static_cast<size_t>(step.layer)]->is_source();
}

/// Adds the key of the record that element `at` of a source's top came from, where it is known.
void add_record(const Net& net, const NetStep& step, const Shape& shape, int64_t at, Error& error) {
  const Layer* layer = net.layers()[static_cast<size_t>(step.layer)];
  const DataSource* source = layer->data_source();
  if (source == nullptr || shape.rank() == 0) return;
  try {
    error.in_record(source->record_key(at / shape.count(1)));
  } catch (const Error&) {  // of reading the key: `error` matters more
  }
}

/// Throws where a top of step `i` has a value that is not finite.
void check_tops(Net& net, size_t i, const std::string& what) {
  const NetStep& step = net.steps()[i];
  for (const Blob* top : net.step_tops(i)) {
    const int64_t at = first_not_finite(top->data);
    if (at < 0) continue;
    Error error(what, "the first blob with a value that is not finite is '", top->name,
                "' of layer '", step.name, "', which is ", describe_element(top->data, at),
                kWayOut);
    if (is_source(net, step)) add_record(net, step, top->shape(), at, error);
    throw error;
  }
}

}  // namespace

void throw_not_finite(Net& net, int iteration, double loss) {
  const std::string what = text("the loss is ", loss, " at iteration ", iteration, ": ");
  for (const auto& segment : net.params().segments()) {
    const Tensor& values = segment.parameter->data;
    const int64_t at = first_not_finite(values);
    if (at >= 0) {
      throw Error(what, "parameter ", segment.index, " of layer '", segment.layer,
                  "' has values that are not finite, the first is ", describe_element(values, at),
                  kWayOut);
    }
  }
  for (size_t i = 0; i < net.steps().size(); ++i) {
    // A source would fetch another batch; the one that did it is still in its tops.
    if (!is_source(net, net.steps()[i])) net.forward_step(i);
    check_tops(net, i, what);
  }
  throw Error(what, "no blob has such a value by itself, their weighted sum does", kWayOut);
}

void throw_not_finite_gradient(Net& net, int iteration) {
  const std::string what = text("the update is not finite at iteration ", iteration, ": ");
  // Some kernels' ReLU makes 0 of a NaN in the batch, so that it never reaches the loss. Parameters
  // and what they gave are no longer those of this iteration.
  for (size_t i = 0; i < net.steps().size(); ++i) {
    if (is_source(net, net.steps()[i])) check_tops(net, i, what);
  }
  for (const auto& segment : net.params().segments()) {
    if (segment.parameter->needs_gradient && first_not_finite(segment.parameter->diff) >= 0) {
      throw Error(what, "the gradient of parameter ", segment.index, " of layer '", segment.layer,
                  "' is not", kWayOut);
    }
  }
  throw Error(what, "each gradient is, but the steps are too large", kWayOut);
}

}  // namespace crema
