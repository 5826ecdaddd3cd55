// Parameters: sharing by name, sharing with another net, the arena, and first values.
#include "crema/random.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

struct Named {
  Parameter* parameter;
  std::string layer;
  bool has_lr, has_decay;
};

/// Shares `parameter` with the one that bore the name first. Multipliers may be given in either
/// place but must not contradict each other.
void share_by_name(Named& owner, Parameter& parameter, const ParamSpec& spec) {
  const bool permissive = spec.share_mode() == ParamSpec::PERMISSIVE;
  if (permissive) {
    require(owner.parameter->shape().count() == parameter.shape().count(), "shares parameter '",
            spec.name(), "' of layer '", owner.layer, "' but has ", parameter.shape().count(),
            " values (", parameter.shape().str(), ") instead of ", owner.parameter->shape().count(),
            " (", owner.parameter->shape().str(), ")");
  } else {
    require(owner.parameter->shape() == parameter.shape(), "shares parameter '", spec.name(),
            "' of layer '", owner.layer, "' but has shape ", parameter.shape().str(),
            " instead of ", owner.parameter->shape().str(),
            "; share_mode: PERMISSIVE compares only the number of values");
  }
  auto merge = [&](bool given, bool& known, float value, float& owned, const char* what) {
    if (!given) return;
    require(!known || owned == value, "shares parameter '", spec.name(), "' of layer '",
            owner.layer, "' but gives it ", what, " ", value, " where the owner has ", owned);
    owned = value;
    known = true;
  };
  merge(spec.has_lr_mult(), owner.has_lr, spec.lr_mult(), owner.parameter->lr_mult, "lr_mult");
  merge(spec.has_decay_mult(), owner.has_decay, spec.decay_mult(), owner.parameter->decay_mult,
        "decay_mult");
  parameter.lr_mult = owner.parameter->lr_mult;
  parameter.decay_mult = owner.parameter->decay_mult;
  parameter.share_with(*owner.parameter);
}

void share_with_net(Plan& plan, Node& node) {
  Net& other = *plan.options.share_params_with;
  Layer& layer = *node.layer;
  if (!other.has_layer(layer.name())) return;
  auto& theirs = other.layer(layer.name()).params();
  auto& ours = layer.params();
  require(theirs.size() == ours.size(), "shares the parameters of the other net's layer, but has ",
          ours.size(), " instead of ", theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    require(theirs[i]->shape() == ours[i]->shape(), "shares the other net's parameter ", i,
            " but has shape ", ours[i]->shape().str(), " instead of ", theirs[i]->shape().str());
    ours[i]->share_with(theirs[i]->root());
  }
}

}  // namespace

void place_params(Plan& plan, const NetParameter& net) {
  std::map<std::string, Named> named;
  std::vector<ParameterArena::Segment> owners;
  for (size_t n = 0; n < plan.layer_count; ++n) {
    Node& node = plan.nodes[n];
    Layer& layer = *node.layer;
    const LayerParameter& param = net.layer(static_cast<int>(n));
    in_node(node, [&] {
      require(static_cast<size_t>(param.param_size()) <= layer.params().size(), "has ",
              param.param_size(), " param {} but only ", layer.params().size(), " parameters");
      for (size_t i = 0; i < layer.params().size(); ++i) {
        Parameter& parameter = *layer.params()[i];
        const ParamSpec spec = static_cast<int>(i) < param.param_size()
                                   ? param.param(static_cast<int>(i))
                                   : ParamSpec();
        if (!spec.name().empty()) {
          const auto found = named.find(spec.name());
          if (found != named.end()) {
            share_by_name(found->second, parameter, spec);
          } else {
            named[spec.name()] = {&parameter, layer.name(), spec.has_lr_mult(),
                                  spec.has_decay_mult()};
          }
        }
      }
      if (plan.options.share_params_with) share_with_net(plan, node);
    });
  }
  for (size_t n = 0; n < plan.layer_count; ++n) {
    Layer& layer = *plan.nodes[n].layer;
    for (size_t i = 0; i < layer.params().size(); ++i) {
      Parameter& parameter = *layer.params()[i];
      // Owners may have got their multipliers from a later user.
      if (parameter.is_shared()) {
        parameter.lr_mult = parameter.root().lr_mult;
        parameter.decay_mult = parameter.root().decay_mult;
        continue;
      }
      owners.push_back({&parameter, layer.name(), static_cast<int>(i), 0, parameter.shape().count(),
                        parameter.lr_mult, parameter.decay_mult});
    }
  }
  plan.arena.build(std::move(owners), plan.options.dtype, plan.trains);
  // Users bind after their owners have memory.
  for (size_t n = 0; n < plan.layer_count; ++n) {
    for (auto& parameter : plan.nodes[n].layer->params()) {
      if (parameter->is_shared()) parameter->share_with(parameter->root());
    }
  }
  for (const auto& segment : plan.arena.segments()) {
    Parameter& parameter = *segment.parameter;
    in_node(plan.node(0), [&] {
      try {
        parameter.filler().fill(parameter.data, plan.context->seed(),
                                stream_id(concat(segment.layer, "/", segment.index)));
      } catch (Error& error) {
        error.in_layer(segment.layer, "filler");
        throw;
      }
    });
  }
}

}  // namespace crema
