#include "net/not_finite.hpp"

#include <algorithm>
#include <cmath>

#include "core/finite.hpp"
#include "crema/parameter_arena.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

constexpr const char* kWayOut = "; lower base_lr, set clip_gradients, or check the data";

/// The number of the sample with this element, along axis 0.
int64_t sample_of(const Shape& shape, int64_t element) {
  return element / std::max<int64_t>(shape.count() / shape.dim_or_1(0), 1);
}

/// "(4x3) is nan at (2, 1)".
std::string described(const Tensor& tensor, int64_t at) {
  return text("(", tensor.shape().str(), ") is ", describe_element(tensor, at));
}

bool is_source(const Net& net, const NetStep& step) {
  return step.layer >= 0 && net.layers()[static_cast<size_t>(step.layer)]->is_source();
}

/// The key of the record that element `at` of top `t` of step `i` came from; "" if it is unknown.
std::string record_of(Net& net, size_t i, size_t t, const Shape& shape, int64_t at) {
  const Plan& plan = Plan::of(net);
  const ProgramNode& node = (*plan.program)[plan.program->order[i]];
  if (node.is_conversion() || t >= node.node->tops.size()) return {};
  try {
    return record_key(plan, node.node->tops[t], sample_of(shape, at));
  } catch (const Error&) {  // of reading the key: the value matters more
    return {};
  }
}

/// Throws where a top of step `i` has a value that is not finite.
void check_tops(Net& net, size_t i, const std::string& what) {
  const Blobs tops = net.step_tops(i);
  for (size_t t = 0; t < tops.size(); ++t) {
    const Tensor& data = tops[t]->data;
    const int64_t at = first_not_finite(data);
    if (at < 0) continue;
    const std::string key = record_of(net, i, t, data.shape(), at);
    throw NotFiniteError(what, "the first blob with a value that is not finite is '", tops[t]->name,
                         "' of layer '", net.steps()[i].name, "', which is ",
                         describe_element(data, at),
                         key.empty() ? "" : text(" (record '", key, "')"), kWayOut);
  }
}

}  // namespace

void warn_of_loss(const Layer& layer, Blobs bottoms, const Blob& loss, const RecordOf& record_of) {
  const double value = loss.data.at(0);
  std::string why = std::isnan(value) ? "its bottoms and parameters are finite"
                                      : "its bottoms are finite: its terms are too large";
  for (size_t i = 0; i < layer.params().size(); ++i) {
    const Tensor& data = layer.params()[i]->data;
    const int64_t at = first_not_finite(data);
    if (at >= 0) why = text("its parameter ", i, " ", described(data, at));
  }
  for (size_t i = 0; i < bottoms.size(); ++i) {
    const Tensor& data = bottoms[i]->data;
    const int64_t at = first_not_finite(data);
    if (at < 0) continue;
    why = text("its bottom '", bottoms[i]->name, "' ", described(data, at));
    const std::string key = record_of(i, sample_of(data.shape(), at));
    if (!key.empty()) why += text(" (record '", key, "')");
    break;
  }
  layer.context().log(Severity::warning,
                      text("layer '", layer.name(), "' (", layer.type(), "): the loss '", loss.name,
                           "' is ", number_word(value), ": ", why));
}

LooksAtLosses::LooksAtLosses(Net& net) : net_(net) { Plan::of(net_).warns_of_losses = false; }
LooksAtLosses::~LooksAtLosses() { Plan::of(net_).warns_of_losses = true; }

void throw_not_finite(Net& net, int iteration, double loss) {
  const std::string what =
      text("the loss is ", number_word(loss), " at iteration ", iteration, ": ");
  for (const auto& segment : net.params().segments()) {
    const Tensor& values = segment.parameter->data;
    const int64_t at = first_not_finite(values);
    if (at >= 0) {
      throw NotFiniteError(what, "parameter ", segment.index, " of layer '", segment.layer,
                           "' has values that are not finite, the first is ",
                           describe_element(values, at), kWayOut);
    }
  }
  for (size_t i = 0; i < net.steps().size(); ++i) {
    // A source would fetch another batch; the one that did it is still in its tops.
    if (!is_source(net, net.steps()[i])) net.forward_step(i);
    check_tops(net, i, what);
  }
  throw NotFiniteError(what, "no blob has such a value by itself, their weighted sum does",
                       kWayOut);
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
      throw NotFiniteError(what, "the gradient of parameter ", segment.index, " of layer '",
                           segment.layer, "' is not", kWayOut);
    }
  }
  throw NotFiniteError(what, "each gradient is, but the steps are too large", kWayOut);
}

}  // namespace crema
