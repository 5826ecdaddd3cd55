#include "python/in_place.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "net/plan.hpp"

namespace crema::python {
namespace {

/// The version that is shown, of a blob with several; invalid for other blobs.
ValueId shown_of(const Plan& plan, ValueId value) {
  const std::vector<ValueId>& versions = plan.graph->versions.at(plan.value(value).name);
  return versions.size() > 1 ? versions.back() : ValueId();
}

void copy_values(const Plan& plan, ValueId from, ValueId to) {
  const Tensor& source = plan.blob(from).data;
  if (from != to && source.has_memory() && source.shape() == plan.blob(to).shape())
    plan.blob(to).data.copy_from(source);
}

void copy_gradient(const Plan& plan, ValueId from, ValueId to) {
  const Tensor& source = plan.blob(from).diff;
  if (from != to && source.has_memory() && source.shape() == plan.blob(to).diff.shape())
    plan.blob(to).diff.copy_from(source);
}

bool applies(const Plan& plan) { return plan.options.keep_all && plan.program != nullptr; }

/// The layer that reads the version in place and makes the next one.
size_t reader_in_place(const Plan& plan, ValueId value) {
  const std::vector<ValueId>& versions = plan.graph->versions.at(plan.value(value).name);
  const auto next = std::ranges::find(versions, value) + 1;
  return plan.value(*next).producer.index();
}

/// Whether a layer runs in place on an input of the net.
bool has_input_in_place(const Plan& plan) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (!plan.layers[i]->is_input()) continue;
    for (const ValueId top : plan.node(NodeId(i)).tops)
      if (shown_of(plan, top).valid()) return true;
  }
  return false;
}

}  // namespace

void before_forward(Net& net) {
  const Plan& plan = Plan::of(net);
  if (!plan.options.keep_all || !has_input_in_place(plan)) return;
  net.reshape();
  before_forward(net, 0, plan.layers.size() - 1);
}

void before_forward(Net& net, size_t first, size_t last) {
  const Plan& plan = Plan::of(net);
  if (!applies(plan)) return;
  for (size_t i = first; i <= last && i < plan.layers.size(); ++i) {
    for (const ValueId bottom : plan.node(NodeId(i)).bottoms) {
      const ValueId shown = shown_of(plan, bottom);
      const size_t producer = plan.value(bottom).producer.index();
      // An Input layer runs without writing: its top is what the caller wrote.
      if (!shown.valid() || (producer >= first && !plan.layers.at(producer)->is_input())) continue;
      copy_values(plan, shown, bottom);
    }
  }
}

void after_forward(Net& net, size_t first, size_t last) {
  const Plan& plan = Plan::of(net);
  if (!applies(plan)) return;
  for (size_t i = first; i <= last && i < plan.layers.size(); ++i) {
    for (const ValueId top : plan.node(NodeId(i)).tops) {
      const ValueId shown = shown_of(plan, top);
      if (!shown.valid() || shown == top || reader_in_place(plan, top) <= last) continue;
      copy_values(plan, top, shown);
    }
  }
}

void before_backward(Net& net, size_t first, size_t last) {
  const Plan& plan = Plan::of(net);
  if (!applies(plan)) return;
  for (size_t i = last; i <= first && i < plan.layers.size(); ++i) {
    for (const ValueId top : plan.node(NodeId(i)).tops) {
      const ValueId shown = shown_of(plan, top);
      if (!shown.valid() || shown == top || reader_in_place(plan, top) <= first) continue;
      copy_gradient(plan, shown, top);
    }
  }
}

void after_backward(Net& net, size_t first, size_t last) {
  const Plan& plan = Plan::of(net);
  if (!applies(plan)) return;
  for (size_t i = first + 1; i-- > last;) {
    if (i >= plan.layers.size()) continue;
    const Node& node = plan.node(NodeId(i));
    for (size_t b = 0; b < node.bottoms.size(); ++b) {
      const ValueId bottom = node.bottoms[b];
      const ValueId shown = shown_of(plan, bottom);
      // Later layers come first, so the first version is copied last.
      if (shown.valid() && node.needs_backward && node.propagate[b])
        copy_gradient(plan, bottom, shown);
    }
  }
}

}  // namespace crema::python
