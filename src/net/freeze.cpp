// Finds the layers that NetOptions::freeze names.
#include <algorithm>
#include <regex>

#include "net/plan.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

bool is_pattern(const std::string& wanted) {
  return wanted.size() >= 2 && wanted.front() == '/' && wanted.back() == '/';
}

std::vector<std::string> names_of(const NetParameter& net) {
  std::vector<std::string> names;
  for (const LayerParameter& layer : net.layer()) {
    if (!layer.name().empty()) names.push_back(layer.name());
  }
  return names;
}

/// "; layer 'accuracy' is left out by its rule ...": the first such layer for which
/// `is_meant(name)`; "" without one.
template <class IsMeant>
std::string left_out(const Plan& plan, const IsMeant& is_meant) {
  for (const LeftOut& layer : plan.left_out) {
    if (is_meant(layer.name))
      return text("; layer '", layer.name, "' is not in this net, by its rule ", layer.rule);
  }
  return "";
}

/// Marks the layers whose names the pattern matches.
void mark_matching(Plan& plan, const NetParameter& net, const std::string& wanted) {
  std::regex pattern;
  try {
    pattern = wanted.substr(1, wanted.size() - 2);
  } catch (const std::regex_error&) {
    throw Error("freeze '", wanted,
                "' is no regular expression between slashes; write it as '/conv.*/'");
  }
  bool any = false;
  for (int i = 0; i < net.layer_size(); ++i) {
    if (!std::regex_match(net.layer(i).name(), pattern)) continue;
    plan.frozen[static_cast<size_t>(i)] = any = true;
  }
  const auto matches = [&](const std::string& name) { return std::regex_match(name, pattern); };
  if (!any)
    throw Error("freeze '", wanted, "' matches the whole name of no layer", left_out(plan, matches),
                "; layers are ", joined(names_of(net)));
}

/// Marks the layer and all before it.
void mark_up_to(Plan& plan, const NetParameter& net, const std::string& wanted) {
  for (int last = net.layer_size(); last-- > 0;) {
    if (net.layer(last).name() != wanted) continue;
    std::fill(plan.frozen.begin(), plan.frozen.begin() + last + 1, true);
    return;
  }
  const auto is_it = [&](const std::string& name) { return name == wanted; };
  const std::string rule = left_out(plan, is_it);
  throw Error("freeze '", wanted, "': the net has no layer of this name",
              rule.empty() ? did_you_mean(wanted, names_of(net)) : rule);
}

/// Normalizes with the stored statistics, and leaves them as they are.
void keep_statistics(LayerParameter& layer) {
  if (layer.type() == "BatchNorm") layer.mutable_batch_norm_param()->set_use_global_stats(true);
  const BNParameter& bn = layer.bn_param();
  const bool has_none = bn.has_scale_filler() || bn.has_shift_filler() || bn.has_bn_mode();
  if (layer.type() == "BN" && !has_none) layer.mutable_bn_param()->set_frozen(true);
}

}  // namespace

void freeze_layers(Plan& plan, NetParameter& net) {
  if (plan.options.freeze.empty()) return;
  plan.frozen.assign(static_cast<size_t>(net.layer_size()), false);
  for (const std::string& wanted : plan.options.freeze) {
    if (is_pattern(wanted)) {
      mark_matching(plan, net, wanted);
    } else {
      mark_up_to(plan, net, wanted);
    }
  }
  for (int i = 0; i < net.layer_size(); ++i) {
    if (plan.frozen[static_cast<size_t>(i)]) keep_statistics(*net.mutable_layer(i));
  }
}

}  // namespace crema
