// Layers of a net and the values between them. Layers that run in place make new values of a name.
#pragma once

#include <string>
#include <vector>

#include "proto/net.pb.h"

namespace crema {

struct LayerNode {
  LayerParameter param;
  std::vector<int> reads, makes;  // values
};

class LayerGraph {
 public:
  /// Of layers in the present format. Error if nothing makes a bottom.
  explicit LayerGraph(const NetParameter& layers);

  std::vector<LayerNode> nodes;
  std::vector<std::string> names;         // of each value
  std::vector<int> makers;                // of each value: a node
  std::vector<std::vector<int>> readers;  // of each value: nodes

  const LayerNode& maker(int value) const { return nodes[static_cast<size_t>(makers[at(value)])]; }
  const std::string& name(int value) const { return names[at(value)]; }
  /// The last value of that name; -1 if there is none.
  int last_of(const std::string& name) const;
  /// For each node, whether one of the values needs it.
  std::vector<bool> needed_by(const std::vector<int>& values) const;

 private:
  static size_t at(int value) { return static_cast<size_t>(value); }
};

/// Whether the layer brings data: it has no bottom, and is no parameter.
bool is_source(const LayerParameter& layer);

}  // namespace crema
