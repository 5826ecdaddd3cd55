#include "python/unrun_layers.hpp"

#include <algorithm>

#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema::python {

void run_unrun_layers(Net& net, size_t first, size_t last) {
  Plan& plan = Plan::of(net);
  if (!plan.trains || !plan.options.keep_all) return;
  reshape_to(plan, first);
  if (plan.ran()) return;
  for (size_t layer = last; layer <= first && layer < plan.layers.size(); ++layer) {
    const auto& steps = net.steps();
    const auto found = std::ranges::find(steps, static_cast<int>(layer), &NetStep::layer);
    if (found == steps.end()) continue;
    const auto step = static_cast<size_t>(found - steps.begin());
    if (step < plan.has_run.size() && plan.has_run[step]) continue;
    if (plan.layers[layer]->param().bottom_size() > 0) {
      net.forward(layer, layer);
      continue;
    }
    plan.has_run.resize(steps.size());
    plan.has_run[step] = true;
  }
}

}  // namespace crema::python
