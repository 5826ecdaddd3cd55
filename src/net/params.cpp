// Parameters: shares them by name and with another net, makes the arena, and sets initial values.
#include <algorithm>
#include <cmath>
#include <set>

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

/// Error unless a solver can use the multipliers.
void check_multipliers(const ParamSpec& spec, size_t index) {
  if (!std::isfinite(spec.lr_mult()))
    throw Error("has lr_mult ", spec.lr_mult(), " for parameter ", index, "; give a finite number");
  if (!std::isfinite(spec.decay_mult()) || spec.decay_mult() < 0)
    throw Error("has decay_mult ", spec.decay_mult(), " for parameter ", index,
                "; give a finite number from 0 on");
}

/// Makes `parameter` share the storage of the first parameter of that name. Either of them may set
/// a multiplier. Error if both set different ones.
void share_by_name(Named& owner, Parameter& parameter, const ParamSpec& spec) {
  const Shape &ours = parameter.shape(), &theirs = owner.parameter->shape();
  const std::string shares =
      text("shares parameter '", spec.name(), "' of layer '", owner.layer, "' but ");
  if (spec.share_mode() == ParamSpec::PERMISSIVE) {
    if (ours.count() != theirs.count())
      throw Error(shares, "has ", ours.count(), " values (", ours.str(), ") instead of ",
                  theirs.count(), " (", theirs.str(), ")");
  } else if (ours != theirs) {
    throw Error(shares, "has shape ", ours.str(), " instead of ", theirs.str(),
                "; share_mode: PERMISSIVE compares only the number of values");
  }
  auto merge = [&](bool given, bool& known, float value, float& owned, const char* what) {
    if (!given) return;
    if (known && owned != value)
      throw Error(shares, "gives it ", what, " ", value, " where the owner has ", owned);
    owned = value;
    known = true;
  };
  merge(spec.has_lr_mult(), owner.has_lr, spec.lr_mult(), owner.parameter->lr_mult, "lr_mult");
  merge(spec.has_decay_mult(), owner.has_decay, spec.decay_mult(), owner.parameter->decay_mult,
        "decay_mult");
  parameter.attach(owner.parameter->storage());
}

void share_with_layer(Layer& layer, Layer& other) {
  auto& theirs = other.params();
  auto& ours = layer.params();
  if (theirs.size() != ours.size())
    throw Error("shares the parameters of the other net's layer, but has ", ours.size(),
                " instead of ", theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i]->shape() != ours[i]->shape())
      throw Error("shares the other net's parameter ", i, " but has shape ", ours[i]->shape().str(),
                  " instead of ", theirs[i]->shape().str());
    if (theirs[i]->data.dtype() != ours[i]->data.dtype())
      throw Error("shares the other net's parameter ", i, ", which is ",
                  to_string(theirs[i]->data.dtype()), ", but computes in ",
                  to_string(ours[i]->data.dtype()));
    ours[i]->attach(theirs[i]->storage());
    ours[i]->lr_mult = theirs[i]->lr_mult;
    ours[i]->decay_mult = theirs[i]->decay_mult;
  }
}

/// Called for a layer whose name is not in the other net, which is often a spelling mistake.
void miss_layer(Plan& plan, const Node& node, const std::vector<std::string>& known) {
  const std::string what =
      text("is not in the net whose parameters this one shares", did_you_mean(node.name, known));
  if (plan.options.share_all && has_learning_params(*node.layer)) {
    throw Error(what, known.empty() ? "" : "; give the layer the name that it has there");
  }
  plan.note(text("layer '", node.name, "' ", what, "; it keeps parameters of its own"),
            Severity::warning);
}

