#include "onnx/importing/model_order.hpp"

#include <functional>
#include <map>
#include <queue>
#include <string>
#include <utility>

#include "onnx/importing/graph.hpp"

namespace crema::onnx {

namespace {

using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;
using Makers = std::map<std::string, int, std::less<>>;

constexpr int kMaxBranchDepth = 32;
constexpr size_t kNamedInCycles = 8;

// The nodes that make what `node` reads, branches included.
std::vector<int> makers_for(const NodeProto& node, const Makers& makers) {
  std::vector<int> result;
  std::vector<std::pair<const NodeProto*, int>> open = {{&node, 0}};
  while (!open.empty()) {
    const auto [each, depth] = open.back();
    open.pop_back();
    for (const std::string& name : each->input()) {
      if (const auto found = makers.find(name); found != makers.end())
        result.push_back(found->second);
    }
    for (const AttributeProto& attribute : each->attribute()) {
      if (!attribute.has_g()) continue;
      if (depth >= kMaxBranchDepth)
        throw Error(described(node), ": branches are nested more than ", kMaxBranchDepth, " deep");
      for (const NodeProto& inner : attribute.g().node()) open.emplace_back(&inner, depth + 1);
      for (const ValueInfoProto& output : attribute.g().output()) {
        if (const auto found = makers.find(output.name()); found != makers.end())
          result.push_back(found->second);
      }
    }
  }
  return result;
}

// Follows what nodes wait for until one comes again.
[[noreturn]] void refuse_cycle(const Nodes& nodes, const std::vector<std::vector<int>>& needs,
                               const std::vector<int>& open_needs) {
  int at = 0;
  while (open_needs[static_cast<size_t>(at)] == 0) ++at;
  std::vector<int> path;
  std::vector<bool> seen(static_cast<size_t>(nodes.size()), false);
  while (!seen[static_cast<size_t>(at)]) {
    seen[static_cast<size_t>(at)] = true;
    path.push_back(at);
    for (const int need : needs[static_cast<size_t>(at)]) {
      if (open_needs[static_cast<size_t>(need)] > 0) {
        at = need;
        break;
      }
    }
  }
  std::vector<std::string> cycle;
  for (size_t i = 0; i < path.size(); ++i) {
    if (cycle.empty() && path[i] != at) continue;
    if (cycle.size() == kNamedInCycles) {
      cycle.emplace_back("...");
      break;
    }
    cycle.push_back(described(nodes.Get(path[i])));
  }
  throw Error("nodes of the model wait for each other: ", joined(cycle, " <- "));
}

}  // namespace

std::vector<int> order_of(const Nodes& nodes) {
  Makers makers;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes.Get(i).output()) {
      if (!output.empty()) makers[output] = i;
    }
  }
  const auto count = static_cast<size_t>(nodes.size());
  std::vector<std::vector<int>> needs(count), readers(count);
  std::vector<int> open_needs(count, 0);
  for (int i = 0; i < nodes.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    needs[at] = makers_for(nodes.Get(i), makers);
    for (const int maker : needs[at]) {
      readers[static_cast<size_t>(maker)].push_back(i);
      ++open_needs[at];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (open_needs[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const int reader : readers[static_cast<size_t>(i)]) {
      if (--open_needs[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (order.size() < count) refuse_cycle(nodes, needs, open_needs);
  return order;
}

}  // namespace crema::onnx
