// Noise on parameters (`param { noise { } }`). A layer of type Noise adds it to the exact values
// and writes a copy, which the parameter's layer computes with.
#include <utility>

#include "core/memory.hpp"
#include "crema/registry.hpp"
#include "net/plan.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The layer that adds the noise of `spec` to parameter `index` of `layer`.
std::unique_ptr<Layer> make_noise(const Plan& plan, const Layer& layer, size_t index,
                                  const ParamSpec& spec) {
  LayerParameter param;
  param.set_name(text(layer.name(), "/", index, "/noise"));
  param.set_type("Noise");
  *param.mutable_noise_param() = spec.noise();
  try {
    return Registry::instance().make({.param = param,
                                      .context = *plan.context,
                                      .run = *plan.run,
                                      .phase = plan.options.phase,
                                      .dtype = plan.options.dtype,
                                      .activations = plan.options.dtype,
                                      .trains = false});
  } catch (const Error& error) {
    throw Error("has noise for parameter ", index, " that cannot be added: ", error.message());
  }
}

ParameterNoise noise_of(Parameter& parameter, std::unique_ptr<Layer> layer) {
  ParameterNoise noise{.parameter = &parameter, .layer = std::move(layer)};
  const Tensor& exact = parameter.storage()->data();
  noise.exact.data = exact.view(parameter.shape());
  noise.noisy.data = Tensor(parameter.shape(), exact.dtype());
  noise.noisy.data.bind(std::make_shared<Memory>(noise.noisy.data.bytes()));
  noise.values = std::make_unique<ParameterStorage>(noise.noisy.data, Tensor(Shape{0}));
  Blob *const bottom[] = {&noise.exact}, *const top[] = {&noise.noisy};
  noise.layer->setup(bottom, top);
  noise.layer->reshape(bottom, top);
  noise.kernel =
      make_kernel(*noise.layer, options_of(*noise.layer, bottom, top).front(), bottom, top);
  return noise;
}

}  // namespace

void add_noise(Plan& plan) {
  for (const NodeId id : plan.graph->node_ids()) {
    const Node& node = plan.node(id);
    const LayerParameter& param = node.layer->param();
    for (size_t i = 0; i < static_cast<size_t>(param.param_size()); ++i) {
      const ParamSpec& spec = param.param(static_cast<int>(i));
      if (!spec.has_noise()) continue;
      in_node(node, [&] {
        Parameter& parameter = *node.layer->params()[i];
        if (!parameter.learnable)
          throw Error(
              "has noise for parameter ", i,
              ", which is not learned, such as statistics; remove noise from its param { }");
        std::unique_ptr<Layer> layer = make_noise(plan, *node.layer, i, spec);
        // It adds nothing, as with in_test: false in the phase TEST.
        if (layer->reference_in_place() == InPlace::alias) return;
        plan.noise[plan.graph->runs(id)].push_back(noise_of(parameter, std::move(layer)));
      });
    }
  }
}

size_t noisy_bytes(const Plan& plan) {
  size_t bytes = 0;
  for (const auto& [id, noises] : plan.noise) {
    for (const ParameterNoise& noise : noises) bytes += noise.noisy.data.bytes();
  }
  return bytes;
}

void draw_noise(Plan& plan, NodeId id) {
  const auto noises = plan.noise.find(id);
  if (noises == plan.noise.end()) return;
  for (ParameterNoise& noise : noises->second) {
    Blob *const bottom[] = {&noise.exact}, *const top[] = {&noise.noisy};
    noise.kernel->forward(bottom, top);
    noise.noisy.data.seal();
  }
}

}  // namespace crema
