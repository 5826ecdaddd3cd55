// Runners: further sets of layers and blobs of a graph, for other threads.
#include <utility>

#include "core/parallel.hpp"
#include "core/takes_parts.hpp"
#include "crema/registry.hpp"
#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Error if passes of the net change more than its activations.
void check_shareable(const Plan& plan) {
  const std::string& net = plan.graph->name;
  if (plan.trains)
    throw Error("net '", net,
                "' trains, and a runner runs forward alone; build the net with phase test");
  if (plan.context->on_gpu())
    throw Error("net '", net,
                "' runs on a device, which one thread at a time may use; make runners on the CPU");
  if (!plan.noise.empty())
    throw Error("net '", net,
                "' adds noise to its parameters in each pass; remove noise from "
                "their param { }");
  for (const Node& node : plan.graph->nodes) {
    in_node(node, [&] {
      if (node.layer->is_source() && !node.layer->is_input())
        throw Error(
            "reads data, whose place runners would share; give the net inputs in its place");
      const std::string changed = node.layer->changes();
      if (!changed.empty())
        throw Error("changes ", changed,
                    " in each pass, which threads would do at once; run the net in one thread, or "
                    "build it without this layer or with phase test");
    });
  }
}

/// A layer as that of the node, with its parameters. The blobs have the shapes of the net.
std::unique_ptr<Layer> make_layer(const Plan& plan, NodeId id) {
  const Node& node = plan.node(id);
  const Layer& of = *node.layer;
  std::unique_ptr<Layer> layer = Registry::instance().make({.param = of.param(),
                                                            .context = *plan.context,
                                                            .run = *plan.run,
                                                            .phase = of.phase(),
                                                            .dtype = of.dtype(),
                                                            .activations = of.activations(),
                                                            .trains = false,
                                                            .arithmetic = of.arithmetic()});
  // What the tail reads comes behind the layer's own bottoms.
  auto own = static_cast<size_t>(of.param().bottom_size());
  if (const auto* parts = dynamic_cast<const TakesParts*>(&of); parts && parts->takes_whole()) {
    dynamic_cast<TakesParts&>(*layer).take_whole();
    own -= static_cast<size_t>(parts->parts()) - 1;
  }
  layer->setup(Blobs(plan.bottoms[id]).first(own), plan.tops[id]);
  for (size_t i = 0; i < of.params().size(); ++i) {
    Parameter& parameter = *layer->params()[i];
    parameter.attach(of.params()[i]->storage());
    parameter.needs_gradient = false;
  }
  layer->require(of.requirements());
  layer->reshape(plan.bottoms[id], plan.tops[id]);
  return layer;
}

std::unique_ptr<Plan> make_runner(const Plan& of) {
  check_shareable(of);
  auto plan = std::make_unique<Plan>();
  plan->context = of.context;
  plan->options = of.options;
  plan->options.run = nullptr;
  plan->options.share_params_with = nullptr;
  plan->activations = of.activations;
  plan->arithmetic = of.arithmetic;
  plan->debug_info = of.debug_info;
  plan->logs_passes = of.logs_passes;
  plan->file = of.file;
  plan->own_run = std::make_unique<RunState>(RunState{.seed = of.run->seed});
  plan->run = plan->own_run.get();
  plan->graph = of.graph;
  plan->taken = of.taken;
  for (const ValueId id : of.graph->value_ids()) {
    auto blob = std::make_unique<Blob>(of.value(id).name);
    blob->set_layout({of.options.dtype});
    blob->reshape(of.blob(id).shape());
    plan->blobs.push_back(std::move(blob));
  }
  plan->connect_blobs();
  for (const NodeId id : of.graph->node_ids()) {
    in_node(of.node(id), [&] { plan->own_layers.push_back(make_layer(*plan, id)); });
    plan->layers.push_back(plan->own_layers.back().get());
  }
  take_program(*plan);
  return plan;
}

}  // namespace

Net::Net(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}

Net Net::runner() const {
  const ThreadScope threads(plan_->context->threads());
  return Net(make_runner(*plan_));
}

}  // namespace crema
