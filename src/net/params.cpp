// Parameters: sharing by name, sharing with another net, the arena, and first values.
#include <algorithm>

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

void share_with_layer(Layer& layer, Layer& other) {
  auto& theirs = other.params();
  auto& ours = layer.params();
  require(theirs.size() == ours.size(), "shares the parameters of the other net's layer, but has ",
          ours.size(), " instead of ", theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    require(theirs[i]->shape() == ours[i]->shape(), "shares the other net's parameter ", i,
            " but has shape ", ours[i]->shape().str(), " instead of ", theirs[i]->shape().str());
    ours[i]->share_with(theirs[i]->root());
  }
}

/// Sharing was asked for, and the other net has nothing of that name: a slip of the pen, mostly.
void miss_layer(Plan& plan, const Node& node, const std::vector<std::string>& known) {
  const std::string what =
      concat("is not in the net whose parameters this one shares", did_you_mean(node.name, known));
  const auto learns = [](const auto& parameter) {
    return parameter->learnable && parameter->lr_mult != 0;
  };
  const auto& params = node.layer->params();
  if (plan.options.share_all && std::any_of(params.begin(), params.end(), learns)) {
    throw Error(what, known.empty() ? "" : "; give the layer the name that it has there");
  }
  plan.note(concat("layer '", node.name, "' ", what, "; it keeps parameters of its own"),
            Severity::warning);
}

/// Layers of one name share in their order.
void share_with_net(Plan& plan) {
  Plan& other = Plan::of(*plan.options.share_params_with);
  require(plan.context == other.context || !(plan.context->on_gpu() || other.context->on_gpu()),
          "net '", plan.name, "' cannot share the parameters of net '", other.name,
          "', which lie in the memory of another context's device; make both with one context");
  const auto theirs = other.nodes_with_params();
  std::vector<std::string> known;
  for (const auto& [name, nodes] : theirs) known.push_back(name);
  for (const auto& [name, nodes] : plan.nodes_with_params()) {
    const auto found = theirs.find(name);
    for (size_t i = 0; i < nodes.size(); ++i) {
      in_node(*nodes[i], [&] {
        if (found != theirs.end() && i < found->second.size()) {
          share_with_layer(*nodes[i]->layer, *found->second[i]->layer);
        } else {
          miss_layer(plan, *nodes[i], known);
        }
      });
    }
  }
  plan.shared_values = other.shared_values;
  plan.shared_values.push_back(other.first_values);
}

/// What such a filler cannot do depends on the shape, and is to be said while the net is built.
bool checks_shape(const Filler& filler) {
  return filler.type == Filler::Type::bilinear || filler.sparse >= 0;
}

}  // namespace

void place_params(Plan& plan) {
  std::map<std::string, Named> named;
  for (size_t n = 0; n < plan.layer_count; ++n) {
    Node& node = plan.nodes[n];
    Layer& layer = *node.layer;
    const LayerParameter& param = layer.param();
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
    });
  }
  if (plan.options.share_params_with) share_with_net(plan);
  std::vector<ParameterArena::Segment> owners;
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
      owners.push_back(
          {&parameter, layer.name(), static_cast<int>(i), 0, parameter.shape().count()});
    }
  }
  plan.arena.build(std::move(owners), plan.options.dtype, plan.trains);
  plan.first_values = std::make_shared<FirstValues>(plan.context->seed());
  for (size_t n = 0; n < plan.layer_count; ++n) {
    const Node& node = plan.nodes[n];
    auto& params = node.layer->params();
    for (size_t i = 0; i < params.size(); ++i) {
      Parameter& parameter = *params[i];
      if (parameter.is_shared()) continue;
      const uint64_t stream = stream_id(concat(node.layer->name(), "/", i));
      if (checks_shape(parameter.filler())) {
        in_node(node,
                [&] { parameter.filler().fill(parameter.data, plan.context->seed(), stream); });
      } else {
        plan.first_values->expect(parameter, stream);
      }
    }
  }
}

void FirstValues::expect(const Parameter& parameter, uint64_t stream) {
  const std::lock_guard lock(mutex_);
  missing_.push_back({parameter.data, parameter.filler(), stream});
  complete_ = false;
}

void FirstValues::given(const Tensor& data) {
  const std::lock_guard lock(mutex_);
  // An empty parameter lies where the next one does.
  std::erase_if(missing_, [&](const Entry& entry) {
    return entry.data.same_memory(data) && entry.data.count() == data.count();
  });
  complete_ = missing_.empty();
}

void FirstValues::fill() {
  if (complete_) return;
  const std::lock_guard lock(mutex_);
  for (Entry& entry : missing_) entry.filler.fill(entry.data, seed_, entry.stream);
  missing_.clear();
  complete_ = true;
}

}  // namespace crema
