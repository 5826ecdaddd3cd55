#include "analysis/layer_graph.hpp"

#include <algorithm>
#include <map>

#include "crema/error.hpp"

namespace crema {

LayerGraph::LayerGraph(const NetParameter& layers) {
  std::map<std::string, int> current;
  for (const LayerParameter& param : layers.layer()) {
    const int index = static_cast<int>(nodes.size());
    LayerNode& node = nodes.emplace_back();
    node.param = param;
    for (const std::string& bottom : param.bottom()) {
      const auto found = current.find(bottom);
      if (found == current.end())
        throw Error("layer '", param.name(), "' (", param.type(), ") reads '", bottom,
                    "', which no layer before it makes");
      node.reads.push_back(found->second);
      readers[at(found->second)].push_back(index);
    }
    for (const std::string& top : param.top()) {
      current[top] = static_cast<int>(names.size());
      node.makes.push_back(current[top]);
      names.push_back(top);
      makers.push_back(index);
      readers.emplace_back();
    }
  }
}

int LayerGraph::last_of(const std::string& name) const {
  for (size_t i = names.size(); i-- > 0;) {
    if (names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<bool> LayerGraph::needed_by(const std::vector<int>& values) const {
  std::vector<bool> needed(nodes.size(), false);
  for (const int value : values) needed[at(makers[at(value)])] = true;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const int value : nodes[i].reads) needed[at(makers[at(value)])] = true;
  }
  return needed;
}

bool is_source(const LayerParameter& layer) {
  return layer.bottom_size() == 0 && layer.top_size() > 0 && layer.type() != "Parameter";
}

}  // namespace crema