/// Shares parameters with the layers of the same name in the other net. Layers of one name are
/// matched in their order.
void share_with_net(Plan& plan) {
  Plan& other = Plan::of(*plan.options.share_params_with);
  if (plan.context != other.context && (plan.context->on_gpu() || other.context->on_gpu()))
    throw Error(
        "net '", plan.graph->name, "' cannot share the parameters of net '", other.graph->name,
        "', which lie in the memory of another context's device; make both with one context");
  if (plan.trains && !other.trains) {
    throw Error("net '", plan.graph->name, "' trains, but net '", other.graph->name,
                "', whose parameters it shares, was built without backward and has no gradients; "
                "build that one with NetOptions::Backward::yes");
  }
  const auto theirs = other.nodes_with_params();
  std::vector<std::string> known;
  for (const auto& [name, nodes] : theirs) known.push_back(name);
  for (const auto& entry : plan.nodes_with_params()) {
    // By its own name, since Clang before 16 does not let lambdas capture parts of a binding.
    const auto& nodes = entry.second;
    const auto found = theirs.find(entry.first);
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
}

/// Warns of a bilinear filler where every output is a sum over several inputs. Bilinear weights
/// interpolate each channel by itself only with as many groups as channels.
void note_mixed_channels(Plan& plan, const Node& node, const Parameter& parameter) {
  const LayerParameter& param = node.layer->param();
  const Shape& shape = parameter.shape();
  if (parameter.filler().type != Filler::Type::bilinear || !param.has_convolution_param() ||
      shape.rank() != 4)
    return;
  const int64_t groups = std::max<int64_t>(param.convolution_param().group(), 1);
  const int64_t inputs =
      param.type().find("Deconvolution") != std::string::npos ? shape[0] / groups : shape[1];
  if (inputs < 2) return;
  const int64_t channels = plan.blob(node.bottoms.front()).shape()[1];
  plan.note(text("layer '", node.layer->name(), "': weight_filler { type: \"bilinear\" } with ",
                 "group: ", groups, " makes every output the sum of ", inputs,
                 " interpolated inputs; to interpolate each channel by itself, set group: ",
                 channels, " and num_output: ", channels),
            Severity::warning);
}

/// Runs the fillers of the net's own parameters, but for those of the layers in `loaded`.
void fill(Plan& plan, const std::set<std::string>& loaded) {
  std::set<const ParameterStorage*> empty;
  for (const auto& segment : plan.arena.segments()) {
    empty.insert(segment.parameter->storage().get());
  }
  for (const Layer* layer : plan.layers) {
    if (loaded.count(layer->name()) == 0) continue;
    for (const auto& parameter : layer->params()) empty.erase(parameter->storage().get());
  }
  for (const Node& node : plan.graph->nodes) {
    const auto& params = node.layer->params();
    for (size_t i = 0; i < params.size(); ++i) {
      if (empty.erase(params[i]->storage().get()) == 0) continue;
      note_mixed_channels(plan, node, *params[i]);
      in_node(node, [&] {
        params[i]->filler().fill(params[i]->data, plan.run->seed,
                                 stream_id(text(node.layer->name(), "/", i)));
      });
    }
  }
}

}  // namespace

void place_params(Plan& plan, const NetParameter& message) {
  std::map<std::string, Named> named;
  for (const Node& node : plan.graph->nodes) {
    Layer& layer = *node.layer;
    const LayerParameter& param = layer.param();
    in_node(node, [&] {
      if (static_cast<size_t>(param.param_size()) > layer.params().size())
        throw Error("has ", param.param_size(), " param {} but only ", layer.params().size(),
                    " parameters");
      for (size_t i = 0; i < static_cast<size_t>(param.param_size()); ++i) {
        const ParamSpec& spec = param.param(static_cast<int>(i));
        check_multipliers(spec, i);
        if (spec.name().empty()) continue;
        Parameter& parameter = *layer.params()[i];
        const auto found = named.find(spec.name());
        if (found != named.end()) {
          share_by_name(found->second, parameter, spec);
        } else {
          named[spec.name()] = {&parameter, layer.name(), spec.has_lr_mult(),
                                spec.has_decay_mult()};
        }
      }
    });
  }
  // Found before the arena is built, because it replaces the storages.
  std::map<const ParameterStorage*, Parameter*> owners;
  std::vector<ParameterArena::Segment> segments;         // of owners
  std::vector<std::pair<Parameter*, Parameter*>> users;  // and the owner of each
  for (const Layer* layer : plan.layers) {
    const auto& params = layer->params();
    for (size_t i = 0; i < params.size(); ++i) {
      Parameter* const parameter = params[i].get();
      const auto [owner, first] = owners.try_emplace(parameter->storage().get(), parameter);
      if (first) {
        segments.push_back({parameter, layer->name(), static_cast<int>(i)});
      } else {
        users.emplace_back(parameter, owner->second);
      }
    }
  }
  // A parameter that a frozen layer shares does not learn in any layer.
  for (size_t i = 0; i < plan.frozen.size(); ++i) {
    if (!plan.frozen[i]) continue;
    for (const auto& parameter : plan.layers[i]->params())
      owners.at(parameter->storage().get())->lr_mult = 0;
  }
  if (plan.options.share_params_with != nullptr) {
    share_with_net(plan);
    // Parameters that the other net has are not in this arena.
    std::erase_if(segments, [&](const ParameterArena::Segment& segment) {
      return owners.count(segment.parameter->storage().get()) == 0;
    });
  }
  plan.arena.build(std::move(segments), plan.options.dtype, plan.trains);
  for (const auto& [user, owner] : users) {
    user->attach(owner->storage());
    user->lr_mult = owner->lr_mult;
    user->decay_mult = owner->decay_mult;
  }
  fill(plan, load_first_weights(plan, message));
}

}  // namespace crema
